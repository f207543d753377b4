/**
 * Array and group documents of Zarr v3, read and written.
 *
 * Knows their members; must not know archives or stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
 */
import { at } from "../../bytes/at.ts";
import { isObject, stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { parseChain } from "../codecs/chain.ts";
import type { CustomCodecs } from "../codecs/stage.ts";
import { type LengthRun, mergeRuns, parseChunkGrid } from "./chunk-grid.ts";
import { parseDataType, parseFillValue } from "./data-type.ts";
import {
  asExtension,
  asIntegers,
  asList,
  asObject,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "./metadata-fields.ts";
import type { ArrayModel, GroupModel } from "./model.ts";

/** Name of the document in a node's folder. */
export const DOCUMENT = "zarr.json";

const ARRAY_MEMBERS: ReadonlySet<string> = new Set([
  ...[
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
  ],
  ...["attributes", "dimension_names", "storage_transformers"],
]);
const GROUP_MEMBERS: ReadonlySet<string> = new Set([
  ...["zarr_format", "node_type", "attributes", "consolidated_metadata"],
]);

/** The node that a `zarr.json` describes. `path` is the node's folder. Throws `BAD_FIELD`, `UNSUPPORTED`. */
export function parseDocument(
  document: JsonValue,
  path: string,
  name: string,
  codecs?: CustomCodecs,
): ArrayModel | GroupModel {
  const root: FieldPlace = { path: name, field: "" };
  const object = asObject(document, { path: name, field: "the document" });
  if (object["zarr_format"] !== 3) throw badMember(below(root, "zarr_format"), "3", object["zarr_format"]);
  const type = object["node_type"];
  if (type === "group") return parseGroup(object, path, root);
  if (type === "array") return parseArray(object, path, root, codecs);
  throw badMember(below(root, "node_type"), '"array" or "group"', type);
}

function parseGroup(document: JsonObject, path: string, root: FieldPlace): GroupModel {
  refuseUnknown(document, GROUP_MEMBERS, root);
  const stored = document["consolidated_metadata"];
  const metadata = isObject(stored) && stored["kind"] === "inline" ? stored["metadata"] : undefined;
  return {
    dialect: "zarr3",
    path,
    attributes: attributesOf(document, root),
    document,
    consolidated: isObject(metadata) ? metadata : undefined,
  };
}

function parseArray(
  document: JsonObject,
  path: string,
  root: FieldPlace,
  codecs: CustomCodecs | undefined,
): ArrayModel {
  refuseUnknown(document, ARRAY_MEMBERS, root);
  const transformers = document["storage_transformers"] ?? [];
  if (asList(transformers, below(root, "storage_transformers")).length > 0) {
    throw unsupportedMember(
      below(root, "storage_transformers"),
      "has entries, of which Zarr v3 defines none",
      transformers,
    );
  }
  const shape = asIntegers(document["shape"], 0, below(root, "shape"));
  const dtype = parseDataType(document["data_type"], below(root, "data_type"));
  const axes = parseChunkGrid(document["chunk_grid"], shape, below(root, "chunk_grid"));
  const chain = parseChain(
    document["codecs"],
    {
      ...{ dtype, codecs, lengths: axes.map((axis) => axis.lengths) },
      shape: axes.map((axis) => at(axis.lengths, 0)),
    },
    below(root, "codecs"),
  );
  const fillValue = document["fill_value"];
  const fillPlace = below(root, "fill_value");
  if (fillValue === undefined || fillValue === null)
    throw badMember(fillPlace, "a value of the data type", fillValue);
  const encode = parseKeyEncoding(document["chunk_key_encoding"], below(root, "chunk_key_encoding"));
  return {
    dialect: "zarr3",
    path,
    dtype,
    shape,
    axes,
    chain,
    fillItem: parseFillValue(dtype, fillValue, fillPlace),
    fillValue,
    attributes: attributesOf(document, root),
    dimensionNames: namesOf(document["dimension_names"], shape.length, below(root, "dimension_names")),
    dataFolder: path,
    chunkKey: (position) => joinKey(path, encode(position)),
    document,
    metadataKeys: [joinKey(path, DOCUMENT)],
    warnings: [],
  };
}

/** Members that are not known here must say that they may be ignored. */
function refuseUnknown(document: JsonObject, known: ReadonlySet<string>, root: FieldPlace): void {
  for (const [name, value] of Object.entries(document)) {
    if (known.has(name) || (isObject(value) && value["must_understand"] === false)) continue;
    throw unsupportedMember(
      below(root, name),
      'is not a member that superchunk knows, and does not say "must_understand": false',
      value,
    );
  }
}

function attributesOf(document: JsonObject, root: FieldPlace): JsonObject {
  const stored = document["attributes"];
  return stored === undefined ? {} : asObject(stored, below(root, "attributes"));
}

function namesOf(
  value: JsonValue | undefined,
  dimensions: number,
  place: FieldPlace,
): readonly (string | null)[] | undefined {
  if (value === undefined || value === null) return undefined;
  const names = asList(value, place);
  if (names.length !== dimensions)
    throw badMember(place, `a list of ${dimensions}, one for each dimension`, value);
  return names.map((name) => {
    if (name === null || typeof name === "string") return name;
    throw badMember(place, "strings and null", value);
  });
}

/** Keys of chunks: `c/0/1` or `c.0.1` by default, `0.1` or `0/1` as in version 2. */
function parseKeyEncoding(
  value: JsonValue | undefined,
  place: FieldPlace,
): (position: readonly number[]) => string {
  const { name, configuration } = asExtension(value, place);
  if (name !== "default" && name !== "v2") {
    throw unsupportedMember(place, `is ${showJson(name)}; superchunk knows "default" and "v2"`, value);
  }
  const separator = configuration["separator"] ?? (name === "default" ? "/" : ".");
  if (separator !== "/" && separator !== ".") {
    throw badMember(below(place, "configuration.separator"), '"/" or "."', separator);
  }
  return name === "default"
    ? (position) => ["c", ...position].join(separator)
    : (position) => (position.length === 0 ? "0" : position.join(separator));
}

/** The settings of the `blosc` codec. Readers take the payload's own header; this is what they would write. */
export interface BloscSettings {
  readonly cname: string;
  readonly clevel: number;
  readonly shuffle: "noshuffle" | "shuffle" | "bitshuffle";
  /** 1 to 255, never 0: readers refuse that. */
  readonly typesize: number;
}

/** What an array document says. Shapes in items, in the order of the array's axes. */
interface ArrayDescription {
  readonly shape: readonly number[];
  readonly dataType: JsonValue;
  readonly fillValue: JsonValue;
  readonly bytesCodec: JsonObject;
  readonly blosc: BloscSettings;
  /** Shape of an inner chunk, or of a chunk without sharding. */
  readonly chunkShape: readonly number[];
  /** Shape of a shard; undefined: one chunk an object. */
  readonly shardShape: readonly number[] | undefined;
  /** Axes in the order in which they are stored, where that is not their own. */
  readonly transpose: readonly number[] | undefined;
  readonly attributes: JsonObject;
  readonly dimensionNames: readonly (string | null)[] | undefined;
}

/** The document of an array. */
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

/** The same array with a rectilinear grid: chunks of the given lengths along one axis, equal ones along the others. */
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

/** Chunk shape of a document with a regular grid. */
export function chunkShapeOf(document: JsonObject): readonly number[] {
  const grid = document["chunk_grid"] as { configuration: { chunk_shape: readonly number[] } };
  return grid.configuration.chunk_shape;
}

/** The document of a group. */
export function groupDocument(attributes: JsonObject): JsonObject {
  return { zarr_format: 3, node_type: "group", attributes };
}

/**
 * A group's document with those of all nodes below it, as zarr-python 3.4 consolidates them: sorted by path
 * relative to the group, flat, groups with an empty consolidation of their own. Each path once, in any order.
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
  return new TextEncoder().encode(stringifyJson(document, { indent: 2 }));
}

/**
 * The documents of a hierarchy by key, as they are stored, in the order in which they are published: arrays, then groups from
 * the innermost to the root. A group at the root has all other documents consolidated. `groups` has outer ones first.
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

/** Key of a chunk or shard below its array. */
export function chunkKey(position: readonly number[]): string {
  return ["c", ...position].join("/");
}

function inline(metadata: JsonObject): JsonObject {
  return { kind: "inline", must_understand: false, metadata };
}

/** The codec of shards as we write them: an index at their end, with a checksum. */
export function shardingCodec(chunkShape: readonly number[], codecs: readonly JsonValue[]): JsonObject {
  return {
    name: "sharding_indexed",
    configuration: {
      chunk_shape: chunkShape,
      codecs,
      index_codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
      index_location: "end",
    },
  };
}

function bloscCodec({ cname, clevel, shuffle, typesize }: BloscSettings): JsonObject {
  return { name: "blosc", configuration: { cname, clevel, shuffle, typesize, blocksize: 0 } };
}
