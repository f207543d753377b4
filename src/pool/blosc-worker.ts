/**
 * A worker of a pool: decodes and encodes the bytes it gets. In the package this is one file without imports, so that every bundler, and
 * a page without one, can start a worker from it. Therefore the pool sends the kernels as messages.
 */
import { fromHex } from "../bytes/arrays.ts";
import { handedIn, type ModuleName } from "../codec/kernel-module.ts";
import { unpackZstd } from "../codec/zstd-module.ts";
import { decode, encode } from "../codec2/index.ts";
import { packError } from "../errors.ts";
import type { Job, Order, Reply } from "./crew.ts";

/** The used part of a worker's message port, in browsers and in Node.js. */
interface Port {
  postMessage(message: Reply, transfer?: readonly ArrayBuffer[]): void;
  onmessage: ((event: { readonly data: Order }) => void) | null;
}

const port = findPort();
const asked = new Map<ModuleName, (text: string) => void>();

for (const name of ["decode", "encode", "zstd"] as const)
  handedIn[name] = async () => {
    const text = await new Promise<string>((resolve) => {
      asked.set(name, resolve);
      port.postMessage({ needs: name });
    });
    if (name !== "zstd") return fromHex(text);
    const { length } = await import("../kernels/generated/zstd.ts");
    return unpackZstd(text, length);
  };

port.onmessage = ({ data: order }) => {
  if ("module" in order) asked.get(order.module)?.(order.text);
  else void answer(order.id, order.job);
};

async function answer(id: number, job: Job): Promise<void> {
  try {
    const bytes = await (job.kind === "decode"
      ? decode(job.bytes, job.options)
      : encode(job.bytes, job.options));
    const spare = job.bytes.buffer as ArrayBuffer;
    // Shared memory is not transferred.
    port.postMessage(
      { id, bytes, spare },
      bytes.buffer instanceof ArrayBuffer ? [bytes.buffer, spare] : [spare],
    );
  } catch (error) {
    port.postMessage({ id, error: packError(error) });
  }
}

function findPort(): Port {
  const host = globalThis as unknown as Port & {
    process?: { getBuiltinModule?: (name: string) => { readonly parentPort: Port } };
  };
  if (typeof host.postMessage === "function") return host;
  const threads = host.process?.getBuiltinModule?.("node:worker_threads");
  if (threads === undefined) throw new TypeError("blosc-worker is started as a worker");
  return threads.parentPort;
}
