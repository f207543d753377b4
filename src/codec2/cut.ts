/** Finds the blocks of a chunk, and makes a chunk of some of them, for readers that need only these. Must not know what blocks hold. */
import { at, joinBytes } from "../bytes/arrays.ts";
import { HEADER_LENGTH, readBlockTable } from "../codec/header.ts";
import { type Blosc2Header, FILTER, HEADER2_LENGTH } from "./fields.ts";
import { readBlosc2Header, stepsOf } from "./header.ts";

/** The beginning of a chunk, and the start and end of each of its blocks, in bytes from the chunk's start. */
export interface BlockPlaces {
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
