/** The offsets table of a `blpk` file: int64 for each chunk and each spare entry. @see FORMAT.md [FO] */
import { at } from "../bytes/arrays.ts";
import { joinSafeNumber } from "../bytes/fields.ts";
import { SuperchunkError } from "../errors.ts";

export const OFFSET_LENGTH = 8;
/** The smallest chunk: a lone Blosc header. */
const SMALLEST_CHUNK = 16;
/** An entry that no chunk uses. */
export const UNUSED = -1;

/** What {@link checkOffsets} compares a table with. Positions and sizes are in bytes of the file. */
export interface OffsetsPlace {
  /** Number of chunks in the header; later entries are spare. */
  readonly nchunks: number;
  /** Where the table starts. */
  readonly tableAt: number;
  /** Where the table ends: the first byte that a chunk may have. */
  readonly tableEnd: number;
  readonly fileSize: number;
  readonly path: string;
}

/**
 * Decodes a table. `bytes` are the table, `at` is its place in the file. Unused entries stay -1. Throws `BAD_FIELD` for other
 * negative and for unsafe values, `TRUNCATED` if `bytes` end inside an entry.
 */
export function decodeOffsets(bytes: Uint8Array, path: string, at: number): Float64Array {
  const count = Math.floor(bytes.length / OFFSET_LENGTH);
  if (count * OFFSET_LENGTH !== bytes.length) {
    throw new SuperchunkError(
      "TRUNCATED",
      `the offsets at byte ${at} end inside entry ${count}. The file is truncated; look for a complete copy`,
      {
        path,
        offset: at + count * OFFSET_LENGTH,
        field: "offsets",
        expected: (count + 1) * OFFSET_LENGTH,
        found: bytes.length,
      },
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const offsets = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const entry = i * OFFSET_LENGTH;
    const value = joinSafeNumber(view.getUint32(entry, true), view.getInt32(entry + 4, true), () => ({
      path,
      offset: at + entry,
      chunk: i,
      field: "offset",
    }));
    if (value < UNUSED)
      throw badOffset({
        path,
        at: at + entry,
        chunk: i,
        expected: "an offset, or -1 for none",
        found: value,
      });
    offsets[i] = value;
  }
  return offsets;
}

/**
 * Checks a whole table (spare entries included) against its file: every chunk starts after the table and at least 16 bytes before
 * the end, no two start less than a Blosc header apart, and only spare entries are -1. Any order is allowed. Throws `INCOMPLETE`
 * for chunks without an offset, `TRUNCATED` for chunks past the end of the file, else `BAD_FIELD`. [FO-02] to [FO-05], [FO-08]
 */
export function checkOffsets(offsets: Float64Array, place: OffsetsPlace): void {
  const { nchunks, tableAt, tableEnd, fileSize, path } = place;
  let previous = Number.NEGATIVE_INFINITY;
  let ordered = true;
  for (let i = 0; i < nchunks; i++) {
    const offset = offsets[i] ?? UNUSED;
    const at = tableAt + i * OFFSET_LENGTH;
    if (offset === UNUSED) throw unwritten(offsets, place, i, at);
    if (offset < tableEnd)
      throw badOffset({
        path,
        at,
        chunk: i,
        expected: `at least ${tableEnd}, where the offsets end`,
        found: offset,
      });
    if (offset > fileSize - SMALLEST_CHUNK) throw offsetAfterEnd(offset, at, i, place);
    if (offset < previous + SMALLEST_CHUNK) ordered = false;
    previous = offset;
  }
  for (let i = nchunks; i < offsets.length; i++) {
    const found = offsets[i] ?? UNUSED;
    const expected = `-1, for there are only ${nchunks} chunks`;
    if (found !== UNUSED)
      throw badOffset({ path, at: tableAt + i * OFFSET_LENGTH, chunk: i, expected, found });
  }
  if (!ordered) checkDistances(offsets.subarray(0, nchunks), place);
}

/** The error for a chunk that does not fit into the file: the file is truncated, or the offset is wrong. [FO-08] */
function offsetAfterEnd(found: number, at: number, chunk: number, place: OffsetsPlace): SuperchunkError {
  const { fileSize, path } = place;
  return new SuperchunkError(
    "TRUNCATED",
    `the offset at byte ${at} puts the chunk at byte ${found}, but the file ends at byte ${fileSize}. The file is truncated, or the offset is damaged; look for a complete copy`,
    {
      path,
      offset: at,
      chunk,
      field: "offset",
      expected: `at most ${fileSize - SMALLEST_CHUNK}`,
      found,
    },
  );
}

/** The same for chunks in any order. */
function checkDistances(offsets: Float64Array, { tableAt, path }: OffsetsPlace): void {
  const sorted = offsets.slice().sort();
  for (let k = 1; k < sorted.length; k++) {
    const before = at(sorted, k - 1);
    const found = at(sorted, k);
    if (found >= before + SMALLEST_CHUNK) continue;
    const i = offsets.lastIndexOf(found);
    const expected = `at least ${SMALLEST_CHUNK} bytes from that of chunk ${offsets.indexOf(before)}, which is ${before}`;
    throw badOffset({ path, at: tableAt + i * OFFSET_LENGTH, chunk: i, expected, found });
  }
}

function unwritten(
  offsets: Float64Array,
  { nchunks, path }: OffsetsPlace,
  chunk: number,
  at: number,
): SuperchunkError {
  const all = offsets.subarray(0, nchunks).every((offset) => offset === UNUSED);
  const what = all
    ? `all ${nchunks} offsets are -1: writing the file was interrupted`
    : `the offset at byte ${at} is -1, but nchunks counts its chunk`;
  return new SuperchunkError("INCOMPLETE", `${what}. Look for a complete copy`, {
    path,
    offset: at,
    ...(all ? {} : { chunk }),
    field: "offset",
    expected: "an offset",
    found: UNUSED,
  });
}

interface BadOffset {
  readonly path: string;
  readonly at: number;
  readonly chunk: number;
  readonly expected: string;
  readonly found: number;
}

function badOffset({ path, at, chunk, expected, found }: BadOffset): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the offset at byte ${at} is ${found}; expected ${expected}. The file is damaged; look for another copy`,
    { path, offset: at, chunk, field: "offset", expected, found },
  );
}
