/**
 * Array and group documents of Zarr v2: `.zarray`, `.zgroup`, `.zattrs`.
 *
 * Knows their members; must not know stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
 */
import { assertReadable } from "../array/values.ts";
import { parseDType } from "../format/dtype.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { type Chain, stageOf } from "./chain.ts";
import { regularAxis } from "./chunk-grid.ts";
import { parseFillValue } from "./fill-value.ts";
import {
  asIntegers,
  asList,
  asObject,
  asText,
  badMember,
  below,
  type FieldPlace,
  isObject,
  showJson,
  unsupportedMember,
} from "./metadata-fields.ts";
import type { ArrayModel, GroupModel } from "./model.ts";

/** Names of the documents in a node's folder; `consolidated` has all of those below a group. */
export const V2_DOCUMENTS = {
  array: ".zarray",
  group: ".zgroup",
  attributes: ".zattrs",
  consolidated: ".zmetadata",
} as const;

/** What is there of a node. `attributes` is the text of `.zattrs`, if there is one. */
export interface V2Node {
  readonly path: string;
  readonly document: JsonValue;
  readonly attributes: JsonValue | undefined;
  /** How messages name the document. */
  readonly name: string;
}

/** The array of a `.zarray`. Throws `BAD_FIELD`, and `UNSUPPORTED` for filters and compressors that are not known here. */
export function parseV2Array({ path, document, attributes, name }: V2Node): ArrayModel {
  const root: FieldPlace = { path: name, field: "" };
  const object = asObject(document, { path: name, field: "the document" });
  if (object["zarr_format"] !== 2) throw badMember(below(root, "zarr_format"), "2", object["zarr_format"]);
  const shape = asIntegers(object["shape"], 0, below(root, "shape"));
  const chunks = asIntegers(object["chunks"], 1, below(root, "chunks"), shape.length);
  const dtype = parseDType(object["dtype"] ?? null, name);
  assertReadable(dtype, name);
  refuseFilters(object["filters"], below(root, "filters"));
  const separator = object["dimension_separator"] ?? ".";
  if (separator !== "." && separator !== "/") {
    throw badMember(below(root, "dimension_separator"), '"." or "/"', separator);
  }
  const fillValue = object["fill_value"] ?? null;
  return {
    dialect: "zarr2",
    path,
    dtype,
    shape,
    axes: shape.map((extent, d) => regularAxis(extent, chunks[d] ?? 1)),
    chain: v2Chain(dtype, shape.length, object["order"], object["compressor"], root),
    fillItem: parseFillValue(dtype, fillValue, below(root, "fill_value")),
    fillValue,
    attributes: attributes === undefined ? {} : asObject(attributes, { path: name, field: ".zattrs" }),
    dimensionNames: undefined,
    dataFolder: path,
    chunkKey: (position) => joinKey(path, position.length === 0 ? "0" : position.join(separator)),
    document: object,
    metadataKeys: [V2_DOCUMENTS.array, ...(attributes === undefined ? [] : [V2_DOCUMENTS.attributes])].map(
      (each) => joinKey(path, each),
    ),
    warnings:
      fillValue === null
        ? ["fill_value is null: chunks that are not stored read as zero bytes, as zarr-python has it"]
        : [],
  };
}

/** The group of a `.zgroup`. Throws `BAD_FIELD`. */
export function parseV2Group(
  { path, document, attributes, name }: V2Node,
  consolidated?: JsonObject,
): GroupModel {
  const object = asObject(document, { path: name, field: "the document" });
  if (object["zarr_format"] !== 2) {
    throw badMember({ path: name, field: "zarr_format" }, "2", object["zarr_format"]);
  }
  return {
    dialect: "zarr2",
    path,
    attributes: attributes === undefined ? {} : asObject(attributes, { path: name, field: ".zattrs" }),
    document: object,
    consolidated,
  };
}

/** The documents of a `.zmetadata` by their relative keys (`close/.zarray`). Throws `BAD_FIELD`. */
export function parseV2Consolidated(document: JsonValue, name: string): JsonObject {
  const object = asObject(document, { path: name, field: "the document" });
  const format = object["zarr_consolidated_format"];
  if (format !== 1) throw badMember({ path: name, field: "zarr_consolidated_format" }, "1", format);
  return asObject(object["metadata"] ?? null, { path: name, field: "metadata" });
}

/** Memory order and compressor as a chain. */
export function v2Chain(
  dtype: DType,
  dimensions: number,
  order: JsonValue | undefined,
  compressor: JsonValue | undefined,
  root: FieldPlace,
): Chain {
  if (order !== "C" && order !== "F") throw badMember(below(root, "order"), '"C" or "F"', order);
  const isTurned = order === "F" && dimensions > 1;
  return {
    order: isTurned ? Array.from({ length: dimensions }, (_, d) => dimensions - 1 - d) : undefined,
    // Version 2 stores items in the byte order of their dtype: nothing is turned round.
    serializer: { kind: "bytes", endian: storedOrder(dtype) },
    stages:
      compressor === null || compressor === undefined
        ? []
        : [v2Stage(compressor, dtype, below(root, "compressor"))],
  };
}

function storedOrder(dtype: DType): "little" | "big" {
  return dtype.byteOrder === "big" ? "big" : "little";
}

function v2Stage(compressor: JsonValue, dtype: DType, place: FieldPlace): ReturnType<typeof requireStage> {
  const configuration: JsonObject = asObject(compressor, place);
  const id = asText(configuration["id"], below(place, "id"));
  return requireStage(id, configuration, dtype, place);
}

function requireStage(
  id: string,
  configuration: JsonObject,
  dtype: DType,
  place: FieldPlace,
): Chain["stages"][number] {
  const stage = stageOf(id, configuration, dtype.itemSize, place);
  if (stage !== undefined && id !== "crc32c") return stage;
  throw unsupportedMember(
    place,
    `is "${id}", which superchunk does not have; it has blosc, zlib, gzip, zstd and null`,
    configuration,
  );
}

/** Refuses filters, naming them. Throws `UNSUPPORTED`. */
export function refuseFilters(filters: JsonValue | undefined, place: FieldPlace): void {
  if (filters === null || filters === undefined) return;
  const list = asList(filters, place);
  if (list.length === 0) return;
  const names = list.map((filter) => (isObject(filter) ? showJson(filter["id"]) : showJson(filter)));
  throw unsupportedMember(
    place,
    `has ${names.join(", ")}: superchunk has no filters of numcodecs; read the array with zarr-python and write it without`,
    filters,
  );
}
