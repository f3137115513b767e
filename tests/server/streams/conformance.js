// A client of another language: creates jobs, does them, and goes on after a reconnect.
// node conformance.js FILE.proto HOST:PORT
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [file, address] = process.argv.slice(2);
const options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const api = grpc.loadPackageDefinition(loader.loadSync(file, options)).windlass.v1;
const insecure = grpc.credentials.createInsecure();
const worker = new api.Worker(address, insecure);
const producer = new api.Producer(address, insecure);

// A stream whose messages are awaited.
function opened(call) {
  const heard = [];
  const waiting = [];
  const push = (item) => (waiting.length ? waiting.shift()(item) : heard.push(item));
  call.on("data", (message) => push(message));
  call.on("status", (status) => push({ event: "status", status }));
  call.on("error", () => {});
  const next = () => (heard.length ? Promise.resolve(heard.shift()) : new Promise((r) => waiting.push(r)));
  return {
    call,
    say: (event) => call.write(event),
    async hear(kind) {
      const message = await next();
      if (message.event !== kind) throw new Error(`not ${kind}: ${JSON.stringify(message)}`);
      return message[kind];
    },
  };
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

async function main() {
  const p = opened(producer.Stream());
  p.say({ hello: {} });
  await p.hear("hello_ack");
  const count = 2000;
  for (let seq = 1; seq <= count; seq++) {
    p.say({ create_task: { seq, command: "mail", payload: Buffer.from(`{"n":${seq}}`) } });
  }
  for (let seq = 1; seq <= count; seq++) {
    const ack = await p.hear("create_ack");
    check(ack.ok && ack.seq === String(seq), "acks come in order");
  }
  p.call.end();
  check((await p.hear("status")).code === grpc.status.OK, "a half-closed stream ends well");

  let w = opened(worker.Stream());
  w.say({ hello: { worker_id: "node" } });
  check((await w.hear("hello_ack")).worker_id === "node", "the worker's id");
  w.say({ ready: { count: 1 } });
  const { task } = await w.hear("task");
  w.call.cancel();
  await w.hear("status");

  w = opened(worker.Stream());
  w.say({ hello: { worker_id: "node" } });
  await w.hear("hello_ack");
  w.say({ heartbeat: { task_id: task.id, delivery: task.delivery } });
  check((await w.hear("heartbeat_ack")).ok, "the delivery is taken up again");
  w.say({ result: { task_id: task.id, delivery: task.delivery, status: "COMPLETED" } });
  check((await w.hear("result_ack")).ok, "and settled");

  let left = count - 1;
  while (left > 0) {
    w.say({ ready: { count: 500 } });
    const { tasks } = await w.hear("task_batch");
    const results = tasks.map((each) => ({ task_id: each.id, status: "COMPLETED", result_json: each.payload }));
    w.say({ result_batch: { results } });
    const { acks } = await w.hear("result_ack_batch");
    check(acks.every((ack) => ack.ok), "every result is taken");
    left -= tasks.length;
  }
  w.say({ ready: { count: 1 } });
  w.call.end();
  check((await w.hear("status")).code === grpc.status.OK, "a half-closed stream ends well");

  const bad = opened(worker.Stream());
  bad.say({ ready: {} });
  const status = await bad.hear("status");
  check(status.code === grpc.status.FAILED_PRECONDITION, "Hello comes first");
  check(status.details === "the first event must be Hello", status.details);
  worker.close();
  producer.close();
  console.log("conforms");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
