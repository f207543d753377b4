/**
 * Array and group documents of Zarr v2: `.zarray`, `.zgroup`, `.zattrs`.
 *
 * Knows their members; must not know stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
 */
import { at } from "../../bytes/arrays.ts";
import { parseDType } from "../../format/dtype.ts";
import { isObject } from "../../format/json.ts";
import { V2_DOCUMENTS } from "../../format/naming.ts";
import type { DType, JsonObject, JsonValue, ZarrDialect } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { assertReadable } from "../../values/values.ts";
import { type Chain, NUMCODECS, stageOf } from "../codecs/chain.ts";
import { arrayFilterOf, byteFilterOf } from "../codecs/numcodecs.ts";
import { type CustomCodecs, customStage, type Stage } from "../codecs/stage.ts";
import { regularAxis } from "./chunk-grid.ts";
import { parseFillValue } from "./data-type.ts";
import {
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
import type { ArrayModel, GroupModel } from "./model.ts";

/** The documents of a node. `attributes` is the parsed `.zattrs`, if there is one. */
export interface V2Node {
  readonly path: string;
  readonly document: JsonValue;
  readonly attributes: JsonValue | undefined;
  /** Name of the document in messages. */
  readonly name: string;
  /** Dialect to report if the documents were made for another format that is shown as Zarr (default `zarr2`). */
  readonly dialect?: ZarrDialect | undefined;
  /** The caller's own codecs. */
  readonly codecs?: CustomCodecs | undefined;
}

/** Parses a `.zarray`. Throws `BAD_FIELD`, and `UNSUPPORTED` for unknown filters and compressors. */
export function parseV2Array(node: V2Node): ArrayModel {
  const { path, document, attributes, name, codecs, dialect = "zarr2" } = node;
  const root: FieldPlace = { path: name, field: "" };
  const object = asObject(document, { path: name, field: "the document" });
  if (object["zarr_format"] !== 2) throw badMember(below(root, "zarr_format"), "2", object["zarr_format"]);
  const shape = asIntegers(object["shape"], 0, below(root, "shape"));
  const chunks = asIntegers(object["chunks"], 1, below(root, "chunks"), shape.length);
  const dtype = parseDType(object["dtype"] ?? null, name);
  if (dtype.kind === "object") refuseVariable(object["filters"], below(root, "filters"));
  assertReadable(dtype, name);
  const separator = object["dimension_separator"] ?? ".";
  if (separator !== "." && separator !== "/")
    throw badMember(below(root, "dimension_separator"), '"." or "/"', separator);
  return {
    dialect,
    path,
    dtype,
    shape,
    axes: shape.map((extent, d) => regularAxis(extent, at(chunks, d))),
    chain: v2Chain(dtype, shape.length, { ...object, codecs }, root),
    ...v2Fill(dtype, object, root),
    attributes: attributes === undefined ? {} : asObject(attributes, { path: name, field: ".zattrs" }),
    dimensionNames: undefined,
    dataFolder: path,
    chunkKey: (position) => joinKey(path, position.length === 0 ? "0" : position.join(separator)),
    document: object,
    metadataKeys: [V2_DOCUMENTS.array, ...(attributes === undefined ? [] : [V2_DOCUMENTS.attributes])].map(
      (each) => joinKey(path, each),
    ),
  };
}

/** The fill value, which may be null. Throws `BAD_FIELD`. */
export function v2Fill(
  dtype: DType,
  document: JsonObject,
  root: FieldPlace,
): Pick<ArrayModel, "fillItem" | "fillValue" | "warnings"> {
  const fillValue = document["fill_value"] ?? null;
  const isNull = "fill_value is null: chunks that are not stored read as zero, empty or NaT";
  return {
    fillItem: parseFillValue(dtype, fillValue, below(root, "fill_value")),
    fillValue,
    warnings: fillValue === null ? [isNull] : [],
  };
}

/** Parses a `.zgroup`. Throws `BAD_FIELD`. */
export function parseV2Group(
  { path, document, attributes, name, dialect = "zarr2" }: V2Node,
  consolidated?: JsonObject,
): GroupModel {
  const object = asObject(document, { path: name, field: "the document" });
  if (object["zarr_format"] !== 2)
    throw badMember({ path: name, field: "zarr_format" }, "2", object["zarr_format"]);
  return {
    dialect,
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

/** Nodes directly below the group that these documents belong to. */
export async function* consolidatedMembers(documents: JsonObject): AsyncGenerator<string> {
  for (const key of Object.keys(documents)) {
    const [name = "", document = "", ...deeper] = key.split("/");
    const isNode = document === V2_DOCUMENTS.array || document === V2_DOCUMENTS.group;
    if (isNode && deeper.length === 0) yield name;
  }
}

/** The `.zmetadata` of a group further below, derived from these documents. */
export function consolidatedBelow(documents: JsonObject, name: string, key: string): JsonValue | undefined {
  if (key !== V2_DOCUMENTS.consolidated) return undefined;
  const front = `${name}/`;
  const below = Object.entries(documents).filter(([each]) => each.startsWith(front));
  return {
    zarr_consolidated_format: 1,
    metadata: Object.fromEntries(below.map(([each, document]) => [each.slice(front.length), document])),
  };
}

/** What version 2 says of the encoding of chunks. */
interface V2Codecs {
  readonly order?: JsonValue;
  readonly compressor?: JsonValue;
  readonly filters?: JsonValue | undefined;
  readonly codecs?: CustomCodecs | undefined;
}

/** Memory order, filters and compressor as a chain. `filtersAt` is the place of the filters. */
export function v2Chain(
  dtype: DType,
  dimensions: number,
  { order, compressor, filters, codecs }: V2Codecs,
  root: FieldPlace,
  filtersAt: FieldPlace = below(root, "filters"),
): Chain {
  if (order !== "C" && order !== "F") throw badMember(below(root, "order"), '"C" or "F"', order);
  const isTurned = order === "F" && dimensions > 1;
  return {
    order: isTurned ? Array.from({ length: dimensions }, (_, d) => dimensions - 1 - d) : undefined,
    // Version 2 stores items in the byte order of their dtype, so none are swapped.
    serializer: { kind: "bytes", endian: dtype.byteOrder === "big" ? "big" : "little" },
    stages: [
      ...v2Filters({ filters, codecs }, dtype, filtersAt),
      ...(compressor === null || compressor === undefined
        ? []
        : [v2Stage({ compressor, codecs }, dtype, below(root, "compressor"))]),
    ],
  };
}

function v2Stage({ compressor, codecs }: V2Codecs, dtype: DType, place: FieldPlace): Stage {
  const configuration: JsonObject = asObject(compressor ?? null, place);
  const id = asText(configuration["id"], below(place, "id"));
  const stage =
    customStage(id, configuration, codecs) ?? byteCodecOf(id, configuration, dtype.itemSize, place);
  if (stage !== undefined) return stage;
  throw unsupportedMember(
    place,
    `is ${showJson(id)}, which superchunk does not have; it has blosc, zlib, gzip, zstd, lz4 and null; the option "customCodecs" of open gives it others`,
    configuration,
  );
}

/** A bytes-to-bytes codec, which version 2 accepts as a filter and as the compressor. A crc32c follows the data. */
function byteCodecOf(
  id: string,
  configuration: JsonObject,
  itemSize: number,
  place: FieldPlace,
): Stage | undefined {
  if (id === "crc32c" && configuration["location"] === "start") return undefined;
  return stageOf(id, configuration, itemSize, place) ?? byteFilterOf(id, configuration, place);
}

/**
 * Refuses items of variable length other than pickles, text and bytes, recognised by the filter that turns them into bytes. Throws `UNSUPPORTED`.
 */
function refuseVariable(filters: JsonValue | undefined, place: FieldPlace): void {
  const [first] = Array.isArray(filters) ? (filters as readonly JsonValue[]) : [];
  const id = isObject(first) ? first["id"] : undefined;
  if (typeof id !== "string" || id === "pickle") return;
  throw unsupportedMember(
    place,
    `has ${showJson(id)}: of values of variable length, superchunk reads those of vlen-utf8 and vlen-bytes; read the array with zarr-python`,
    filters,
  );
}

/**
 * Filters of numcodecs as stages, in encoding order.
 * @throws UNSUPPORTED, naming unknown filters
 */
function v2Filters({ filters, codecs }: V2Codecs, dtype: DType, place: FieldPlace): Chain["stages"] {
  if (filters === null || filters === undefined) return [];
  let stored = dtype;
  return asList(filters, place).map((entry, i) => {
    const at = below(place, String(i));
    const configuration = asObject(entry, at);
    const id = asText(configuration["id"], below(at, "id"));
    const custom = customStage(id, configuration, codecs);
    if (custom !== undefined) return custom;
    const filter = arrayFilterOf(id, configuration, { dtype: stored }, at);
    if (filter !== undefined) {
      stored = filter.encoded;
      return filter.stage;
    }
    const stage = byteCodecOf(id, configuration, stored.itemSize, at);
    if (stage !== undefined) return stage;
    throw unsupportedMember(
      place,
      `has ${showJson(id)}, a filter that superchunk does not have; it has ${NUMCODECS}. Read the array with zarr-python`,
      filters,
    );
  });
}
