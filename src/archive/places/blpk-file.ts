/**
 * One `blpk` file or superchunk, versions 1 to 4: its header, its metadata section, and where its chunks are.
 *
 * Without offsets, chunks are found by their Blosc headers: chunk, digest, reserve, chunk, … Reserved bytes are zero,
 * and no Blosc header starts with a zero. @see FORMAT.md [FW]
 */

import { at } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { joinSafeNumber } from "../../bytes/fields.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { decodeFileHeader, OFFSET_LENGTH, UNUSED } from "../../format/header.ts";
import {
  decodeSection,
  decodeSectionHeader,
  metadataKind,
  parseStoredJson,
  SECTION_HEADER_LENGTH,
} from "../../format/metadata.ts";
import type { JsonValue } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { decodeStoredHeader } from "../read/block-read.ts";
import type { FileOfChunks } from "./sequence.ts";

const HEAD = 4096;

/** An opened file. Offsets in bytes from its start. */
export interface BlpkFile extends FileOfChunks {
  readonly path: string;
  /** Value and kind of the metadata section. */
  readonly metadata: { readonly kind: "bloscpack" | "blz-json"; readonly value: JsonValue } | undefined;
  /** What a walk found, if the file has no offsets. */
  readonly walked: WalkedChunks | undefined;
  readonly digestLength: number;
  /** Where the offset table is, or would be: after header and metadata. */
  readonly tableAt: number;
}

/** Opens a file of known size. `limit` is the number of chunks needed at most, if the header does not give their number. */
export async function openBlpkFile(
  store: ReadableStore,
  key: string,
  size: number,
  limit: number,
  signal?: AbortSignal,
): Promise<BlpkFile> {
  const path = store.describe(key);
  const read = rangeReader(store, key, size, signal);
  const header = decodeFileHeader(await read(0, Math.min(HEAD, size)), path);
  const begun = { read, header, path, size };
  let at: number = header.headerLength;
  let metadata: BlpkFile["metadata"];
  try {
    if (header.metadata) {
      const section = await readMetadata(begun, at);
      metadata = section.metadata;
      at = section.end;
    }
    const length = DIGEST_LENGTHS[header.checksum];
    // With raw JSON metadata, bytes 24 to 31 are its size, and there are no spare entries.
    const located = header.offsets
      ? await readOffsets(begun, at, metadata?.kind === "blz-json" ? 0 : header.maxAppChunks)
      : await walkAll(store, {
          key,
          size,
          limit,
          signal,
          from: at,
          digestLength: length,
          count: header.nchunks < 0 ? undefined : header.nchunks,
        });
    return { key, path, size, header, metadata, digestLength: length, tableAt: at, ...located };
  } catch (error) {
    const { version, nchunks, chunkSize, lastChunk, typesize, checksum } = header;
    const said = { version, nchunks, chunkSize, lastChunk, typesize, checksum };
    const whole = metadata === undefined ? said : { ...said, metadata: metadata.value };
    throw isSuperchunkError(error) ? error.at({ header: whole }) : error;
  }
}

/** The same for a superchunk of an array. Also throws `BAD_FIELD` for a file of version 1 or 2. [FZ-01] */
export async function openSuperchunk(...where: Parameters<typeof openBlpkFile>): Promise<BlpkFile> {
  const file = await openBlpkFile(...where);
  const { version } = file.header;
  if (version >= 3) return file;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the version at byte 4 is ${version}, but superchunks have 3 or 4. The file belongs to another archive; look for the right one`,
    { path: file.path, offset: 4, field: "version", expected: "3 or 4", found: version },
  );
}

type Read = (offset: number, length: number) => Promise<Uint8Array>;

type Located = Pick<BlpkFile, "starts" | "ends" | "walked">;

interface BegunFile extends Pick<BlpkFile, "header" | "path" | "size"> {
  readonly read: Read;
}

/** Reads ranges that must exist; the first {@link HEAD} bytes are cached. */
function rangeReader(store: ReadableStore, key: string, size: number, signal: AbortSignal | undefined): Read {
  let head: Uint8Array | undefined;
  return async (offset, length) => {
    if (head !== undefined && offset + length <= head.length) return head.subarray(offset, offset + length);
    const bytes = await readThere(store, key, { offset, length }, length, signal);
    if (offset === 0 && length === Math.min(HEAD, size)) head = bytes;
    return bytes;
  };
}

/** At least `needed` bytes of a range that a file of known size has. */
async function readThere(
  store: ReadableStore,
  key: string,
  { offset, length }: { readonly offset: number; readonly length: number },
  needed: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const bytes = await store.getRange(key, { offset, length }, { signal });
  const found = bytes?.length ?? 0;
  if (bytes !== undefined && found >= needed) return bytes;
  throw new SuperchunkError(
    "STALE",
    `the file changed while it was read: ${length} bytes expected at byte ${offset}, ${found} found`,
    { path: store.describe(key), offset, expected: length, found },
  );
}

async function readMetadata(
  { read, header, path, size }: BegunFile,
  at: number,
): Promise<{ metadata: BlpkFile["metadata"]; end: number }> {
  const room = (length: number, what: string): void => {
    if (length > size - at)
      throw new SuperchunkError(
        "TRUNCATED",
        `${what} at byte ${at} has ${length} bytes, but the file ends at byte ${size}`,
        { path, offset: at, field: "metadata", expected: length, found: size - at },
      );
  };
  room(8, "the metadata section");
  if (metadataKind(await read(at, 8)) === "blz-json") {
    if (header.metaSize < 0 || header.metaSize > 0xffff_ffff)
      throw new SuperchunkError(
        "BAD_FIELD",
        "the bytes at byte 28 are not zero, but after the meta-size of raw JSON metadata four bytes are reserved. The file is damaged; look for another copy",
        { path, offset: 28, field: "reserved", expected: "0", found: "other bytes" },
      );
    room(header.metaSize, "the JSON metadata");
    const value = parseStoredJson(await read(at, header.metaSize), path, at);
    return { metadata: { kind: "blz-json", value }, end: at + header.metaSize };
  }
  room(SECTION_HEADER_LENGTH, "the metadata section's header");
  const section = decodeSectionHeader(await read(at, SECTION_HEADER_LENGTH), path, at);
  room(section.sectionLength, "the metadata section");
  const { value } = await decodeSection(await read(at, section.sectionLength), path, at);
  return { metadata: { kind: "bloscpack", value }, end: at + section.sectionLength };
}

async function readOffsets(
  { read, header, path, size }: BegunFile,
  at: number,
  spare: number,
): Promise<Located> {
  if (header.nchunks < 0)
    throw new SuperchunkError(
      "BAD_FIELD",
      "nchunks at byte 16 is -1 (unknown), but the options say that there are offsets",
      { path, offset: 16, field: "nchunks", expected: "a count, where there are offsets", found: -1 },
    );
  const entries = header.nchunks + spare;
  const fits = Math.floor((size - at) / OFFSET_LENGTH);
  if (entries > fits)
    throw new SuperchunkError(
      "TRUNCATED",
      `nchunks ${header.nchunks} and max-app-chunks ${spare} need ${entries} offsets at byte ${at}, but the file of ${size} bytes has room for ${fits}`,
      { path, offset: at, field: "offsets", expected: entries, found: fits },
    );
  const tableEnd = at + entries * OFFSET_LENGTH;
  const all = decodeOffsets(await read(at, entries * OFFSET_LENGTH), path, at);
  const starts = all.slice(0, header.nchunks);
  checkOffsets(all, { nchunks: header.nchunks, tableAt: at, tableEnd, fileSize: size, path });
  return { starts, ends: roomEnds(starts, size), walked: undefined };
}

/** For each chunk, the start of the next one in physical order, or the end of the file. */
function roomEnds(starts: Float64Array, size: number): Float64Array {
  const ends = new Float64Array(starts.length);
  if (starts.every((start, i) => i === 0 || start >= at(starts, i - 1))) {
    ends.set(starts.subarray(1));
    if (ends.length > 0) ends[ends.length - 1] = size;
    return ends;
  }
  const sorted = starts.slice().sort();
  const next = new Map<number, number>();
  for (let i = 0; i < sorted.length; i++) next.set(at(sorted, i), sorted[i + 1] ?? size);
  for (let i = 0; i < starts.length; i++) ends[i] = next.get(at(starts, i)) ?? size;
  return ends;
}

async function walkAll(store: ReadableStore, request: WalkRequest): Promise<Located> {
  const { count, size, digestLength } = request;
  const walked = await walkChunks(store, request);
  const ends = walked.starts.map((start, i) =>
    i + 1 === count ? size : start + at(walked.sizes, i) + digestLength,
  );
  return { starts: walked.starts, ends, walked };
}

/** Reads the Blosc header of chunk `index`. */
export async function readChunkHeader(
  store: ReadableStore,
  file: BlpkFile,
  index: number,
  signal?: AbortSignal,
): Promise<ChunkHeader> {
  const offset = at(file.starts, index);
  const bytes = await store.getRange(file.key, { offset, length: 16 }, { signal });
  return decodeStoredHeader(bytes ?? new Uint8Array(0), { path: file.path, chunk: index, offset });
}

const WINDOW = 65536;

interface WalkRequest {
  readonly key: string;
  /** Where the first chunk may start. */
  readonly from: number;
  readonly size: number;
  /** Chunks to find; undefined means all until the end. */
  readonly count: number | undefined;
  /** Number of chunks needed at most, if `count` is unknown. */
  readonly limit: number;
  readonly digestLength: number;
  readonly signal: AbortSignal | undefined;
}

/** Offset, size and decoded size of each chunk that a walk found. */
interface WalkedChunks {
  readonly starts: Float64Array;
  readonly sizes: Float64Array;
  readonly nbytes: Float64Array;
}

/** Walks the chunks of one object. Throws `TRUNCATED` if it ends before `count` chunks, `BAD_FIELD` on a bad header. */
export async function walkChunks(store: ReadableStore, request: WalkRequest): Promise<WalkedChunks> {
  const { key, size, count, digestLength, signal } = request;
  const path = store.describe(key);
  const read = forwardReader(store, key, size, signal);
  const found: { start: number; size: number; nbytes: number }[] = [];
  const wanted = count ?? request.limit;
  let at = request.from;
  while (found.length < wanted) {
    at = await skipZeros((start) => read(start, 1), at, size);
    if (at >= size && count === undefined) break;
    if (at + HEADER_LENGTH > size)
      throw new SuperchunkError(
        "TRUNCATED",
        `chunk ${found.length} should start at byte ${at}, but the file ends at byte ${size}${count === undefined ? "" : `, and nchunks is ${count}`}. The file is truncated; look for a complete copy`,
        { path, offset: at, field: "chunk", expected: HEADER_LENGTH, found: Math.max(0, size - at) },
      );
    const bytes = await read(at, HEADER_LENGTH);
    const header = decodeStoredHeader(bytes, { path, chunk: found.length, offset: at });
    const end = at + header.ctbytes + digestLength;
    if (end > size)
      throw new SuperchunkError(
        "TRUNCATED",
        `chunk ${found.length} at byte ${at} needs ${header.ctbytes + digestLength} bytes, but the file ends at byte ${size}. The file is truncated; look for a complete copy`,
        { path, offset: at, field: "ctbytes", expected: header.ctbytes + digestLength, found: size - at },
      );
    found.push({ start: at, size: header.ctbytes, nbytes: header.nbytes });
    at = end;
  }
  return {
    starts: Float64Array.from(found, (chunk) => chunk.start),
    sizes: Float64Array.from(found, (chunk) => chunk.size),
    nbytes: Float64Array.from(found, (chunk) => chunk.nbytes),
  };
}

/** The first byte that is not zero. Reserved bytes are zero, and no Blosc header starts with a zero. */
export async function skipZeros(
  read: (at: number) => Promise<Uint8Array>,
  from: number,
  size: number,
): Promise<number> {
  for (let at = from; at < size; ) {
    const bytes = await read(at);
    const step = bytes.findIndex((byte) => byte !== 0);
    if (step >= 0) return at + step;
    at += Math.max(1, bytes.length);
  }
  return size;
}

/**
 * Reads an object through a window that moves forward, so that many small chunks cost one read: the window's bytes from an offset on, at
 * least so many as are asked for.
 */
function forwardReader(
  store: ReadableStore,
  key: string,
  size: number,
  signal: AbortSignal | undefined,
): Read {
  let bytes: Uint8Array = new Uint8Array(0);
  let start = 0;
  return async (offset, needed) => {
    if (offset < start || offset + needed > start + bytes.length) {
      signal?.throwIfAborted();
      const length = Math.min(WINDOW, size - offset);
      bytes = await readThere(store, key, { offset, length }, Math.min(needed, length), signal);
      start = offset;
    }
    return bytes.subarray(offset - start);
  };
}

// The offsets table: int64 for each chunk and each spare entry. @see FORMAT.md [FO]

/** The smallest chunk: a lone Blosc header. */
const SMALLEST_CHUNK = 16;

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
  if (count * OFFSET_LENGTH !== bytes.length)
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
    if (value < UNUSED) throw badOffset(path, at + entry, i, "an offset, or -1 for none", value);
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
      throw badOffset(path, at, i, `at least ${tableEnd}, where the offsets end`, offset);
    if (offset > fileSize - SMALLEST_CHUNK) throw offsetAfterEnd(offset, at, i, place);
    if (offset < previous + SMALLEST_CHUNK) ordered = false;
    previous = offset;
  }
  for (let i = nchunks; i < offsets.length; i++) {
    const found = offsets[i] ?? UNUSED;
    const expected = `-1, because nchunks is ${nchunks}`;
    if (found !== UNUSED) throw badOffset(path, tableAt + i * OFFSET_LENGTH, i, expected, found);
  }
  if (!ordered) checkDistances(offsets.subarray(0, nchunks), place);
}

/** The error for a chunk that does not fit into the file: the file is truncated, or the offset is wrong. [FO-08] */
function offsetAfterEnd(found: number, at: number, chunk: number, place: OffsetsPlace): SuperchunkError {
  const { fileSize, path } = place;
  return new SuperchunkError(
    "TRUNCATED",
    `the offset at byte ${at} puts the chunk at byte ${found}, but the file ends at byte ${fileSize}. The file is truncated, or the offset is damaged; look for a complete copy`,
    { path, offset: at, chunk, field: "offset", expected: `at most ${fileSize - SMALLEST_CHUNK}`, found },
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
    throw badOffset(path, tableAt + i * OFFSET_LENGTH, i, expected, found);
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

function badOffset(
  path: string,
  at: number,
  chunk: number,
  expected: string,
  found: number,
): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the offset at byte ${at} is ${found}; expected ${expected}. The file is damaged; look for another copy`,
    { path, offset: at, chunk, field: "offset", expected, found },
  );
}
