/**
 * The file header of `blpk` versions 1 to 4 and of BLZ superchunks: bytes <-> plain object.
 *
 * Knows only the header. Code that knows the file's size checks whether the header's numbers fit it.
 */
import { ByteReader } from "../bytes/fields.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { HDF5_NAMES } from "./naming.ts";
import type { ChecksumName } from "./types.ts";

/** `blpk` in ASCII: the first four bytes of every file. [F1-01] */
export const MAGIC: readonly number[] = [0x62, 0x6c, 0x70, 0x6b];

/** Version 1: 16 bytes, little-endian. Also the header of each chunk file of a carray. [F1.1] */
export const HEADER_V1 = {
  magic: { at: 0, type: "bytes4" },
  version: { at: 4, type: "uint8" },
  reserved: { at: 5, type: "bytes3" }, // zero
  nchunks: { at: 8, type: "int64" }, // count; -1 = unknown
} as const;

/** The version that says that only the offsets locate chunks, and that the file may have a journal. [FR-03] */
export const BUSY_VERSION = 4;

/** Versions 2, 3 and 4: 32 bytes, little-endian. [F1.2] [F1.3] [F1.4] */
export const HEADER_V3 = {
  magic: { at: 0, type: "bytes4" },
  version: { at: 4, type: "uint8" },
  options: { at: 5, type: "uint8" }, // bit 0: offsets, bit 1: metadata (from version 3)
  checksum: { at: 6, type: "uint8" }, // 0 to 8
  typesize: { at: 7, type: "uint8" }, // bytes
  chunkSize: { at: 8, type: "int32" }, // bytes; -1 = unknown
  lastChunk: { at: 12, type: "int32" }, // bytes; -1 = unknown
  nchunks: { at: 16, type: "int64" }, // count; -1 = unknown
  metaSize: { at: 24, type: "int64" }, // max-app-chunks (count) or meta-size (bytes); zero in version 2
} as const;

/** Bytes of an entry of the offsets table. [FO] */
export const OFFSET_LENGTH = 8;
/** An entry that no chunk uses. */
export const UNUSED = -1;

export const OPTION_OFFSETS = 1;
export const OPTION_METADATA = 2;

/** Versions that are read, with the length of their header in bytes. [F1-02] */
export const HEADER_LENGTHS: Readonly<Record<1 | 2 | 3 | 4, 16 | 32>> = { 1: 16, 2: 32, 3: 32, 4: 32 };

/** Bytes of the header of versions 2 to 4. */
export const FILE_HEADER_LENGTH = 32;

/** A decoded file header. Sizes in bytes; -1 means unknown. */
export interface BlpkHeader {
  /** Version 4 is like 3, but only the offsets locate the chunks. */
  readonly version: 1 | 2 | 3 | 4;
  readonly headerLength: 16 | 32;
  /** There is an offset for each chunk. */
  readonly offsets: boolean;
  /** A metadata section follows the header. */
  readonly metadata: boolean;
  readonly checksum: ChecksumName;
  /** As given to Blosc; each chunk has its own. */
  readonly typesize: number;
  /** Uncompressed bytes of each chunk but the last. */
  readonly chunkSize: number;
  /** Uncompressed bytes of the last chunk. */
  readonly lastChunk: number;
  readonly nchunks: number;
  /** Spare offset entries, as Bloscpack reads bytes 24 to 31. */
  readonly maxAppChunks: number;
  /** Bytes 24 to 31 as stored: `meta-size` if raw JSON metadata follow the header. */
  readonly metaSize: number;
}

/**
 * Decodes the header at the start of `bytes`. `path` names the file in messages. Throws `TRUNCATED`, `BAD_MAGIC`,
 * `UNSUPPORTED` (a version that is not 1 to 4), `BAD_FIELD`.
 */
export function decodeFileHeader(bytes: Uint8Array, path: string): BlpkHeader {
  checkMagic(bytes, path);
  const reader = new ByteReader(bytes, path);
  const version = checkVersion(reader.uint8(HEADER_V3.version.at, "version"), path);
  reader.need(0, HEADER_LENGTHS[version], "the file header");
  return version === 1 ? decodeVersion1(reader) : decodeVersion2(reader, version);
}

/** Throws unless `bytes` start with `blpk`: `TRUNCATED` if they are too short to tell, else `BAD_MAGIC`. [F1-01] */
function checkMagic(bytes: Uint8Array, path: string): void {
  const length = Math.min(bytes.length, MAGIC.length);
  for (let i = 0; i < length; i++) {
    if (bytes[i] === MAGIC[i]) continue;
    const found = Array.from(bytes.subarray(0, 4), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    throw new SuperchunkError(
      "BAD_MAGIC",
      `the file starts with the bytes ${found}, not with 62 6c 70 6b ("blpk"). It is damaged, or not what its name says`,
      { path, offset: 0, field: "magic", expected: "62 6c 70 6b", found },
    );
  }
  new ByteReader(bytes, path).need(0, MAGIC.length, "the file header's magic");
}

function checkVersion(version: number, path: string): 1 | 2 | 3 | 4 {
  if (version === 1 || version === 2 || version === 3 || version === 4) return version;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `the format version at byte 4 is ${version}; superchunk reads versions 1 to 4. Look for a newer superchunk`,
    { path, offset: HEADER_V3.version.at, field: "version", expected: "1 to 4", found: version },
  );
}

function decodeVersion1(reader: ByteReader): BlpkHeader {
  const { reserved, nchunks } = HEADER_V1;
  for (let at = reserved.at; at < nchunks.at; at++) {
    const byte = reader.uint8(at);
    if (byte !== 0) throw badField(reader.path, at, "reserved byte", "0", byte); // [F1.1-03]
  }
  return headerOfVersion1(count64(reader, nchunks.at, "nchunks", -1));
}

/** A header of version 1, which has only the number of chunks. [F1.1] */
export function headerOfVersion1(nchunks: number): BlpkHeader {
  return {
    version: 1,
    headerLength: 16,
    offsets: false,
    metadata: false,
    checksum: "None",
    typesize: 0,
    chunkSize: -1,
    lastChunk: -1,
    nchunks,
    maxAppChunks: 0,
    metaSize: 0,
  };
}

function decodeVersion2(reader: ByteReader, version: 2 | 3 | 4): BlpkHeader {
  const table = HEADER_V3;
  const { path } = reader;
  const options = reader.uint8(table.options.at, "options");
  const known = version === 2 ? OPTION_OFFSETS : OPTION_OFFSETS | OPTION_METADATA;
  if ((options & ~known) !== 0)
    throw badField(path, table.options.at, "options", `only the bits ${known}`, options); // [F1.2-02]
  const header: BlpkHeader = {
    version,
    headerLength: 32,
    offsets: (options & OPTION_OFFSETS) !== 0,
    metadata: (options & OPTION_METADATA) !== 0,
    checksum: checksumByNumber(reader.uint8(table.checksum.at), path, table.checksum.at),
    typesize: reader.uint8(table.typesize.at, "typesize"),
    chunkSize: size32(reader, table.chunkSize.at, "chunk-size"),
    lastChunk: size32(reader, table.lastChunk.at, "last-chunk"),
    nchunks: count64(reader, table.nchunks.at, "nchunks", -1),
    ...lastField(reader, version, options),
  };
  const problem = contradictionOf(header);
  if (problem !== undefined) throw badField(path, problem.at, problem.field, problem.expected, problem.found);
  return header;
}

/** Bytes 24 to 31. Without offsets and metadata they have no meaning, and any value is allowed. [F1.3-02] */
function lastField(
  reader: ByteReader,
  version: 2 | 3 | 4,
  options: number,
): Pick<BlpkHeader, "maxAppChunks" | "metaSize"> {
  const { at } = HEADER_V3.metaSize;
  if (version === 2 || (options & OPTION_OFFSETS) !== 0) {
    const value = count64(reader, at, version === 2 ? "reserved" : "max-app-chunks", 0);
    return { maxAppChunks: value, metaSize: value };
  }
  const isMetaSize = (options & OPTION_METADATA) !== 0;
  const value = isMetaSize ? reader.safeInt64(at, "meta-size") : Number(reader.int64(at, "max-app-chunks"));
  const kept = Number.isSafeInteger(value) ? value : 0;
  return { maxAppChunks: kept, metaSize: kept };
}

interface Contradiction {
  readonly at: number;
  readonly field: string;
  readonly expected: string;
  readonly found: unknown;
}

/** Finds fields of a version 2 to 4 header that contradict each other. */
export function contradictionOf(header: BlpkHeader): Contradiction | undefined {
  const { version, chunkSize, lastChunk, metaSize } = header;
  const table = HEADER_V3;
  if (version === 2 && metaSize !== 0) {
    return { at: table.metaSize.at, field: "reserved", expected: "0", found: metaSize }; // [F1.2-05]
  }
  // For a single chunk, bloscpack 0.2 writes chunk-size 0 and its length in last-chunk. [F1.2-04]
  if (version > 2 && chunkSize >= 0 && lastChunk > chunkSize) {
    return {
      at: table.lastChunk.at,
      field: "last-chunk",
      expected: `at most chunk-size ${chunkSize}`,
      found: lastChunk,
    }; // [F1.3-04]
  }
  if (version === 4 && !header.offsets) {
    return {
      at: table.options.at,
      field: "options",
      expected: "the offsets bit, in version 4",
      found: header.metadata ? 2 : 0,
    }; // [F1.4-02]
  }
  return undefined;
}

function size32(reader: ByteReader, at: number, field: string): number {
  const value = reader.int32(at, field);
  if (value < -1) throw badField(reader.path, at, field, "a size, or -1 for unknown", value); // [F1.2-03]
  return value;
}

function count64(reader: ByteReader, at: number, field: string, least: -1 | 0): number {
  const value = reader.safeInt64(at, field);
  if (value < least)
    throw badField(reader.path, at, field, least === 0 ? "at least 0" : "a count, or -1 for unknown", value);
  return value;
}

function badField(
  path: string,
  offset: number,
  field: string,
  expected: string,
  found: unknown,
): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} at byte ${offset} is ${found}; expected ${expected}. The file is damaged; look for another copy`,
    { path, offset, field, expected, found },
  );
}

// Detects the dialect of a file by its first bytes, never by its name alone. @see FORMAT.md [F1]

/** The dialects of a single file. `superchunk-file` is version 4, which only superchunks have. */
type FileDialect = "bloscpack-1" | "bloscpack-2" | "bloscpack-3" | "superchunk-file";

const DIALECTS: Readonly<Record<1 | 2 | 3 | 4, FileDialect>> = {
  1: "bloscpack-1",
  2: "bloscpack-2",
  3: "bloscpack-3",
  4: "superchunk-file",
};

/** Names that claim to be a `blpk` file. */
const CLAIMED = /\.(blp|bin)$/i;

/** Files of other formats, which are read elsewhere, by their first bytes. */
const READ_ONLY = [
  { name: "an HDF5 file", start: [0x89, 0x48, 0x44, 0x46] },
  { name: "a frame of Blosc2", start: [0x9e, 0xa8, 0x62, 0x32] },
] as const;

/** Files whose rows can become an archive, by their first bytes or their names. */
const ROW_FILES = [
  { name: "a Parquet file", start: [0x50, 0x41, 0x52, 0x31], ending: /\.parquet$/i },
  { name: "an Arrow file", start: [0x41, 0x52, 0x52, 0x4f], ending: /\.(?:arrows?|feather)$/i },
  { name: "a .npy file", start: [0x93, 0x4e, 0x55, 0x4d], ending: /\.npy$/i },
  { name: "a CSV file", start: undefined, ending: /\.[ct]sv$/i },
] as const;

/** Endings of packed files. */
const PACKED = /\.(?:(tar|t(?:ar\.)?(?:gz|bz2|xz|zst))|zip|npz|gz|bz2|xz|zst|7z)$/i;

/** The command that unpacks a file of this name; undefined if the name is not that of a packed file. */
export function unpackerOf(name: string): string | undefined {
  const [ending, tar] = PACKED.exec(name.toLowerCase()) ?? [];
  const other = { ".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz", ".zst": "unzstd", ".7z": "7z x" }[
    ending ?? ""
  ];
  return tar === undefined ? ending && (other ?? "unzip") : "tar -xf";
}

/**
 * Detects the dialect of a file of `size` bytes from its first bytes `head` (32 are enough) and its name. Throws `TRUNCATED`
 * for an empty file and one that ends inside its header, `BAD_MAGIC` for other bytes under a name in `.blp` or `.bin`,
 * `UNSUPPORTED` for other files and unknown versions, `BAD_FIELD` for a bad header.
 */
export function detectFile(head: Uint8Array, name: string, size: number): { readonly dialect: FileDialect } {
  const bytes = head.subarray(0, size);
  if (startsAsJournal(bytes)) throw journalItself(name);
  try {
    checkMagic(bytes, name);
  } catch (error) {
    if (!isSuperchunkError(error, "BAD_MAGIC")) throw error;
    const starts = (start: readonly number[] = [-1]): boolean => start.every((byte, i) => bytes[i] === byte);
    if (CLAIMED.test(name)) {
      if (!starts([0x1f, 0x8b])) throw error;
      throw new SuperchunkError(
        error.code,
        "it is packed by gzip: unpack it first, with gunzip",
        error.details,
      );
    }
    const other = READ_ONLY.find(({ start }) => starts(start))?.name;
    const rows = ROW_FILES.find(({ start, ending }) => ending.test(name) || starts(start))?.name;
    const reason =
      other !== undefined
        ? `it is ${other}, which superchunk does not change: convert it, and change the copy`
        : rows !== undefined
          ? `it is ${rows}, not an archive: superchunk create DST --from FILE makes one from its rows, and append adds them to one`
          : unpackerOf(name) !== undefined
            ? `it is a packed file: unpack it first, with ${unpackerOf(name)}`
            : HDF5_NAMES.test(name)
              ? `it has the name of an HDF5 file, and starts with ${error.details.found}, not with 89 48 44 46: it is NetCDF 3 (43 44 46; read it with xarray), a later part of one (family or split driver), or damaged`
              : `superchunk does not recognise it: it starts with ${error.details.found}, not with "blpk"`;
    throw new SuperchunkError("UNSUPPORTED", reason, error.details);
  }
  return { dialect: DIALECTS[decodeFileHeader(bytes, name).version] };
}

function journalItself(path: string): SuperchunkError {
  const owner = path.endsWith(".journal") ? path.slice(0, -".journal".length) : undefined;
  return new SuperchunkError(
    "UNSUPPORTED",
    `it is the journal of a change in place that was interrupted, and not an archive; name the file that it belongs to${owner === undefined ? "" : `: ${owner}`}`,
    { path, expected: owner, found: "blpkredo" },
  );
}

/** The first bytes of a journal. [FR-01] */
export const JOURNAL_MAGIC: Uint8Array = new TextEncoder().encode("blpkredo");

/** True if the first 8 bytes of a file are those of a journal, which belongs to another file. [FR-01] */
export function startsAsJournal(head: Uint8Array): boolean {
  return JOURNAL_MAGIC.every((byte, i) => head[i] === byte);
}

// The checksums of a `blpk` file by number, and the lengths of their digests. @see FORMAT.md [FC]

/** Names by their number in a header. [FC-01] */
export const CHECKSUM_NAMES: readonly ChecksumName[] = [
  "None",
  "adler32",
  "crc32",
  "md5",
  "sha1",
  "sha224",
  "sha256",
  "sha384",
  "sha512",
];

/** The checksum with a stored number. Throws `BAD_FIELD` for a number that no version defines. [FC-01] */
export function checksumByNumber(
  number: number,
  path: string,
  offset: number,
  field = "checksum",
): ChecksumName {
  const name = CHECKSUM_NAMES[number];
  if (name !== undefined) return name;
  throw new SuperchunkError(
    "BAD_FIELD",
    `${field} at byte ${offset} is ${number}, but there are only the checksums 0 to ${CHECKSUM_NAMES.length - 1}. The file is damaged; look for another copy`,
    { path, offset, field, expected: `0 to ${CHECKSUM_NAMES.length - 1}`, found: number },
  );
}

export function checksumNumber(name: ChecksumName): number {
  return CHECKSUM_NAMES.indexOf(name);
}
