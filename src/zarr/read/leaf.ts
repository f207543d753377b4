/**
 * Innermost chunks: decides which ranges of them are fetched (parts if that saves time, else joined ranges, all in parallel),
 * and turns encoded bytes into items of the result.
 *
 * Knows stages and strides; must not know shards or grids.
 */

import type { PlacedChunk } from "../../archive/places/sequence.ts";
import { readHead, readPart, readPartNow } from "../../archive/read/block-read.ts";
import type { ChunkDecoder } from "../../archive/read/chunk-fetch.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { groupRanges, type ResolvedRange } from "../../store/key.ts";
import { runPooled, type Turns } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { copyItems, type ItemView } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import type { CustomCodecs, ItemSpan, Stage } from "../codecs/stage.ts";
import type { ChunkExtent } from "../document/chunk-grid.ts";
import { checkLength, type EncodedPlace, placeDetails, readPlace } from "./shard-cache.ts";

/** The requested part of a chunk or shard: which items, and where they go. */
export interface Wanted {
  readonly place: EncodedPlace;
  readonly shape: readonly number[];
  readonly extents: readonly ChunkExtent[];
  readonly target: ItemView;
}

/** The requested part of a chunk, with its codecs. Dimensions are in stored order. */
export interface LeafJob extends Wanted {
  readonly stages: readonly Stage[];
  readonly itemSize: number;
}

/** In bytes: for smaller parts, a second request to a remote store is not worth it. */
const REMOTE_PART = 512 * 1024;
/** The same for a synchronous store. */
const LOCAL_PART = 16 * 1024;

/** True if fetching only a part of the chunk saves time: without stages, or with one that decodes blocks. */
export function readsInPart(store: ReadableStore, job: LeafJob): boolean {
  const { place, stages, shape, itemSize } = job;
  if (place.memory !== undefined || place.nbytes === undefined) return false;
  const { count } = spanOf(job);
  const whole = elementsOf(shape);
  if (stages.length === 0) return count < whole;
  if (stages.length > 1 || stages[0]?.isBlosc !== true) return false;
  return place.nbytes >= leastForParts(store) && count * itemSize * 4 <= whole * itemSize;
}

/** Smallest chunk in bytes of which parts are read separately. */
export function leastForParts(store: ReadableStore): number {
  return store.readIntoSync === undefined ? REMOTE_PART : LOCAL_PART;
}

/**
 * The range to fetch for a job: the whole chunk, or of a chunk without stages the requested part.
 * @throws BAD_FIELD for a chunk without stages whose size does not match its shape
 */
function rangeOf(job: LeafJob): ResolvedRange {
  const { place, stages, shape, itemSize } = job;
  const { offset, nbytes = 0 } = place;
  if (stages.length > 0) return { offset, length: nbytes };
  checkSize(nbytes, elementsOf(shape) * itemSize, place);
  const { first, count } = spanOf(job);
  return { offset: offset + first * itemSize, length: count * itemSize };
}

/** Decodes the bytes of {@link rangeOf}, and copies the requested items. Throws like {@link decodeLeaf}. */
async function decodeRange(job: LeafJob, bytes: Uint8Array, shelf: Shelf): Promise<void> {
  const isPart = job.stages.length === 0 && bytes.length < (job.place.nbytes ?? 0);
  if (isPart) copySpan(job, bytes, spanOf(job).first);
  else await decodeLeaf(job, bytes, shelf);
}

/** Fetches and decodes the requested part. Throws `BAD_FIELD`, `TRUNCATED`, `BAD_CHUNK`. */
export async function readLeafPart(store: ReadableStore, job: LeafJob, signal?: AbortSignal): Promise<void> {
  const { place, itemSize, shape } = job;
  const { first, count } = spanOf(job);
  const start = first * itemSize;
  const length = count * itemSize;
  if (job.stages.length === 0) {
    const nbytes = elementsOf(shape) * itemSize;
    checkSize(place.nbytes ?? nbytes, nbytes, place);
    copySpan(job, await readPlace(store, place, start, length, signal), first);
    return;
  }
  const placed = placedOf(job, place.slot ?? 0);
  const now = readPartNow(store, placed, start, start + length);
  if (now !== undefined) {
    copySpan(job, now, first);
    return;
  }
  const head = await readHead(store, placed, signal);
  const bytes = new Uint8Array(length);
  await readPart(store, head, start, bytes, signal);
  copySpan(job, bytes, first);
}

/** A job's chunk in the form of the archive layer. */
function placedOf({ place, shape, itemSize }: LeafJob, index: number): PlacedChunk {
  return {
    index,
    key: place.key,
    offset: place.offset,
    nbytes: elementsOf(shape) * itemSize,
    ctbytes: place.nbytes,
    available: place.nbytes ?? Number.POSITIVE_INFINITY,
    checksum: "None",
    prologue: 0,
  };
}

/** True if a decoder of Blosc chunks can do the job. */
function isPlainBlosc({ place, stages }: LeafJob): boolean {
  return (
    stages.length === 1 &&
    stages[0]?.isBlosc === true &&
    place.memory === undefined &&
    place.nbytes !== undefined
  );
}

/** Decodes whole Blosc chunks of one object with a decoder, which may use threads. Jobs are in offset order. */
async function decodeMany(
  store: ReadableStore,
  decoder: ChunkDecoder,
  jobs: readonly LeafJob[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const places = jobs.map((job, i) => placedOf(job, i));
  const targets = jobs.map((job, i) => contiguousTarget(job, places[i]?.nbytes ?? 0));
  const batches = async function* (): AsyncGenerator<readonly PlacedChunk[]> {
    yield places;
  };
  const nbytes = places.reduce((sum, place) => sum + place.nbytes, 0);
  const run = {
    verify: false,
    signal,
    chunks: jobs.length,
    nbytes,
    target: ({ index }: PlacedChunk) => targets[index],
  };
  let next = 0;
  try {
    for await (const { place, bytes, ctbytes } of decoder.decodeChunks(store, batches(), run)) {
      const job = jobs[place.index];
      if (job === undefined) continue;
      next = place.index + 1;
      checkStored(ctbytes, job.place);
      if (targets[place.index] === undefined) copyWhole(job, bytes);
    }
  } catch (error) {
    const failed = jobs[next]?.place;
    if (!isSuperchunkError(error) || failed === undefined) throw error;
    // The decoder counts its chunks; the caller needs the slot in the shard.
    const chunk = failed.slot === undefined ? {} : { chunk: failed.slot };
    throw new SuperchunkError(error.code, error.summary, { ...error.details, ...chunk });
  }
}

/** A Blosc chunk must be all of the bytes that its entry counts. */
function checkStored(ctbytes: number, place: EncodedPlace): void {
  if (ctbytes === place.nbytes) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the Blosc header's ctbytes at byte ${place.offset + 12} is ${ctbytes}, but ${place.nbytes} bytes are stored; the chunk or its index entry is damaged`,
    {
      ...placeDetails(place),
      offset: place.offset + 12,
      field: "ctbytes",
      expected: place.nbytes,
      found: ctbytes,
    },
  );
}

/** For larger chunks, memory is allocated only after their stages know the decoded size: a document alone is not trusted. */
const MOST_SHELVED = 64 << 20;

/** Reused memory for decoded chunks. */
class Shelf {
  readonly #idle: Uint8Array[] = [];

  take(length: number): Uint8Array {
    const at = this.#idle.findIndex((each) => each.length === length);
    return at < 0 ? new Uint8Array(length) : (this.#idle.splice(at, 1)[0] ?? new Uint8Array(length));
  }

  give(bytes: Uint8Array): void {
    if (this.#idle.length < 8) this.#idle.push(bytes);
  }
}

/** Decodes a whole chunk and copies the requested items. Throws errors of the stages, with the chunk's place. */
export async function decodeLeaf(job: LeafJob, encoded: Uint8Array, shelf: Shelf): Promise<void> {
  const { place, shape, itemSize, stages } = job;
  const nbytes = elementsOf(shape) * itemSize;
  const direct = contiguousTarget(job, nbytes);
  if (stages.length === 0) {
    checkSize(encoded.length, nbytes, place);
    if (direct !== undefined) direct.set(encoded);
    else copyWhole(job, encoded);
    return;
  }
  const decodeSpan = stages[0]?.decodeSpan;
  if (decodeSpan !== undefined) {
    const span = spanOf(job);
    const decode = (bytes: Uint8Array): Promise<Uint8Array> => decodeSpan(bytes, elementsOf(shape), span);
    const parts = stages.map((stage, i) => (i === 0 ? { ...stage, decode } : stage));
    copySpan(job, await decodeStages(parts, encoded, undefined, place), span.first);
    return;
  }
  const isShelved = stages.length === 1 && nbytes <= MOST_SHELVED;
  const out = direct ?? (isShelved ? shelf.take(nbytes) : undefined);
  const decoded = await decodeStages(stages, encoded, nbytes, place, out);
  if (direct === undefined) copyWhole(job, decoded);
  else if (decoded.buffer !== direct.buffer) direct.set(decoded);
  if (out !== undefined && direct === undefined) shelf.give(out);
}

/** Undoes the stages. Throws their errors, with the chunk's place, and `BAD_FIELD` for a size other than `nbytes`. */
export async function decodeStages(
  stages: readonly Stage[],
  encoded: Uint8Array,
  nbytes: number | undefined,
  place: EncodedPlace,
  out?: Uint8Array,
): Promise<Uint8Array> {
  const limits = limitsOf(stages, nbytes);
  let bytes = encoded;
  try {
    for (let i = stages.length - 1; i >= 0; i--) {
      const { limit, exact } = limits[i] ?? { limit: UNKNOWN_LIMIT, exact: false };
      bytes = await (stages[i] as Stage).decode(bytes, limit, exact, i === 0 ? out : undefined);
    }
  } catch (error) {
    // Stages count offsets from the beginning of the encoded chunk.
    throw isSuperchunkError(error) ? error.inObject(placeDetails(place)) : error;
  }
  if (nbytes !== undefined) checkSize(bytes.length, nbytes, place);
  return bytes;
}

/** Limit of the decoded size of a compressed shard. */
const UNKNOWN_LIMIT = 2 ** 31 - 1;
/** What a compressor may add to incompressible data. */
const EXPANSION = 1.01;
const EXPANSION_BYTES = 1024;

/** The decoded size of each stage, as far as it is known. */
function limitsOf(
  stages: readonly Stage[],
  nbytes: number | undefined,
): { readonly limit: number; readonly exact: boolean }[] {
  let limit = nbytes ?? UNKNOWN_LIMIT;
  let exact = nbytes !== undefined;
  return stages.map(({ fixedOverhead, encodedLength }) => {
    const own = { limit: Math.floor(limit), exact };
    if (encodedLength !== undefined) limit = encodedLength(limit);
    else if (fixedOverhead === undefined) {
      limit = limit * EXPANSION + EXPANSION_BYTES;
      exact = false;
    } else limit += fixedOverhead;
    return own;
  });
}

/** Throws `BAD_FIELD` if a chunk has not as many bytes of values as its shape and data type make it. */
export function checkSize(found: number, expected: number, place: EncodedPlace): void {
  if (found === expected) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the chunk has ${found} bytes of values, but its shape and data type make it ${expected}. The chunk, its index entry or the metadata are damaged`,
    { ...placeDetails(place), field: "chunk_shape", expected, found },
  );
}

function spanOf({ shape, extents }: LeafJob): ItemSpan {
  const strides = stridesOf(shape);
  let first = 0;
  let last = 0;
  extents.forEach(({ start, count, step }, d) => {
    const stride = at(strides, d);
    first += start * stride;
    last += (start + (count - 1) * step) * stride;
  });
  return { first, count: last - first + 1 };
}

function copyWhole(job: LeafJob, bytes: Uint8Array): void {
  copySpan(job, bytes, 0);
}

/** Copies items from a run of the chunk's items that begins with item `base`. */
function copySpan({ shape, extents, target, itemSize }: LeafJob, bytes: Uint8Array, base: number): void {
  const strides = stridesOf(shape);
  let offset = -base;
  extents.forEach(({ start }, d) => {
    offset += start * at(strides, d);
  });
  const from: ItemView = { bytes, offset, strides: extents.map(({ step }, d) => step * at(strides, d)) };
  copyItems(
    from,
    target,
    extents.map(({ count }) => count),
    itemSize,
  );
}

/** The part of the target that can hold the chunk itself, if all of it is requested, contiguous and in its own order. */
function contiguousTarget(
  { shape, extents, target, itemSize }: LeafJob,
  nbytes: number,
): Uint8Array | undefined {
  const strides = stridesOf(shape);
  const whole = extents.every(
    ({ start, count, step }, d) =>
      start === 0 && count === shape[d] && (count === 1 || (step === 1 && target.strides[d] === strides[d])),
  );
  const at = target.offset * itemSize;
  return whole ? target.bytes.subarray(at, at + nbytes) : undefined;
}

/** Options of opening an array. */
export interface ReadSettings {
  /** Largest gap in bytes between ranges that are fetched in one request (default 4096). */
  readonly maxGap?: number | undefined;
  /** Most concurrent requests (default 8). */
  readonly concurrency?: number | undefined;
  /** Most index entries to cache, over all shards (default 500,000). */
  readonly cachedEntries?: number | undefined;
  /** Objects never change while the array is open: saves requests for their version (default false). */
  readonly immutable?: boolean | undefined;
  /** Decodes many Blosc chunks of a shard, for example a pool of threads (default: the calling thread). */
  readonly decoder?: ChunkDecoder | undefined;
  /** The caller's own codecs, for chunks and inner chunks of this array or group only. */
  readonly customCodecs?: CustomCodecs | undefined;
}

/** Most concurrent requests. */
const CONCURRENCY = 8;
/** Ranges at most this far apart are fetched together. */
export const MAX_GAP: number = 4096;
/** Joined requests are not longer than this, in bytes. */
export const MAX_REQUEST: number = 4 << 20;

export function concurrencyOf({ concurrency }: ReadSettings): number {
  return concurrency ?? CONCURRENCY;
}

/** Fetches and decodes innermost chunks. */
export class LeafRequests {
  /** Memory for decoded chunks. */
  readonly shelf: Shelf = new Shelf();
  readonly #store: ReadableStore;
  readonly #settings: ReadSettings;
  readonly #gate: Turns;

  constructor(store: ReadableStore, settings: ReadSettings, gate: Turns) {
    const { maxGap } = settings;
    if (maxGap !== undefined && !(typeof maxGap === "number" && maxGap >= 0))
      throw badArgument("maxGap", maxGap, "a number of bytes of 0 or more");
    this.#store = store;
    this.#settings = settings;
    this.#gate = gate;
  }

  /** Runs jobs on one object: reads parts if that saves time, else joined ranges, all in parallel. */
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
      } else (job.stages.length > 0 && readsInPart(this.#store, job) ? parts : whole).push(job);
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
    const ranged = whole.map((job) => ({ job, ...rangeOf(job) }));
    for (const group of groupRanges(ranged, this.#settings.maxGap ?? MAX_GAP, MAX_REQUEST))
      requests.push(() => this.#readGroup(group, signal));
    if (requests.length === 1) await requests[0]?.();
    else await runPooled(requests, concurrencyOf(this.#settings), (request) => request(), signal);
  }

  async #readGroup(jobs: readonly RangedJob[], signal: AbortSignal): Promise<void> {
    const [first] = jobs;
    if (first === undefined) return;
    const start = first.offset;
    const end = jobs.reduce((most, { offset, length }) => Math.max(most, offset + length), start);
    const { place } = first.job;
    const bytes = await this.fetch(place.key, start, end - start, place, signal);
    for (const { job, offset, length } of jobs)
      await decodeRange(job, bytes.subarray(offset - start, offset - start + length), this.shelf);
  }

  fetch(
    key: string,
    offset: number,
    length: number,
    place: EncodedPlace,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    return this.#gate.run(async () =>
      checkLength(await this.#store.getRange(key, { offset, length }, { signal }), length, place, offset),
    );
  }
}

interface RangedJob extends ResolvedRange {
  readonly job: LeafJob;
}
