// What the worker and the producer have in common: the protocol file, and a stream that is opened
// again when it breaks.
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const ADDRESS = process.env.WINDLASS_SERVER ?? "127.0.0.1:9091";
const TOKEN = process.env.WINDLASS_TOKEN ?? "";
const LONGEST_PAUSE = 5_000; // milliseconds

const definition = loader.loadSync(fileURLToPath(new URL("windlass.proto", import.meta.url)), {
  keepCase: true,
  longs: Number,
  defaults: true,
  oneofs: true, // `event.event` is the name of what an event holds
});
const services = grpc.loadPackageDefinition(definition).windlass.v1;

// Another stream would be told the same.
const FINAL = [
  grpc.status.UNAUTHENTICATED,
  grpc.status.PERMISSION_DENIED,
  grpc.status.UNIMPLEMENTED,
  grpc.status.FAILED_PRECONDITION,
];

// Open a stream of "Worker" or "Producer", say hello, and let `talk(stream)` use it. `talk` answers
// true when all is done. Until then the stream is opened again, however it ended.
export async function keepOpen(service, hello, talk) {
  const credentials = process.env.WINDLASS_TLS
    ? grpc.credentials.createSsl()
    : grpc.credentials.createInsecure();
  const client = new services[service](ADDRESS, credentials, {
    "grpc.max_reconnect_backoff_ms": LONGEST_PAUSE,
  });
  let failures = 0;
  try {
    for (;;) {
      const stream = client.Stream(new grpc.Metadata({ waitForReady: true }));
      stream.on("error", () => {}); // the loop in `talk` throws it, too
      stream.write({ hello: { token: TOKEN, ...hello } });
      try {
        if (await talk(stream, () => (failures = 0))) return;
      } catch (error) {
        if (FINAL.includes(error.code)) throw error;
        console.error(`the stream broke: ${error.details ?? error}`);
      } finally {
        stream.cancel();
      }
      // Longer after each failure, and never in step with other clients.
      const longest = Math.min(LONGEST_PAUSE, 100 * 2 ** failures++);
      await pause(longest * (0.5 + Math.random() / 2));
    }
  } finally {
    client.close();
  }
}
