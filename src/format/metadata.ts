/**
 * The metadata section after a file header: Bloscpack's, with its own header, or the BLZ document's raw JSON. @see FORMAT.md [FM]
 */

import { isEqual, toHex } from "../bytes/arrays.ts";
import { DIGEST_LENGTHS, digest } from "../bytes/checksum.ts";
import { ByteReader } from "../bytes/fields.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { checksumByNumber } from "./header.ts";
import { MAX_JSON_BYTES, parseJson } from "./json.ts";
import type { ChecksumName, JsonValue } from "./types.ts";

/** The header of a Bloscpack metadata section: 32 bytes, little-endian. [FM.1] */
export const SECTION_HEADER = {
  magic: { at: 0, type: "bytes8" }, // "JSON" and four zero bytes
  options: { at: 8, type: "uint8" }, // zero
  checksum: { at: 9, type: "uint8" }, // 0 to 8
  codec: { at: 10, type: "uint8" }, // 0 = none, 1 = zlib
  level: { at: 11, type: "uint8" }, // of the codec; also stored if the codec is none
  metaSize: { at: 12, type: "uint32" }, // bytes of the JSON text
  maxMetaSize: { at: 16, type: "uint32" }, // bytes between the header and the digest
  metaCompSize: { at: 20, type: "uint32" }, // bytes of the text as stored
  userCodec: { at: 24, type: "bytes8" }, // zero
} as const;

export const SECTION_HEADER_LENGTH = 32;

export const SECTION_MAGIC: Uint8Array = Uint8Array.of(0x4a, 0x53, 0x4f, 0x4e, 0, 0, 0, 0);
export const CODECS = ["none", "zlib"] as const;

/** A decoded section header. Sizes in bytes. */
export interface MetadataSectionHeader {
  readonly checksum: ChecksumName;
  readonly codec: "none" | "zlib";
  readonly level: number;
  readonly metaSize: number;
  readonly maxMetaSize: number;
  readonly metaCompSize: number;
  /** Bytes 24 to 31 as stored. */
  readonly userCodec: Uint8Array;
  /** Length of the section: header, text with padding, digest. */
  readonly sectionLength: number;
}

/**
 * The kind of section that starts with these 8 bytes: Bloscpack's starts with `JSON` and zeros, all else is the BLZ document's.
 * [FM-01]
 */
export function metadataKind(first8bytes: Uint8Array): "bloscpack" | "blz-json" {
  return SECTION_MAGIC.every((byte, i) => first8bytes[i] === byte) ? "bloscpack" : "blz-json";
}

/** Decodes a section header at byte `at` of the file. Throws `TRUNCATED`, `BAD_MAGIC`, `BAD_FIELD`, `LIMIT`. */
export function decodeSectionHeader(bytes: Uint8Array, path: string, at: number): MetadataSectionHeader {
  const table = SECTION_HEADER;
  const reader = new ByteReader(bytes, path, at);
  reader.need(0, SECTION_HEADER_LENGTH, "the metadata section's header");
  if (metadataKind(bytes) !== "bloscpack")
    throw bad("BAD_MAGIC", reader, table.magic.at, {
      field: "the metadata section's magic",
      expected: '"JSON" and four zero bytes',
      found: "other bytes",
    });
  const options = reader.uint8(table.options.at);
  if (options !== 0)
    throw bad("BAD_FIELD", reader, table.options.at, {
      field: "meta-options",
      expected: "0",
      found: options,
    }); // [FM.1-02]
  const codecNumber = reader.uint8(table.codec.at);
  const codec = CODECS[codecNumber];
  if (codec === undefined)
    throw bad("BAD_FIELD", reader, table.codec.at, {
      field: "meta-codec",
      expected: "0 or 1",
      found: codecNumber,
    }); // [FM.1-04]
  const checksum = checksumByNumber(
    reader.uint8(table.checksum.at),
    path,
    at + table.checksum.at,
    "meta-checksum",
  );
  const maxMetaSize = reader.uint32(table.maxMetaSize.at);
  const header: MetadataSectionHeader = {
    checksum,
    codec,
    level: reader.uint8(table.level.at),
    metaSize: reader.uint32(table.metaSize.at),
    maxMetaSize,
    metaCompSize: reader.uint32(table.metaCompSize.at),
    userCodec: reader.view(table.userCodec.at, 8).slice(),
    sectionLength: SECTION_HEADER_LENGTH + maxMetaSize + DIGEST_LENGTHS[checksum],
  };
  checkSizes(header, reader);
  return header;
}

function checkSizes(header: MetadataSectionHeader, reader: ByteReader): void {
  const table = SECTION_HEADER;
  const { metaSize, maxMetaSize, metaCompSize, codec } = header;
  if (metaCompSize > maxMetaSize) {
    throw bad("BAD_FIELD", reader, table.metaCompSize.at, {
      field: "meta-comp-size",
      expected: `at most max-meta-size ${maxMetaSize}`,
      found: metaCompSize,
    }); // [FM.1-05]
  }
  if (codec === "none" && metaSize !== metaCompSize) {
    throw bad("BAD_FIELD", reader, table.metaSize.at, {
      field: "meta-size",
      expected: `meta-comp-size ${metaCompSize}, without a codec`,
      found: metaSize,
    }); // [FM.1-06]
  }
  if (metaSize > MAX_JSON_BYTES) {
    throw bad("LIMIT", reader, table.metaSize.at, {
      field: "meta-size",
      expected: `at most ${MAX_JSON_BYTES}`,
      found: metaSize,
    }); // [FM.1-07]
  }
}

let inflate: typeof import("./inflate.ts") | undefined;
const loadInflate = async () => (inflate ??= await import("./inflate.ts"));

/**
 * Decodes a whole section (header, text with padding, digest) at byte `at` of the file. Throws, beyond {@link
 * decodeSectionHeader}: `CHECKSUM_MISMATCH` before anything is unpacked, `BAD_FIELD` if the stored text does not unpack to
 * meta-size bytes, and errors of {@link parseJson}.
 */
export async function decodeSection(
  section: Uint8Array,
  path: string,
  at: number,
): Promise<{ readonly value: JsonValue; readonly text: Uint8Array; readonly header: MetadataSectionHeader }> {
  const header = decodeSectionHeader(section.subarray(0, SECTION_HEADER_LENGTH), path, at);
  const reader = new ByteReader(section, path, at);
  reader.need(0, header.sectionLength, "the metadata section");
  const stored = reader.view(SECTION_HEADER_LENGTH, header.metaCompSize);
  const digestAt = SECTION_HEADER_LENGTH + header.maxMetaSize;
  await checkDigest(
    header.checksum,
    stored,
    reader.view(digestAt, DIGEST_LENGTHS[header.checksum]),
    path,
    at + digestAt,
  );
  const textAt = at + SECTION_HEADER_LENGTH;
  const text =
    header.codec === "zlib"
      ? await (await loadInflate()).inflateZlib(stored, header.metaSize, path, textAt)
      : stored;
  const value =
    header.codec === "zlib" ? parseUnpacked(text, path, textAt) : parseStoredJson(text, path, textAt);
  return { value, text, header };
}

/** Parses JSON at byte `at` of the file: errors give positions in the file. Throws like {@link parseJson}. */
export function parseStoredJson(text: Uint8Array, path: string, at: number): JsonValue {
  try {
    return parseJson(text, path);
  } catch (error) {
    throw isSuperchunkError(error) ? error.shiftedBy(at) : error;
  }
}

/** Parses JSON unpacked from a stream at byte `at`: positions in the text are not positions in the file. */
function parseUnpacked(text: Uint8Array, path: string, at: number): JsonValue {
  try {
    return parseJson(text, path);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    const summary = `the metadata that the zlib stream at byte ${at} unpacks to: ${error.summary.replace("at byte", "at its own byte")}`;
    throw new SuperchunkError(error.code, summary, { ...error.details, offset: at });
  }
}

async function checkDigest(
  name: ChecksumName,
  bytes: Uint8Array,
  stored: Uint8Array,
  path: string,
  offset: number,
): Promise<void> {
  const found = await digest(name, bytes);
  if (isEqual(found, stored)) return;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the ${name} of the metadata stored at byte ${offset} is ${toHex(stored)}, but that of the ${bytes.length} stored bytes is ${toHex(found)}. The metadata are damaged; look for another copy`,
    { path, offset, field: name, expected: toHex(stored), found: toHex(found) },
  );
}

function bad(
  code: "BAD_MAGIC" | "BAD_FIELD" | "LIMIT",
  reader: ByteReader,
  at: number,
  { field, expected, found }: { readonly field: string; readonly expected: string; readonly found: unknown },
): SuperchunkError {
  const offset = reader.base + at;
  return new SuperchunkError(
    code,
    `${field} at byte ${offset} is ${found}; expected ${expected}. The metadata are damaged; look for another copy`,
    { path: reader.path, offset, field, expected, found },
  );
}
