/** The interface of a bytes-to-bytes codec in a chain. Knows neither arrays nor stores. */
import type { ChunkEncoder } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";

/** The run of a chunk's items from the first requested one to the last. */
export interface ItemSpan {
  readonly first: number;
  readonly count: number;
}

/** One bytes-to-bytes codec, configured. */
export interface Stage {
  /** The codec's name in metadata. */
  readonly name: string;
  /** The codec in Zarr v3's form; undefined if v3 has no name for it. */
  readonly v3: JsonObject | undefined;
  /** Set for a blosc stage: its chunks can be decoded in part. */
  readonly isBlosc?: true;
  /** How many chunks to encode at a time with an encoder, if that depends on the codec's settings. */
  readonly ahead?: (encoder: ChunkEncoder) => number;
  /** Set for one of the caller's own codecs, which threads do not have. */
  readonly isCustom?: true;
  /** Set for a codec that is only read: `encode` throws `UNSUPPORTED`. */
  readonly isReadOnly?: true;
  /** Encoded size for a decoded size, unless the overhead is fixed. */
  readonly encodedLength?: (nbytes: number) => number;
  /** Set for the serializer of values of variable length: their data type in Zarr v3. */
  readonly dataType?: string;
  /** Decodes items `[first, first + count)` of a chunk of `items`, since all of them may take much more memory than what is stored. */
  readonly decodeSpan?: (bytes: Uint8Array, items: number, span: ItemSpan) => Promise<Uint8Array>;
  /** Bytes that it adds, if that is the same for every input; undefined if the size varies. */
  readonly fixedOverhead: number | undefined;
  /** Checks the configuration, where reading the document does not do it yet. Throws `BAD_FIELD` and `UNSUPPORTED`. */
  readonly check?: () => Promise<void>;
  /**
   * Decodes. At most `limit` bytes may result, or exactly that many with `exact`. If `out` is given, it has `limit` bytes, and the
   * result may be (a view of) it. Throws `BAD_CHUNK`, `BAD_FIELD`, `TRUNCATED`, `CHECKSUM_MISMATCH`, `LIMIT`, without a place.
   */
  decode(bytes: Uint8Array, limit: number, exact: boolean, out?: Uint8Array): Promise<Uint8Array>;
  /** Encodes; Blosc chunks with the encoder if given, which may make them in `room`. The result may be a new buffer or the input. */
  encode(bytes: Uint8Array, encoder?: ChunkEncoder, room?: Uint8Array<ArrayBuffer>): Promise<Uint8Array>;
}

/** True for the name of a codec that adds a checksum to a chunk, and compares it. */
export function isChecksum(name: string): boolean {
  return ["crc32c", "crc32", "adler32", "fletcher32"].includes(name);
}

/** Everything but `decode` of a read-only stage; `kind` is its kind in the metadata's terms. */
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

/** The caller's own codec with this name; undefined if there is none. Throws errors of `fromConfig`. */
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
