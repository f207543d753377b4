/**
 * The `gzip` codec, and Zarr v2's `zlib`.
 *
 * Example: `{"name":"gzip","configuration":{"level":5}}`. Compatible with zarr-python, tensorstore, zarrs and zarrita.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html
 */
import { gunzipSync, gzipSync, zlibSync } from "fflate";
import { digest } from "../../bytes/checksum.ts";
import { decodeStream } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { asInteger, badMember, below, type FieldPlace } from "../metadata-fields.ts";
import type { Stage } from "./stage.ts";

type Level = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

/** Shortest gzip member: header, an empty block, crc32 and size. */
const SHORTEST = 20;
const TRAILER = 8;
/** Most bytes that deflate makes of one. */
const MAX_RATIO = 1032;

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

/** One gzip member, its crc32 and size checked: fflate does not look at them. */
async function gunzip(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  if (bytes.length < SHORTEST) throw wrong(`has only ${bytes.length} bytes`, SHORTEST, bytes.length);
  // One byte more than allowed shows a stream that is too long; room is only made for what deflate can give.
  const room = new Uint8Array(Math.min(limit, bytes.length * MAX_RATIO) + 1);
  let out: Uint8Array;
  try {
    out = gunzipSync(bytes, { out: room });
  } catch (cause) {
    if (isSuperchunkError(cause)) throw cause;
    throw wrong(
      `cannot be unpacked (${cause instanceof Error ? cause.message : String(cause)})`,
      limit,
      undefined,
      cause,
    );
  }
  if (out.length > limit) throw wrong(`gives more than ${limit} bytes`, limit, out.length);
  const trailer = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - TRAILER, TRAILER);
  const size = trailer.getUint32(4, true);
  if (size !== out.length)
    throw wrong(`says ${size} bytes at its end, but gives ${out.length}`, size, out.length);
  const sum = await digest("crc32", out);
  const computed = new DataView(sum.buffer, sum.byteOffset, 4).getUint32(0, true);
  const stored = trailer.getUint32(0, true);
  if (stored === computed) return out;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the crc32 of the gzip stream is ${stored}, but its bytes give ${computed}; the bytes are damaged`,
    { field: "gzip", expected: stored, found: computed },
  );
}

function wrong(what: string, expected: unknown, found: unknown, cause?: unknown): SuperchunkError {
  return new SuperchunkError("BAD_CHUNK", `the gzip stream ${what}; the chunk is damaged`, {
    field: "gzip",
    expected,
    found,
    ...(cause === undefined ? {} : { cause }),
  });
}
