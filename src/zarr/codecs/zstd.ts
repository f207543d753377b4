/**
 * The `zstd` codec: zstd frames, their own checksum checked where they have one.
 *
 * Example: `{"name":"zstd","configuration":{"level":3,"checksum":false}}`. Compatible with zarr-python, tensorstore,
 * zarrs and zarrita.
 * @see https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd
 */
import { decodeStream, encodeZstdStream } from "../../codec/index.ts";
import type { JsonObject } from "../../format/types.ts";
import { asInteger, badMember, below, type FieldPlace } from "../document/metadata-fields.ts";
import type { Stage } from "./stage.ts";

const MAX_LEVEL = 22;
const MIN_LEVEL = -131_072;
/** What zstd takes for level 0. */
const DEFAULT_LEVEL = 3;

/** The configured codec. Frames are written without a checksum, which every reader takes. Throws `BAD_FIELD`. */
export function zstdStage(configuration: JsonObject, place: FieldPlace): Stage {
  const level = asInteger(configuration["level"] ?? 0, MIN_LEVEL, below(place, "level"));
  if (level > MAX_LEVEL) throw badMember(below(place, "level"), `at most ${MAX_LEVEL}`, level);
  return {
    name: "zstd",
    v3: { name: "zstd", configuration: { level, checksum: false } },
    fixedOverhead: undefined,
    decode: (bytes, limit) => decodeStream("zstd", bytes, limit),
    encode: (bytes) => encodeZstdStream(bytes, level === 0 ? DEFAULT_LEVEL : level),
  };
}
