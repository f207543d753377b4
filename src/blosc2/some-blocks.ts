/**
 * Reads some blocks of a chunk without the others: first its header and block starts, then the bytes of these blocks, adjacent ones
 * together. Knows frames; codec2 knows the content of blocks.
 */
import { at, joinBytes } from "../bytes/arrays.ts";
import { HEADER_LENGTH, readBlockTable } from "../codec/header.ts";
import { type Blosc2Header, FILTER, HEADER2_LENGTH } from "../codec2/fields.ts";
import { readBlosc2Header, stepsOf } from "../codec2/header.ts";
import { blocksAsBlosc1 } from "../codec2/restream.ts";
import { resultOr, SuperchunkError } from "../errors.ts";
import { groupRanges } from "../store/key.ts";
import { keepMade, runPooled } from "../store/pool.ts";
import type { FilePlace, ReadableStore } from "../store/types.ts";
import { concurrencyOf, leastForParts, MAX_GAP, MAX_REQUEST } from "../zarr/read/leaf.ts";
import type { Frame, FrameChunk } from "./frame.ts";

type StoredChunk = Extract<FrameChunk, { readonly key: string }>;

/** What is known of a chunk. */
interface Known {
  readonly places: BlockPlaces | undefined;
  /** Blocks already read, as Blosc1 chunks; undefined for a block of zeros. */
  readonly blocks: Map<number, Promise<Uint8Array | undefined>>;
}

/** Number of chunks whose parts are kept. */
const KEPT = 4;
/** If more than one block in this many was read, the whole chunk is read, because a reader is going through all of it. */
const FEW = 4;

export class SomeBlocks {
  readonly #store: ReadableStore;
  readonly #frame: Frame;
  readonly #known = new Map<number, Promise<Known>>();

  constructor(store: ReadableStore, frame: Frame) {
    this.#store = store;
    this.#frame = frame;
  }

  /**
   * Returns blocks of a chunk as Blosc1 chunks. Returns undefined if the chunk should be read whole: if it is small, many of its blocks
   * were requested, or it is damaged, so that only one reader reports the error and its place.
   */
  async read(
    index: number,
    slots: readonly number[],
  ): Promise<readonly (Uint8Array | undefined)[] | undefined> {
    return resultOr(undefined, "damage", () => this.#read(index, slots));
  }

  async #read(
    index: number,
    slots: readonly number[],
  ): Promise<readonly (Uint8Array | undefined)[] | undefined> {
    const place = this.#frame.chunks.at(index);
    if (place === undefined || !("key" in place)) return undefined;
    const { offset, end = Number.POSITIVE_INFINITY } = place;
    if (end - offset < leastForParts(this.#store)) return undefined;
    const { places, blocks } = await this.#open(index, place);
    const missing = slots.filter((slot) => !blocks.has(slot));
    if (places === undefined || (blocks.size + missing.length) * FEW > places.header.nblocks)
      return undefined;
    if (missing.length > 0) {
      const made = this.#make(place, places, missing);
      for (const [i, slot] of missing.entries()) {
        const block = made.then((all) => all[i]);
        blocks.set(slot, block);
        block.catch(() => blocks.delete(slot));
      }
    }
    return Promise.all(slots.map((slot) => blocks.get(slot)));
  }

  /** Where a block is in its file; undefined if it cannot be read alone. */
  async placeOf(index: number, slot: number): Promise<Omit<FilePlace, "key"> | undefined> {
    const place = this.#frame.chunks.at(index) as StoredChunk;
    const { starts, ends } = (await this.#open(index, place)).places ?? {};
    if (starts === undefined || ends === undefined) return undefined;
    return { offset: place.offset + at(starts, slot), ctbytes: at(ends, slot) - at(starts, slot) };
  }

  #open(index: number, place: StoredChunk): Promise<Known> {
    const open = async (): Promise<Known> => ({ places: await this.#places(place), blocks: new Map() });
    return keepMade(this.#known, index, open, KEPT);
  }

  /** Undefined if the blocks are not as the frame says. */
  async #places({
    key,
    offset,
    end = Number.MAX_SAFE_INTEGER,
  }: StoredChunk): Promise<BlockPlaces | undefined> {
    const { chunkBytes, blockBytes } = this.#frame;
    if (chunkBytes % blockBytes !== 0) return undefined;
    const length = Math.min(end - offset, head2Length(chunkBytes / blockBytes));
    const head = await this.#store.getRange(key, { offset, length });
    if (head === undefined) return undefined;
    const places = placesOfBlocks(head, end - offset);
    const isAlike = places?.header.nbytes === chunkBytes && places.header.blocksize === blockBytes;
    return isAlike ? places : undefined;
  }

  async #make(
    { key, offset }: StoredChunk,
    places: BlockPlaces,
    slots: readonly number[],
  ): Promise<readonly (Uint8Array | undefined)[]> {
    const ranges = slots.map((slot, i) => {
      const start = at(places.starts, slot);
      return { i, offset: offset + start, length: at(places.ends, slot) - start };
    });
    const found: Uint8Array[] = [];
    await runPooled(groupRanges(ranges, MAX_GAP, MAX_REQUEST), concurrencyOf({}), async (group) => {
      const from = at(group, 0).offset;
      const until = Math.max(...group.map((each) => each.offset + each.length));
      const bytes = await this.#store.getRange(key, { offset: from, length: until - from });
      if (bytes?.length !== until - from) {
        const reached = from + (bytes?.length ?? 0);
        throw new SuperchunkError(
          "TRUNCATED",
          `the chunk needs the file's bytes up to ${until}, but they end at ${reached}; look for a complete copy`,
          { path: this.#store.describe(key), expected: until, found: reached },
        );
      }
      for (const { i, offset: at, length } of group) found[i] = bytes.subarray(at - from, at - from + length);
    });
    const made = await blocksAsBlosc1(chunkOf(places, found));
    return made.map((block) => block && joinBytes(block.pieces));
  }
}

// Finds the blocks of a chunk, and makes a chunk of some of them, for readers that need only these. Must not know what blocks hold.

/** The beginning of a chunk, and the start and end of each of its blocks, in bytes from the chunk's start. */
interface BlockPlaces {
  readonly head: Uint8Array;
  readonly header: Blosc2Header;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
}

/** Length of the header and the block starts, in bytes. */
export function head2Length(nblocks: number): number {
  return HEADER2_LENGTH + 4 * nblocks;
}

/**
 * Finds the blocks of a chunk from its header and their starts. Returns undefined if a block cannot be read alone: in chunks of one
 * value, with a dictionary, with blocks of variable length, or with the delta filter, which needs the first block too.
 *
 * @param head at least {@link head2Length} bytes of the chunk, or all of it
 * @param available bytes available of the whole chunk
 * @throws TRUNCATED, BAD_FIELD, UNSUPPORTED
 */
export function placesOfBlocks(head: Uint8Array, available: number): BlockPlaces | undefined {
  const header = readBlosc2Header(head, available);
  const { special, hasDictionary, isVariable, memcpyed, nblocks, blocksize, ctbytes } = header;
  const isDelta = stepsOf(header).some(({ id }) => id === FILTER.delta);
  if (special !== undefined || hasDictionary || isVariable || isDelta) return undefined;
  // The table is as in Blosc1, after a header that has 16 more bytes.
  if (!memcpyed) return { head, header, ...readBlockTable(head.subarray(HEADER_LENGTH), header) };
  const starts = Uint32Array.from({ length: nblocks }, (_, i) => HEADER2_LENGTH + i * blocksize);
  return { head, header, starts, ends: starts.map((start) => Math.min(start + blocksize, ctbytes)) };
}

/** A chunk of the given blocks of another chunk, all of full length: its header and their bytes. */
export function chunkOf({ head, header }: BlockPlaces, blocks: readonly Uint8Array[]): Uint8Array {
  const starts = header.memcpyed ? 0 : 4 * blocks.length;
  const chunk = joinBytes([head.subarray(0, HEADER2_LENGTH), new Uint8Array(starts), ...blocks]);
  const view = new DataView(chunk.buffer);
  view.setInt32(4, blocks.length * header.blocksize, true);
  view.setInt32(12, chunk.length, true);
  let next = HEADER2_LENGTH + starts;
  for (let i = 0; 4 * i < starts; i++) {
    view.setInt32(HEADER2_LENGTH + 4 * i, next, true);
    next += at(blocks, i).length;
  }
  return chunk;
}
