/**
 * Decoded bytes of a chunk sequence: whole ranges, or the runs of a selection, reading only what they touch.
 *
 * A chunk with a digest is read whole and checked once, and remembered as verified; single blocks are read from
 * chunks without a digest, and from those verified before.
 */
import { decodeSync, isReady, prepare } from "../codec/index.ts";
import { isSuperchunkError } from "../errors.ts";
import { readHead, readPart } from "./block-read.ts";
import { type FetchedChunk, fetchChunks } from "./chunk-fetch.ts";
import { IndexSet } from "./index-set.ts";
import type { RunBatch } from "./selection.ts";
import type { ChunkSequence, PlacedChunk } from "./sequence.ts";
import type { LongOptions } from "./types.ts";

/** Decoded bytes that are collected before they are read together. */
const BATCH_BYTES = 16 << 20;
/** Chunks up to this size are read whole: asking twice costs more than decoding. */
const WHOLE = 16384;

/** The runs that fall into one chunk: from `source` in the chunk to `target` in the result, in bytes. */
interface ChunkRuns {
  readonly place: PlacedChunk;
  readonly source: number[];
  readonly target: number[];
  readonly length: number[];
  bytes: number;
}

export class SequenceReader {
  readonly sequence: ChunkSequence;
  readonly #verify: boolean;
  /** Chunks whose digest was found right. */
  readonly #verified = new IndexSet();

  constructor(sequence: ChunkSequence, verify: boolean) {
    this.sequence = sequence;
    this.#verify = verify;
  }

  /** Decoded bytes `[start, end)`, which the caller has checked against `nbytes`. */
  async read(start: number, end: number, options: LongOptions = {}): Promise<Uint8Array> {
    const out = new Uint8Array(end - start);
    const whole: RunBatch = {
      source: Float64Array.of(start),
      target: Float64Array.of(0),
      length: end - start,
      count: end > start ? 1 : 0,
    };
    await this.gather([whole], 1, out, options);
    return out;
  }

  /** Copies runs, given in items of `itemSize` bytes, into `out`. */
  async gather(
    batches: Iterable<RunBatch>,
    itemSize: number,
    out: Uint8Array,
    options: LongOptions = {},
  ): Promise<void> {
    const { chunkBytes } = this.sequence;
    const pending: ChunkRuns[] = [];
    let pendingBytes = 0;
    let done = 0;
    const flush = async (): Promise<void> => {
      await this.#copyRuns(pending, out, options);
      pending.length = 0;
      done += pendingBytes;
      pendingBytes = 0;
      options.onProgress?.({ done, total: out.length });
    };
    for (const batch of batches) {
      for (let i = 0; i < batch.count; i++) {
        let source = (batch.source[i] ?? 0) * itemSize;
        let target = (batch.target[i] ?? 0) * itemSize;
        let left = batch.length * itemSize;
        while (left > 0) {
          const index = Math.floor(source / chunkBytes);
          const inChunk = source - index * chunkBytes;
          const length = Math.min(left, chunkBytes - inChunk);
          let runs = pending[pending.length - 1];
          if (runs === undefined || runs.place.index !== index) {
            if (pendingBytes >= BATCH_BYTES) await flush();
            runs = {
              place: await this.#place(index, options.signal),
              source: [],
              target: [],
              length: [],
              bytes: 0,
            };
            pending.push(runs);
          }
          runs.source.push(inChunk);
          runs.target.push(target);
          runs.length.push(length);
          runs.bytes += length;
          pendingBytes += length;
          source += length;
          target += length;
          left -= length;
        }
      }
      if (pendingBytes >= BATCH_BYTES) await flush();
    }
    await flush();
  }

  async #place(index: number, signal: AbortSignal | undefined): Promise<PlacedChunk> {
    const known = this.sequence.placeNow(index);
    if (known !== undefined) return known;
    const [place] = await this.sequence.places(index, index + 1, signal);
    if (place === undefined) throw new RangeError(`chunk ${index} has no place`);
    return place;
  }

  async #copyRuns(pending: readonly ChunkRuns[], out: Uint8Array, options: LongOptions): Promise<void> {
    const whole: ChunkRuns[] = [];
    const parts: ChunkRuns[] = [];
    for (const runs of pending) (this.#wantsBlocks(runs) ? parts : whole).push(runs);
    await this.#copyWhole(whole, out, options);
    for (const runs of parts) await this.#copyParts(runs, out, options.signal);
  }

  #wantsBlocks({ place, bytes }: ChunkRuns): boolean {
    if (place.nbytes <= WHOLE || bytes * 2 > place.nbytes) return false;
    return !this.#verify || place.checksum === "None" || this.#verified.has(place.index);
  }

  async #copyWhole(wanted: readonly ChunkRuns[], out: Uint8Array, options: LongOptions): Promise<void> {
    const places = wanted.map((runs) => runs.place);
    let scratch = new Uint8Array(0);
    let next = 0;
    for await (const chunk of this.fetch(places, options.signal)) {
      const runs = wanted[next++];
      if (runs === undefined) break;
      const { nbytes } = chunk.header;
      if (runs.source.length === 1 && runs.bytes === nbytes) {
        const target = runs.target[0] ?? 0;
        await this.decode(chunk, out.subarray(target, target + nbytes));
        continue;
      }
      if (scratch.length < nbytes) scratch = new Uint8Array(nbytes);
      const decoded = scratch.subarray(0, nbytes);
      await this.decode(chunk, decoded);
      copyOut(runs, 0, runs.source.length, decoded, 0, out);
    }
  }

  async #copyParts(runs: ChunkRuns, out: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const { store } = this.sequence;
    const head = await readHead(store, runs.place, signal);
    const { blocksize } = head.header;
    for (let first = 0; first < runs.source.length; ) {
      // Runs in the same or in neighbouring blocks are decoded together.
      const start = runs.source[first] ?? 0;
      let end = start + (runs.length[first] ?? 0);
      let next = first + 1;
      while (
        next < runs.source.length &&
        Math.floor((runs.source[next] ?? 0) / blocksize) <= Math.floor((end - 1) / blocksize) + 1
      ) {
        end = (runs.source[next] ?? 0) + (runs.length[next] ?? 0);
        next++;
      }
      if (next === first + 1) {
        const target = runs.target[first] ?? 0;
        await readPart(
          store,
          runs.place,
          head,
          start,
          end,
          out.subarray(target, target + end - start),
          signal,
        );
      } else {
        const part = new Uint8Array(end - start);
        await readPart(store, runs.place, head, start, end, part, signal);
        copyOut(runs, first, next, part, start, out);
      }
      first = next;
    }
  }

  /** Fetches chunks whole, checked; remembers those whose digest was right. */
  async *fetch(places: Iterable<PlacedChunk>, signal?: AbortSignal): AsyncGenerator<FetchedChunk> {
    for await (const chunk of fetchChunks(this.sequence.store, places, { verify: this.#verify, signal })) {
      if (this.#verify) this.#verified.add(chunk.place.index);
      yield chunk;
    }
  }

  /** Decodes a fetched chunk into `out`, which has its size. */
  async decode(chunk: FetchedChunk, out: Uint8Array): Promise<void> {
    const { header, place } = chunk;
    if (header.nbytes === 0) return;
    if (!isReady(header.compressor)) await prepare(header.compressor);
    try {
      decodeSync(chunk.bytes, { out });
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      throw error.at({
        path: this.sequence.store.describe(place.key),
        chunk: place.index,
        offset: place.offset,
      });
    }
  }
}

function copyOut(
  runs: ChunkRuns,
  first: number,
  end: number,
  from: Uint8Array,
  base: number,
  out: Uint8Array,
): void {
  for (let i = first; i < end; i++) {
    const source = (runs.source[i] ?? 0) - base;
    const length = runs.length[i] ?? 0;
    const target = runs.target[i] ?? 0;
    if (length <= 16) for (let b = 0; b < length; b++) out[target + b] = from[source + b] ?? 0;
    else out.set(from.subarray(source, source + length), target);
  }
}
