/**
 * Makes array and group documents of Zarr v3.
 *
 * Knows their members; must not know archives or stores. It is separate from the code that reads documents, which knows every codec.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
 */
import { jsonBytes } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { type LengthRun, mergeRuns } from "./chunk-grid.ts";

/** Name of the document in a node's folder. */
export const DOCUMENT = "zarr.json";
/** With more nodes, the root document does not repeat theirs: it would no longer fit in memory. */
export const MOST_CONSOLIDATED = 5000;

/** The settings of the `blosc` codec. Readers use the header of the chunk; these settings apply when they write. */
export interface BloscSettings {
  readonly cname: string;
  readonly clevel: number;
  readonly shuffle: "noshuffle" | "shuffle" | "bitshuffle";
  /** 1 to 255, never 0, which readers refuse. */
  readonly typesize: number;
}

/** The contents of an array document. Shapes are in items, in the order of the array's axes. */
interface ArrayDescription {
  readonly shape: readonly number[];
  readonly dataType: JsonValue;
  readonly fillValue: JsonValue;
  readonly bytesCodec: JsonObject;
  readonly blosc: BloscSettings;
  /** Shape of an inner chunk, or of a chunk without sharding. */
  readonly chunkShape: readonly number[];
  /** Shape of a shard; undefined if each chunk is an object. */
  readonly shardShape: readonly number[] | undefined;
  /** Axes in stored order, if that differs from the array's. */
  readonly transpose: readonly number[] | undefined;
  readonly attributes: JsonObject;
  readonly dimensionNames: readonly (string | null)[] | undefined;
}

export function arrayDocument(array: ArrayDescription): JsonObject {
  const chain: JsonValue[] = [array.bytesCodec, bloscCodec(array.blosc)];
  if (array.transpose !== undefined)
    chain.unshift({ name: "transpose", configuration: { order: array.transpose } });
  return {
    zarr_format: 3,
    node_type: "array",
    shape: array.shape,
    data_type: array.dataType,
    chunk_grid: { name: "regular", configuration: { chunk_shape: array.shardShape ?? array.chunkShape } },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: array.fillValue,
    codecs: array.shardShape === undefined ? chain : [shardingCodec(array.chunkShape, chain)],
    attributes: array.attributes,
    ...(array.dimensionNames === undefined ? {} : { dimension_names: array.dimensionNames }),
    storage_transformers: [],
  };
}

/** The same array with a rectilinear grid: chunks of these lengths along one axis, equal ones along the others. */
export function withLengths(document: JsonObject, axis: number, runs: readonly LengthRun[]): JsonObject {
  const lengths = mergeRuns(runs).map(
    ({ length, times }): JsonValue => (times === 1 ? length : [length, times]),
  );
  const shapes = chunkShapeOf(document).map((n, d): JsonValue => (d === axis ? lengths : n));
  return {
    ...document,
    chunk_grid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: shapes } },
  };
}

export function chunkShapeOf(document: JsonObject): readonly number[] {
  const grid = document["chunk_grid"] as { configuration: { chunk_shape: readonly number[] } };
  return grid.configuration.chunk_shape;
}

export function groupDocument(attributes: JsonObject): JsonObject {
  return { zarr_format: 3, node_type: "group", attributes };
}

/**
 * A group's document with those of all nodes below it, consolidated like zarr-python 3.4: flat, sorted by path relative to the
 * group, each group with an empty consolidation. Each path occurs once, in any order.
 */
export function consolidate(
  group: JsonObject,
  below: Iterable<readonly [path: string, document: JsonObject]>,
): JsonObject {
  const metadata = Object.fromEntries(
    [...below]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, document]) => [
        path,
        document["node_type"] === "group" ? { ...document, consolidated_metadata: inline({}) } : document,
      ]),
  );
  return { ...group, consolidated_metadata: inline(metadata) };
}

/** The bytes of a document as it is stored. */
export function encodeDocument(document: JsonObject): Uint8Array {
  return jsonBytes(document, { indent: 2 });
}

/**
 * The stored documents of a hierarchy by key, in publication order: arrays, then groups from the innermost to the root. A group
 * at the root consolidates all other documents. `groups` has outer ones first.
 */
export function encodeNodes(
  groups: ReadonlyMap<string, JsonObject>,
  arrays: ReadonlyMap<string, JsonObject>,
): (readonly [key: string, bytes: Uint8Array])[] {
  const below = [...groups, ...arrays].filter(([node]) => node !== "");
  return [...arrays, ...[...groups].reverse()].map(([node, document]) => [
    joinKey(node, "zarr.json"),
    encodeDocument(node === "" && groups.has("") ? consolidate(document, below) : document),
  ]);
}

/** Key of a chunk or shard, relative to its array. */
export function chunkKey(position: readonly number[]): string {
  return ["c", ...position].join("/");
}

function inline(metadata: JsonObject): JsonObject {
  return { kind: "inline", must_understand: false, metadata };
}

/** The sharding codec; unless `index` says otherwise, as this library writes it: an index at the end, with a checksum. */
export function shardingCodec(
  chunkShape: readonly number[],
  codecs: readonly JsonValue[],
  index: {
    readonly codecs?: readonly JsonValue[] | undefined;
    readonly location?: JsonValue | undefined;
  } = {},
): JsonObject {
  return {
    name: "sharding_indexed",
    configuration: {
      chunk_shape: chunkShape,
      codecs,
      index_codecs: index.codecs ?? [bytesCodec(true), { name: "crc32c" }],
      index_location: index.location ?? "end",
    },
  };
}

/** The codec of items as bytes, little-endian if they have a byte order. */
export function bytesCodec(hasByteOrder: boolean): JsonObject {
  return hasByteOrder ? { name: "bytes", configuration: { endian: "little" } } : { name: "bytes" };
}

/** The `blosc` codec; an item size that Blosc cannot store counts as 1. */
export function bloscCodec({ cname, clevel, shuffle, typesize: size }: BloscSettings): JsonObject {
  const typesize = size >= 1 && size <= 255 ? size : 1;
  return { name: "blosc", configuration: { cname, clevel, shuffle, typesize, blocksize: 0 } };
}
