/** Creates Zarr v3 arrays. Knows their documents. */

import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { jsonBytes, parseJson } from "../../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { hasByteOrder, parseDataType } from "../document/data-type.ts";
import { bloscCodec, bytesCodec, DOCUMENT, shardingCodec } from "../document/make-v3.ts";
import { showJson } from "../document/metadata-fields.ts";
import { parseDocument } from "../document/metadata-v3.ts";
import type { ArrayModel, GroupModel } from "../document/model.ts";
import type { OpenZarrOptions } from "../read/open.ts";
import { refuseDual } from "./node-document.ts";
import { WritableZarrArray } from "./writable-array.ts";
import type { WriteSettings } from "./write-settings.ts";

/** A new array, described as in Zarr. */
export interface ZarrSpecification {
  readonly shape: readonly number[];
  /** Zarr v3's `data_type`: `"float64"`, `{"name": "numpy.datetime64", …}`. */
  readonly dataType: JsonValue;
  /** Shape of a chunk; with `shardShape` or a nested `sharding_indexed`, of an inner chunk of the outermost shard. */
  readonly chunkShape: readonly number[];
  /** Shape of a shard; if absent, each chunk is an object. */
  readonly shardShape?: readonly number[] | undefined;
  /** Codecs of a chunk (default: bytes, and blosc with lz4 and shuffle). */
  readonly codecs?: readonly JsonValue[] | undefined;
  /** Position of the index in a shard (default `end`). */
  readonly indexLocation?: "start" | "end" | undefined;
  /** Codecs of a shard's index (default: bytes little-endian, crc32c). */
  readonly indexCodecs?: readonly JsonValue[] | undefined;
  /** Stored order of the dimensions of a shard, or of a chunk without shards. */
  readonly order?: readonly number[] | undefined;
  /** A complete `chunk_grid` instead of the regular one, such as a rectilinear one. */
  readonly chunkGrid?: JsonValue | undefined;
  /** Default 0, false, empty. */
  readonly fillValue?: JsonValue | undefined;
  readonly attributes?: JsonObject | undefined;
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  readonly separator?: "/" | "." | undefined;
}

/** Options of creating a Zarr array. */
export interface CreateZarrOptions extends OpenZarrOptions, WriteSettings {}

/** The document of a new array. Throws `UNSUPPORTED` for unknown data types. */
export function zarrDocument(spec: ZarrSpecification): JsonObject {
  const dtype = parseDataType(spec.dataType, { path: "the specification", field: "dataType" });
  const blosc = bloscCodec({ cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: dtype.itemSize });
  const { order, chunkShape } = spec;
  const transpose: JsonValue[] = order === undefined ? [] : [{ name: "transpose", configuration: { order } }];
  const inner = spec.codecs ?? [bytesCodec(hasByteOrder(dtype)), blosc];
  const stored = order === undefined ? chunkShape : order.map((d) => chunkShape[d] ?? 1);
  const index = { codecs: spec.indexCodecs, location: spec.indexLocation };
  const codecs: JsonValue[] =
    spec.shardShape === undefined
      ? [...transpose, ...inner]
      : [...transpose, shardingCodec(stored, inner, index)];
  const regular = { name: "regular", configuration: { chunk_shape: spec.shardShape ?? spec.chunkShape } };
  return {
    zarr_format: 3,
    node_type: "array",
    shape: spec.shape,
    data_type: spec.dataType,
    chunk_grid: spec.chunkGrid ?? regular,
    chunk_key_encoding: { name: "default", configuration: { separator: spec.separator ?? "/" } },
    fill_value: spec.fillValue ?? defaultFill(dtype.kind, spec.dataType),
    codecs,
    attributes: spec.attributes ?? {},
    ...(spec.dimensionNames === undefined ? {} : { dimension_names: spec.dimensionNames }),
    storage_transformers: [],
  };
}

/**
 * Creates an array without values at an empty path. Throws `CONFLICT` if there is anything, including an archive,
 * `BAD_ARGUMENT` for a specification that contradicts itself, naming its member, `UNSUPPORTED` for unknown features.
 */
export async function createZarr(
  store: WritableStore,
  path: string,
  spec: ZarrSpecification,
  options: CreateZarrOptions = {},
): Promise<WritableZarrArray> {
  const key = joinKey(path, DOCUMENT);
  checkMembers(spec);
  let text: Uint8Array;
  let model: ArrayModel | GroupModel;
  try {
    text = jsonBytes(zarrDocument(spec), { indent: 2 });
    // The stored document counts: readers do not see the specification.
    const name = store.describe(key);
    model = parseDocument(parseJson(text, name), path, name, options.customCodecs);
  } catch (error) {
    throw explainRefusal(error, spec);
  }
  if ("consolidated" in model) throw new SuperchunkError("BAD_ARGUMENT", "the specification is a group's");
  await refuseDual(store, path, options);
  await store.put(key, text, { ifAbsent: true, signal: options.signal });
  return new WritableZarrArray(store, model, options);
}

/** The fill value where none is given. Structs have none. */
function defaultFill(kind: DType["kind"], dataType: JsonValue): JsonValue {
  if (kind === "bool") return false;
  if (kind === "complex") return [0, 0];
  if (["bytes", "unicode", "void"].includes(kind)) return "";
  if (["int", "uint", "float", "datetime", "timedelta"].includes(kind)) return 0;
  const details = { field: "fillValue", found: dataType };
  throw new SuperchunkError("BAD_ARGUMENT", "this data type needs a fillValue", details);
}

const MEMBERS: { readonly [name in keyof Required<ZarrSpecification>]: true } = {
  shape: true,
  dataType: true,
  chunkShape: true,
  shardShape: true,
  codecs: true,
  indexLocation: true,
  indexCodecs: true,
  order: true,
  chunkGrid: true,
  fillValue: true,
  attributes: true,
  dimensionNames: true,
  separator: true,
};

/** Refuses members that would have no effect. Throws `BAD_ARGUMENT`. */
export function checkMembers(spec: ZarrSpecification): void {
  for (const [name, value] of Object.entries(spec))
    if (!(name in MEMBERS))
      throw wrong(name, "is not a member of a specification", Object.keys(MEMBERS).join(", "), value);
  for (const name of ["indexLocation", "indexCodecs"] as const) {
    if (spec[name] === undefined || spec.shardShape !== undefined) continue;
    throw wrong(name, "says how shards are, but shardShape is missing", "shardShape", spec[name]);
  }
  if (spec.chunkGrid !== undefined && spec.shardShape !== undefined)
    throw wrong(
      "chunkGrid",
      "and shardShape both say how the array is cut; give the grid of the shards alone, and sharding_indexed in codecs",
      "one of them",
      spec.chunkGrid,
    );
}

/** The field of an error about a value that JSON cannot represent. */
const NOT_JSON = "a value for JSON";

/** Turns an error about the document into one about the specification; returns other errors unchanged. */
function explainRefusal(error: unknown, spec: ZarrSpecification): unknown {
  if (!isSuperchunkError(error)) return error;
  const { field = "", expected, found } = error.details;
  const member = memberOf(field, spec);
  if (error.code === "BAD_FIELD" || field === NOT_JSON)
    return wrong(member, `is wrong: ${inDocument(field)}${showJson(found)}`, textOf(expected), found);
  if (error.code !== "UNSUPPORTED") return error;
  return new SuperchunkError("UNSUPPORTED", `the specification's ${member}: ${error.summary}`, {
    ...(found === undefined ? {} : { found }),
    field: member,
  });
}

/** The specification's member that a field of the document comes from. */
function memberOf(field: string, spec: ZarrSpecification): string {
  if (/^(dataType|data_type)\b/.test(field)) return "dataType";
  if (field.startsWith("chunk_grid"))
    return spec.chunkGrid !== undefined
      ? "chunkGrid"
      : spec.shardShape === undefined
        ? "chunkShape"
        : "shardShape";
  if (field.startsWith("codecs")) {
    const isOwn = spec.shardShape !== undefined;
    const [, first, inside = ""] = /^codecs\.(\d+)\.configuration\.?(.*)$/.exec(field) ?? [];
    if (spec.order !== undefined && first === "0") return "order";
    if (isOwn && inside.startsWith("index_location")) return "indexLocation";
    if (isOwn && inside.startsWith("index_codecs")) return "indexCodecs";
    return isOwn && inside.startsWith("chunk_shape") ? "chunkShape" : "codecs";
  }
  if (field.startsWith("chunk_key_encoding")) return "separator";
  const [first = ""] = field.split(".");
  if (first === NOT_JSON) return "attributes";
  return { fill_value: "fillValue", dimension_names: "dimensionNames" }[first] ?? first;
}

function wrong(member: string, what: string, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `the specification's ${member} ${what}; expected ${expected}. Nothing was made`,
    { field: member, expected, found },
  );
}

/** The place in the document, for members that become several fields. */
function inDocument(field: string): string {
  const isDeep = field.startsWith("codecs.") || field.includes(".configuration.");
  return isDeep ? `as a document ${field} is ` : "it is ";
}

function textOf(expected: unknown): string {
  return typeof expected === "string" ? expected : showJson(expected);
}
