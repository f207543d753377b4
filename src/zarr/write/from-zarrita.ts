/** Writes what zarrita has open as a sharded array. Knows zarrita's array interface; must not import zarrita. */

import { SuperchunkError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { WritableStore } from "../../store/types.ts";
import { copyItems } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import { type CreateZarrOptions, createZarr, type ZarrSpecification } from "./create.ts";
import type { WritableZarrArray } from "./writable-array.ts";

/** An array as zarrita 0.5 to 0.7 opens it, as far as it is used. */
export interface ZarritaArray {
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  /** zarrita's name of the data type, which is Zarr v3's for numbers and bool. */
  readonly dtype: string;
  readonly attrs?: unknown;
  readonly fillValue?: unknown;
  getChunk(position: number[]): Promise<{
    readonly data: unknown;
    readonly shape: readonly number[];
    readonly stride: readonly number[];
  }>;
}

/** What is to be written: the source's chunks become inner chunks unless asked otherwise. */
export interface FromZarritaOptions extends CreateZarrOptions {
  readonly specification?: Partial<Omit<ZarrSpecification, "shape" | "dataType">> | undefined;
}

const NUMBERS = /^(bool|u?int(8|16|32|64)|float(16|32|64))$/;

/**
 * Copies an array that zarrita has open, chunk by chunk, to a new array at a path. Without a `shardShape`, shards
 * are eight chunks along each dimension, and no larger than the array.
 *
 * Throws `UNSUPPORTED` for data types other than numbers and bool and for fill values beyond 2^53 that are not given, `CONFLICT` where something is at the path, and what
 * zarrita throws.
 */
export async function writeFromZarrita(
  source: ZarritaArray,
  store: WritableStore,
  path: string,
  options: FromZarritaOptions = {},
): Promise<WritableZarrArray> {
  if (!NUMBERS.test(source.dtype)) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `zarrita's data type ${source.dtype} is not written; numbers and bool are`,
      {
        path: store.describe(path),
        field: "data_type",
        found: source.dtype,
      },
    );
  }
  const { fillValue, ...rest } = options.specification ?? {};
  const chunkShape = rest.chunkShape ?? source.chunks;
  const array = await createZarr(
    store,
    path,
    {
      shape: source.shape,
      dataType: source.dtype,
      shardShape: chunkShape.map(
        (n, d) => n * Math.max(1, Math.min(8, Math.ceil((source.shape[d] ?? 1) / n))),
      ),
      fillValue: fillValue ?? fillOf(source, store.describe(path)),
      attributes: (source.attrs ?? {}) as JsonObject,
      ...rest,
      chunkShape,
    },
    options,
  );
  const { shardShape } = array;
  const step = shardShape ?? chunkShape;
  for (const start of startsOf(source.shape, step)) {
    const stop = start.map((first, d) => Math.min(first + (step[d] ?? 1), source.shape[d] ?? 0));
    const bytes = await gather(source, start, stop, array.dtype.itemSize);
    const selection = start.map((first, d) => ({ start: first, stop: stop[d] ?? 0, step: 1 }));
    await array.setBytes(selection, bytes, { signal: options.signal });
  }
  return array;
}

function fillOf({ fillValue, dtype }: ZarritaArray, path: string): JsonValue {
  const isInexact =
    (typeof fillValue === "bigint" && BigInt.asIntN(54, fillValue) !== fillValue) ||
    (typeof fillValue === "number" && /^u?int/.test(dtype) && !Number.isSafeInteger(fillValue));
  if (isInexact) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "zarrita reads integers beyond 2^53 inexactly; give the fill value itself (specification.fillValue)",
      { path, field: "fill_value", found: String(fillValue) },
    );
  }
  if (fillValue === null || fillValue === undefined) return dtype === "bool" ? false : 0;
  if (typeof fillValue === "number" && !Number.isFinite(fillValue)) return String(fillValue);
  return fillValue as JsonValue;
}

function* startsOf(shape: readonly number[], step: readonly number[]): Generator<number[]> {
  const counts = shape.map((n, d) => Math.ceil(n / (step[d] ?? 1)));
  const total = counts.reduce((product, n) => product * n, 1);
  for (let index = 0; index < total; index++) {
    const start = new Array<number>(shape.length).fill(0);
    let rest = index;
    for (let d = shape.length - 1; d >= 0; d--) {
      start[d] = (rest % (counts[d] ?? 1)) * (step[d] ?? 1);
      rest = Math.floor(rest / (counts[d] ?? 1));
    }
    yield start;
  }
}

/** The items of a region, out of all chunks of the source that it touches. */
async function gather(
  source: ZarritaArray,
  start: readonly number[],
  stop: readonly number[],
  itemSize: number,
): Promise<Uint8Array> {
  const counts = start.map((first, d) => (stop[d] ?? 0) - first);
  const bytes = new Uint8Array(counts.reduce((product, n) => product * n, itemSize));
  const strides = stridesOf(counts);
  const firsts = start.map((first, d) => Math.floor(first / (source.chunks[d] ?? 1)));
  const ends = stop.map((last, d) => Math.ceil(last / (source.chunks[d] ?? 1)));
  for (const offset of startsOf(
    ends.map((end, d) => end - (firsts[d] ?? 0)),
    ends.map(() => 1),
  )) {
    const position = offset.map((index, d) => index + (firsts[d] ?? 0));
    const chunk = await source.getChunk(position);
    const from = position.map((index, d) => Math.max(start[d] ?? 0, index * (source.chunks[d] ?? 1)));
    const to = position.map((index, d) => Math.min(stop[d] ?? 0, (index + 1) * (source.chunks[d] ?? 1)));
    const at = (base: (d: number) => number, stride: readonly number[]): number =>
      from.reduce((sum, first, d) => sum + (first - base(d)) * (stride[d] ?? 0), 0);
    copyItems(
      {
        bytes: bytesOf(chunk.data),
        offset: at((d) => (position[d] ?? 0) * (source.chunks[d] ?? 1), chunk.stride),
        strides: chunk.stride,
      },
      { bytes, offset: at((d) => start[d] ?? 0, strides), strides },
      from.map((first, d) => (to[d] ?? 0) - first),
      itemSize,
    );
  }
  return bytes;
}

/** Typed arrays, and zarrita's own array of bool, have their values in one buffer. */
function bytesOf(data: unknown): Uint8Array {
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
}
