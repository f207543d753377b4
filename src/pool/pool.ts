/**
 * Decodes and encodes in workers, off the calling thread. Knows calls and their arguments; the workers, and the code that starts them,
 * are loaded with the first call.
 */
import { checkOptionNames } from "../bytes/arrays.ts";
import { outputOf } from "../codec/decode/decode.ts";
import { Blosc, type BloscContext, readConfig } from "../codec/numcodecs.ts";
import type { DecodeOptions } from "../codec/types.ts";
import type { Encode2Options } from "../codec2/as-blosc2.ts";
import { decode, encode } from "../codec2/index.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import type { Crew, Job, PoolWorker } from "./crew.ts";

/** Settings of {@link createPool}. */
export interface PoolOptions {
  /** Most workers, 0 to 64; 0: only the calling thread. Default: one for each processor, up to 4. */
  readonly workers?: number;
  /**
   * Makes a worker from `superchunk/blosc/worker`, for bundlers that do not find the file by themselves: `() => new Worker(new
   * URL("superchunk/blosc/worker", import.meta.url), { type: "module" })`.
   */
  readonly worker?: () => PoolWorker;
}

/** Options of every call of a pool. */
export interface PoolCallOptions {
  /** Ends the wait with the signal's reason. A waiting job is dropped; the result of a running one is discarded. */
  readonly signal?: AbortSignal | undefined;
  /** Moves the bytes to the worker if they fill their buffer, which is then detached. Default: a copy is moved. */
  readonly transfer?: boolean | undefined;
}

/** The codec `blosc` with the interface of `numcodecs`, for zarrita's registry. */
export interface PoolCodec {
  readonly codecId: "blosc";
  fromConfig(config?: unknown, context?: BloscContext): Pick<Blosc, "kind" | "encode" | "decode">;
}

const MOST_WORKERS = 64;
const DEFAULT_WORKERS = 4;

/** Workers that decode and encode chunks. One pool serves any number of arrays. */
export class BloscPool {
  readonly #size: number;
  readonly #make: (() => PoolWorker) | undefined;
  readonly #calls = new Set<Promise<unknown>>();
  #crew: Crew | undefined;
  #isClosed = false;
  /** `Blosc` that works in this pool: `registry.set("blosc", async () => pool.Blosc)`. */
  readonly Blosc: PoolCodec = {
    codecId: "blosc",
    fromConfig: (config, context) => {
      const options = readConfig(config, context);
      const { kind } = new Blosc(options); // checks them
      return {
        kind,
        encode: (data) => this.encode(data, options),
        decode: (chunk, out) => this.decode(chunk, { out }),
      };
    },
  };

  /** Use {@link createPool}. */
  constructor(options: PoolOptions) {
    checkOptionNames(options, "worker workers");
    const { workers = defaultWorkers(), worker } = options;
    if (!Number.isInteger(workers) || workers < 0 || workers > MOST_WORKERS)
      throw badArgument("workers", workers, `a whole number from 0 to ${MOST_WORKERS}`);
    if (worker !== undefined && typeof worker !== "function")
      throw badArgument("worker", worker, "a function that returns a worker");
    [this.#size, this.#make] = [workers, worker];
  }

  /**
   * Decodes a whole chunk of Blosc1 or Blosc2 in a worker, with the options and errors of `decode`. The worker writes straight into an
   * `out` in shared memory; else the result is copied to it.
   */
  async decode(chunk: Uint8Array, options: DecodeOptions & PoolCallOptions = {}): Promise<Uint8Array> {
    const { out, signal, transfer, ...others } = options;
    if (this.#size === 0) return this.#here(() => decode(chunk, { ...others, out }), signal);
    const isShared = out !== undefined && !(out.buffer instanceof ArrayBuffer);
    const limits = isShared ? { ...others, out } : others;
    const job = { kind: "decode", bytes: this.#own(chunk, transfer), options: limits } as const;
    const bytes = await this.#run(job, signal);
    if (out === undefined || isShared) return bytes;
    const result = outputOf(out, bytes.length);
    result.set(bytes);
    return result;
  }

  /** Encodes one chunk in a worker, with the options and errors of `encode`. */
  async encode(
    data: Uint8Array,
    options: Encode2Options & PoolCallOptions = {},
  ): Promise<Uint8Array<ArrayBuffer>> {
    const { signal, transfer, ...settings } = options;
    if (this.#size === 0) return this.#here(() => encode(data, settings), signal);
    const job = { kind: "encode", bytes: this.#own(data, transfer), options: settings } as const;
    return (await this.#run(job, signal)) as Uint8Array<ArrayBuffer>;
  }

  /** Waits for running calls, and ends the workers. Later calls throw `BAD_ARGUMENT`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#calls);
    await this.#crew?.end();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #run(job: Job, signal: AbortSignal | undefined): Promise<Uint8Array> {
    return this.#here(async () => {
      const { Crew } = await import("./crew.ts");
      signal?.throwIfAborted();
      this.#crew ??= new Crew(this.#size, this.#make);
      return this.#crew.run(job, signal);
    }, signal);
  }

  /** Bytes that may move: the caller's own if they fill their buffer and may be moved, else a copy. */
  #own(bytes: Uint8Array, transfer = false): Uint8Array {
    const { buffer } = bytes;
    if (transfer && buffer instanceof ArrayBuffer && buffer.byteLength === bytes.length) return bytes;
    return this.#crew?.copy(bytes) ?? new Uint8Array(bytes);
  }

  /** Makes a call that `close` waits for. */
  async #here<T>(call: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#isClosed) throw new SuperchunkError("BAD_ARGUMENT", "the pool is closed; create another one");
    signal?.throwIfAborted();
    const running = call();
    this.#calls.add(running);
    try {
      return await running;
    } finally {
      this.#calls.delete(running);
    }
  }
}

/**
 * Creates a pool of workers that decode and encode chunks off the calling thread. Workers start with the first calls, and end with `close`.
 *
 * @throws BAD_ARGUMENT for an invalid number of workers, and for a `worker` that is not a function
 */
export function createPool(options: PoolOptions = {}): BloscPool {
  return new BloscPool(options);
}

function defaultWorkers(): number {
  const { navigator } = globalThis as { navigator?: { readonly hardwareConcurrency?: number } };
  return Math.min(navigator?.hardwareConcurrency ?? DEFAULT_WORKERS, DEFAULT_WORKERS);
}
