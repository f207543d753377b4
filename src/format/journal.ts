/** A redo journal: the pending writes of a file, which make a change in place atomic. Bytes <-> plain object. @see FORMAT.md [FR] */

import { at, toHex } from "../bytes/arrays.ts";
import { loadDigest } from "../bytes/checksum.ts";
import { ByteReader } from "../bytes/fields.ts";
import { ByteWriter } from "../bytes/writer.ts";
import { type ErrorDetails, SuperchunkError } from "../errors.ts";
import { JOURNAL_MAGIC, startsAsJournal } from "./header.ts";

/** Header: 16 bytes, little-endian. [FR-01] */
const JOURNAL_HEADER = {
  magic: { at: 0, type: "bytes8" }, // "blpkredo"
  version: { at: 8, type: "uint32" }, // 1: of a file; 2: of an array
  count: { at: 12, type: "uint32" }, // writes
} as const;

const HEADER_LENGTH = 16;
const DIGEST_LENGTH = 32;
/** The journal of one file, and the fields before each write's bytes. */
const OF_FILE = { version: 1, fields: ["offset", "length"] } as const;
/** The journal of an array. */
const OF_ARRAY = { version: 2, fields: ["number", "column", "offset", "length"] } as const;

/** Bytes to be written at an offset of the file. */
export interface JournalWrite {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** The same in an array: in the superchunk with this number, in this field of the dtype (0 if the array has one folder). */
export interface ArrayJournalWrite extends JournalWrite {
  readonly number: number;
  readonly column: number;
}

/** Encodes a journal: header, writes (int64 offset, int64 length, bytes), and the SHA-256 of all of it. [FR-01] */
export function encodeJournal(writes: readonly JournalWrite[]): Promise<Uint8Array> {
  return encodeEntries(
    OF_FILE,
    writes.map(({ offset, bytes }) => ({ values: [offset, bytes.length], bytes })),
  );
}

/** Encodes the journal of an array: the same, with number and column before each write. [FR-04] */
export function encodeArrayJournal(writes: readonly ArrayJournalWrite[]): Promise<Uint8Array> {
  return encodeEntries(
    OF_ARRAY,
    writes.map(({ number, column, offset, bytes }) => ({
      values: [number, column, offset, bytes.length],
      bytes,
    })),
  );
}

/** Decodes a whole journal. Throws `BAD_MAGIC`, `TRUNCATED`, `UNSUPPORTED`, `CHECKSUM_MISMATCH`, `BAD_FIELD`. */
export async function decodeJournal(bytes: Uint8Array, path: string): Promise<JournalWrite[]> {
  const entries = await decodeEntries(OF_FILE, bytes, path);
  return entries.map(({ values: [offset = 0], bytes: data }) => ({ offset, bytes: data }));
}

/** Decodes the journal of an array; throws like {@link decodeJournal}. */
export async function decodeArrayJournal(bytes: Uint8Array, path: string): Promise<ArrayJournalWrite[]> {
  const entries = await decodeEntries(OF_ARRAY, bytes, path);
  return entries.map(({ values: [number = 0, column = 0, offset = 0], bytes: data }) => ({
    number,
    column,
    offset,
    bytes: data,
  }));
}

/** The digest at a journal's end in hexadecimal: its name in a layout. */
export function journalName(journal: Uint8Array): string {
  return toHex(journal.subarray(-DIGEST_LENGTH));
}

/** One write: the values before its bytes; the last of them is their length. */
interface Entry {
  readonly values: readonly number[];
  readonly bytes: Uint8Array;
}

interface Form {
  readonly version: number;
  readonly fields: readonly string[];
}

async function encodeEntries({ version, fields }: Form, entries: readonly Entry[]): Promise<Uint8Array> {
  const head = fields.length * 8;
  const length = entries.reduce((sum, { bytes }) => sum + head + bytes.length, HEADER_LENGTH);
  const writer = new ByteWriter(length + DIGEST_LENGTH);
  writer.put(0, JOURNAL_MAGIC);
  writer.uint32(JOURNAL_HEADER.version.at, version, "version");
  writer.uint32(JOURNAL_HEADER.count.at, entries.length, "count");
  let next = HEADER_LENGTH;
  for (const { values, bytes } of entries) {
    values.forEach((value, i) => {
      writer.int64(next + 8 * i, value, fields[i] ?? "");
    });
    writer.put(next + head, bytes);
    next += head + bytes.length;
  }
  writer.put(next, (await loadDigest("sha256"))(writer.bytes.subarray(0, next)));
  return writer.bytes;
}

async function decodeEntries({ version, fields }: Form, bytes: Uint8Array, path: string): Promise<Entry[]> {
  const reader = new ByteReader(bytes, path);
  reader.need(0, HEADER_LENGTH + DIGEST_LENGTH, "the journal");
  if (!startsAsJournal(bytes))
    throw problem("BAD_MAGIC", path, {
      offset: 0,
      field: "magic",
      expected: '"blpkredo"',
      found: "other bytes",
    });
  const stored = reader.uint32(JOURNAL_HEADER.version.at);
  if (stored !== version)
    throw problem("UNSUPPORTED", path, {
      offset: JOURNAL_HEADER.version.at,
      field: "version",
      expected: version,
      found: stored,
    });
  const end = bytes.length - DIGEST_LENGTH;
  const found = (await loadDigest("sha256"))(bytes.subarray(0, end));
  if (!found.every((byte, i) => byte === bytes[end + i]))
    throw problem("CHECKSUM_MISMATCH", path, {
      offset: end,
      field: "sha256",
      expected: "that of the bytes before it",
      found: "another",
    });
  const count = reader.uint32(JOURNAL_HEADER.count.at);
  const entries: Entry[] = [];
  let next = HEADER_LENGTH;
  for (let i = 0; i < count; i++) {
    const start = next;
    const values = fields.map((field, k) => countAt(reader, start + 8 * k, field));
    next += fields.length * 8;
    const length = at(values, values.length - 1);
    if (length > end - next)
      throw problem("BAD_FIELD", path, {
        offset: next - 8,
        field: "length",
        expected: `at most ${end - next}`,
        found: length,
      });
    entries.push({ values, bytes: reader.view(next, length) });
    next += length;
  }
  if (next !== end)
    throw problem("BAD_FIELD", path, {
      offset: JOURNAL_HEADER.count.at,
      field: "count",
      expected: "all of the bytes",
      found: count,
    });
  return entries;
}

function countAt(reader: ByteReader, at: number, field: string): number {
  const value = reader.safeInt64(at, field);
  if (value < 0)
    throw problem("BAD_FIELD", reader.path, { offset: at, field, expected: "at least 0", found: value });
  return value;
}

function problem(
  code: "BAD_MAGIC" | "UNSUPPORTED" | "CHECKSUM_MISMATCH" | "BAD_FIELD",
  path: string,
  { offset, field, expected, found }: Required<Pick<ErrorDetails, "offset" | "field" | "expected" | "found">>,
): SuperchunkError {
  return new SuperchunkError(
    code,
    `${field} of the journal at byte ${offset} is ${found}; expected ${expected}. A change in place was interrupted, and what was left to do cannot be read; look for a copy of the file`,
    { path, offset, field, expected, found },
  );
}
