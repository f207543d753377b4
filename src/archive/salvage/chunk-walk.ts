/**
 * Walks the chunks of a damaged file in the order in which they lie, and counts the lost ones between them. Knows Blosc headers and
 * digests; must not know file headers or offset tables.
 */
import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import type { ChecksumName } from "../../format/types.ts";
import { pauseIfDue } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { LongOptions } from "../kinds/types.ts";
import { skipZeros } from "../places/blpk-file.ts";
import type { PlacedChunk } from "../places/sequence.ts";
import { findFlaw, headerIn, readHeaderAt } from "./chunk-check.ts";

/** Bytes searched at a time. */
const WINDOW = 1 << 20;
/** Bytes by which a stored chunk may be longer than its values. [FB-15] */
const OVERHEAD = 16;

/** A file in which chunks are looked for. */
export interface ProbedFile {
  readonly key: string;
  readonly path: string;
  readonly size: number;
}

/** A chunk's place in the form that archive readers use. */
export function placedChunk(
  { key, size, checksum }: Pick<ProbedFile, "key" | "size"> & { readonly checksum: ChecksumName },
  offset: number,
  index: number,
  nbytes: number,
): PlacedChunk {
  const available = size - offset;
  // Written out, because a copy with more members takes twice the memory, and a file may have millions of chunks.
  return {
    key,
    offset,
    index,
    nbytes,
    ctbytes: undefined,
    available,
    endsObject: true,
    checksum,
    prologue: 0,
  };
}

/** Bytes from `from` to `to`, in which no chunk can be read. */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** The chunks of a walk, by their offsets, and the gaps between them. */
export type Walked = readonly (number | Gap)[];

/** What intact chunks of a file have in common: their typesize, the decoded bytes of a full one, and the fewest stored bytes. */
interface Model {
  readonly typesize: number;
  readonly nbytes: number;
  readonly least: number;
}

interface WalkOptions {
  readonly count: number | undefined;
  readonly most: number | undefined;
  readonly scan: boolean;
}

/** Looks for chunks in one file. */
export class ChunkProbe {
  /** The checksum of the chunks, as far as it is known. */
  checksum: ChecksumName = "None";
  readonly #store: ReadableStore;
  readonly #file: ProbedFile;
  readonly #maxNbytes: number;
  readonly #long: LongOptions;
  /** The byte up to which the search is reported. */
  #reported = 0;

  constructor(store: ReadableStore, file: ProbedFile, maxNbytes: number, long: LongOptions) {
    this.#store = store;
    this.#file = file;
    this.#maxNbytes = maxNbytes;
    this.#long = long;
  }

  get digestLength(): number {
    return DIGEST_LENGTHS[this.checksum];
  }

  /** Bytes of the file, as far as it has them. Throws if the search is aborted, which may take hours in a long file. */
  async read(offset: number, length: number): Promise<Uint8Array> {
    await pauseIfDue();
    this.#long.signal?.throwIfAborted();
    const { key, size } = this.#file;
    if (offset >= this.#reported + WINDOW) {
      this.#reported = offset;
      this.#long.onProgress?.({ done: offset, total: size, unit: "bytes" });
    }
    const range = { offset, length: Math.max(0, Math.min(length, size - offset)) };
    return range.length === 0
      ? new Uint8Array(0)
      : ((await this.#store.getRange(key, range)) ?? new Uint8Array(0));
  }

  /** The header at a byte, if it may be that of a chunk. */
  async headerAt(offset: number): Promise<ChunkHeader | undefined> {
    const { key, size } = this.#file;
    const header = await readHeaderAt(this.#store, key, offset, size);
    return header !== undefined && header.nbytes <= this.#maxNbytes ? header : undefined;
  }

  /** True if an intact chunk starts at a byte. */
  async isChunk(offset: number): Promise<boolean> {
    const header = await this.headerAt(offset);
    return header !== undefined && (await this.#isWhole(offset, header));
  }

  async #isWhole(offset: number, { nbytes }: ChunkHeader): Promise<boolean> {
    const file = { ...this.#file, checksum: this.checksum };
    return (await findFlaw(this.#store, placedChunk(file, offset, 0, nbytes))) === undefined;
  }

  /** Where the next chunk after the one at `offset` starts, in a file whose chunks are in order. */
  async endOf(offset: number): Promise<number | undefined> {
    const header = await this.headerAt(offset);
    return header && this.skipZeros(offset + header.ctbytes + this.digestLength);
  }

  /** The next byte from `from` on, and before `to`, at which an intact chunk starts. */
  async search(from: number, to: number = this.#file.size): Promise<number | undefined> {
    const { size } = this.#file;
    for (let start = from; start < to; start += WINDOW) {
      const bytes = await this.read(start, WINDOW + HEADER_LENGTH);
      for (let i = bytes.indexOf(2); i >= 0 && i < WINDOW && start + i < to; i = bytes.indexOf(2, i + 1)) {
        if (i + HEADER_LENGTH > bytes.length) break;
        const header = headerIn(bytes.subarray(i, i + HEADER_LENGTH), size - start - i);
        // An empty chunk proves nothing: it is only 16 bytes, which can occur by chance.
        if (header === undefined || header.nbytes === 0 || header.nbytes > this.#maxNbytes) continue;
        if (await this.#isWhole(start + i, header)) return start + i;
      }
    }
    return undefined;
  }

  skipZeros(from: number): Promise<number> {
    return skipZeros((at) => this.read(at, 65536), from, this.#file.size);
  }

  /**
   * Walks from chunk to chunk, to `most` of them. Beyond `count` chunks, only those count that are intact. What is not a chunk becomes a
   * gap; a walk that may not search ends there.
   */
  async walk(
    from: number,
    { count = Number.POSITIVE_INFINITY, most = Number.POSITIVE_INFINITY, scan }: WalkOptions,
  ): Promise<Walked> {
    const { size } = this.#file;
    const walked: (number | Gap)[] = [];
    for (let at: number | undefined = from, found = 0; at !== undefined && found < most; ) {
      const start: number = await this.skipZeros(at);
      if (start >= size) break;
      const end = await this.#chunkEnd(start, found >= count);
      if (end !== undefined) {
        walked.push(start);
        found++;
        at = end;
        continue;
      }
      at = scan ? await this.search(start + 1) : undefined;
      walked.push({ from: start, to: at ?? size });
    }
    return walked;
  }

  /** Where the chunk at a byte ends, if there is one. A damaged chunk's length is right if a chunk, or the end of the file, follows. */
  async #chunkEnd(start: number, onlyWhole: boolean): Promise<number | undefined> {
    const header = await this.headerAt(start);
    if (header === undefined) return undefined;
    const end = start + header.ctbytes + this.digestLength;
    if (!onlyWhole) {
      const next = await this.skipZeros(end);
      if (next === this.#file.size || (await this.headerAt(next)) !== undefined) return end;
    }
    return (await this.#isWhole(start, header)) ? end : undefined;
  }

  /** What the intact chunks of a walk have in common. The last one may be shorter. */
  async modelOf(walked: Walked): Promise<Model | undefined> {
    const offsets = walked.filter((item) => typeof item === "number");
    const full = offsets.length > 1 ? offsets.slice(0, -1) : offsets;
    let headers = await this.#headersOf(full);
    // If the headers differ, some may be damaged.
    if (new Set(headers.map(({ nbytes }) => nbytes)).size > 1) {
      const whole: number[] = [];
      for (const offset of full) if (await this.isChunk(offset)) whole.push(offset);
      if (whole.length > 0) headers = await this.#headersOf(whole);
    }
    const [first] = headers;
    if (first === undefined) return undefined;
    const nbytes = headers.reduce((most, header) => Math.max(most, header.nbytes), 0);
    const least = headers.reduce((fewest, { ctbytes }) => Math.min(fewest, ctbytes), first.ctbytes);
    return { typesize: first.typesize, nbytes, least: least + this.digestLength };
  }

  async #headersOf(offsets: readonly number[]): Promise<ChunkHeader[]> {
    const headers: ChunkHeader[] = [];
    for (const offset of offsets) {
      const header = await this.headerAt(offset);
      if (header !== undefined) headers.push(header);
    }
    return headers;
  }

  /** The damaged headers in a gap: their bytes are those of a header, but for one field. */
  async #likenessesIn({ from, to }: Gap, { typesize, nbytes }: Model): Promise<number[]> {
    const bytes = await this.read(from, Math.min(to - from, WINDOW));
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const found: number[] = [];
    for (let i = 0; i + HEADER_LENGTH <= bytes.length; i++) {
      const [decoded, block, stored] = [4, 8, 12].map((at) => view.getUint32(i + at, true)) as [
        number,
        number,
        number,
      ];
      const fits = [
        bytes[i] === 2,
        bytes[i + 1] === 1,
        bytes[i + 3] === typesize,
        decoded > 0 && decoded <= nbytes,
        block > 0 && block <= nbytes,
        stored > HEADER_LENGTH && stored <= Math.min(nbytes + OVERHEAD, this.#file.size - from - i),
      ];
      if (fits.filter(Boolean).length < fits.length - 1) continue;
      found.push(from + i);
      i += HEADER_LENGTH - 1;
    }
    return found;
  }

  /**
   * The number of chunks that a gap has room for, if there is only one such number. `isStart`: a chunk should start where the gap does.
   */
  async #countIn(gap: Gap, model: Model | undefined, isStart: boolean): Promise<number | undefined> {
    if (model === undefined) return isStart ? undefined : 0;
    const { from, to } = gap;
    const stated = new DataView((await this.read(from, HEADER_LENGTH)).slice().buffer);
    if (stated.byteLength === HEADER_LENGTH && stated.getUint32(12, true) + this.digestLength === to - from)
      return 1;
    const starts = await this.#likenessesIn(gap, model);
    const count = starts.length + (isStart && starts[0] !== from ? 1 : 0);
    const length = to - (isStart ? from : (starts[0] ?? from));
    const isRoom = count === 0 || length <= count * (model.nbytes + OVERHEAD + this.digestLength);
    return isRoom && length < (count + 1) * model.least ? count : undefined;
  }

  /**
   * For each gap, the number of lost chunks; undefined if it is not certain. `total` is the number of all chunks, as far as known; `isBegun`
   * says that nothing but chunks lies where the walk started.
   */
  async countGaps(
    walked: Walked,
    model: Model | undefined,
    { total, isBegun }: { readonly total: number | undefined; readonly isBegun: boolean },
  ): Promise<ReadonlyMap<Gap, number | undefined>> {
    const counts = new Map<Gap, number | undefined>();
    const open: Gap[] = [];
    let missing = total ?? Number.NaN;
    for (const item of walked)
      if (typeof item === "number") missing--;
      else if (item.to < this.#file.size) {
        const count = await this.#countIn(item, model, item !== walked[0] || isBegun);
        counts.set(item, count);
        missing -= count ?? 0;
        if (count === undefined) open.push(item);
      } else {
        const ends = model === undefined ? [] : await this.#likenessesIn(item, model);
        missing -= ends.length;
        // If nothing counts the chunks, whatever follows them was one.
        counts.set(item, ends.length + (total === undefined && ends[0] !== item.from ? 1 : 0));
      }
    const least = open[0] === walked[0] && !isBegun ? 0 : open.length;
    if (missing >= least && (open.length === 1 || open.length === missing))
      for (const gap of open) counts.set(gap, missing / open.length);
    return counts;
  }
}
