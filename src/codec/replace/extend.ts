/**
 * Extends a chunk: copies its whole blocks, and encodes only the data after them.
 *
 * Knows the container; must not know what is added, nor why.
 * @see FORMAT.md [FB]
 */
import { at } from "../../bytes/arrays.ts";
import { decodeRangeSync } from "../decode/decode.ts";
import { prepare } from "../decode/decode-kernel.ts";
import { encodeSettled, prepareEncode } from "../encode/encode.ts";
import { type EncodeSettings, settleEncode } from "../encode/encode-settings.ts";
import { HEADER_LENGTH, readBlockTable, readChunkHeader } from "../header.ts";
import type { ChunkHeader, EncodeOptions } from "../types.ts";

/**
 * The chunk's blocks may be this many times smaller than an encoder would make them; still smaller ones would
 * slow down readers.
 */
const SHORTER = 4;

/**
 * Returns the chunk with `added` after its data. Blocks keep the chunk's own filter and size.
 *
 * @param options for the encoded part; default: the chunk's own compressor, filter and typesize, level 5
 * @returns undefined if all data must be encoded again: the options name another compressor or filter, the
 * blocks are too small for this much data, or the added data do not compress
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK if the chunk is damaged, as far as it is read; UNSUPPORTED for
 * other versions of Blosc; BAD_ARGUMENT, LIMIT
 */
export async function extendChunk(
  chunk: Uint8Array,
  added: Uint8Array,
  options: EncodeOptions = {},
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const header = readChunkHeader(chunk);
  const { compressor, shuffle, typesize, blocksize, nbytes, split } = header;
  const wanted = { cname: compressor, shuffle, typesize, ...options };
  const asked = settleEncode(nbytes + added.length, wanted);
  if (nbytes === 0 || header.memcpyed || !isAlike(header, asked)) return undefined;
  await prepareEncode(wanted.cname);
  const count = Math.floor(nbytes / blocksize);
  const rest = await joinRest(chunk, header, count * blocksize, added);
  const nblocks = Math.ceil(rest.length / blocksize);
  return encodeSettled(rest, { ...asked, nbytes: rest.length, blocksize, nblocks, split }, (encoded) =>
    joinBlocks(
      [
        { chunk, header, count },
        { chunk: encoded, header: { ...header, nblocks, ctbytes: encoded.length }, count: nblocks },
      ],
      nbytes + added.length,
    ),
  );
}

/** True if the chunk's blocks fit the requested settings. */
function isAlike({ compressor, shuffle, typesize, blocksize }: ChunkHeader, asked: EncodeSettings): boolean {
  const { cname } = asked;
  return (
    !asked.stored &&
    (cname === "lz4hc" ? "lz4" : cname) === compressor &&
    shuffle === asked.shuffle &&
    typesize === asked.typesize &&
    blocksize % typesize === 0 &&
    blocksize * SHORTER >= asked.blocksize
  );
}

/** The data after the whole blocks: those of a shorter last block, then `added`. */
async function joinRest(
  chunk: Uint8Array,
  { nbytes, compressor }: ChunkHeader,
  from: number,
  added: Uint8Array,
): Promise<Uint8Array> {
  if (from === nbytes) return added;
  await prepare(compressor);
  const rest = new Uint8Array(nbytes - from + added.length);
  decodeRangeSync(chunk, from, nbytes - from, { out: rest });
  rest.set(added, nbytes - from);
  return rest;
}

/** The first `count` blocks of a chunk. */
interface Blocks {
  readonly chunk: Uint8Array;
  readonly header: ChunkHeader;
  readonly count: number;
}

/** A chunk of the blocks of all parts, with the header of the first and `nbytes` decoded bytes. */
function joinBlocks(parts: readonly Blocks[], nbytes: number): Uint8Array<ArrayBuffer> {
  const blocks = parts.flatMap(({ chunk, header, count }) => {
    const { starts, ends } = readBlockTable(chunk, header);
    return Array.from({ length: count }, (_, i) => chunk.subarray(at(starts, i), at(ends, i)));
  });
  let end = HEADER_LENGTH + 4 * blocks.length;
  const out = new Uint8Array(blocks.reduce((length, block) => length + block.length, end));
  const view = new DataView(out.buffer);
  out.set(parts[0]?.chunk.subarray(0, HEADER_LENGTH) ?? []);
  view.setUint32(4, nbytes, true);
  view.setUint32(12, out.length, true);
  for (const [i, block] of blocks.entries()) {
    view.setUint32(HEADER_LENGTH + 4 * i, end, true);
    out.set(block, end);
    end += block.length;
  }
  return out;
}
