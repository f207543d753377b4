/**
 * Documents of the experimental version 3 of zarr 2.13 to 2.18, with its sharding storage transformer.
 *
 * A hierarchy has an entry document `zarr.json`, documents under `meta/root`, and chunks or shards under `data/root`. Knows the
 * documents; must not know stores. @see FORMAT.md [FK]
 */

import { at } from "../../bytes/arrays.ts";
import { parseDType } from "../../format/dtype.ts";
import { isObject } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { assertReadable } from "../../values/values.ts";
import type { Chain } from "../codecs/chain.ts";
import type { CustomCodecs } from "../codecs/stage.ts";
import type { ShardIndexLayout } from "../read/shard-index.ts";
import { regularAxis } from "./chunk-grid.ts";
import {
  asExtension,
  asIntegers,
  asList,
  asObject,
  asText,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "./metadata-fields.ts";
import { v2Chain, v2Fill } from "./metadata-v2.ts";
import type { ArrayModel, GroupModel } from "./model.ts";

/** The `zarr_format` and `metadata_encoding` of the entry document. */
export const PROTOCOL = "https://purl.org/zarr/spec/protocol/core/3.0";
/** The sharding transformer's name in zarr 2.18. */
export const SHARDING_URI = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0";
/** Its name in the draft, which zarr 2.18 refuses. */
const DRAFT_SHARDING = /^https?:\/\/purl\.org\/zarr\/spec\/storage[-_]transformers\/sharding\/1\.0$/;
const CODEC = /^https?:\/\/purl\.org\/zarr\/spec\/codecs?\/([^/]+)\/1\.0$/;

/** Its index: pairs at the end, little-endian, no checksum. */
export const TRANSFORMER_INDEX: ShardIndexLayout = {
  location: "end",
  endian: "little",
  checksums: 0,
  order: undefined,
};

/** The entry document as zarr 2.18 writes it. */
export const ENTRY_DOCUMENT: JsonObject = {
  zarr_format: PROTOCOL,
  metadata_encoding: PROTOCOL,
  metadata_key_suffix: ".json",
  extensions: [],
};

/** Suffix of the documents' keys. Throws `BAD_FIELD`, `UNSUPPORTED`. */
export function parseEntryDocument(document: JsonValue, name: string): string {
  const root: FieldPlace = { path: name, field: "" };
  const object = asObject(document, { path: name, field: "the document" });
  for (const member of ["zarr_format", "metadata_encoding"])
    if (object[member] !== PROTOCOL) throw badMember(below(root, member), PROTOCOL, object[member]);
  if (asList(object["extensions"] ?? [], below(root, "extensions")).length > 0)
    throw unsupportedMember(
      below(root, "extensions"),
      "names extensions, of which superchunk knows none",
      object["extensions"],
    );
  return asText(object["metadata_key_suffix"], below(root, "metadata_key_suffix"));
}

/** Key of a node's document below the hierarchy's root. */
export function documentKey(path: string, kind: "array" | "group", suffix = ".json"): string {
  return path === "" ? `meta/root.${kind}${suffix}` : `meta/root/${path}.${kind}${suffix}`;
}

/** Key of a chunk or shard below the hierarchy's root. */
export function dataKey(path: string, position: readonly number[], separator: string): string {
  // zarr 2.18 numbers the one chunk of an array without dimensions 0.
  return joinKey("data/root", path, `c${position.length === 0 ? "0" : position.join(separator)}`);
}

export function parseTransformerGroup(document: JsonValue, path: string, name: string): GroupModel {
  const object = asObject(document, { path: name, field: "the document" });
  const stored = object["attributes"];
  return {
    dialect: "zarr3-transformer",
    path,
    attributes: stored === undefined ? {} : asObject(stored, { path: name, field: "attributes" }),
    document: object,
    consolidated: undefined,
  };
}

/**
 * Parses a `.array.json`, named `name` in messages; `base` is the hierarchy's root in the store. Throws `BAD_FIELD`, `UNSUPPORTED`.
 */
export function parseTransformerArray(
  document: JsonValue,
  base: string,
  path: string,
  key: string,
  { name, codecs }: { readonly name: string; readonly codecs?: CustomCodecs | undefined },
): ArrayModel {
  const root: FieldPlace = { path: name, field: "" };
  const object = asObject(document, { path: name, field: "the document" });
  const shape = asIntegers(object["shape"], 0, below(root, "shape"));
  const dtype = parseType(object["data_type"], below(root, "data_type"));
  assertReadable(dtype, name);
  const grid = asObject(object["chunk_grid"], below(root, "chunk_grid"));
  if (grid["type"] !== "regular")
    throw unsupportedMember(below(root, "chunk_grid.type"), 'is not "regular"', grid["type"]);
  const chunkShape = asIntegers(grid["chunk_shape"], 1, below(root, "chunk_grid.chunk_shape"), shape.length);
  const separator = grid["separator"] ?? "/";
  if (separator !== "/" && separator !== ".")
    throw badMember(below(root, "chunk_grid.separator"), '"/" or "."', separator);
  const attributes =
    object["attributes"] === undefined ? {} : asObject(object["attributes"], below(root, "attributes"));
  // zarr 2.13 to 2.18 store filters here, because it has no member for them.
  const inner = v2Chain(
    dtype,
    shape.length,
    {
      order: object["chunk_memory_layout"] ?? "C",
      compressor: parseCompressor(object["compressor"], below(root, "compressor")) ?? null,
      filters: attributes["filters"] ?? null,
      codecs,
    },
    root,
    below(root, "attributes.filters"),
  );
  const perShard = parseTransformers(
    object["storage_transformers"],
    shape.length,
    below(root, "storage_transformers"),
  );
  const chain: Chain =
    perShard === undefined
      ? inner
      : {
          order: undefined,
          serializer: { kind: "sharding", chunkShape, inner, index: TRANSFORMER_INDEX },
          stages: [],
        };
  return {
    dialect: "zarr3-transformer",
    path: joinKey(base, path),
    dtype,
    shape,
    axes: shape.map((extent, d) => regularAxis(extent, at(chunkShape, d) * (perShard?.[d] ?? 1))),
    chain,
    ...v2Fill(dtype, object, root),
    attributes: keepFloats(
      Object.fromEntries(Object.entries(attributes).filter(([name]) => name !== "filters")),
      attributes,
    ),
    dimensionNames: undefined,
    dataFolder: joinKey(base, "data/root", path),
    chunkKey: (position) => joinKey(base, dataKey(path, position, separator)),
    document: object,
    metadataKeys: [joinKey(base, "zarr.json"), key],
  };
}

/** A type string, or an extension that has one: `{"extension": …, "type": "<M8[ns]", "fallback": null}`. */
function parseType(value: JsonValue | undefined, place: FieldPlace): DType {
  const stored = isObject(value) ? value["type"] : value;
  return parseDType(asText(stored, place), place.path);
}

/** The configuration in version 2's form: `{"id": "blosc", …}`. */
function parseCompressor(value: JsonValue | undefined, place: FieldPlace): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  const object = asObject(value, place);
  const uri = asText(object["codec"], below(place, "codec"));
  const id = CODEC.exec(uri)?.[1];
  if (id === undefined)
    throw unsupportedMember(
      below(place, "codec"),
      `is ${showJson(uri)}, which superchunk does not know`,
      uri,
    );
  return { ...asObject(object["configuration"] ?? {}, below(place, "configuration")), id };
}

/** `chunks_per_shard` of the sharding transformer; undefined if there is none. */
function parseTransformers(
  value: JsonValue | undefined,
  dimensions: number,
  place: FieldPlace,
): readonly number[] | undefined {
  const list = asList(value ?? [], place);
  if (list.length > 1) throw unsupportedMember(place, "has more than one transformer", value);
  const [first] = list;
  if (first === undefined) return undefined;
  const at = below(place, "0");
  const object = asObject(first, at);
  const uri = asText(object["extension"], below(at, "extension"));
  if (!DRAFT_SHARDING.test(uri))
    throw unsupportedMember(
      below(at, "extension"),
      `is ${showJson(uri)}, which superchunk does not know`,
      uri,
    );
  if (object["type"] !== "indexed")
    throw unsupportedMember(below(at, "type"), 'is not "indexed"', object["type"]);
  const { configuration } = asExtension(
    { name: "sharding", configuration: object["configuration"] ?? {} },
    at,
  );
  const stored = configuration["chunks_per_shard"];
  const field = below(at, "configuration.chunks_per_shard");
  // zarr 2.18 gives an array without dimensions a shard of one chunk.
  if (dimensions === 0 && Array.isArray(stored) && stored.length === 1) {
    if (stored[0] === 1) return [];
    throw badMember(field, "[1], for an array without dimensions", stored);
  }
  return asIntegers(stored, 1, field, dimensions);
}
