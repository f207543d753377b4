/**
 * The bridge between superchunk and zarrita: shows any Zarr array as a store that zarrita reads (version 3, without shards, values
 * decoded here), and writes arrays that zarrita has open as sharded arrays. Knows zarrita's interfaces; must not import zarrita.
 *
 * zarrita 0.7 reads an index at the start as values, does not support nested shards or unequal chunks, and does not check crc32c.
 * The store handles all of that: zarrita gets whole chunks of little-endian values.
 */

import { at, elementsOf, positionsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { jsonBytes } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import type { ByteRange, WritableStore } from "../store/types.ts";
import { copyItems, repeatItem, swapItems } from "../values/copy-items.ts";
import { stridesOf } from "../values/selection.ts";
import { leafOf } from "./codecs/chain.ts";
import { hasByteOrder } from "./document/data-type.ts";
import type { ZarrArray } from "./read/array.ts";
import { type CreateZarrOptions, createZarr, type ZarrSpecification } from "./write/create.ts";
import type { WritableZarrArray } from "./write/writable-array.ts";

/** The part of zarrita's store interface that reading needs. */
export interface ZarritaStore {
  get(key: `/${string}`, options?: unknown): Promise<Uint8Array | undefined>;
  getRange(key: `/${string}`, range: ByteRange, options?: unknown): Promise<Uint8Array | undefined>;
}

/** Options of {@link zarritaStore}. */
export interface ZarritaStoreOptions {
  /** Shape of the chunks that zarrita sees (default: the inner chunks; the largest if unequal). */
  readonly chunkShape?: readonly number[] | undefined;
}

/**
 * Creates a store with one array at its root, for `zarr.open(zarritaStore(array), { kind: "array" })`.
 *
 * Its chunks are those of the innermost shards, so that zarrita reads no more than it needs. Read errors have this library's codes. Throws
 * `UNSUPPORTED` for values of variable length, which zarrita has another form for.
 */
export function zarritaStore(array: ZarrArray, options: ZarritaStoreOptions = {}): ZarritaStore {
  const { name, dataType } = leafOf(array.model.chain).stages[0] ?? {};
  if (dataType !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its values have variable length ("${name}"); zarrita reads such arrays itself, from the store that they are in`,
      { path: array.store.describe(array.path), field: "codecs", found: name },
    );
  const chunkShape = options.chunkShape ?? largestChunk(array);
  const document = jsonBytes(plainDocument(array, chunkShape));
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

/** The inner chunk; for unequal chunks the longest along each dimension. */
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
  if (dtype.kind === "int" || dtype.kind === "uint" || dtype.kind === "float" || dtype.kind === "complex")
    return `${dtype.kind}${dtype.itemSize * 8}`;
  return dtype.kind;
}

function positionOf(key: string, dimensions: number): number[] | undefined {
  const parts = key.split("/");
  if (parts[0] !== "" || parts[1] !== "c" || parts.length !== dimensions + 2) return undefined;
  const numbers = parts.slice(2);
  return numbers.every((part) => /^(0|[1-9]\d*)$/.test(part)) ? numbers.map(Number) : undefined;
}

/** A whole chunk, padded with the fill value past the array's end; undefined outside the array. */
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
    const whole = new Uint8Array(elementsOf(chunkShape) * dtype.itemSize);
    repeatItem(array.model.fillItem, whole);
    const from = { bytes, offset: 0, strides: stridesOf(counts) };
    copyItems(from, { bytes: whole, offset: 0, strides: stridesOf(chunkShape) }, counts, dtype.itemSize);
    bytes = whole;
  }
  return dtype.byteOrder === "big" && hasByteOrder(dtype) ? swapItems(bytes, dtype) : bytes;
}

/** The members of an array of zarrita 0.5 to 0.7 that are used. */
export interface ZarritaArray {
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  /** zarrita's name of the data type: Zarr v3's name for numbers and bool. */
  readonly dtype: string;
  readonly attrs?: unknown;
  readonly fillValue?: unknown;
  getChunk(position: number[]): Promise<{
    readonly data: unknown;
    readonly shape: readonly number[];
    readonly stride: readonly number[];
  }>;
}

/** Options of the copy. The source's chunks become inner chunks by default. */
export interface FromZarritaOptions extends CreateZarrOptions {
  readonly specification?: Partial<Omit<ZarrSpecification, "shape" | "dataType">> | undefined;
}

const NUMBERS = /^(bool|u?int(8|16|32|64)|float(16|32|64))$/;

/** Implements the exported `writeFromZarrita`. */
export async function writeFromZarrita(
  source: ZarritaArray,
  store: WritableStore,
  path: string,
  options: FromZarritaOptions = {},
): Promise<WritableZarrArray> {
  if (!NUMBERS.test(source.dtype))
    throw new SuperchunkError(
      "UNSUPPORTED",
      `zarrita's data type ${source.dtype} is not written; numbers and bool are`,
      { path: store.describe(path), field: "data_type", found: source.dtype },
    );
  const { fillValue, ...rest } = options.specification ?? {};
  const chunkShape = rest.chunkShape ?? source.chunks;
  const array = await createZarr(
    store,
    path,
    {
      shape: source.shape,
      dataType: source.dtype,
      shardShape: chunkShape.map((n, d) => n * Math.max(1, Math.min(8, Math.ceil(at(source.shape, d) / n)))),
      fillValue: fillValue ?? fillValueOf(source, store.describe(path)),
      attributes: (source.attrs ?? {}) as JsonObject,
      ...rest,
      chunkShape,
    },
    options,
  );
  const { shardShape } = array;
  const step = shardShape ?? chunkShape;
  for (const position of positionsOf(source.shape.map((length, d) => Math.ceil(length / at(step, d))))) {
    const start = position.map((index, d) => index * at(step, d));
    const stop = start.map((first, d) => Math.min(first + at(step, d), at(source.shape, d)));
    const bytes = await gather(source, start, stop, array.dtype.itemSize);
    const selection = start.map((first, d) => ({ start: first, stop: at(stop, d), step: 1 }));
    await array.setBytes(selection, bytes, { signal: options.signal });
  }
  return array;
}

function fillValueOf({ fillValue, dtype }: ZarritaArray, path: string): JsonValue {
  const isInexact =
    (typeof fillValue === "bigint" && BigInt.asIntN(54, fillValue) !== fillValue) ||
    (typeof fillValue === "number" && /^u?int/.test(dtype) && !Number.isSafeInteger(fillValue));
  if (isInexact)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "zarrita reads integers beyond 2^53 inexactly; give the fill value itself (specification.fillValue)",
      { path, field: "fill_value", found: String(fillValue) },
    );
  if (fillValue === null || fillValue === undefined) return dtype === "bool" ? false : 0;
  if (typeof fillValue === "number" && !Number.isFinite(fillValue)) return String(fillValue);
  return fillValue as JsonValue;
}

/** The items of a region, from all chunks of the source that it touches. */
async function gather(
  source: ZarritaArray,
  start: readonly number[],
  stop: readonly number[],
  itemSize: number,
): Promise<Uint8Array> {
  const counts = start.map((first, d) => at(stop, d) - first);
  const bytes = new Uint8Array(elementsOf(counts) * itemSize);
  const strides = stridesOf(counts);
  const firsts = start.map((first, d) => Math.floor(first / at(source.chunks, d)));
  const ends = stop.map((last, d) => Math.ceil(last / at(source.chunks, d)));
  for (const offset of positionsOf(ends.map((end, d) => end - at(firsts, d)))) {
    const position = offset.map((index, d) => index + at(firsts, d));
    const chunk = await source.getChunk(position);
    const from = position.map((index, d) => Math.max(at(start, d), index * at(source.chunks, d)));
    const to = position.map((index, d) => Math.min(at(stop, d), (index + 1) * at(source.chunks, d)));
    const offsetFrom = (base: (d: number) => number, stride: readonly number[]): number =>
      from.reduce((sum, first, d) => sum + (first - base(d)) * at(stride, d), 0);
    copyItems(
      {
        bytes: bytesOf(chunk.data),
        offset: offsetFrom((d) => at(position, d) * at(source.chunks, d), chunk.stride),
        strides: chunk.stride,
      },
      { bytes, offset: offsetFrom((d) => at(start, d), strides), strides },
      from.map((first, d) => at(to, d) - first),
      itemSize,
    );
  }
  return bytes;
}

/** Typed arrays, and zarrita's boolean arrays, have their values in one buffer. */
function bytesOf(data: unknown): Uint8Array {
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
}
