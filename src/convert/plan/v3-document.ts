/**
 * The Zarr v3 document of an array of any version, and what its chunks must go through to be as it says.
 *
 * Knows data types, fill values and codecs; must not know stores.
 */
import { isEqual } from "../../bytes/equal.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { ItemTransform } from "../../values/item-transform.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import type { Stage } from "../../zarr/codecs/stage.ts";
import { parseFillValue } from "../../zarr/document/fill-value.ts";
import { mapDType, type ZarrType } from "../../zarr/document/zarr-dtype.ts";
import { shardingCodec } from "../../zarr/document/zarr-metadata.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { storedNames } from "./zarr-attributes.ts";

/** How an array becomes Zarr v3. */
export interface V3Plan {
  readonly document: JsonObject;
  /** Undefined where chunks are copied as they are stored. */
  readonly recoding: Recoding | undefined;
}

/** Why chunks are decoded and recompressed, and what becomes of their items in between. */
export interface Recoding {
  readonly reason: string;
  readonly transform: ItemTransform | undefined;
}

/**
 * The array's document in Zarr v3's words: its own, where it has one. Codecs without a name there become Blosc with zstd.
 *
 * @throws UNSUPPORTED for data types and fill values that Zarr v3 has no words for and, with `recode: false`, for codecs
 */
export function planV3(array: ZarrArray, { recode = true }: { recode?: boolean | undefined } = {}): V3Plan {
  const { model, store } = array;
  if (model.dialect === "zarr3") return { document: model.document, recoding: undefined };
  const path = store.describe(array.path);
  const type = mapDType(array.dtype, { path, fillValue: array.fillValue });
  const leaf = leafOf(model.chain);
  const nameless = leaf.stages.find((stage) => stage.v3 === undefined);
  const recoding = whyRecoded(type, nameless);
  if (recoding !== undefined && !recode) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the chunks cannot be copied as they are, and nothing may be recoded: ${recoding.reason}`,
      nameless === undefined
        ? { path, field: "data_type" }
        : { path, field: "compressor", found: nameless.name },
    );
  }
  const transpose: JsonValue[] =
    leaf.order === undefined ? [] : [{ name: "transpose", configuration: { order: leaf.order } }];
  const stages = nameless === undefined ? leaf.stages.map((stage) => stageFor(stage, type)) : [zstdFor(type)];
  const chain: JsonValue[] = [...transpose, type.bytesCodec, ...stages];
  // Of these versions, shards are never nested.
  const { serializer } = model.chain;
  const names = storedNames(model.attributes, model.shape.length);
  const document = {
    zarr_format: 3,
    node_type: "array",
    shape: model.shape,
    data_type: type.dataType,
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: model.axes.map((axis) => axis.lengthOf(0)) },
    },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: fillFor(array, type, path),
    codecs: serializer.kind === "bytes" ? chain : [shardingCodec(serializer.chunkShape, chain)],
    attributes: model.attributes,
    ...(names === undefined ? {} : { dimension_names: names }),
    storage_transformers: [],
  };
  return { document, recoding };
}

function whyRecoded({ transform }: ZarrType, nameless: Stage | undefined): Recoding | undefined {
  const reasons = [
    ...(nameless === undefined ? [] : [`the codec "${nameless.name}" has no name in Zarr v3`]),
    ...(transform === undefined ? [] : [transform.reason]),
  ];
  return reasons.length === 0 ? undefined : { reason: reasons.join("; "), transform };
}

/** A codec with a name; items that lose their padding are shuffled by their new size. */
function stageFor({ v3 = {} }: Stage, { transform, itemSize }: ZarrType): JsonObject {
  if (transform === undefined || v3["name"] !== "blosc") return v3;
  return {
    ...v3,
    configuration: { ...(v3["configuration"] as JsonObject), typesize: typesizeOf(itemSize) },
  };
}

function zstdFor({ itemSize }: ZarrType): JsonObject {
  const configuration = { cname: "zstd", clevel: 5, shuffle: "shuffle", typesize: typesizeOf(itemSize) };
  return { name: "blosc", configuration: { ...configuration, blocksize: 0 } };
}

/** c-blosc shuffles no items of more than 255 bytes. */
function typesizeOf(itemSize: number): number {
  return itemSize <= 255 ? itemSize : 1;
}

/** The fill value in version 3's spelling, proven to be the same item. Throws `UNSUPPORTED` where there is none. */
function fillFor(array: ZarrArray, { fill, transform }: ZarrType, path: string): JsonValue {
  const { fillItem } = array.model;
  const expected = transform === undefined ? fillItem : transform.apply(fillItem);
  const target = transform?.target ?? array.dtype;
  const base64 = btoa(String.fromCharCode(...expected));
  for (const json of [fill.json, array.fillValue, 0, base64]) {
    const item = json === null ? undefined : itemOf(target, json, path);
    if (item !== undefined && isEqual(item, expected)) return json;
  }
  throw new SuperchunkError(
    "UNSUPPORTED",
    "Zarr v3 has no words for the fill value; write all chunks, and set another one",
    { path, field: "fill_value", found: array.fillValue },
  );
}

function itemOf(dtype: DType, json: JsonValue, path: string): Uint8Array | undefined {
  try {
    return parseFillValue(dtype, json, { path, field: "fill_value" });
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return undefined;
  }
}
