/**
 * Several arrays read as one: their rows one after the other.
 *
 * Knows which part holds which chunk and byte; must not know formats, or what becomes of the values.
 */
import type {
  ChunkInfo,
  ChunkPlace,
  ChunkSummary,
  EncodedChunk,
  ListChunksOptions,
  LongOptions,
  OpenOptions,
} from "../../archive/kinds/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { SourceArchive } from "./source-array.ts";

/** Arrays of the same store as one. Chunks and bytes count through all of them. */
export class JoinedSource implements SourceArchive {
  readonly kind = "array";
  readonly store: ReadableStore;
  /** Of the first: messages name what they are about themselves. */
  readonly path: string;
  readonly nbytes: number;
  readonly nchunks: number;
  readonly chunkBytes: number;
  readonly joinedFrom: readonly SourceArchive[];

  /** `parts` have values each, and `chunkBytes` are those of a whole chunk in the grid of all. */
  constructor(first: SourceArchive, parts: readonly SourceArchive[], chunkBytes: number) {
    this.store = first.store;
    this.path = first.path;
    this.chunkBytes = chunkBytes;
    this.joinedFrom = parts;
    this.nbytes = parts.reduce((sum, { nbytes }) => sum + nbytes, 0);
    this.nchunks = parts.reduce((sum, { nchunks }) => sum + nchunks, 0);
  }

  /** That of the first: the others say themselves how their chunks are compressed. */
  async summary(options: OpenOptions = {}): Promise<ChunkSummary> {
    const summaries = await Promise.all(this.joinedFrom.slice(0, 1).map((part) => part.summary(options)));
    return { ...summaries[0], nchunks: this.nchunks };
  }

  /** The parts may have chunks of other lengths. */
  chunkBytesAt(index: number): number {
    for (const { part } of overlaps(this.joinedFrom, index, index + 1, ({ nchunks }) => nchunks))
      return part.chunkBytes;
    return this.chunkBytes;
  }

  async readBytes(start: number, end: number, options: LongOptions = {}): Promise<Uint8Array> {
    const whole = new Uint8Array(end - start);
    for (const { part, from, first, last } of overlaps(this.joinedFrom, start, end, ({ nbytes }) => nbytes))
      whole.set(await part.readBytes(first, last, options), from + first - start);
    return whole;
  }

  async *encodedChunks(
    first = 0,
    end: number = this.nchunks,
    options: LongOptions = {},
  ): AsyncGenerator<EncodedChunk> {
    for (const each of overlaps(this.joinedFrom, first, end, ({ nchunks }) => nchunks))
      yield* each.part.encodedChunks(each.first, each.last, options);
  }

  async chunkPlaces(
    first = 0,
    end: number = this.nchunks,
    options: OpenOptions = {},
  ): Promise<readonly ChunkPlace[]> {
    const places: ChunkPlace[] = [];
    for (const each of overlaps(this.joinedFrom, first, end, ({ nchunks }) => nchunks))
      for (const place of await each.part.chunkPlaces(each.first, each.last, options))
        places.push({ ...place, index: place.index + each.from });
    return places;
  }

  async *listChunks(options: ListChunksOptions = {}): AsyncGenerator<ChunkInfo> {
    const { first = 0, end = this.nchunks } = options;
    for (const each of overlaps(this.joinedFrom, first, end, ({ nchunks }) => nchunks)) {
      const own = { ...options, first: each.first, end: each.last };
      for await (const info of each.part.listChunks(own)) yield { ...info, index: info.index + each.from };
    }
  }
}

/** A part that a range touches: where the part begins in all, and the range within it. */
interface Overlap {
  readonly part: SourceArchive;
  readonly from: number;
  readonly first: number;
  readonly last: number;
}

function* overlaps(
  parts: readonly SourceArchive[],
  start: number,
  end: number,
  lengthOf: (part: SourceArchive) => number,
): Generator<Overlap> {
  let from = 0;
  for (const part of parts) {
    const length = lengthOf(part);
    const first = Math.max(0, start - from);
    const last = Math.min(length, end - from);
    if (first < last) yield { part, from, first, last };
    from += length;
  }
}
