/**
 * The threads of the process: one pool for each size, shared by all archives. Knows defaults; must not know jobs.
 */
import { availableParallelism } from "node:os";
import { type ChunkDecoder, callingThread } from "../array/chunk-decoder.ts";
import { encodeHere } from "../codec/index.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { ThreadDecoder } from "./thread-decoder.ts";
import { ThreadEncoder } from "./thread-encoder.ts";
import { WorkerPool } from "./worker-pool.ts";

/** Settings of worker threads. */
export interface ThreadOptions {
  /** Threads that decode and encode; default one for each processor; 0 or 1: everything in the calling thread. */
  readonly threads?: number | undefined;
  /** Where the worker's file lies, for bundlers that do not find it by themselves. */
  readonly workerUrl?: URL | undefined;
}

const MAX_THREADS = 256;
const pools = new Map<string, WorkerPool>();
const decoders = new Map<WorkerPool, ChunkDecoder>();
const encoders = new Map<WorkerPool, ChunkEncoder>();

/** The pool for the options; undefined: no other threads. Throws `BAD_ARGUMENT`. */
export function poolOf(options: ThreadOptions = {}): WorkerPool | undefined {
  const { threads = availableParallelism(), workerUrl } = options;
  if (!Number.isInteger(threads) || threads < 0 || threads > MAX_THREADS) {
    throw new SuperchunkError("BAD_ARGUMENT", `threads is ${threads}, expected 0 to ${MAX_THREADS}`, {
      field: "threads",
      expected: `0 to ${MAX_THREADS}`,
      found: threads,
    });
  }
  if (threads === 0 || (threads === 1 && options.threads === undefined)) return undefined;
  const url = workerUrl ?? new URL("./chunk-worker.js", import.meta.url);
  const name = `${threads} ${url.href}`;
  let pool = pools.get(name);
  if (pool === undefined) {
    pool = new WorkerPool(threads, url);
    pools.set(name, pool);
  }
  return pool;
}

/** The decoder for the options. Throws `BAD_ARGUMENT`. */
export function decoderOf(options: ThreadOptions = {}): ChunkDecoder {
  const pool = poolOf(options);
  if (pool === undefined) return callingThread;
  let decoder = decoders.get(pool);
  if (decoder === undefined) {
    decoder = new ThreadDecoder(pool);
    decoders.set(pool, decoder);
  }
  return decoder;
}

/** The encoder for the options. Throws `BAD_ARGUMENT`. */
export function encoderOf(options: ThreadOptions = {}): ChunkEncoder {
  const pool = poolOf(options);
  if (pool === undefined) return encodeHere;
  let encoder = encoders.get(pool);
  if (encoder === undefined) {
    encoder = new ThreadEncoder(pool);
    encoders.set(pool, encoder);
  }
  return encoder;
}
