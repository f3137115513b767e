// A producer: it adds one task for each payload, and prints their ids.
//
//   node producer.mjs greet '{"name": "Ada"}' '{"name": "Grace"}'
//
// Each request has an idempotency key. When the stream breaks before an ack has arrived, the same
// requests are sent again, and none is added twice.
import { randomUUID } from "node:crypto";
import { keepOpen } from "./windlass.mjs";

const [command, ...payloads] = process.argv.slice(2);
if (!command || payloads.length === 0) {
  console.error("usage: node producer.mjs TASK PAYLOAD...");
  process.exit(2);
}

const waiting = new Map(); // seq → request, until its ack
payloads.forEach((payload, index) => {
  const seq = index + 1;
  waiting.set(seq, { seq, command, payload: Buffer.from(payload), idempotency_key: randomUUID() });
});

async function talk(stream, succeeded) {
  for await (const event of stream) {
    switch (event.event) {
      case "hello_ack":
        succeeded();
        stream.write({ create_task_batch: { tasks: [...waiting.values()] } });
        break;
      case "create_ack_batch":
        for (const ack of event.create_ack_batch.acks) {
          waiting.delete(ack.seq);
          if (ack.ok) console.log(ack.task_id);
          else {
            console.error(`${payloads[ack.seq - 1]}: ${ack.error_message}`);
            process.exitCode = 1;
          }
        }
        stream.end();
        break;
      case "error":
        console.error(`the server says ${event.error.code}: ${event.error.message}`);
        break;
    }
  }
  return waiting.size === 0;
}

try {
  await keepOpen("Producer", {}, talk);
} catch (error) {
  console.error(`the server refused this producer: ${error.details ?? error}`);
  process.exitCode = 1;
}
