/**
 * What can still be read of a superchunk that another program broke: chunks whose header, digest and payload are right, in
 * order, whatever header and offsets of the file say. Reads only.
 */

import { openBlpkFile } from "../../archive/places/blpk-file.ts";
import { digest } from "../../bytes/checksum.ts";
import { isEqual } from "../../bytes/equal.ts";
import { decode, decodeHeader, HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import { digestLength } from "../../format/checksums.ts";
import { type BlpkHeader, decodeHeader as decodeFileHeader } from "../../format/header.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";

/** How far behind the file's header the first chunk is looked for, in bytes. */
const MAX_TABLE = 8 << 20;

/** A superchunk as it was found. */
export interface Salvaged {
  /** Places of the chunks that are right, up to the first that is not. */
  readonly places: readonly { readonly offset: number; readonly header: ChunkHeader }[];
  readonly header: BlpkHeader;
  /** What is wrong with it, in words. */
  readonly problems: readonly string[];
}

/** Looks through a file. `maxNbytes`: decoded bytes of a chunk at most. Undefined where its header tells nothing. */
export async function salvage(
  store: ReadableStore,
  key: string,
  maxNbytes: number,
): Promise<Salvaged | undefined> {
  const size = (await store.stat(key))?.size ?? 0;
  const header = await readFileHeader(store, key);
  if (header === undefined) return undefined;
  const places: { offset: number; header: ChunkHeader }[] = [];
  const problems: string[] = [];
  const table = await readTable(store, key, size);
  let at = table.length > 0 ? 0 : await findFirst(store, key, header, size, maxNbytes);
  for (let i = 0; at !== undefined && (table.length > 0 ? i < table.length : at < size); i++) {
    const start: number = table[i] ?? (await skipZeros(store, key, at, size));
    if (start >= size) break;
    const found = await readChunk(store, key, start, size, header, maxNbytes);
    if (found === undefined) {
      problems.push(`what is at byte ${start} is no whole chunk with the right digest`);
      break;
    }
    places.push({ offset: start, header: found.header });
    at = start + found.header.ctbytes + digestLength(header.checksum);
  }
  if (header.nchunks !== places.length)
    problems.push(`the header counts ${header.nchunks} chunks, ${places.length} are whole`);
  return { places, header, problems };
}

/** A chunk of a file, by its place; undefined where it is not whole and right. */
export async function readChunk(
  store: ReadableStore,
  key: string,
  offset: number,
  size: number,
  file: BlpkHeader,
  maxNbytes: number,
): Promise<(StoredChunk & { readonly header: ChunkHeader }) | undefined> {
  if (offset + HEADER_LENGTH > size) return undefined;
  const head = await store.getRange(key, { offset, length: HEADER_LENGTH });
  try {
    const header = decodeHeader(head ?? new Uint8Array(0), size - offset);
    const length = digestLength(file.checksum);
    if (header.nbytes > maxNbytes || offset + header.ctbytes + length > size) return undefined;
    const bytes = await store.getRange(key, { offset, length: header.ctbytes + length });
    if (bytes === undefined || bytes.length < header.ctbytes + length) return undefined;
    const chunk = bytes.subarray(0, header.ctbytes);
    const stored = bytes.subarray(header.ctbytes);
    if (!isEqual(await digest(file.checksum, chunk), stored)) return undefined;
    await decode(chunk, { maxNbytes });
    return { bytes: chunk, digest: stored, nbytes: header.nbytes, header };
  } catch (error) {
    if (
      isSuperchunkError(error) &&
      (error.isDamage || error.code === "UNSUPPORTED" || error.code === "LIMIT")
    )
      return undefined;
    throw error;
  }
}

async function readFileHeader(store: ReadableStore, key: string): Promise<BlpkHeader | undefined> {
  try {
    const header = decodeFileHeader(
      (await store.getRange(key, { offset: 0, length: 32 })) ?? new Uint8Array(0),
      key,
    );
    return header.version >= 2 ? header : undefined;
  } catch (error) {
    if (isSuperchunkError(error)) return undefined;
    throw error;
  }
}

/** The chunks that the file itself tells of; none where what it tells cannot be true. */
async function readTable(store: ReadableStore, key: string, size: number): Promise<ArrayLike<number>> {
  try {
    return (await openBlpkFile(store, key, size, Number.POSITIVE_INFINITY)).starts;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return [];
    throw error;
  }
}

/** The first chunk, where no offset tells it: tables have entries of eight bytes. */
async function findFirst(
  store: ReadableStore,
  key: string,
  header: BlpkHeader,
  size: number,
  maxNbytes: number,
): Promise<number | undefined> {
  const window =
    (await store.getRange(key, { offset: 0, length: Math.min(size, MAX_TABLE) })) ?? new Uint8Array(0);
  // With raw JSON metadata behind the header, its size is in the header.
  const from = 32 + (header.metadata && header.metaSize < MAX_TABLE ? header.metaSize : 0);
  for (let at = from; at + HEADER_LENGTH <= window.length; at += 8) {
    // Blosc headers start with the version, 1 or 2; most table entries do not pass for one.
    if (window[at] !== 2 && window[at] !== 1) continue;
    if ((await readChunk(store, key, at, size, header, maxNbytes)) !== undefined) return at;
  }
  return undefined;
}

/** Reserve is zero, and no Blosc header starts with a zero. */
async function skipZeros(store: ReadableStore, key: string, from: number, size: number): Promise<number> {
  for (let at = from; at < size; ) {
    const bytes = await store.getRange(key, { offset: at, length: Math.min(65536, size - at) });
    const step = bytes?.findIndex((byte) => byte !== 0) ?? -1;
    if (step >= 0) return at + step;
    at += Math.max(1, bytes?.length ?? 1);
  }
  return size;
}
