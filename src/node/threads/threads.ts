/** The threads of the process: one pool for each size, shared by all archives. Knows defaults; must not know jobs. */

import { availableParallelism } from "node:os";
import { type ChunkDecoder, callingThread, decodeInThread } from "../../archive/read/chunk-fetch.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { encodeHere } from "../../codec/index.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { badArgument } from "../../errors.ts";
import type { ShardWriter } from "../../zarr/write/write-settings.ts";
import { loadNativeBlosc } from "./native-blosc.ts";
import { resultMemory } from "./result-memory.ts";
import { threadDecoder } from "./thread-decoder.ts";
import { ThreadEncoder, threadShardWriter, worthAsked, worthUnasked } from "./thread-encoder.ts";
import type { BloscChoice } from "./thread-messages.ts";
import { NO_FILE, WorkerPool } from "./worker-pool.ts";

/** Settings of worker threads. */
export interface ThreadOptions {
  /**
   * Threads that decode and encode; 0: only the calling thread. Default: one for each processor, which encode with zlib, zstd and lz4hc.
   * The other compressors are faster than handing over single chunks: with these, a thread helps with appends to arrays of superchunks once
   * encoding has taken most of their time, or at once if threads are set.
   */
  readonly threads?: number | undefined;
  /**
   * `native`: the system's libblosc decodes and encodes whole chunks, which needs the package koffi; this library still handles single
   * blocks. Default: the environment variable SUPERCHUNK_BLOSC, else `wasm`.
   */
  readonly blosc?: BloscChoice | undefined;
  /**
   * Threads write decoded bytes into plain results by memory address, if the package koffi is installed (default false). Saves a copy of
   * large results. The JavaScript engine does not know of such writes; to get results that threads may write into by its rules, read with
   * `shared`.
   */
  readonly directMemory?: boolean | undefined;
  /** Location of the worker's file, for bundlers that do not find it by themselves. */
  readonly workerUrl?: URL | undefined;
}

const MAX_THREADS = 256;
const pools = new Map<string, WorkerPool>();
const decoders = new Map<string, ChunkDecoder>();
const encoders = new Map<string, ChunkEncoder>();
const shardWriters = new Map<string, ShardWriter>();

/** Threads for stores of the caller: options of `open`, `create` and `edit` of the core. */
export interface Threads {
  readonly decoder: ChunkDecoder;
  readonly encoder: ChunkEncoder;
  readonly shardWriter: ShardWriter | undefined;
}

/**
 * Returns the threads of the process, for functions that take a store: `open(store, path, { ...threadsOf() })`. Functions that take a path
 * use them by themselves.
 *
 * @throws BAD_ARGUMENT for invalid settings
 */
export function threadsOf(options: ThreadOptions = {}): Threads {
  checkOptions(options, "blosc directMemory threads workerUrl");
  return { decoder: decoderOf(options), encoder: encoderOf(options), shardWriter: shardWriterOf(options) };
}

/** The Blosc that the options, or else the environment, select. Throws `BAD_ARGUMENT`. */
export function bloscOf(options: ThreadOptions): BloscChoice {
  const choice: string = options.blosc ?? (process.env["SUPERCHUNK_BLOSC"] || "wasm");
  if (choice === "wasm" || choice === "native") return choice;
  const advice = typeof choice === "object" ? "; compressor takes cname, clevel and shuffle" : "";
  throw badArgument("blosc", choice, `wasm or native${advice}`);
}

/** The pool for the options; undefined if there are no other threads. Throws `BAD_ARGUMENT`. */
export function poolOf(options: ThreadOptions): WorkerPool | undefined {
  const { threads = availableParallelism(), workerUrl } = options;
  if (!Number.isInteger(threads) || threads < 0 || threads > MAX_THREADS)
    throw badArgument("threads", threads, `0 to ${MAX_THREADS}`);
  if (threads === 0 || (threads === 1 && options.threads === undefined)) return undefined;
  const url = workerUrl ?? (import.meta.url ? new URL("./chunk-worker.js", import.meta.url) : NO_FILE);
  return remember(pools, `${threads} ${url.href}`, () => new WorkerPool(threads, url));
}

export function decoderOf(options: ThreadOptions = {}): ChunkDecoder {
  const blosc = bloscOf(options);
  const alone = blosc === "native" ? nativeDecoder : callingThread;
  const lends = options.directMemory === true;
  const pool = poolOf(options);
  const name = `${pool?.name ?? "alone"} ${blosc}${lends ? " direct" : ""}`;
  return remember(decoders, name, () => {
    const prepareResult = resultMemory({ lends });
    return pool === undefined
      ? { ...alone, prepareResult }
      : threadDecoder(pool, blosc, alone, undefined, prepareResult);
  });
}

/** The encoder for the options. Without explicit options, it decides which compressors use threads. Throws `BAD_ARGUMENT`. */
export function encoderOf(options: ThreadOptions = {}): ChunkEncoder {
  const blosc = bloscOf(options);
  const alone = blosc === "native" ? nativeEncoder : encodeHere;
  const pool = poolOf(options);
  if (pool === undefined) return alone;
  const isAsked = options.threads !== undefined;
  const worth = isAsked ? worthAsked : worthUnasked;
  const name = `${pool.name} ${blosc} ${isAsked ? "all" : "slow"}`;
  return remember(encoders, name, () => new ThreadEncoder(pool, blosc, alone.encode, worth));
}

/**
 * Encodes and writes whole shards of Zarr arrays in folders, beside the calling thread; undefined if there are no other
 * threads. Throws `BAD_ARGUMENT`.
 */
export function shardWriterOf(options: ThreadOptions = {}): ShardWriter | undefined {
  const blosc = bloscOf(options);
  const pool = poolOf(options);
  if (pool === undefined) return undefined;
  return remember(shardWriters, `${pool.name} ${blosc}`, () => threadShardWriter(pool, blosc));
}

const nativeDecoder: ChunkDecoder = {
  async *decodeChunks(store, batches, run) {
    const { decode } = await loadNativeBlosc();
    yield* decodeInThread(decode).decodeChunks(store, batches, run);
  },
};

const nativeEncoder: ChunkEncoder = {
  parallel: 1,
  encode: async (data, options) => (await loadNativeBlosc()).encode(data, options),
};

function remember<T>(known: Map<string, T>, name: string, make: () => T): T {
  const found = known.get(name) ?? make();
  known.set(name, found);
  return found;
}
