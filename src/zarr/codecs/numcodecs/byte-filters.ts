/**
 * Codecs of numcodecs from bytes to bytes: `shuffle`, `lz4`, and checksums of four bytes, which are always checked.
 *
 * Example: `{"id":"shuffle","elementsize":4}`; in Zarr v3 `{"name":"numcodecs.shuffle","configuration":{"elementsize":4}}`.
 * They are read and, but for `shuffle`, not written. Compatible with numcodecs 0.17.
 * @see https://numcodecs.readthedocs.io/en/stable/index.html
 */
import { digest } from "../../../bytes/checksum.ts";
import { decodeStream } from "../../../codec/index.ts";
import { SuperchunkError } from "../../../errors.ts";
import type { JsonObject } from "../../../format/types.ts";
import { asInteger, badMember, below, type FieldPlace } from "../../document/metadata-fields.ts";
import { readOnlyStage, type Stage } from "../stage.ts";

const SUM = 4;
/** Words that fit into 32 bits before sums are folded. */
const WORDS_AT_ONCE = 360;

/** The codec of a name; undefined where there is none. Throws `BAD_FIELD`. */
export function byteFilterOf(name: string, configuration: JsonObject, place: FieldPlace): Stage | undefined {
  switch (name) {
    case "shuffle":
      return shuffleStage(asInteger(configuration["elementsize"] ?? 4, 1, below(place, "elementsize")));
    case "lz4":
      return { ...readOnlyStage("codec", "lz4", { fixedOverhead: undefined }), decode: decodeLz4 };
    case "crc32":
    case "adler32":
      return sumStage(name, isAtStart(configuration, place), async (bytes) => {
        const sum = await digest(name, bytes);
        return new DataView(sum.buffer, sum.byteOffset, SUM).getUint32(0, true);
      });
    case "fletcher32":
      return sumStage(name, false, async (bytes) => fletcher32(bytes));
    default:
      return undefined;
  }
}

function isAtStart(configuration: JsonObject, place: FieldPlace): boolean {
  const location = configuration["location"] ?? "start";
  if (location === "start" || location === "end") return location === "start";
  throw badMember(below(place, "location"), '"start" or "end"', location);
}

/** The first bytes of all elements, then the second ones, and so on. */
function shuffleStage(size: number): Stage {
  const turn = (
    bytes: Uint8Array,
    stride: number,
    step: number,
    rows: number,
    columns: number,
  ): Uint8Array => {
    const out = new Uint8Array(bytes.length);
    let at = 0;
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++)
        out[at++] = bytes[row * stride + column * step] as number;
    return out;
  };
  const countOf = (bytes: Uint8Array): number => {
    if (bytes.length % size === 0) return bytes.length / size;
    throw new SuperchunkError(
      "BAD_CHUNK",
      `the filter "shuffle" gets ${bytes.length} bytes, which are no whole elements of ${size}; the chunk is damaged`,
      { field: "shuffle", expected: `a multiple of ${size}`, found: bytes.length },
    );
  };
  return {
    name: "shuffle",
    v3: undefined,
    fixedOverhead: 0,
    decode: async (bytes) => {
      const count = countOf(bytes);
      return turn(bytes, 1, count, count, size);
    },
    encode: async (bytes) => turn(bytes, 1, size, size, countOf(bytes)),
  };
}

/** A block of lz4 behind its decoded size. */
async function decodeLz4(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const size = bytes.length < SUM ? -1 : new DataView(bytes.buffer, bytes.byteOffset, SUM).getUint32(0, true);
  if (size < 0 || size > limit) {
    throw new SuperchunkError(
      "BAD_CHUNK",
      `the lz4 chunk promises ${size < 0 ? "nothing" : `${size} bytes`}, but may have at most ${limit}; the chunk is damaged`,
      { offset: 0, field: "lz4", expected: limit, found: size },
    );
  }
  const decoded = await decodeStream("lz4", bytes.subarray(SUM), size);
  if (decoded.length === size) return decoded;
  throw new SuperchunkError(
    "BAD_CHUNK",
    `the lz4 chunk promises ${size} bytes at byte 0, but decodes to ${decoded.length}; the chunk is damaged`,
    { offset: 0, field: "lz4", expected: size, found: decoded.length },
  );
}

function sumStage(name: string, atStart: boolean, sumOf: (bytes: Uint8Array) => Promise<number>): Stage {
  return {
    ...readOnlyStage("codec", name, { fixedOverhead: SUM }),
    decode: async (bytes) => {
      if (bytes.length < SUM) {
        throw new SuperchunkError(
          "TRUNCATED",
          `a ${name} takes ${SUM} bytes, but only ${bytes.length} are there`,
          {
            field: name,
            expected: SUM,
            found: bytes.length,
          },
        );
      }
      const at = atStart ? 0 : bytes.length - SUM;
      const data = atStart ? bytes.subarray(SUM) : bytes.subarray(0, at);
      const stored = new DataView(bytes.buffer, bytes.byteOffset + at, SUM).getUint32(0, true);
      const computed = await sumOf(data);
      if (stored === computed) return data;
      throw new SuperchunkError(
        "CHECKSUM_MISMATCH",
        `the stored ${name} at byte ${at} is ${stored}, but the ${data.length} bytes beside it give ${computed}; the bytes are damaged`,
        { offset: at, field: name, expected: stored, found: computed },
      );
    },
  };
}

/** HDF5's Fletcher sum: words of two bytes, the high one first. */
function fletcher32(bytes: Uint8Array): number {
  let low = 0;
  let high = 0;
  const fold = (sum: number): number => (sum & 0xffff) + (sum >>> 16);
  const words = Math.ceil(bytes.length / 2);
  for (let word = 0; word < words; word++) {
    low += ((bytes[2 * word] as number) << 8) | (bytes[2 * word + 1] as number);
    high += low;
    if ((word + 1) % WORDS_AT_ONCE === 0) {
      low = fold(low);
      high = fold(high);
    }
  }
  low = fold(fold(low));
  high = fold(fold(high));
  return ((high << 16) | low) >>> 0;
}
