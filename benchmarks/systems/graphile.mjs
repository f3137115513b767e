// The process of graphile-worker: `node graphile.mjs ROLE URL OPTIONS`.
// It speaks the lines of JSON that benchmarks/child.py describes.
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const [role, url, text] = process.argv.slice(2);
const options = JSON.parse(text);
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const now = () => Number(process.hrtime.bigint());
const seconds = (since) => (now() - since) / 1e9;

const utils = () =>
  makeWorkerUtils({
    connectionString: url,
    maxPoolSize: Math.max(10, options.callers ?? 1),
    logger: quiet,
  });

async function install() {
  const own = await utils();
  await own.migrate();
  await own.release();
}

async function add() {
  const own = await utils();
  const noop = (id) => own.addJob("noop", { id });
  const commands = {
    async bulk({ first, count, size }) {
      const since = now();
      for (let start = first; start < first + count; start += size) {
        const end = Math.min(start + size, first + count);
        const jobs = [];
        for (let id = start; id < end; id++) jobs.push({ identifier: "noop", payload: { id } });
        await own.addJobs(jobs);
      }
      return { seconds: seconds(since) };
    },
    async one({ first, seconds: limit }) {
      let next = first;
      const since = now();
      const caller = async () => {
        while (seconds(since) < limit) await noop(next++);
      };
      await Promise.all(Array.from({ length: options.callers ?? 1 }, caller));
      return { seconds: seconds(since), count: next - first };
    },
    async stamp({ id }) {
      const called = now();
      await noop(id);
      return { called };
    },
  };
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    say(await commands[command.do](command));
  }
  await own.release();
}

async function work() {
  const noop = options.stamp
    ? async ({ id }) => say({ started: now(), id })
    : async () => {};
  const runner = await run({
    preset: { worker: { connectionString: url, logger: quiet, ...options.worker } },
    noHandleSignals: true,
    taskList: { noop },
  });
  say({ ready: true });
  for await (const _ of createInterface({ input: process.stdin }));
  await runner.stop();
}

await { install, add, work }[role]();
process.exit(0);
