/**
 * The codec chain of an array: the meaning of Zarr v3's `codecs`, nested to any depth.
 *
 * Knows names and configurations; must not know stores. All transposes before a serializer are combined into one permutation.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#codecs
 */
import { at } from "../../bytes/arrays.ts";
import { isObject } from "../../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { hasByteOrder, parseDataType, withByteOrder } from "../document/data-type.ts";
import {
  asExtension,
  asIntegers,
  asList,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "../document/metadata-fields.ts";
import { parseIndexCodecs, type ShardIndex, type ShardIndexLayout } from "../read/shard-index.ts";
import { bloscStage, crc32cStage, gzipStage, zlibStage, zstdStage } from "./bytes-codecs.ts";
import { type ArrayFilter, arrayFilterOf, byteFilterOf, type FilterContext } from "./numcodecs.ts";
import { type CustomCodecs, customStage, readOnlyStage, type Stage } from "./stage.ts";

/** A chain: permutation, serializer, stages. */
export interface Chain {
  /** Dimension of the array that is stored as the i-th; undefined if they are stored in order. */
  readonly order: readonly number[] | undefined;
  readonly serializer: BytesSerializer | ShardingSerializer;
  /** In encoding order. */
  readonly stages: readonly Stage[];
}

/** Contiguous items. */
export interface BytesSerializer {
  readonly kind: "bytes";
  readonly endian: "little" | "big";
}

/** Inner chunks and their index. */
export interface ShardingSerializer {
  readonly kind: "sharding";
  /** Shape of an inner chunk, in stored dimension order. */
  readonly chunkShape: readonly number[];
  readonly inner: Chain;
  readonly index: ShardIndexLayout;
}

/** Zarr v3's prefix of the names of numcodecs. */
const PREFIX = "numcodecs.";

/** Maximum nesting depth of chains. */
const MAX_DEPTH = 16;

/** What a chain is configured for. */
export interface ChainContext {
  readonly dtype: DType;
  /** Shape of the chunks that it encodes. */
  readonly shape: readonly number[];
  /** Further shapes that it must encode: those of a rectilinear grid, by dimension. */
  readonly lengths?: readonly (readonly number[])[] | undefined;
  /** The caller's own codecs. */
  readonly codecs?: CustomCodecs | undefined;
}

/**
 * Parses a list of codecs as a chain. Throws `BAD_FIELD` if it contradicts itself or the chunk's shape, `UNSUPPORTED` for
 * unknown codecs.
 */
export function parseChain(
  value: JsonValue | undefined,
  context: ChainContext,
  place: FieldPlace,
  depth = 0,
): Chain {
  if (depth > MAX_DEPTH)
    throw unsupportedMember(place, `is nested more than ${MAX_DEPTH} levels deep`, depth);
  const { dtype, codecs } = context;
  let order: readonly number[] | undefined;
  let serializer: Chain["serializer"] | undefined;
  const stages: Stage[] = [];
  const entries = asList(value, place);
  const endian = endianOf(entries);
  // Filters change the data type that the serializer sees. In the chain of bytes they come after it.
  let stored = dtype;
  entries.forEach((entry, i) => {
    const at = below(place, String(i));
    const { name, configuration } = asExtension(entry, at);
    const inside = below(at, "configuration");
    const custom = customStage(name, configuration, codecs);
    const items = { dtype: stored, byteOrder: endian };
    const filter =
      custom !== undefined
        ? undefined
        : name.startsWith(PREFIX)
          ? arrayFilterOf(name.slice(PREFIX.length), configuration, items, inside)
          : numberCodec(name, configuration, items, inside);
    if (filter !== undefined) {
      if (serializer !== undefined || order !== undefined)
        throw unsupportedMember(
          at,
          `is the codec ${showJson(name)} after a serializer or a transpose`,
          entry,
        );
      stages.push(filter.stage);
      stored = filter.encoded;
      return;
    }
    if (name === "transpose" || name === "bytes" || name === "sharding_indexed") {
      if (serializer !== undefined)
        throw badMember(at, `a bytes-to-bytes codec, because it follows "${serializer.kind}"`, entry);
      if (name === "transpose")
        order = joinOrders(order, parseOrder(configuration, context.shape.length, inside));
      else if (name === "bytes") serializer = parseBytes(configuration, stored, inside);
      else if (stages.length === 0) serializer = parseSharding(configuration, context, order, inside, depth);
      else
        throw unsupportedMember(
          at,
          "follows a codec that changes values, which superchunk reads only inside shards",
          entry,
        );
      return;
    }
    const stage = custom ?? stageOf(name, configuration, dtype.itemSize, inside);
    if (stage === undefined)
      throw unsupportedMember(
        at,
        `is the codec ${showJson(name)}, which superchunk does not have; it has bytes, transpose, sharding_indexed, blosc, gzip, zstd, crc32c, scale_offset, cast_value, and of numcodecs ${NUMCODECS}; the option "customCodecs" of open gives it others`,
        entry,
      );
    if (serializer === undefined) throw badMember(at, 'a codec after "bytes" or "sharding_indexed"', entry);
    stages.push(stage);
  });
  if (serializer === undefined) throw badMember(place, 'a list with "bytes" or "sharding_indexed"', value);
  return { order: order?.every((d, i) => d === i) === true ? undefined : order, serializer, stages };
}

/** The filters and codecs of numcodecs that can be read, for messages. */
export const NUMCODECS =
  "shuffle, delta, astype, fixedscaleoffset, quantize, bitround, packbits, zlib, lz4, crc32, crc32c, adler32 and fletcher32";

/** A codec of `number-codecs.ts`, which is loaded only where an array has one: for pages. */
function numberCodec(
  name: string,
  configuration: JsonObject,
  context: FilterContext,
  place: FieldPlace,
): ArrayFilter | undefined {
  if (name !== "scale_offset" && name !== "cast_value") return undefined;
  const { dtype, byteOrder } = context;
  const type =
    name === "cast_value" ? parseDataType(configuration["data_type"], below(place, "data_type")) : dtype;
  const encoded = byteOrder === undefined ? type : withByteOrder(type, byteOrder);
  let made: Stage | undefined;
  const load = async (): Promise<Stage> => {
    made ??= (await import("./number-codecs.ts")).numberCodecOf(name, configuration, context, encoded, place);
    return made;
  };
  const encodedLength = (nbytes: number): number => (nbytes / dtype.itemSize) * encoded.itemSize;
  const stage: Stage = {
    ...readOnlyStage("filter", name, { fixedOverhead: undefined, encodedLength }),
    check: async () => void (await load()),
    decode: async (...given) => (await load()).decode(...given),
  };
  return { stage, encoded };
}

/** The byte order of everything before `bytes`. */
function endianOf(entries: readonly JsonValue[]): "little" | "big" | undefined {
  for (const entry of entries) {
    if (!isObject(entry) || entry["name"] !== "bytes" || !isObject(entry["configuration"])) continue;
    const { endian } = entry["configuration"];
    if (endian === "little" || endian === "big") return endian;
  }
  return undefined;
}

/** A bytes-to-bytes codec by name, including those of numcodecs; undefined if there is none. Throws `BAD_FIELD`. */
export function stageOf(
  name: string,
  configuration: JsonObject,
  itemSize: number,
  place: FieldPlace,
): Stage | undefined {
  switch (name) {
    case "blosc":
    case "numcodecs.blosc":
      return bloscStage(configuration, itemSize, place);
    case "gzip":
    case "numcodecs.gzip":
      return gzipStage(configuration, place);
    case "zlib":
    case "numcodecs.zlib":
      return zlibStage(configuration, place);
    case "zstd":
    case "numcodecs.zstd":
      return zstdStage(configuration, place);
    case "crc32c":
    case "numcodecs.crc32c":
      if (configuration["location"] !== "start") return crc32cStage();
      throw unsupportedMember(
        below(place, "location"),
        'is "start", but superchunk reads crc32c at the end',
        "start",
      );
    default:
      return name.startsWith(PREFIX)
        ? byteFilterOf(name.slice(PREFIX.length), configuration, place)
        : undefined;
  }
}

/** Items of a permuted list: entry i is `values[order[i]]`. */
export function permute<T>(values: readonly T[], order: readonly number[] | undefined): readonly T[] {
  return order === undefined ? values : order.map((d) => values[d] as T);
}

/** Undoes {@link permute}. */
export function unpermute<T>(values: readonly T[], order: readonly number[] | undefined): readonly T[] {
  return order === undefined ? values : values.map((_, d) => values[order.indexOf(d)] as T);
}

/** Number of inner chunks along each dimension of a shard of this shape, in stored dimension order. */
export function innerGrid({ chunkShape }: ShardingSerializer, shape: readonly number[]): number[] {
  return shape.map((n, d) => n / at(chunkShape, d));
}

/** The index of a shard of this shape. */
export function shardIndexOf(
  { order }: Chain,
  serializer: ShardingSerializer,
  shape: readonly number[],
): ShardIndex {
  return { grid: innerGrid(serializer, permute(shape, order)), layout: serializer.index };
}

/** The innermost chain, which holds the items. */
export function leafOf(chain: Chain): Chain & { readonly serializer: BytesSerializer } {
  const { serializer } = chain;
  return serializer.kind === "bytes" ? { ...chain, serializer } : leafOf(serializer.inner);
}

export function stagesOf({ serializer, stages }: Chain): readonly Stage[] {
  return serializer.kind === "bytes" ? stages : [...stages, ...stagesOf(serializer.inner)];
}

function joinOrders(first: readonly number[] | undefined, second: readonly number[]): readonly number[] {
  return first === undefined ? second : second.map((d) => at(first, d));
}

/** The permutation of `transpose`; early drafts wrote "C" and "F". */
function parseOrder(configuration: JsonObject, dimensions: number, place: FieldPlace): readonly number[] {
  const value = configuration["order"];
  const all = Array.from({ length: dimensions }, (_, d) => d);
  if (value === "C") return all;
  if (value === "F") return all.reverse();
  const order = asIntegers(value, 0, below(place, "order"), dimensions);
  if ([...order].sort((a, b) => a - b).some((d, i) => d !== i))
    throw badMember(below(place, "order"), `each of 0 to ${dimensions - 1} once`, value);
  return order;
}

function parseBytes(configuration: JsonObject, dtype: DType, place: FieldPlace): BytesSerializer {
  const endian = configuration["endian"];
  if (endian === "little" || endian === "big") return { kind: "bytes", endian };
  // zarr-python 3.1 writes none for structs, and every version of it reads them as little-endian.
  if (endian === undefined && (dtype.kind === "struct" || !hasByteOrder(dtype)))
    return { kind: "bytes", endian: "little" };
  throw badMember(below(place, "endian"), '"little" or "big"', endian);
}

function parseSharding(
  configuration: JsonObject,
  context: ChainContext,
  order: readonly number[] | undefined,
  place: FieldPlace,
  depth: number,
): ShardingSerializer {
  const shape = permute(context.shape, order);
  const lengths = permute(context.lengths ?? context.shape.map((n) => [n]), order);
  const at = below(place, "chunk_shape");
  const chunkShape = asIntegers(configuration["chunk_shape"], 1, at, shape.length);
  chunkShape.forEach((length, d) => {
    for (const whole of lengths[d] ?? [])
      if (whole % length !== 0)
        throw badMember(at, `a divisor of the outer chunk's shape [${shape}] in each dimension`, chunkShape);
  });
  const inner = parseChain(
    configuration["codecs"],
    { dtype: context.dtype, shape: chunkShape, codecs: context.codecs },
    below(place, "codecs"),
    depth + 1,
  );
  return { kind: "sharding", chunkShape, inner, index: parseIndexCodecs(configuration, shape.length, place) };
}
