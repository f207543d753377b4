/**
 * Carries out what is wanted of innermost chunks: parts where that saves, else joined ranges, all in parallel.
 *
 * Knows places and requests; must not know shards.
 */
import type { ChunkDecoder } from "../../archive/read/chunk-decoder.ts";
import { badArgument } from "../../errors.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  decodeLeaf,
  decodeMany,
  isPlainBlosc,
  type LeafJob,
  readLeafPart,
  readsInPart,
  Shelf,
} from "./leaf.ts";
import { type ChunkPlace, checkLength } from "./place.ts";

/** Bounds how many requests are under way. Knows nothing of what they are. */
export class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#free = Math.max(1, limit);
  }

  /** Runs `work` once one of the places is free. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Options of opening an array. */
export interface ReadSettings {
  /** Ranges that are at most this far apart are fetched in one request, in bytes (default 4096). */
  readonly maxGap?: number | undefined;
  /** Requests under way, at most (default 8). */
  readonly concurrency?: number | undefined;
  /** Index entries that are kept, over all shards (default 500,000). */
  readonly cachedEntries?: number | undefined;
  /** Objects are never changed while the array is open: saves asking for their version (default false). */
  readonly immutable?: boolean | undefined;
  /** What decodes many Blosc chunks of a shard, such as a pool of threads (default: the calling thread). */
  readonly decoder?: ChunkDecoder | undefined;
}

/** Requests under way, at most. */
const CONCURRENCY = 8;
/** Ranges that are this far apart are fetched together. */
const MAX_GAP = 4096;
/** A request is not made longer than this by joining, in bytes. */
const MAX_REQUEST = 4 << 20;

/** Requests that may be under way. */
export function concurrencyOf({ concurrency }: ReadSettings): number {
  return concurrency ?? CONCURRENCY;
}

/** Fetches and decodes innermost chunks. */
export class LeafRequests {
  /** Room for decoded chunks. */
  readonly shelf: Shelf = new Shelf();
  readonly #store: ReadableStore;
  readonly #settings: ReadSettings;
  readonly #gate: Gate;

  constructor(store: ReadableStore, settings: ReadSettings, gate: Gate) {
    const { maxGap } = settings;
    if (maxGap !== undefined && !(typeof maxGap === "number" && maxGap >= 0))
      throw badArgument("maxGap", maxGap, "a number of bytes of 0 or more");
    this.#store = store;
    this.#settings = settings;
    this.#gate = gate;
  }

  /** Runs jobs on one object: parts where that saves, else joined ranges, all in parallel. */
  async run(jobs: readonly LeafJob[], signal: AbortSignal): Promise<void> {
    const whole: LeafJob[] = [];
    const parts: LeafJob[] = [];
    for (const job of jobs) {
      if (job.place.memory !== undefined) {
        const { memory, offset, nbytes = 0 } = job.place;
        await decodeLeaf(
          job,
          checkLength(memory.subarray(offset, offset + nbytes), nbytes, job.place, offset),
          this.shelf,
        );
      } else (readsInPart(this.#store, job) ? parts : whole).push(job);
    }
    const requests: (() => Promise<void>)[] = parts.map(
      (job) => () => this.#gate.run(() => readLeafPart(this.#store, job, signal)),
    );
    const { decoder } = this.#settings;
    if (decoder !== undefined && whole.length > 1 && whole.every(isPlainBlosc)) {
      const sorted = [...whole].sort((a, b) => a.place.offset - b.place.offset);
      requests.push(() => this.#gate.run(() => decodeMany(this.#store, decoder, sorted, signal)));
      whole.length = 0;
    }
    for (const group of joinJobs(whole, this.#settings.maxGap ?? MAX_GAP)) {
      requests.push(() => this.#readGroup(group, signal));
    }
    if (requests.length === 1) await requests[0]?.();
    else await runPooled(requests, concurrencyOf(this.#settings), (request) => request(), signal);
  }

  async #readGroup(jobs: readonly LeafJob[], signal: AbortSignal): Promise<void> {
    const [first] = jobs;
    if (first === undefined) return;
    const start = first.place.offset;
    const end = jobs.reduce((most, { place }) => Math.max(most, place.offset + (place.nbytes ?? 0)), start);
    const bytes = await this.fetch(first.place.key, start, end - start, first.place, signal);
    for (const job of jobs) {
      const at = job.place.offset - start;
      await decodeLeaf(job, bytes.subarray(at, at + (job.place.nbytes ?? 0)), this.shelf);
    }
  }

  fetch(
    key: string,
    offset: number,
    length: number,
    place: ChunkPlace,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    return this.#gate.run(async () =>
      checkLength(await this.#store.getRange(key, { offset, length }, { signal }), length, place, offset),
    );
  }
}

/** Jobs whose ranges are fetched together. */
function* joinJobs(jobs: readonly LeafJob[], maxGap: number): Generator<LeafJob[]> {
  const sorted = [...jobs].sort((a, b) => a.place.offset - b.place.offset);
  let group: LeafJob[] = [];
  let start = 0;
  let end = 0;
  for (const job of sorted) {
    const { offset, nbytes = 0 } = job.place;
    const joins = group.length > 0 && offset - end <= maxGap && offset + nbytes - start <= MAX_REQUEST;
    if (!joins) {
      if (group.length > 0) yield group;
      group = [];
      start = offset;
      end = offset;
    }
    group.push(job);
    end = Math.max(end, offset + nbytes);
  }
  if (group.length > 0) yield group;
}
