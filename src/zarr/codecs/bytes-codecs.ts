/** Zarr's bytes-to-bytes codecs: blosc, crc32c, zlib and gzip, zstd. */

import { hex32, joinBytes } from "../../bytes/arrays.ts";
import { crc32c, digest } from "../../bytes/checksum.ts";
import { decode } from "../../codec/decode/decode.ts";
import { checkExpectations, decodeHeader } from "../../codec/header.ts";
import { HERE } from "../../codec/made.ts";
import { decodeStream, inflate } from "../../codec/stream.ts";
import type { ChunkHeader, CompressorName, EncodeOptions, Shuffle } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { asInteger, asText, badMember, below, type FieldPlace } from "../document/metadata-fields.ts";
import type { Stage } from "./stage.ts";

let zstd: typeof import("../../codec/encode/zstd-library.ts") | undefined;
const loadZstd = async () => (zstd ??= await import("../../codec/encode/zstd-library.ts"));

// The `crc32c` codec: four bytes after the data, always checked. Example: `{"name":"crc32c"}`. Compatible with zarr-python,
// tensorstore and zarrs.
// @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html

const LENGTH = 4;

/** The configured codec. */
export function crc32cStage(): Stage {
  return {
    name: "crc32c",
    v3: { name: "crc32c" },
    fixedOverhead: LENGTH,
    decode: verifyCrc32c,
    encode: appendCrc32c,
  };
}

/** The bytes before the checksum, as a view. Throws `TRUNCATED`, `CHECKSUM_MISMATCH`. */
async function verifyCrc32c(bytes: Uint8Array): Promise<Uint8Array> {
  if (bytes.length < LENGTH)
    throw new SuperchunkError(
      "TRUNCATED",
      `a crc32c takes ${LENGTH} bytes, but only ${bytes.length} are there`,
      { field: "crc32c", expected: LENGTH, found: bytes.length },
    );
  const end = bytes.length - LENGTH;
  const data = bytes.subarray(0, end);
  const stored = new DataView(bytes.buffer, bytes.byteOffset + end, LENGTH).getUint32(0, true);
  const computed = await crc32c(data);
  if (stored === computed) return data;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the stored crc32c is 0x${hex32(stored)}, but the ${end} bytes before it give 0x${hex32(computed)}; the bytes are damaged`,
    { field: "crc32c", expected: `0x${hex32(stored)}`, found: `0x${hex32(computed)}` },
  );
}

async function appendCrc32c(bytes: Uint8Array): Promise<Uint8Array> {
  const out = new Uint8Array(bytes.length + LENGTH);
  out.set(bytes);
  new DataView(out.buffer).setUint32(bytes.length, await crc32c(bytes), true);
  return out;
}

// The `zstd` codec: zstd frames; a frame's own checksum is checked if present. Example:
// `{"name":"zstd","configuration":{"level":3,"checksum":false}}`. Compatible with zarr-python, tensorstore, zarrs and zarrita.
// @see https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd

const MAX_LEVEL = 22;
const MIN_LEVEL = -131_072;
/** What zstd uses for level 0. */
const DEFAULT_LEVEL = 3;

/** The configured codec. Frames are written without a checksum, which every reader accepts. Throws `BAD_FIELD`. */
export function zstdStage(configuration: JsonObject, place: FieldPlace): Stage {
  const level = asInteger(configuration["level"] ?? 0, MIN_LEVEL, below(place, "level"));
  if (level > MAX_LEVEL) throw badMember(below(place, "level"), `at most ${MAX_LEVEL}`, level);
  return {
    name: "zstd",
    v3: { name: "zstd", configuration: { level, checksum: false } },
    fixedOverhead: undefined,
    decode: (bytes, limit) => decodeStream("zstd", bytes, limit),
    encode: async (bytes) => (await loadZstd()).encodeZstdStream(bytes, level || DEFAULT_LEVEL),
  };
}

// The `blosc` codec: one Blosc1 chunk.
// Example: `{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":8,"blocksize":0}}`.
// Compatible with zarr-python, tensorstore, zarrs and numcodecs.
// @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html

// As in the encoder, which readers do not load.
const COMPRESSORS: readonly string[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

/** The configured codec; Zarr v2's numbers for `shuffle` are accepted too. Throws `BAD_FIELD`. */
export function bloscStage(configuration: JsonObject, itemSize: number, place: FieldPlace): Stage {
  const options = parseOptions(configuration, itemSize, place);
  return {
    name: "blosc",
    v3: { name: "blosc", configuration: { ...options } },
    isBlosc: true,
    ahead: (encoder) => encoder.parallelOf?.(options.cname) ?? encoder.parallel,
    fixedOverhead: undefined,
    decode: decodeChunk,
    encode: (bytes, encoder = HERE, room) => encoder.encode(bytes, options, room),
  };
}

/** Decodes a whole chunk, which must be all of the bytes. */
async function decodeChunk(
  bytes: Uint8Array,
  limit: number,
  exact: boolean,
  out?: Uint8Array,
): Promise<Uint8Array> {
  wholeChunk(bytes);
  return decode(bytes, { ...(exact ? { expectedNbytes: limit } : { maxNbytes: limit }), out });
}

/**
 * Checks that the bytes are exactly one chunk, and that it decodes to `expectedNbytes` if given. `stored`: the length of the chunk, if the
 * bytes are only its header.
 * @throws BAD_FIELD, TRUNCATED
 */
export function wholeChunk(bytes: Uint8Array, expectedNbytes?: number, stored: number = bytes.length): void {
  const header = headerOf(bytes, stored);
  const { ctbytes } = header;
  if (ctbytes !== stored)
    throw new SuperchunkError(
      "BAD_FIELD",
      `the Blosc header's ctbytes at byte 12 is ${ctbytes}, but ${stored} bytes are stored; the chunk or its index entry is damaged`,
      { offset: 12, field: "ctbytes", expected: stored, found: ctbytes },
    );
  checkExpectations(header, { expectedNbytes });
}

/** No program ever wrote another version or compressor under this codec's name, so such bytes are damaged. */
function headerOf(bytes: Uint8Array, stored: number): ChunkHeader {
  try {
    return decodeHeader(bytes, stored);
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    throw new SuperchunkError("BAD_FIELD", error.summary, error.details);
  }
}

function parseOptions(
  configuration: JsonObject,
  itemSize: number,
  place: FieldPlace,
): Required<EncodeOptions> {
  const cname = asText(configuration["cname"] ?? "lz4", below(place, "cname"));
  if (!COMPRESSORS.includes(cname))
    throw badMember(below(place, "cname"), `one of ${COMPRESSORS.join(", ")}`, cname);
  const clevel = asInteger(configuration["clevel"] ?? 5, 0, below(place, "clevel"));
  if (clevel > 9) throw badMember(below(place, "clevel"), "0 to 9", clevel);
  const typesize = asInteger(configuration["typesize"] ?? itemSize, 0, below(place, "typesize"));
  const blocksize = asInteger(configuration["blocksize"] ?? 0, 0, below(place, "blocksize"));
  return {
    cname: cname as CompressorName,
    clevel,
    shuffle: parseShuffle(configuration["shuffle"] ?? "noshuffle", itemSize, below(place, "shuffle")),
    // c-blosc stores 1 for element sizes that do not fit a byte.
    typesize: typesize >= 1 && typesize <= 255 ? typesize : 1,
    blocksize,
  };
}

function parseShuffle(value: unknown, itemSize: number, place: FieldPlace): Shuffle {
  if (typeof value === "string" && SHUFFLES.includes(value as Shuffle)) return value as Shuffle;
  // numcodecs: -1 chooses bitshuffle for single bytes, else shuffle.
  if (value === -1) return itemSize === 1 ? "bitshuffle" : "shuffle";
  const byNumber = typeof value === "number" ? SHUFFLES[value] : undefined;
  if (byNumber !== undefined) return byNumber;
  throw badMember(place, SHUFFLES.join(", "), value);
}

// The `gzip` codec, and Zarr v2's `zlib`. Example: `{"name":"gzip","configuration":{"level":5}}`. Compatible with zarr-python,
// tensorstore, zarrs and zarrita.
// @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html

type Level = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

/** Fixed part of a member's header: magic, method, flags, time, extra flags, system. */
const HEADER = 10;
/** The crc32 and size after a member's stream. */
const TRAILER = 8;
/** Flag bits of a member: what follows the fixed part of its header. */
const HAS_CRC = 2;
const HAS_EXTRA = 4;
const HAS_NAME = 8;
const HAS_COMMENT = 16;
const RESERVED = 0xe0;

/** The configured codec. Throws `BAD_FIELD`. */
export function gzipStage(configuration: JsonObject, place: FieldPlace): Stage {
  const level = parseLevel(configuration, place);
  return {
    name: "gzip",
    v3: { name: "gzip", configuration: { level } },
    fixedOverhead: undefined,
    decode: gunzip,
    // Loaded by writers only.
    encode: async (bytes) => (await import("fflate")).gzipSync(bytes, { level, mtime: 0 }),
  };
}

/** The configured codec of Zarr v2. Throws `BAD_FIELD`. */
export function zlibStage(configuration: JsonObject, place: FieldPlace): Stage {
  const level = parseLevel(configuration, place);
  return {
    name: "zlib",
    v3: undefined,
    fixedOverhead: undefined,
    decode: (bytes, limit) => decodeStream("zlib", bytes, limit),
    encode: async (bytes) => (await import("fflate")).zlibSync(bytes, { level }),
  };
}

function parseLevel(configuration: JsonObject, place: FieldPlace): Level {
  const level = asInteger(configuration["level"] ?? 5, -1, below(place, "level"));
  if (level > 9) throw badMember(below(place, "level"), "0 to 9", level);
  return (level < 0 ? 6 : level) as Level;
}

/** Decodes all gzip members (RFC 1952), and checks crc32 and size of each. */
async function gunzip(
  bytes: Uint8Array,
  limit: number,
  _exact: boolean,
  out?: Uint8Array,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  let at = 0;
  do {
    const start = skipHeader(bytes, at);
    const room = out?.subarray(length, limit);
    const member = await inflate(bytes.subarray(start), limit - length, room);
    at = start + member.consumed + TRAILER;
    if (at > bytes.length) throw wrong("ends in the middle of a member", at, bytes.length);
    await checkTrailer(bytes, at - TRAILER, member.bytes);
    parts.push(member.bytes);
    length += member.bytes.length;
  } while (at < bytes.length);
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  if (out !== undefined) return out.subarray(0, length);
  return joinBytes(parts);
}

/** Start of the compressed stream of the member at `at`. Throws `BAD_CHUNK`. */
function skipHeader(bytes: Uint8Array, at: number): number {
  if (bytes.length - at < HEADER + TRAILER)
    throw wrong(`has only ${bytes.length - at} bytes at byte ${at}`, HEADER + TRAILER, bytes.length - at);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.getUint16(at);
  const flags = view.getUint8(at + 3);
  if (magic !== 0x1f8b || view.getUint8(at + 2) !== 8 || (flags & RESERVED) !== 0)
    throw wrong(`has no header of a member at byte ${at}`, "1f 8b 08", magic.toString(16));
  let next = at + HEADER;
  if ((flags & HAS_EXTRA) !== 0) next += 2 + view.getUint16(next, true);
  for (const flag of [HAS_NAME, HAS_COMMENT]) {
    if ((flags & flag) === 0) continue;
    const end = bytes.indexOf(0, next);
    next = end < 0 ? bytes.length : end + 1;
  }
  if ((flags & HAS_CRC) !== 0) next += 2;
  if (next > bytes.length - TRAILER) throw wrong("ends in a header", next + TRAILER, bytes.length);
  return next;
}

async function checkTrailer(bytes: Uint8Array, at: number, member: Uint8Array): Promise<void> {
  const trailer = new DataView(bytes.buffer, bytes.byteOffset + at, TRAILER);
  const size = trailer.getUint32(4, true);
  if (size !== member.length % 2 ** 32)
    throw wrong(`says ${size} bytes at byte ${at + 4}, but gives ${member.length}`, size, member.length);
  const sum = await digest("crc32", member);
  const computed = new DataView(sum.buffer, sum.byteOffset, 4).getUint32(0, true);
  const stored = trailer.getUint32(0, true);
  if (stored === computed) return;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the crc32 of the gzip stream at byte ${at} is ${stored}, but its bytes give ${computed}; the bytes are damaged`,
    { offset: at, field: "gzip", expected: stored, found: computed },
  );
}

function wrong(what: string, expected: unknown, found: unknown): SuperchunkError {
  return new SuperchunkError("BAD_CHUNK", `the gzip stream ${what}; the chunk is damaged`, {
    field: "gzip",
    expected,
    found,
  });
}
