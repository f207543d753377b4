/**
 * The `gzip` codec, and Zarr v2's `zlib`.
 *
 * Example: `{"name":"gzip","configuration":{"level":5}}`. Compatible with zarr-python, tensorstore, zarrs and zarrita.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html
 */
import { gzipSync, zlibSync } from "fflate";
import { digest } from "../../bytes/checksum.ts";
import { joinBytes } from "../../bytes/join.ts";
import { inflate } from "../../codec/decode/inflate.ts";
import { decodeStream } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { asInteger, badMember, below, type FieldPlace } from "../document/metadata-fields.ts";
import type { Stage } from "./stage.ts";

type Level = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

/** Fixed part of a member's header: magic, method, flags, time, extra flags, system. */
const HEADER = 10;
/** crc32 and size behind a member's stream. */
const TRAILER = 8;
/** Bits of a member's flags: what follows the fixed part of its header. */
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
    encode: async (bytes) => gzipSync(bytes, { level, mtime: 0 }),
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
    encode: async (bytes) => zlibSync(bytes, { level }),
  };
}

function parseLevel(configuration: JsonObject, place: FieldPlace): Level {
  const level = asInteger(configuration["level"] ?? 5, -1, below(place, "level"));
  if (level > 9) throw badMember(below(place, "level"), "0 to 9", level);
  return (level < 0 ? 6 : level) as Level;
}

/** All gzip members (RFC 1952), crc32 and size of each checked. */
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

/** Where the stream of the member at `at` starts. Throws `BAD_CHUNK`. */
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
