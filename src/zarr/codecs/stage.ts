/** What a bytes-to-bytes codec of a chain does. Knows neither arrays nor stores. */
import type { ChunkEncoder } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";

/** One bytes-to-bytes codec, configured. */
export interface Stage {
  /** The codec's name in metadata. */
  readonly name: string;
  /** The codec in Zarr v3's words; undefined if it has none for it. */
  readonly v3: JsonObject | undefined;
  /** Set for a blosc stage: chunks that can be decoded in part. */
  readonly isBlosc?: true;
  /** Chunks that are worth encoding at a time with an encoder, where that depends on the codec's settings. */
  readonly ahead?: (encoder: ChunkEncoder) => number;
  /** Set for a codec of the caller's own, which no thread has. */
  readonly isCustom?: true;
  /** Set for what is read, and not written: `encode` throws `UNSUPPORTED`. */
  readonly isReadOnly?: true;
  /** Encoded bytes for so many decoded ones, where that is another rule than a fixed overhead. */
  readonly encodedLength?: (nbytes: number) => number;
  /** Bytes that it adds, where that is the same for every input; undefined if the size varies. */
  readonly fixedOverhead: number | undefined;
  /**
   * Decodes. `limit` is the most that may come out; exactly that where `exact`. Where `out` is given, which has
   * `limit` bytes, the result may be (a view of) it.
   * Throws `BAD_CHUNK`, `BAD_FIELD`, `TRUNCATED`, `CHECKSUM_MISMATCH`, `LIMIT`, without a place.
   */
  decode(bytes: Uint8Array, limit: number, exact: boolean, out?: Uint8Array): Promise<Uint8Array>;
  /**
   * Encodes, Blosc chunks with the encoder if one is given, which may make them in `room`. The result may be a new
   * buffer or the input.
   */
  encode(bytes: Uint8Array, encoder?: ChunkEncoder, room?: Uint8Array<ArrayBuffer>): Promise<Uint8Array>;
}

/** All but the decoding of a stage that is only read, named as metadata call its kind. */
export function readOnlyStage(
  kind: "codec" | "filter",
  name: string,
  size: Pick<Stage, "fixedOverhead" | "encodedLength">,
): Omit<Stage, "decode"> {
  return {
    name,
    v3: undefined,
    isReadOnly: true,
    ...size,
    encode: () =>
      Promise.reject(new SuperchunkError("UNSUPPORTED", `the ${kind} "${name}" is read, and not written`)),
  };
}

/** A configured codec of the caller's program: from bytes to bytes, with the methods of numcodecs' codecs. */
export interface CustomCodec {
  encode(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>;
  decode(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/**
 * Codecs of the caller's program, by their names in metadata: `name` of Zarr v3, `id` of version 2. They replace superchunk's codecs of the
 * same names, except `bytes`, `transpose` and `sharding_indexed`.
 */
export interface CustomCodecs {
  readonly [name: string]: { fromConfig(configuration: JsonObject): CustomCodec };
}

/** The codec of the caller's own with this name; undefined if there is none. Throws what `fromConfig` throws. */
export function customStage(
  name: string,
  configuration: JsonObject,
  codecs: CustomCodecs | undefined,
): Stage | undefined {
  if (codecs === undefined || !Object.hasOwn(codecs, name)) return undefined;
  const codec = codecs[name]?.fromConfig(configuration);
  if (codec === undefined) return undefined;
  const call = async (verb: "encode" | "decode", bytes: Uint8Array): Promise<Uint8Array> => {
    let result: Uint8Array;
    try {
      result = await codec[verb](bytes);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SuperchunkError("BAD_CHUNK", `the codec "${name}" could not ${verb}: ${reason}`, { cause });
    }
    if (result instanceof Uint8Array) return result;
    throw new SuperchunkError("BAD_ARGUMENT", `the codec "${name}" did not ${verb} to a Uint8Array`, {
      field: `customCodecs.${name}`,
      found: typeof result,
    });
  };
  return {
    name,
    v3: { name, configuration },
    isCustom: true,
    fixedOverhead: undefined,
    async decode(bytes, limit) {
      const result = await call("decode", bytes);
      if (result.length <= limit) return result;
      throw new SuperchunkError("LIMIT", `the codec "${name}" gives more bytes than the chunk has`, {
        expected: limit,
        found: result.length,
      });
    },
    encode: (bytes) => call("encode", bytes),
  };
}
