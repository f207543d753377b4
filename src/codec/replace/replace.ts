/**
 * Replaces some of a chunk's data: only the blocks that hold them are encoded anew, and of a block in streams only the
 * streams; all other compressed bytes are copied.
 *
 * Knows which blocks are touched; blocks are rewritten in replace-block.ts.
 * @see FORMAT.md [FB]
 */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { type BlockTable, checkExpansion, readBlockTable } from "../decode/block-table.ts";
import { decodeSync, readChunkHeader } from "../decode/decode.ts";
import { giveBackKernel, takeKernel } from "../decode/decode-kernel.ts";
import { encodeInto, encodeSync, placeFor } from "../encode/encode.ts";
import { withEncodeKernel } from "../encode/encode-kernel.ts";
import { type EncodeSettings, settleEncode } from "../encode/encode-settings.ts";
import { blockLength, HEADER_LENGTH, headLength } from "../header.ts";
import type { ByteEdit, ChunkHeader, EncodeOptions } from "../types.ts";
import { BlockRewriter, type Piece, putPiece } from "./replace-block.ts";

/** A chunk of stored data is encoded anew where one byte of so many is replaced: it may compress now. */
const STORED_SHARE = 4;

/**
 * The chunk with some of its decoded bytes replaced, in the order of `edits`. Blocks keep the chunk's own filter and size;
 * where they cannot (another compressor is asked for, or the chunk would not be smaller than its data) it is encoded anew.
 *
 * Needs what encoding and decoding with the compressor need: {@link prepareEncode}, {@link prepare}.
 *
 * @param options for what is encoded anew; default: the chunk's own compressor, filter and typesize, level 5
 * @param out where the chunk goes; 16 bytes more than the data are always enough; must not overlap `chunk`. A new array
 * where absent
 * @returns the beginning of `out`
 * @throws BAD_ARGUMENT (bytes that the chunk does not have, an option out of its range), LIMIT (`out` too short), TRUNCATED,
 * BAD_FIELD, BAD_CHUNK where what must be decoded is damaged, UNSUPPORTED
 */
export function replaceBytes(
  chunk: Uint8Array,
  edits: readonly ByteEdit[],
  options: EncodeOptions = {},
  out?: Uint8Array,
): Uint8Array {
  const header = readChunkHeader(chunk);
  const pieces = edits.map((edit) => checkEdit(edit, header));
  const { compressor, shuffle, typesize, nbytes } = header;
  const wanted = { cname: compressor, shuffle, typesize, ...options };
  const settings = settleEncode(nbytes, wanted);
  return (
    (header.memcpyed
      ? replaceStored(chunk, header, pieces, settings, out)
      : replaceEncoded(chunk, header, pieces, settings, out)) ?? replaceAll(chunk, pieces, wanted, out)
  );
}

function replaceAll(
  chunk: Uint8Array,
  pieces: readonly Piece[],
  options: EncodeOptions,
  out: Uint8Array | undefined,
): Uint8Array {
  const data = decodeSync(chunk);
  for (const piece of pieces) putPiece(piece, data, 0);
  return out === undefined ? encodeSync(data, options) : encodeInto(data, out, options);
}

/** Stored data are changed where they lie, unless they may compress now. */
function replaceStored(
  chunk: Uint8Array,
  { nbytes, ctbytes }: ChunkHeader,
  pieces: readonly Piece[],
  settings: EncodeSettings,
  out: Uint8Array | undefined,
): Uint8Array | undefined {
  const changed = pieces.reduce((sum, { length }) => sum + length, 0);
  if (!settings.stored && changed * STORED_SHARE >= nbytes) return undefined;
  const place = out === undefined ? new Uint8Array(ctbytes) : placeFor(ctbytes, out);
  place.set(chunk.subarray(0, ctbytes));
  for (const piece of pieces) putPiece(piece, place, HEADER_LENGTH);
  return place;
}

/** Copies the blocks that no piece touches, and rewrites the others; undefined where this does not do. */
function replaceEncoded(
  chunk: Uint8Array,
  header: ChunkHeader,
  pieces: readonly Piece[],
  asked: EncodeSettings,
  given: Uint8Array | undefined,
): Uint8Array | undefined {
  const { compressor, nblocks, nbytes } = header;
  const cname = asked.cname === "lz4hc" ? "lz4" : asked.cname;
  if (asked.stored || cname !== compressor) return undefined;
  // The blocks of one chunk are filtered and split in the same way.
  const { shuffle, typesize, blocksize, split } = header;
  const settings: EncodeSettings = { ...asked, shuffle, typesize, blocksize, nblocks, split };
  const table = readBlockTable(chunk, header);
  const byBlock = cutPieces(pieces, blocksize);
  const touched = [...byBlock.keys()];
  for (const block of touched) checkExpansion(header, table, block, block + 1);
  const out = given ?? new Uint8Array(roomFor(header, touched));
  const end = Math.min(out.length, HEADER_LENGTH + nbytes);
  const first = headLength(header);
  if (first > end) return undefined;
  out.set(chunk.subarray(0, HEADER_LENGTH));
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength);
  const kernel = takeKernel();
  try {
    return withEncodeKernel((encoder) => {
      const longest = touched.reduce((most, block) => Math.max(most, blockLength(header, block)), 0);
      const rewriter = new BlockRewriter(chunk, header, table, settings, kernel, encoder, longest);
      let at = first;
      for (let block = 0; block < nblocks; block++) {
        view.setUint32(HEADER_LENGTH + 4 * block, at, true);
        const inBlock = byBlock.get(block);
        const next =
          inBlock === undefined
            ? copyBlock(chunk, table, block, out, at, end)
            : rewriter.rewrite(block, blockLength(header, block), inBlock, out, at, end);
        if (next === undefined) return undefined;
        at = next;
      }
      // As the encoder has it: what would be as long as the stored data is stored.
      if (at >= HEADER_LENGTH + nbytes) return undefined;
      view.setUint32(12, at, true);
      return out.subarray(0, at);
    });
  } finally {
    giveBackKernel(kernel);
  }
}

/**
 * Bytes that the new chunk needs at most: those of the old one, and each block that is rewritten as it is, in streams. Told
 * by what the chunk has, and not by its header: of the blocks it must be known that their bytes can stand for them.
 */
function roomFor(header: ChunkHeader, touched: readonly number[]): number {
  const { ctbytes, nbytes, typesize } = header;
  const most = touched.reduce((sum, block) => sum + blockLength(header, block) + 4 * typesize, ctbytes);
  return Math.min(most, HEADER_LENGTH + nbytes);
}

/** Where the chunk goes on behind the block; undefined where it does not fit. */
function copyBlock(
  chunk: Uint8Array,
  { starts, ends }: BlockTable,
  block: number,
  out: Uint8Array,
  target: number,
  end: number,
): number | undefined {
  const bytes = chunk.subarray(at(starts, block), at(ends, block));
  if (target + bytes.length > end) return undefined;
  out.set(bytes, target);
  return target + bytes.length;
}

/** The pieces by block, cut where blocks end, in their order. */
function cutPieces(pieces: readonly Piece[], blocksize: number): Map<number, Piece[]> {
  const byBlock = new Map<number, Piece[]>();
  for (const { at, length, bytes } of pieces) {
    for (let done = 0; done < length; ) {
      const block = Math.floor((at + done) / blocksize);
      const inBlock = at + done - block * blocksize;
      const part = Math.min(length - done, blocksize - inBlock);
      const cut = { at: inBlock, length: part, bytes, from: done % bytes.length };
      const known = byBlock.get(block);
      if (known === undefined) byBlock.set(block, [cut]);
      else known.push(cut);
      done += part;
    }
  }
  return byBlock;
}

function checkEdit({ at, bytes, length = bytes.length }: ByteEdit, { nbytes }: ChunkHeader): Piece {
  const isRange = Number.isSafeInteger(at) && Number.isSafeInteger(length) && at >= 0 && length >= 0;
  if (isRange && at + length <= nbytes && (bytes.length > 0 || length === 0))
    return { at, length, bytes, from: 0 };
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${length} bytes from byte ${at} on are to be replaced by ${bytes.length}, but the chunk decodes to ${nbytes} bytes`,
    { field: "edits", expected: nbytes, found: at + length },
  );
}
