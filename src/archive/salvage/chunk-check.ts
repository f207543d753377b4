/** Determines whether one chunk of a damaged archive is intact. Reads only. */
import { isEqual } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS, loadDigest } from "../../bytes/checksum.ts";
import { decode, decodeHeader, HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { isSuperchunkError, type SuperchunkError, valueOr } from "../../errors.ts";
import { CHECKSUM_NAMES } from "../../format/header.ts";
import type { ChecksumName } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { Hole } from "../kinds/types.ts";
import type { PlacedChunk } from "../places/sequence.ts";
import { boundOf, checkChunk } from "../read/chunk-fetch.ts";

/** Why a chunk cannot be read. */
export type Flaw = Pick<Hole, "code" | "reason" | "path" | "offset">;

/** A chunk that should exist: intact at its place, or with a flaw. */
export interface Slot {
  /** Decoded bytes; for a chunk with a flaw, those that it should have. */
  readonly nbytes: number;
  readonly place?: PlacedChunk;
  /** Stored bytes of an intact chunk. */
  readonly ctbytes?: number;
  readonly flaw?: Flaw;
}

/** True for errors about stored bytes, and not about the caller or the store. */
export function isFlaw(error: unknown): error is SuperchunkError {
  return (
    isSuperchunkError(error) && (error.isDamage || error.code === "UNSUPPORTED" || error.code === "LIMIT")
  );
}

/** What is wrong with an archive, and what cannot be brought back, as text. */
export interface Losses {
  readonly problems: string[];
  readonly lost: string[];
}

/** Returns what `read` does; undefined if stored bytes prevent it, which is noted together with what is lost by it. */
export async function readOrNote<T>(
  { problems, lost }: Losses,
  loss: string,
  read: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isFlaw(error)) throw error;
    problems.push(error.message);
    lost.push(loss);
    return undefined;
  }
}

/** Turns an error into a flaw. `path` is the file, if the error does not name one. */
export function flawOf(error: SuperchunkError, path: string): Flaw {
  const { offset } = error.details;
  return {
    code: error.code,
    reason: error.summary,
    path: error.details.path ?? path,
    ...(offset === undefined ? {} : { offset }),
  };
}

/** The Blosc header at an offset; undefined if there is none that fits into the file. */
export async function readHeaderAt(
  store: ReadableStore,
  key: string,
  offset: number,
  size: number,
): Promise<ChunkHeader | undefined> {
  if (offset + HEADER_LENGTH > size) return undefined;
  const bytes = await store.getRange(key, { offset, length: HEADER_LENGTH });
  return bytes === undefined ? undefined : headerIn(bytes, size - offset);
}

/** The Blosc header that `bytes` start with; undefined if it is invalid or its chunk is longer than `room` bytes. */
export function headerIn(bytes: Uint8Array, room: number): ChunkHeader | undefined {
  // Most bytes are not a header: this rejects them without the cost of an error.
  if (bytes[0] !== 2 || bytes[3] === 0) return undefined;
  return valueOr(undefined, isFlaw, () => {
    const header = decodeHeader(bytes, room);
    return header.ctbytes <= room ? header : undefined;
  });
}

/** The checksum whose digest follows the chunk at an offset; "None" if another chunk, or the end of the file, does; undefined if that is not clear. */
export async function findChecksum(
  store: ReadableStore,
  key: string,
  offset: number,
  size: number,
): Promise<ChecksumName | undefined> {
  const header = await readHeaderAt(store, key, offset, size);
  if (header === undefined) return undefined;
  const longest = Math.max(...CHECKSUM_NAMES.map((name) => DIGEST_LENGTHS[name]));
  const length = Math.min(header.ctbytes + longest, size - offset);
  const bytes = (await store.getRange(key, { offset, length })) ?? new Uint8Array(0);
  const [chunk, stored] = [bytes.subarray(0, header.ctbytes), bytes.subarray(header.ctbytes)];
  for (const name of CHECKSUM_NAMES) {
    const own = DIGEST_LENGTHS[name];
    if (own === 0 || own > stored.length) continue;
    if (isEqual((await loadDigest(name))(chunk), stored.subarray(0, own))) return name;
  }
  const next = offset + header.ctbytes;
  return next === size || (await readHeaderAt(store, key, next, size)) !== undefined ? "None" : undefined;
}

/** Reads, checks and decodes a chunk; returns what is wrong with it, or undefined if it is intact. */
export async function findFlaw(store: ReadableStore, place: PlacedChunk): Promise<Flaw | undefined> {
  const path = store.describe(place.key);
  try {
    const range = { offset: place.offset, length: boundOf(place) };
    const bytes = (await store.getRange(place.key, range)) ?? new Uint8Array(0);
    const chunk = await checkChunk(bytes, place, path, true);
    await decode(chunk.bytes, { maxNbytes: place.nbytes });
    return undefined;
  } catch (error) {
    if (!isFlaw(error)) throw error;
    return flawOf(error.inObject({ path, chunk: place.index, offset: place.offset }), path);
  }
}

/** Bytes of the JSON object that a text starts with; 0 if its end is not found. */
export function jsonLength(bytes: Uint8Array): number {
  const text = new TextDecoder("latin1").decode(bytes);
  let depth = 0;
  for (const { 0: part, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}]/gs)) {
    if (part === "{") depth++;
    else if (part === "}" && --depth === 0) return index + 1;
  }
  return 0;
}

/** Where in the bytes at `at` of a file a table of offsets of some length starts: its first entry leads to its end. */
export function startOfTable(bytes: Uint8Array, at: number, length: number): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i + length <= bytes.length; i++)
    if (view.getBigInt64(i, true) === BigInt(at + i + length)) return i;
  return undefined;
}
