/**
 * Checks the headers of chunks against their places, and decodes parts of chunks: fetches only the header, the block starts
 * and the blocks that a part touches.
 */

import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { decodeBlocks, decodeSparsely } from "../../codec/decode/decode.ts";
import { isReady, prepare } from "../../codec/decode/decode-kernel.ts";
import { blockRanges, decodeHeader, headLength } from "../../codec/header.ts";
import type { BlockRange, ChunkHeader } from "../../codec/types.ts";
import { isSuperchunkError, placedError, SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { PlacedChunk } from "../places/sequence.ts";

/** First read of a chunk: its header and the starts of up to 60 blocks. */
export const FIRST_READ = 256;
/**
 * The same over a network, where a second request costs more than this many bytes: enough for 8,188 block starts, or
 * for the first blocks too.
 */
const FIRST_READ_REMOTE = 32 << 10;
/** A disk reads at least this much: headers closer together are read together with what is between them. */
export const PAGE = 4096;

/** A chunk's header with its block starts: enough to locate any block. */
interface ChunkHead {
  readonly place: PlacedChunk;
  /** Name in messages. */
  readonly path: string;
  readonly header: ChunkHeader;
  readonly bytes: Uint8Array;
  /** The chunk's bytes from its header on, as far as read. */
  readonly read: Uint8Array;
}

/** Reads and checks a chunk's header and block starts, so that one more read brings any block. */
export function readHead(store: ReadableStore, place: PlacedChunk, signal?: AbortSignal): Promise<ChunkHead> {
  return readPrefix(store, place, store.getHead === undefined ? FIRST_READ : FIRST_READ_REMOTE, signal);
}

export async function readPrefix(
  store: ReadableStore,
  place: PlacedChunk,
  most: number,
  signal: AbortSignal | undefined,
): Promise<ChunkHead> {
  const path = store.describe(place.key);
  const first = await readAt(store, place, -place.prologue, firstLength(place, most), signal);
  const { header, bytes, length } = startHead(first, place, path);
  if (length <= bytes.length) return { place, path, header, bytes: bytes.subarray(0, length), read: bytes };
  return finishHead({ place, path, header }, await readAt(store, place, 0, length, signal), length);
}

function readHeadNow(store: SyncStore, place: PlacedChunk, path: string): ChunkHead {
  const first = readNow(store, place, -place.prologue, firstLength(place, FIRST_READ));
  const { header, bytes, length } = startHead(first, place, path);
  if (length <= bytes.length) return { place, path, header, bytes: bytes.subarray(0, length), read: bytes };
  return finishHead({ place, path, header }, readNow(store, place, 0, length), length);
}

export function firstLength(place: PlacedChunk, most: number): number {
  return Math.min(most, place.prologue + place.available);
}

/** Checks the first bytes of a chunk and returns its header and the length of header and block starts. */
export function startHead(
  first: Uint8Array,
  place: PlacedChunk,
  path: string,
): { header: ChunkHeader; bytes: Uint8Array; length: number } {
  place.checkPrologue?.(first, path);
  const bytes = first.subarray(Math.min(place.prologue, first.length));
  const header = checkChunkHeader(bytes, place, path);
  return { header, bytes, length: headLength(header) };
}

function finishHead(
  head: Pick<ChunkHead, "place" | "path" | "header">,
  bytes: Uint8Array,
  length: number,
): ChunkHead {
  if (bytes.length < length) throw cutShort(head.place, head.path, length, bytes.length);
  return { ...head, bytes, read: bytes };
}

/** Decoded bytes `[start, end)` of a chunk from a synchronous store; undefined if that is not possible. */
export function readPartNow(
  store: ReadableStore,
  place: PlacedChunk,
  start: number,
  end: number,
): Uint8Array | undefined {
  if (!readsNow(store)) return undefined;
  const path = store.describe(place.key);
  const head = readHeadNow(store, place, path);
  if (!isReady(head.header.compressor)) return undefined;
  const out = new Uint8Array(end - start);
  const range = rangeOf(head, start, out.length);
  const isEarly = start % head.header.blocksize < head.header.blocksize / 2;
  if (isEarly && range.length >= SPARSE && readSparsely(store, head, range, start, out)) return out;
  const bytes = readNow(store, place, range.offset, range.length, roomFor(range.length));
  decodePart(head, range, bytes, start, out);
  return out;
}

/**
 * For compressed blocks from this size on, several reads of the needed parts (less than half) are faster than one read of the block.
 */
const SPARSE = 128 << 10;

/** Reads and decodes only the needed parts of a large block; false if all of it is needed, or anything is unusual. */
function readSparsely(
  store: SyncStore,
  head: ChunkHead,
  range: BlockRange,
  start: number,
  out: Uint8Array,
): boolean {
  const end = range.offset + range.length;
  let isCut = false;
  let bytes: Uint8Array = new Uint8Array(0);
  let base = 0;
  const read = (offset: number, least: number): Uint8Array => {
    if (offset >= base && offset + least <= base + bytes.length) return bytes.subarray(offset - base);
    const length = Math.min(Math.max(least, PAGE), end - offset);
    bytes = readNow(store, head.place, offset, length, roomFor(length));
    base = offset;
    if (bytes.length >= Math.min(least, length)) return bytes;
    isCut = true;
    return new Uint8Array(least);
  };
  try {
    return decodeSparsely(head.bytes, start, out, read) && !isCut;
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

/** Decodes a chunk from byte `start` on into `out`. */
export async function readPart(
  store: ReadableStore,
  head: ChunkHead,
  start: number,
  out: Uint8Array,
  signal?: AbortSignal,
): Promise<void> {
  if (!isReady(head.header.compressor)) await prepare(head.header.compressor);
  const range = rangeOf(head, start, out.length);
  const end = range.offset + range.length;
  const bytes =
    end <= head.read.length
      ? head.read.subarray(range.offset, end)
      : await readAt(store, head.place, range.offset, range.length, signal);
  decodePart(head, range, bytes, start, out);
}

function rangeOf(head: ChunkHead, start: number, length: number): BlockRange {
  try {
    return blockRanges(head.bytes, start, length);
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

function decodePart(
  head: ChunkHead,
  range: BlockRange,
  bytes: Uint8Array,
  start: number,
  out: Uint8Array,
): void {
  if (bytes.length < range.length)
    throw cutShort(head.place, head.path, range.offset + range.length, range.offset + bytes.length);
  try {
    decodeBlocks(head.bytes, { bytes, offset: range.offset }, start, out.length, { out });
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

/** Shared buffer for reading blocks, used only by synchronous code that no other call can interrupt. */
let room = new Uint8Array(0);
const MAX_ROOM = 1 << 20;

function roomFor(length: number): Uint8Array | undefined {
  if (length > MAX_ROOM) return undefined;
  if (room.length < length) room = new Uint8Array(Math.min(MAX_ROOM, 2 * length));
  return room.subarray(0, length);
}

export type SyncStore = ReadableStore & Required<Pick<ReadableStore, "readIntoSync">>;

export function readsNow(store: ReadableStore): store is SyncStore {
  return store.readIntoSync !== undefined;
}

export function readNow(
  store: SyncStore,
  place: PlacedChunk,
  at: number,
  length: number,
  target: Uint8Array = new Uint8Array(length),
): Uint8Array {
  const read = store.readIntoSync(place.key, place.offset + at, target);
  if (read === undefined) throw missingChunk(store.describe(place.key), place);
  return read === length ? target : target.subarray(0, read);
}

async function readAt(
  store: ReadableStore,
  place: PlacedChunk,
  at: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  if (readsNow(store)) return readNow(store, place, at, length);
  const offset = place.offset + at;
  const bytes = await store.getRange(place.key, { offset, length }, { signal });
  if (bytes === undefined) throw missingChunk(store.describe(place.key), place);
  return bytes;
}

/**
 * The header of a chunk in an archive; `room` begins with it. A version, codec or flag that Blosc1 does not have is
 * damage here: no program of these dialects ever wrote one. Throws `TRUNCATED`, `BAD_FIELD`. [FB-02]
 */
export function decodeStoredHeader(
  room: Uint8Array,
  where: { readonly path: string; readonly chunk: number; readonly offset: number },
): ChunkHeader {
  try {
    return decodeHeader(room, Number.MAX_SAFE_INTEGER);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    const code = error.code === "UNSUPPORTED" ? "BAD_FIELD" : error.code;
    throw new SuperchunkError(code, error.summary, error.details).inObject(where);
  }
}

/** The error for a chunk whose object is missing. */
export function missingChunk(path: string, place: PlacedChunk): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    "the file is missing, but the archive's metadata count it. The archive is incomplete; look for a complete copy",
    { path, chunk: place.index, field: "chunk", expected: "a file", found: "nothing" },
  );
}

/**
 * Checks a chunk's header against its place. `room` is the data from the header on. Throws `TRUNCATED` if the object
 * ends before the chunk does, else `BAD_FIELD`. [FO-03] [FO-08]
 */
export function checkChunkHeader(room: Uint8Array, place: PlacedChunk, path: string): ChunkHeader {
  const where = { path, chunk: place.index, offset: place.offset };
  const header = decodeStoredHeader(room, where);
  if (header.nbytes !== place.nbytes)
    throw new SuperchunkError(
      "BAD_FIELD",
      `nbytes at byte ${place.offset + 4} is ${header.nbytes}, but the archive's metadata make it ${place.nbytes}. The chunk or the metadata are damaged; run "superchunk verify"`,
      { ...where, offset: place.offset + 4, field: "nbytes", expected: place.nbytes, found: header.nbytes },
    );
  if (place.ctbytes !== undefined && header.ctbytes !== place.ctbytes)
    throw new SuperchunkError(
      "BAD_FIELD",
      `the Blosc header's ctbytes at byte ${place.offset + 12} is ${header.ctbytes}, but ${place.ctbytes} bytes are stored; the chunk or its index entry is damaged`,
      {
        ...where,
        offset: place.offset + 12,
        field: "ctbytes",
        expected: place.ctbytes,
        found: header.ctbytes,
      },
    );
  const needed = header.ctbytes + DIGEST_LENGTHS[place.checksum];
  if (needed <= place.available) return header;
  if (place.endsObject === true) throw cutShort(place, path, needed, place.available);
  throw new SuperchunkError(
    "BAD_FIELD",
    `the chunk at byte ${place.offset} takes ${needed} bytes with its digest, but the next one starts after ${place.available}: they overlap. The offsets or the chunk are damaged`,
    { ...where, field: "ctbytes", expected: `at most ${place.available}`, found: needed },
  );
}

/** The error for a chunk that needs `needed` bytes, digest included, when the object has only `found`. [FO-08] */
export function cutShort(place: PlacedChunk, path: string, needed: number, found: number): SuperchunkError {
  return new SuperchunkError(
    "TRUNCATED",
    `the chunk at byte ${place.offset} needs at least ${needed} bytes, but the file ends after ${found} of them. The file is truncated; look for a complete copy`,
    { path, chunk: place.index, offset: place.offset, field: "ctbytes", expected: needed, found },
  );
}
