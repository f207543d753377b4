/**
 * Reads array and group documents of Zarr v3.
 *
 * Knows their members; must not know archives or stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
 */
import { at } from "../../bytes/arrays.ts";
import { isObject } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { parseChain } from "../codecs/chain.ts";
import type { CustomCodecs } from "../codecs/stage.ts";
import { parseChunkGrid, parseKeyEncoding } from "./chunk-grid.ts";
import { parseDataType, parseFillValue } from "./data-type.ts";
import { DOCUMENT } from "./make-v3.ts";
import {
  asIntegers,
  asList,
  asObject,
  badMember,
  below,
  type FieldPlace,
  unsupportedMember,
} from "./metadata-fields.ts";
import type { ArrayModel, GroupModel } from "./model.ts";

/** Member of documents of our own that show another format: numpy's dtype of items that are raw bytes for Zarr. */
export const DESCR = "superchunk";

/** True for the entry document of a hierarchy of the older transformer, which metadata-transformer.ts reads. */
export function isEntryDocument(document: JsonValue): boolean {
  return (
    isObject(document) && typeof document["zarr_format"] === "string" && "metadata_key_suffix" in document
  );
}

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

/** Parses a `zarr.json`. `path` is the node's folder. Throws `BAD_FIELD`, `UNSUPPORTED`. */
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
  if (asList(transformers, below(root, "storage_transformers")).length > 0)
    throw unsupportedMember(
      below(root, "storage_transformers"),
      "has entries, of which Zarr v3 defines none",
      transformers,
    );
  const shape = asIntegers(document["shape"], 0, below(root, "shape"));
  const dtype = parseDataType(document["data_type"], below(root, "data_type"));
  const axes = parseChunkGrid(document["chunk_grid"], shape, below(root, "chunk_grid"));
  const chain = parseChain(
    document["codecs"],
    {
      dtype,
      codecs,
      lengths: axes.map((axis) => axis.lengths),
      shape: axes.map((axis) => at(axis.lengths, 0)),
    },
    below(root, "codecs"),
  );
  const fillValue = document["fill_value"];
  const fillPlace = below(root, "fill_value");
  if (fillValue === undefined || fillValue === null)
    throw badMember(fillPlace, "a value of the data type", fillValue);
  const chunkKey = parseKeyEncoding(path, document["chunk_key_encoding"], below(root, "chunk_key_encoding"));
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
    dimensionNames: namesIn(document["dimension_names"], shape.length, below(root, "dimension_names")),
    dataFolder: path,
    chunkKey,
    document,
    metadataKeys: [joinKey(path, DOCUMENT)],
    warnings: [],
  };
}

/** Unknown members must say that they may be ignored. */
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

function namesIn(
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
