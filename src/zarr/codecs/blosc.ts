/**
 * The `blosc` codec: one Blosc1 chunk.
 *
 * Example: `{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":8,"blocksize":0}}`.
 * Compatible with zarr-python, tensorstore, zarrs and numcodecs.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html
 */
import { decode, encodeHere, info } from "../../codec/index.ts";
import type { ChunkHeader, CompressorName, EncodeOptions, Shuffle } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { asInteger, asText, badMember, below, type FieldPlace } from "../document/metadata-fields.ts";
import type { Stage } from "./stage.ts";

const COMPRESSORS: readonly string[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

/** The configured codec; numbers of Zarr v2 for `shuffle` are taken too. Throws `BAD_FIELD`. */
export function bloscStage(configuration: JsonObject, itemSize: number, place: FieldPlace): Stage {
  const options = parseOptions(configuration, itemSize, place);
  return {
    name: "blosc",
    v3: { name: "blosc", configuration: { ...options } },
    isBlosc: true,
    ahead: (encoder) => encoder.parallelOf?.(options.cname) ?? encoder.parallel,
    fixedOverhead: undefined,
    decode: decodeChunk,
    encode: (bytes, encoder = encodeHere, room) => encoder.encode(bytes, options, room),
  };
}

/** A whole chunk, which must be all of the bytes. */
async function decodeChunk(
  bytes: Uint8Array,
  limit: number,
  exact: boolean,
  out?: Uint8Array,
): Promise<Uint8Array> {
  const { ctbytes } = headerOf(bytes);
  if (ctbytes !== bytes.length) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `the Blosc header's ctbytes at byte 12 is ${ctbytes}, but ${bytes.length} bytes are stored; the chunk or its index entry is damaged`,
      { offset: 12, field: "ctbytes", expected: bytes.length, found: ctbytes },
    );
  }
  return decode(bytes, { ...(exact ? { expectedNbytes: limit } : { maxNbytes: limit }), out });
}

/** No program ever wrote another version or compressor under this codec's name: such bytes are damaged. */
function headerOf(bytes: Uint8Array): ChunkHeader {
  try {
    return info(bytes);
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
