/**
 * Any Zarr array as a store that zarrita reads: version 3, without shards, values decoded here.
 *
 * zarrita 0.7 reads an index at the start as values, knows no shards in shards and no unequal chunks, and does not check
 * crc32c. Behind this store all of that has been done: it gets whole chunks of little-endian values.
 */

import { at } from "../../bytes/at.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { ByteRange } from "../../store/types.ts";
import { copyItems, repeatItem } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import { swapItems } from "../../values/swap-items.ts";
import { hasByteOrder } from "../document/data-type.ts";
import type { ZarrArray } from "./array.ts";

/** The store interface of zarrita, as far as reading needs it. */
export interface ZarritaStore {
  get(key: `/${string}`, options?: unknown): Promise<Uint8Array | undefined>;
  getRange(key: `/${string}`, range: ByteRange, options?: unknown): Promise<Uint8Array | undefined>;
}

/** Options of {@link zarritaStore}. */
export interface ZarritaStoreOptions {
  /** Shape of the chunks that zarrita sees (default: the inner chunks; of unequal ones the largest). */
  readonly chunkShape?: readonly number[] | undefined;
}

/**
 * A store with one array at its root, for `zarr.open(zarritaStore(array), { kind: "array" })`.
 *
 * Its chunks are those of the innermost shards, so that zarrita asks for no more than it needs. Errors of reading are
 * ours, with their codes.
 */
export function zarritaStore(array: ZarrArray, options: ZarritaStoreOptions = {}): ZarritaStore {
  const chunkShape = options.chunkShape ?? largestChunk(array);
  const document = new TextEncoder().encode(stringifyJson(plainDocument(array, chunkShape)));
  const get = async (key: string): Promise<Uint8Array | undefined> => {
    if (key === "/zarr.json") return document.slice();
    const position = positionOf(key, chunkShape.length);
    return position === undefined ? undefined : readChunk(array, chunkShape, position);
  };
  return {
    get,
    async getRange(key, range) {
      const bytes = await get(key);
      if (bytes === undefined) return undefined;
      return "suffixLength" in range
        ? bytes.slice(Math.max(0, bytes.length - range.suffixLength))
        : bytes.slice(range.offset, range.offset + range.length);
    },
  };
}

/** The inner chunk, or of unequal chunks the longest along each dimension. */
function largestChunk(array: ZarrArray): readonly number[] {
  if (array.shardShape !== undefined) return array.chunkShape;
  return array.model.axes.map((axis) => axis.lengths.reduce((most, n) => Math.max(most, n), 1));
}

function plainDocument(array: ZarrArray, chunkShape: readonly number[]): JsonObject {
  const { metadata, model } = array;
  const dataType: JsonValue = array.dialect === "zarr3" ? (metadata["data_type"] ?? null) : nameOf(array);
  return {
    zarr_format: 3,
    node_type: "array",
    shape: array.shape,
    data_type: dataType,
    chunk_grid: { name: "regular", configuration: { chunk_shape: chunkShape } },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: array.fillValue ?? (model.dtype.kind === "bool" ? false : 0),
    codecs: [{ name: "bytes", configuration: { endian: "little" } }],
    attributes: array.attrs,
    ...(array.dimensionNames === undefined ? {} : { dimension_names: array.dimensionNames }),
  };
}

/** The data type of a version 2 array, for the types that zarrita has. */
function nameOf({ dtype }: ZarrArray): JsonValue {
  if (dtype.kind === "bool") return "bool";
  if (dtype.kind === "int" || dtype.kind === "uint" || dtype.kind === "float" || dtype.kind === "complex") {
    return `${dtype.kind}${dtype.itemSize * 8}`;
  }
  return dtype.kind;
}

function positionOf(key: string, dimensions: number): number[] | undefined {
  const parts = key.split("/");
  if (parts[0] !== "" || parts[1] !== "c" || parts.length !== dimensions + 2) return undefined;
  const numbers = parts.slice(2);
  return numbers.every((part) => /^(0|[1-9]\d*)$/.test(part)) ? numbers.map(Number) : undefined;
}

/** A whole chunk, padded with the fill value behind the array's end; undefined outside of the array. */
async function readChunk(
  array: ZarrArray,
  chunkShape: readonly number[],
  position: readonly number[],
): Promise<Uint8Array | undefined> {
  const selection = chunkShape.map((length, d) => {
    const start = at(position, d) * length;
    return { start, stop: Math.min(start + length, at(array.shape, d)), step: 1 };
  });
  if (selection.some(({ start, stop }) => start >= stop)) return undefined;
  const { dtype } = array;
  let bytes = await array.getBytes(selection);
  const counts = selection.map(({ start, stop }) => stop - start);
  if (counts.some((count, d) => count !== chunkShape[d])) {
    const whole = new Uint8Array(chunkShape.reduce((product, n) => product * n, dtype.itemSize));
    repeatItem(array.model.fillItem, whole);
    const from = { bytes, offset: 0, strides: stridesOf(counts) };
    copyItems(from, { bytes: whole, offset: 0, strides: stridesOf(chunkShape) }, counts, dtype.itemSize);
    bytes = whole;
  }
  return dtype.byteOrder === "big" && hasByteOrder(dtype) ? swapItems(bytes, dtype) : bytes;
}
