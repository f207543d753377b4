/** Writes the parts of a `blpk` file around its chunks: header, metadata section, offsets. A page that only reads does not load it. @see FORMAT.md [F1] [FM] [FO] */

import { deflate } from "pako";
import { digest } from "../bytes/checksum.ts";
import { ByteWriter } from "../bytes/writer.ts";
import { SuperchunkError } from "../errors.ts";
import {
  type BlpkHeader,
  checksumNumber,
  contradictionOf,
  HEADER_LENGTHS,
  HEADER_V1,
  HEADER_V3,
  MAGIC,
  OFFSET_LENGTH,
  OPTION_METADATA,
  OPTION_OFFSETS,
  UNUSED,
} from "./header.ts";
import { jsonBytes } from "./json.ts";
import { CODECS, SECTION_HEADER, SECTION_HEADER_LENGTH, SECTION_MAGIC } from "./metadata.ts";
import type { ChecksumName, JsonInput } from "./types.ts";

/** Encodes a header. Throws `BAD_ARGUMENT` for one that {@link decodeFileHeader} would refuse. */
export function encodeFileHeader(header: BlpkHeader): Uint8Array {
  checkEncodable(header);
  const writer = new ByteWriter(HEADER_LENGTHS[header.version]);
  writer.put(HEADER_V3.magic.at, Uint8Array.from(MAGIC));
  writer.uint8(HEADER_V3.version.at, header.version, "version");
  if (header.version === 1) {
    writer.int64(HEADER_V1.nchunks.at, header.nchunks, "nchunks");
    return writer.bytes;
  }
  const options = (header.offsets ? OPTION_OFFSETS : 0) | (header.metadata ? OPTION_METADATA : 0);
  writer.uint8(HEADER_V3.options.at, options, "options");
  writer.uint8(HEADER_V3.checksum.at, checksumNumber(header.checksum), "checksum");
  writer.uint8(HEADER_V3.typesize.at, header.typesize, "typesize");
  writer.int32(HEADER_V3.chunkSize.at, header.chunkSize, "chunk-size");
  writer.int32(HEADER_V3.lastChunk.at, header.lastChunk, "last-chunk");
  writer.int64(HEADER_V3.nchunks.at, header.nchunks, "nchunks");
  writer.int64(HEADER_V3.metaSize.at, header.metaSize, "meta-size");
  return writer.bytes;
}

function checkEncodable(header: BlpkHeader): void {
  const fail = (field: string, expected: string, found: unknown): never => {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${field} ${found} does not fit a version ${header.version} header: expected ${expected}`,
      { field, expected, found },
    );
  };
  const { version } = header;
  if (header.nchunks < -1) fail("nchunks", "a count, or -1", header.nchunks);
  if (version === 1) {
    if (header.offsets || header.metadata || header.checksum !== "None")
      fail("options", "no offsets, metadata or checksum", "others");
    return;
  }
  if (version === 2 && header.metadata) fail("metadata", "none", true);
  if (header.chunkSize < -1) fail("chunk-size", "a size, or -1", header.chunkSize);
  if (header.lastChunk < -1) fail("last-chunk", "a size, or -1", header.lastChunk);
  if (header.metaSize < 0 && header.offsets) fail("max-app-chunks", "at least 0", header.metaSize);
  if (header.maxAppChunks !== header.metaSize)
    fail("max-app-chunks", `meta-size ${header.metaSize}: they are the same bytes`, header.maxAppChunks);
  const problem = contradictionOf(header);
  if (problem !== undefined) fail(problem.field, problem.expected, problem.found);
}

/** Options of {@link encodeSection}. Defaults are those of bloscpack 0.16. */
interface SectionOptions {
  /** Default adler32. */
  readonly checksum?: ChecksumName;
  /** Default zlib; not used if it makes the text longer. */
  readonly codec?: "none" | "zlib";
  /** Default 6. */
  readonly level?: number;
  /** Bytes of space for the stored text; default ten times the text's length. */
  readonly maxMetaSize?: number;
}

/** Encodes a section like bloscpack 0.16. Throws `BAD_ARGUMENT` if the text does not fit in `maxMetaSize`. */
export async function encodeSection(value: JsonInput, options: SectionOptions = {}): Promise<Uint8Array> {
  const { checksum = "adler32", level = 6 } = options;
  const text = jsonBytes(value, { python: true, compact: true });
  const packed = options.codec === "none" ? text : deflateZlib(text, level);
  const stored = packed.length > text.length ? text : packed; // [FM.1-08]
  const maxMetaSize = options.maxMetaSize ?? text.length * 10;
  if (stored.length > maxMetaSize)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the metadata take ${stored.length} bytes, but there is room for ${maxMetaSize} only`,
      { field: "max-meta-size", expected: `at least ${stored.length}`, found: maxMetaSize },
    );
  const sum = await digest(checksum, stored);
  const table = SECTION_HEADER;
  const writer = new ByteWriter(SECTION_HEADER_LENGTH + maxMetaSize + sum.length);
  writer.put(table.magic.at, SECTION_MAGIC);
  writer.uint8(table.checksum.at, checksumNumber(checksum), "meta-checksum");
  writer.uint8(
    table.codec.at,
    stored === text ? CODECS.indexOf("none") : CODECS.indexOf("zlib"),
    "meta-codec",
  );
  writer.uint8(table.level.at, level, "meta-level");
  writer.uint32(table.metaSize.at, text.length, "meta-size");
  writer.uint32(table.maxMetaSize.at, maxMetaSize, "max-meta-size");
  writer.uint32(table.metaCompSize.at, stored.length, "meta-comp-size");
  writer.put(SECTION_HEADER_LENGTH, stored);
  writer.put(SECTION_HEADER_LENGTH + maxMetaSize, sum);
  return writer.bytes;
}

/** Encodes offsets; -1 is an unused entry. Throws `BAD_ARGUMENT` for other values that are not offsets. */
export function encodeOffsets(values: ArrayLike<number>): Uint8Array {
  const bytes = new Uint8Array(values.length * OFFSET_LENGTH);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? UNUSED;
    if (!Number.isSafeInteger(value) || value < UNUSED)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `offset ${i} is ${value}, which is neither an offset nor -1`,
        { chunk: i, field: "offset", found: value },
      );
    view.setUint32(i * OFFSET_LENGTH, value === UNUSED ? 0xffff_ffff : value % 0x1_0000_0000, true);
    view.setInt32(i * OFFSET_LENGTH + 4, value === UNUSED ? -1 : Math.floor(value / 0x1_0000_0000), true);
  }
  return bytes;
}

/** Packs into a zlib stream, byte for byte like zlib 1.2 at that level (0 to 9). */
export function deflateZlib(bytes: Uint8Array, level: number): Uint8Array {
  return deflate(bytes, {
    level: Math.max(0, Math.min(9, Math.trunc(level))) as 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9,
  });
}
