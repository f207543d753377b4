/**
 * Reads decoded bytes of a chunk sequence: whole ranges, or the runs of a selection, reading only what they touch.
 *
 * A chunk with a digest is first read whole, checked, and remembered as verified. Single blocks are read only from
 * chunks without a digest, and from verified ones.
 */
import { at, fillResult } from "../../bytes/arrays.ts";
import { runPooled } from "../../store/pool.ts";
import type { RunBatch } from "../../values/selection.ts";
import type { LongOptions } from "../kinds/types.ts";
import { type ChunkSequence, chunkAt, type PlacedChunk, startOfChunk } from "../places/sequence.ts";
import { readHead, readPart, readPartNow } from "./block-read.ts";
import {
  type ChunkDecoder,
  callingThread,
  type DecodedChunk,
  type FetchedChunk,
  fetchChunks,
  type Hold,
} from "./chunk-fetch.ts";

// What a selection needs of one chunk: runs of bytes, and where they go. Must not know how chunks are read.

/** Runs of a chunk that are closer together than this are probably in blocks that are read together. */
const NEAR = 1 << 18;

/** The runs that fall into one chunk: from `source` in the chunk to `target` in the result, in bytes. */
export interface ChunkRuns {
  readonly index: number;
  place: PlacedChunk | undefined;
  /** True if its object was opened for it. */
  isNew: boolean;
  readonly source: number[];
  readonly target: number[];
  readonly length: number[];
  bytes: number;
}

/** The same, once the chunk's place is known. */
export type PlacedRuns = ChunkRuns & { readonly place: PlacedChunk };

export function isPlaced(runs: ChunkRuns): runs is PlacedRuns {
  return runs.place !== undefined;
}

/** Number of groups of nearby runs: about as many requests as reading their blocks takes. */
function countClusters({ source, length }: ChunkRuns): number {
  let clusters = 0;
  let end = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < source.length; i++) {
    const start = source[i] as number;
    if (start > end + NEAR || start < end - NEAR) clusters++;
    end = start + (length[i] as number);
  }
  return clusters;
}

/** Copies the runs `[first, end)` from a chunk's bytes, which start at its byte `base`. */
function copyOut(
  runs: ChunkRuns,
  [first, end]: readonly [number, number],
  from: Uint8Array,
  base: number,
  out: Uint8Array,
): void {
  for (let i = first; i < end; i++) {
    const source = (runs.source[i] as number) - base;
    const length = runs.length[i] as number;
    const target = runs.target[i] as number;
    if (length <= 16) for (let b = 0; b < length; b++) out[target + b] = from[source + b] as number;
    else out.set(from.subarray(source, source + length), target);
  }
}

// A set of chunk indices: one bit each, in pages that are allocated on first use.

const PAGE_BITS = 1 << 15;

class IndexSet {
  readonly #pages = new Map<number, Uint8Array>();

  add(index: number): void {
    const page = Math.floor(index / PAGE_BITS);
    let bits = this.#pages.get(page);
    if (bits === undefined) {
      bits = new Uint8Array(PAGE_BITS / 8);
      this.#pages.set(page, bits);
    }
    const bit = index % PAGE_BITS;
    bits[bit >> 3] = at(bits, bit >> 3) | (1 << (bit & 7));
  }

  has(index: number): boolean {
    const bit = index % PAGE_BITS;
    const page = this.#pages.get(Math.floor(index / PAGE_BITS));
    return page !== undefined && (at(page, bit >> 3) & (1 << (bit & 7))) !== 0;
  }
}

/** Runs and chunks collected before they are read together. This bounds the memory that they take. */
const BATCH_RUNS = 1 << 16;
const BATCH_CHUNKS = 1 << 14;
const PLACES = 1024;
/** Chunks up to this size are read whole: a second request costs more than decoding. */
const WHOLE = 16384;
/** The same over a network, where a request costs more than reading this much. */
const WHOLE_REMOTE = 1 << 19;
/** The same for a chunk of a newly opened object, which must be confirmed. */
const WHOLE_FIRST = 8 << 20;
/** Chunks located at a time, and chunks whose blocks are read at a time. */
const AT_ONCE = 8;

export interface ScanOptions {
  readonly signal?: AbortSignal | undefined;
  /** Who owns the decoded bytes. */
  readonly hold?: Hold | undefined;
  /** Check digests, regardless of how the archive was opened. */
  readonly verify?: boolean | undefined;
}

export class SequenceReader {
  readonly sequence: ChunkSequence;
  readonly #decoder: ChunkDecoder;
  readonly #verify: boolean;
  /** Chunks whose digest was correct. */
  readonly #verified = new IndexSet();

  constructor(sequence: ChunkSequence, verify: boolean, decoder: ChunkDecoder = callingThread) {
    this.sequence = sequence;
    this.#verify = verify;
    this.#decoder = decoder;
  }

  /** Yields all decoded chunks, in order. */
  scan(options: ScanOptions): AsyncGenerator<DecodedChunk> {
    const { sequence } = this;
    const { nchunks } = sequence;
    async function* places(): AsyncGenerator<readonly PlacedChunk[]> {
      for (let at = 0; at < nchunks; at += PLACES)
        yield await sequence.places(at, Math.min(nchunks, at + PLACES), options.signal);
    }
    return this.decodePlaces(places(), nchunks, options);
  }

  /** Yields the decoded chunks of the places, in order; about `count` of them. */
  async *decodePlaces(
    places: AsyncIterable<readonly PlacedChunk[]>,
    count: number,
    { signal, hold, verify = this.#verify }: ScanOptions,
  ): AsyncGenerator<DecodedChunk> {
    const run = { verify, signal, hold, chunks: count, nbytes: count * this.sequence.chunkBytes };
    for await (const chunk of this.#decoder.decodeChunks(this.sequence.store, places, run)) {
      if (verify) this.#verified.add(chunk.place.index);
      yield chunk;
    }
  }

  /** Decoded bytes `[start, end)` of one chunk from a synchronous store; undefined if more is needed. */
  readNow(start: number, end: number): Uint8Array | undefined {
    const { sequence } = this;
    if (sequence.store.readIntoSync === undefined) return undefined;
    const index = chunkAt(sequence, start);
    const inChunk = start - startOfChunk(sequence, index);
    const place = sequence.placeNow(index);
    if (place === undefined || inChunk + end - start > place.nbytes) return undefined;
    if (!this.#mayReadBlocks(place)) return undefined;
    return readPartNow(sequence.store, place, inChunk, inChunk + end - start);
  }

  /** Decoded bytes `[start, end)`, which the caller has checked against `nbytes`. */
  async read(start: number, end: number, options: LongOptions): Promise<Uint8Array> {
    const whole: RunBatch = {
      source: Float64Array.of(start),
      target: Float64Array.of(0),
      length: end - start,
      count: end > start ? 1 : 0,
    };
    const path = this.sequence.store.describe("");
    const prepare = this.#decoder.prepareResult;
    return fillResult(end - start, { path, prepare }, (out) => this.gather([whole], 1, out, options));
  }

  /** Copies runs, given in items of `itemSize` bytes, into `out`. */
  async gather(
    batches: Iterable<RunBatch>,
    itemSize: number,
    out: Uint8Array,
    options: LongOptions,
  ): Promise<void> {
    const { sequence } = this;
    const pending: ChunkRuns[] = [];
    let pendingRuns = 0;
    let done = 0;
    const flush = async (): Promise<void> => {
      const placed = await this.#placeRuns(pending, options.signal);
      await this.#copyRuns(placed, out, options.signal, (bytes) => {
        done += bytes;
        options.onProgress?.({ done, total: out.length });
      });
      pending.length = 0;
      pendingRuns = 0;
    };
    const isFull = (): boolean => pendingRuns >= BATCH_RUNS || pending.length >= BATCH_CHUNKS;
    for (const batch of batches) {
      for (let i = 0; i < batch.count; i++) {
        let source = (batch.source[i] as number) * itemSize;
        let target = (batch.target[i] as number) * itemSize;
        let left = batch.length * itemSize;
        while (left > 0) {
          const index = chunkAt(sequence, source);
          const inChunk = source - startOfChunk(sequence, index);
          const length = Math.min(left, startOfChunk(sequence, index + 1) - source);
          let runs = pending[pending.length - 1];
          if (runs === undefined || runs.index !== index) {
            if (isFull()) await flush();
            const place = sequence.placeNow(index);
            runs = { index, place, isNew: false, source: [], target: [], length: [], bytes: 0 };
            pending.push(runs);
          }
          runs.source.push(inChunk);
          runs.target.push(target);
          runs.length.push(length);
          runs.bytes += length;
          pendingRuns++;
          source += length;
          target += length;
          left -= length;
        }
      }
      if (isFull()) await flush();
    }
    await flush();
  }

  /** Locates the chunks whose places are not known yet. */
  async #placeRuns(
    pending: readonly ChunkRuns[],
    signal: AbortSignal | undefined,
  ): Promise<readonly PlacedRuns[]> {
    const unplaced = pending.filter(({ place }) => place === undefined);
    const find = async (runs: ChunkRuns, call: AbortSignal | undefined): Promise<void> => {
      [runs.place] = await this.sequence.places(runs.index, runs.index + 1, call);
      runs.isNew = true;
    };
    const [single] = unplaced;
    if (single !== undefined && unplaced.length === 1) await find(single, signal);
    else if (single !== undefined) await runPooled(unplaced, AT_ONCE, find, signal);
    return pending.map((runs) => {
      if (!isPlaced(runs)) throw new RangeError(`chunk ${runs.index} has no place`);
      return runs;
    });
  }

  async #copyRuns(
    pending: readonly PlacedRuns[],
    out: Uint8Array,
    signal: AbortSignal | undefined,
    onDone: (bytes: number) => void,
  ): Promise<void> {
    const whole: PlacedRuns[] = [];
    const parts: PlacedRuns[] = [];
    for (const runs of pending) (this.#wantsBlocks(runs) ? parts : whole).push(runs);
    await this.#copyWhole(whole, out, signal, onDone);
    const copy = async (runs: PlacedRuns, call: AbortSignal | undefined): Promise<void> => {
      call?.throwIfAborted();
      await this.#copyParts(runs, out, call);
      onDone(runs.bytes);
    };
    if (parts.length > 1 && this.sequence.store.readIntoSync === undefined)
      await runPooled(parts, AT_ONCE, copy, signal);
    else for (const runs of parts) await copy(runs, signal);
  }

  #wantsBlocks(runs: PlacedRuns): boolean {
    const { place, bytes, isNew } = runs;
    if (bytes * 2 > place.nbytes || !this.#mayReadBlocks(place)) return false;
    if (this.sequence.store.getHead === undefined) return place.nbytes > WHOLE;
    // The first read of an object that must be confirmed costs an extra request, so reading more at once pays off.
    const isFirst = isNew && this.sequence.isConfirmed === true;
    return place.nbytes > (isFirst ? WHOLE_FIRST : WHOLE_REMOTE * countClusters(runs));
  }

  /** A digest covers the whole chunk, so parts are read only after it was verified. */
  #mayReadBlocks(place: PlacedChunk): boolean {
    return !this.#verify || place.checksum === "None" || this.#verified.has(place.index);
  }

  async #copyWhole(
    wanted: readonly PlacedRuns[],
    out: Uint8Array,
    signal: AbortSignal | undefined,
    onDone: (bytes: number) => void,
  ): Promise<void> {
    if (wanted.length === 0) return;
    const ofPlace = new Map(wanted.map((runs) => [runs.place, runs]));
    const target = (place: PlacedChunk): Uint8Array | undefined => {
      const runs = ofPlace.get(place);
      if (runs?.source.length !== 1 || runs.bytes !== place.nbytes) return undefined;
      const start = at(runs.target, 0);
      return out.subarray(start, start + place.nbytes);
    };
    async function* places(): AsyncGenerator<readonly PlacedChunk[]> {
      yield wanted.map((runs) => runs.place);
    }
    const nbytes = wanted.length * this.sequence.chunkBytes;
    const run = { verify: this.#verify, signal, chunks: wanted.length, nbytes, target };
    let next = 0;
    for await (const chunk of this.#decoder.decodeChunks(this.sequence.store, places(), run)) {
      if (this.#verify) this.#verified.add(chunk.place.index);
      const runs = wanted[next++];
      if (runs === undefined) break;
      if (target(chunk.place) === undefined) copyOut(runs, [0, runs.source.length], chunk.bytes, 0, out);
      onDone(runs.bytes);
    }
  }

  async #copyParts(runs: PlacedRuns, out: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const { store } = this.sequence;
    const head = await readHead(store, runs.place, signal);
    const { blocksize } = head.header;
    for (let first = 0; first < runs.source.length; ) {
      // Runs in the same or in neighbouring blocks are decoded together.
      const start = at(runs.source, first);
      let end = start + at(runs.length, first);
      let next = first + 1;
      while (
        next < runs.source.length &&
        Math.floor(at(runs.source, next) / blocksize) <= Math.floor((end - 1) / blocksize) + 1
      ) {
        end = at(runs.source, next) + at(runs.length, next);
        next++;
      }
      if (next === first + 1) {
        const target = at(runs.target, first);
        await readPart(store, head, start, out.subarray(target, target + end - start), signal);
      } else {
        const part = new Uint8Array(end - start);
        await readPart(store, head, start, part, signal);
        copyOut(runs, [first, next], part, start, out);
      }
      first = next;
    }
  }

  /** Fetches whole, checked chunks, and remembers those whose digest was correct. */
  async *fetch(
    places: Iterable<PlacedChunk>,
    signal?: AbortSignal,
    buffers?: Uint8Array[],
  ): AsyncGenerator<FetchedChunk> {
    const options = { verify: this.#verify, signal, buffers };
    for await (const chunk of fetchChunks(this.sequence.store, places, options)) {
      if (this.#verify) this.#verified.add(chunk.place.index);
      yield chunk;
    }
  }
}
