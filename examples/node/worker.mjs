// A worker: it asks for tasks, runs them ten at a time, and reconnects by itself.
//
// What it has is kept by its `delivery`, the bytes that prove a task to be ours. After a reconnect
// it presents them, and goes on as if nothing had happened.
import { setTimeout as pause } from "node:timers/promises";
import { keepOpen } from "./windlass.mjs";

const CONCURRENCY = 10;
const LEASE = 60; // seconds for which a task is ours after the last word about it

// The tasks by their names. What a function returns is the job's output; what it throws is a failed
// attempt, which the server retries later. `signal` tells that the task is no longer ours.
const handlers = {
  async greet({ name }, { task }) {
    if (!name) throw new Error("there is no name to greet");
    console.log(`Hello, ${name}! (attempt ${task.attempts})`);
    return { greeted: name };
  },
  async slow({ seconds }, { signal }) {
    await pause(seconds * 1000, undefined, { signal });
    return { waited: seconds };
  },
};

const running = new Map(); // task id → { task, abort, outcome }; an outcome stays until its ack
let stream = null; // the open one, after its handshake
let asked = 0; // open Readys of this stream
let serverLeaves = false;
let weLeave = false;

function say(event) {
  if (stream) stream.write(event);
}

function ask() {
  while (stream && !serverLeaves && !weLeave && running.size + asked < CONCURRENCY) {
    asked += 1;
    say({ ready: { commands: Object.keys(handlers), lease_seconds: LEASE } });
  }
}

function heartbeat({ task }) {
  say({ heartbeat: { task_id: task.id, delivery: task.delivery, extend_seconds: LEASE } });
}

async function run(task) {
  const abort = new AbortController();
  const mine = { task, abort, outcome: null };
  running.set(task.id, mine);
  const outcome = { task_id: task.id, delivery: task.delivery };
  try {
    const payload = JSON.parse(task.payload.toString("utf8"));
    const output = await handlers[task.command](payload, { task, signal: abort.signal });
    outcome.status = "COMPLETED";
    outcome.result_json = Buffer.from(JSON.stringify(output ?? null));
  } catch (error) {
    outcome.status = "FAILED";
    outcome.error = String(error?.stack ?? error);
  }
  mine.outcome = outcome;
  if (running.get(task.id) === mine) say({ result: outcome });
}

function receive(task) {
  asked -= 1;
  // An older delivery of the same task is lost, or the server would not have sent it again.
  running.get(task.id)?.abort.abort();
  if (weLeave) say({ abandon: { task_id: task.id, delivery: task.delivery } });
  else run(task);
}

function settled(ack) {
  const mine = running.get(ack.task_id);
  if (!mine?.outcome) return; // about a delivery that we had before this one
  const words = ack.ok ? mine.outcome.status : `refused: ${ack.error_message}`;
  console.log(`${mine.task.command} ${ack.task_id}: ${words}`);
  running.delete(ack.task_id);
  ask();
}

function endIfIdle() {
  if (stream && running.size === 0 && (weLeave || serverLeaves)) stream.end();
}

async function talk(opened, succeeded) {
  asked = 0;
  serverLeaves = false;
  try {
    for await (const event of opened) {
      switch (event.event) {
        case "hello_ack":
          succeeded();
          stream = opened;
          console.log(`connected as ${event.hello_ack.worker_id}`);
          for (const mine of running.values()) {
            if (mine.outcome) say({ result: mine.outcome });
            else heartbeat(mine);
          }
          ask();
          break;
        case "task":
          receive(event.task.task);
          break;
        case "result_ack":
          settled(event.result_ack);
          break;
        case "heartbeat_ack":
          if (!event.heartbeat_ack.ok) running.get(event.heartbeat_ack.task_id)?.abort.abort();
          break;
        case "error":
          console.error(`the server says ${event.error.code}: ${event.error.message}`);
          serverLeaves ||= event.error.code === "Unavailable";
          break;
      }
      endIfIdle();
    }
  } finally {
    stream = null;
  }
  return weLeave && running.size === 0;
}

function leave() {
  if (weLeave) process.exit(1);
  weLeave = true;
  console.log(`leaving; ${running.size} tasks to finish`);
  endIfIdle();
  if (!stream && running.size === 0) process.exit(0);
}

process.on("SIGTERM", leave);
process.on("SIGINT", leave);
const beats = setInterval(() => {
  for (const mine of running.values()) heartbeat(mine);
}, (LEASE * 1000) / 3);

try {
  await keepOpen("Worker", { worker_id: `node-${process.pid}` }, talk);
} catch (error) {
  console.error(`the server refused this worker: ${error.details ?? error}`);
  process.exitCode = 1;
} finally {
  clearInterval(beats);
}
