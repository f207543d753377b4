/**
 * A redo journal: what is still to be written into a file, so that a change in place happens wholly or not at all.
 * Bytes <-> plain object. @see FORMAT.md [FR]
 */

import { loadDigest } from "../bytes/checksum.ts";
import { toSafeNumber } from "../bytes/int64.ts";
import { ByteReader } from "../bytes/reader.ts";
import { ByteWriter } from "../bytes/writer.ts";
import { SuperchunkError } from "../errors.ts";

/** Header: 16 bytes, little-endian. [FR-01] */
export const JOURNAL_HEADER = {
  magic: { at: 0, type: "bytes8" }, // "blpkredo"
  version: { at: 8, type: "uint32" }, // 1
  count: { at: 12, type: "uint32" }, // writes
} as const;

const MAGIC = new TextEncoder().encode("blpkredo");
const HEADER_LENGTH = 16;
const WRITE_HEADER = 16;
const DIGEST_LENGTH = 32;
const VERSION = 1;

/** Bytes to be written at an offset of the file. */
export interface JournalWrite {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Encodes a journal: header, writes (int64 offset, int64 length, bytes), the SHA-256 of all that. */
export async function encodeJournal(writes: readonly JournalWrite[]): Promise<Uint8Array> {
  const length = writes.reduce((sum, { bytes }) => sum + WRITE_HEADER + bytes.length, HEADER_LENGTH);
  const writer = new ByteWriter(length + DIGEST_LENGTH);
  writer.put(0, MAGIC);
  writer.uint32(JOURNAL_HEADER.version.at, VERSION, "version");
  writer.uint32(JOURNAL_HEADER.count.at, writes.length, "count");
  let at = HEADER_LENGTH;
  for (const { offset, bytes } of writes) {
    writer.int64(at, offset, "offset");
    writer.int64(at + 8, bytes.length, "length");
    writer.put(at + WRITE_HEADER, bytes);
    at += WRITE_HEADER + bytes.length;
  }
  writer.put(at, (await loadDigest("sha256"))(writer.bytes.subarray(0, at)));
  return writer.bytes;
}

/** Decodes a whole journal. Throws `BAD_MAGIC`, `TRUNCATED`, `UNSUPPORTED`, `CHECKSUM_MISMATCH`, `BAD_FIELD`. */
export async function decodeJournal(bytes: Uint8Array, path: string): Promise<JournalWrite[]> {
  const reader = new ByteReader(bytes, path);
  reader.need(0, HEADER_LENGTH + DIGEST_LENGTH, "the journal");
  if (!MAGIC.every((byte, i) => bytes[i] === byte))
    throw problem("BAD_MAGIC", path, 0, "magic", '"blpkredo"', "other bytes");
  const version = reader.uint32(JOURNAL_HEADER.version.at);
  if (version !== VERSION)
    throw problem("UNSUPPORTED", path, JOURNAL_HEADER.version.at, "version", VERSION, version);
  const end = bytes.length - DIGEST_LENGTH;
  const found = (await loadDigest("sha256"))(bytes.subarray(0, end));
  if (!found.every((byte, i) => byte === bytes[end + i]))
    throw problem("CHECKSUM_MISMATCH", path, end, "sha256", "that of the bytes before it", "another");
  const count = reader.uint32(JOURNAL_HEADER.count.at);
  const writes: JournalWrite[] = [];
  let at = HEADER_LENGTH;
  for (let i = 0; i < count; i++) {
    const offset = countAt(reader, at, "offset");
    const length = countAt(reader, at + 8, "length");
    at += WRITE_HEADER;
    if (length > end - at) throw problem("BAD_FIELD", path, at - 8, "length", `at most ${end - at}`, length);
    writes.push({ offset, bytes: reader.view(at, length) });
    at += length;
  }
  if (at !== end)
    throw problem("BAD_FIELD", path, JOURNAL_HEADER.count.at, "count", "all of the bytes", count);
  return writes;
}

function countAt(reader: ByteReader, at: number, field: string): number {
  const value = toSafeNumber(reader.int64(at, field), { path: reader.path, offset: at, field });
  if (value < 0) throw problem("BAD_FIELD", reader.path, at, field, "at least 0", value);
  return value;
}

function problem(
  code: "BAD_MAGIC" | "UNSUPPORTED" | "CHECKSUM_MISMATCH" | "BAD_FIELD",
  path: string,
  offset: number,
  field: string,
  expected: unknown,
  found: unknown,
): SuperchunkError {
  return new SuperchunkError(
    code,
    `${field} of the journal at byte ${offset} is ${found}; expected ${expected}. A change in place was interrupted, and what was left to do cannot be read; look for a copy of the file`,
    { path, offset, field, expected, found },
  );
}
