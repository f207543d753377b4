/**
 * Converts what can be appended to bytes of items: typed arrays, raw bytes, values, and iterables and streams of them. Knows
 * the forms; must not know where the rows go.
 */

import { at, elementsOf, IS_LITTLE_ENDIAN, joinBytes } from "../../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { DType } from "../../format/types.ts";
import { copyItems, repeatItem } from "../../values/copy-items.ts";
import { putRow } from "../../values/item-bytes.ts";
import { stridesOf } from "../../values/selection.ts";
import { ComplexArray, fieldSize, swapBytes, type TypedValues } from "../../values/values.ts";

/**
 * Rows. A typed array of the dtype's kind and size (for float16 also a `Float32Array`) holds values; `Uint8Array` and `ArrayBuffer` hold
 * items as stored. A list or an iterable holds rows (values, nested lists for rows with dimensions) or parts in any of these forms; raw
 * parts may end inside a row. Bytes are always items as stored, even if the dtype's values are bytes. Rows of a struct are objects with its
 * fields, or lists of them; a plain object `{ name: rows }` gives them by column.
 */
export type RowSource =
  | TypedValues
  | ArrayBuffer
  | { readonly data: TypedValues; readonly shape: readonly number[] }
  | Readonly<Record<string, unknown>>
  | Iterable<unknown>
  | AsyncIterable<unknown>
  | ReadableStream<unknown>;

/** Required properties of the rows. */
export interface RowFacts {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
}

/** Bytes of rows assembled from single values at a time. */
const BATCH_BYTES = 1 << 18;

/** The items of a complete source; undefined for iterables and streams. Throws `BAD_ARGUMENT`. */
export function itemsOf(source: unknown, { dtype }: RowFacts): Uint8Array | undefined {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return itemsOfView(source, dtype);
  if (source instanceof ComplexArray && dtype.kind === "complex") return itemsOfView(source.parts, dtype);
  if (typeof source !== "object" || source === null) return undefined;
  if ("bytes" in source && source.bytes instanceof Uint8Array && "get" in source) return source.bytes;
  if ("data" in source && "shape" in source) return itemsOf(source.data, { dtype, rowShape: [] });
  return undefined;
}

/**
 * The columns of a plain object `{ name: rows }`, in the order of the struct's fields; undefined for any other source.
 * @throws BAD_ARGUMENT naming a column that is missing, or that the struct does not have
 */
export function columnSources(
  source: unknown,
  dtype: DType,
): readonly AsyncGenerator<Uint8Array>[] | undefined {
  if (dtype.kind !== "struct" || typeof source !== "object" || source === null) return undefined;
  if (Object.getPrototypeOf(source) !== Object.prototype || isLists(source)) return undefined;
  const names = dtype.fields.map(({ name }) => name);
  const unknown = Object.keys(source).find((name) => !names.includes(name));
  const missing = names.find((name) => !Object.hasOwn(source, name));
  if (unknown !== undefined || missing !== undefined)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      unknown === undefined
        ? `no values are given for the column "${missing}"`
        : `unknown column "${unknown}"; expected one of ${names.join(", ")}`,
      { field: unknown ?? missing ?? "", expected: names },
    );
  return dtype.fields.map(({ name, dtype: own, shape }) =>
    readRows((source as Record<string, unknown>)[name], { dtype: own, rowShape: shape }),
  );
}

/** True for a container or stream of values, although it is an object. */
function isLists(source: object): boolean {
  const isSlice = "data" in source && "shape" in source && Array.isArray(source.shape);
  return isSlice || Symbol.iterator in source || Symbol.asyncIterator in source || "getReader" in source;
}

/** The columns as items of the struct. Throws `BAD_ARGUMENT` if their lengths differ. */
async function joinColumns(
  columns: readonly AsyncGenerator<Uint8Array>[],
  { fields, itemSize }: Extract<DType, { kind: "struct" }>,
): Promise<Uint8Array> {
  let items: Uint8Array | undefined;
  for (const [i, field] of fields.entries()) {
    const parts: Uint8Array[] = [];
    for await (const part of at(columns, i)) parts.push(part.slice());
    const bytes = joinBytes(parts);
    const fieldBytes = fieldSize(field);
    const rows = bytes.length / fieldBytes;
    items ??= new Uint8Array(rows * itemSize);
    if (rows * itemSize !== items.length)
      throw badArgument(
        field.name,
        `${rows} rows`,
        `${items.length / itemSize}, as "${at(fields, 0).name}" has`,
      );
    for (let row = 0; row < rows; row++)
      items.set(bytes.subarray(row * fieldBytes, (row + 1) * fieldBytes), row * itemSize + field.offset);
  }
  return items ?? new Uint8Array(0);
}

/** Pieces of items in order; the pieces end on rows. Throws `BAD_ARGUMENT`. */
export async function* readRows(source: unknown, facts: RowFacts): AsyncGenerator<Uint8Array> {
  const rowBytes = elementsOf(facts.rowShape) * facts.dtype.itemSize;
  let rest = new Uint8Array(0);
  for await (const piece of readItems(source, facts)) {
    const joined = rest.length === 0 ? piece : joinBytes([rest, piece]);
    const whole = rowBytes === 0 ? 0 : joined.length - (joined.length % rowBytes);
    if (whole > 0) yield joined.subarray(0, whole);
    rest = whole === joined.length ? new Uint8Array(0) : joined.slice(whole);
  }
  if (rest.length > 0)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the data end inside a row: ${rest.length} bytes are left over, but a row has ${rowBytes}; the whole rows before it were taken`,
      { field: "source", expected: `a multiple of ${rowBytes} bytes`, found: rest.length },
    );
}

async function* readItems(source: unknown, facts: RowFacts): AsyncGenerator<Uint8Array> {
  const items = itemsOf(source, facts);
  if (items !== undefined) {
    yield items;
    return;
  }
  const columns = facts.dtype.kind === "struct" ? columnSources(source, facts.dtype) : undefined;
  if (columns !== undefined && facts.dtype.kind === "struct") {
    yield await joinColumns(columns, facts.dtype);
    return;
  }
  const batch = new RowBatch(facts, Array.isArray(source) ? source.length : Number.POSITIVE_INFINITY);
  for await (const part of iterate(source)) {
    const raw = itemsOf(part, facts);
    if (raw === undefined) {
      const full = batch.add(part);
      if (full !== undefined) yield full;
      continue;
    }
    const before = batch.take();
    if (before.length > 0) yield before;
    yield raw;
  }
  const last = batch.take();
  if (last.length > 0) yield last;
}

/** Bytes of repeated rows made at once. */
const REPEATED_BYTES = 1 << 20;

/** Rows that are all alike. */
export function* repeatRow(row: Uint8Array, rows: number): Generator<Uint8Array> {
  if (row.length === 0) return;
  const batch = Math.max(1, Math.floor(REPEATED_BYTES / row.length));
  for (let left = rows; left > 0; left -= batch)
    yield repeatItem(row, new Uint8Array(Math.min(left, batch) * row.length));
}

function iterate(source: unknown): AsyncIterable<unknown> | Iterable<unknown> {
  if (typeof source === "object" && source !== null) {
    if (Symbol.asyncIterator in source) return source as AsyncIterable<unknown>;
    if (Symbol.iterator in source) return source as Iterable<unknown>;
    if ("getReader" in source) return readStream(source as ReadableStream<unknown>);
  }
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `rows are given as typed arrays, bytes, lists, iterables or streams, not as ${source === null ? "null" : typeof source}; give a single row as [row]`,
    { field: "source", found: typeof source },
  );
}

/** For engines whose streams cannot be iterated. */
async function* readStream(stream: ReadableStream<unknown>): AsyncGenerator<unknown> {
  const reader = stream.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    reader.releaseLock();
  }
}

/** Collects single rows. */
class RowBatch {
  readonly #facts: RowFacts;
  readonly #rowBytes: number;
  readonly #rows: number;
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  #filled = 0;

  /** @param most number of rows that come, if known: a list of one row needs no more memory than that row */
  constructor(facts: RowFacts, most: number) {
    this.#facts = facts;
    this.#rowBytes = elementsOf(facts.rowShape) * facts.dtype.itemSize;
    this.#rows = Math.max(1, Math.min(most, Math.floor(BATCH_BYTES / Math.max(1, this.#rowBytes))));
  }

  /** Adds a row; returns the collected bytes once they are enough. */
  add(value: unknown): Uint8Array | undefined {
    if (this.#bytes.length === 0) this.#bytes = new Uint8Array(this.#rows * this.#rowBytes);
    const { dtype, rowShape } = this.#facts;
    putRow(new DataView(this.#bytes.buffer), this.#filled, dtype, rowShape, value);
    this.#filled += this.#rowBytes;
    return this.#filled >= this.#bytes.length ? this.take() : undefined;
  }

  /** Returns what was collected. */
  take(): Uint8Array {
    const taken = this.#bytes.subarray(0, this.#filled);
    this.#bytes = new Uint8Array(0);
    this.#filled = 0;
    return taken;
  }
}

/** A view's values as items in the dtype's byte order; a copy if that is not the machine's. */
function itemsOfView(view: ArrayBufferView, dtype: DType): Uint8Array {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (view instanceof Uint8Array || view instanceof DataView || view instanceof Uint8ClampedArray)
    return bytes;
  if (dtype.kind === "float" && dtype.itemSize === 2 && view instanceof Float32Array)
    return halves(view, dtype);
  const width = widthFor(view, dtype);
  if (width === undefined) {
    const type = formatDType(dtype);
    const own = typedArrayOf(dtype);
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the values are of ${view.constructor.name}, but the dtype is ${typeof type === "string" ? type : "a struct"}: give ${own === undefined ? "" : `${own}Array, `}a list of values, or raw bytes as Uint8Array`,
      { field: "source", expected: dtype.kind, found: view.constructor.name },
    );
  }
  const isLittle = !("byteOrder" in dtype) || dtype.byteOrder !== "big";
  if (width === 1 || isLittle === IS_LITTLE_ENDIAN) return bytes;
  const swapped = bytes.slice();
  swapBytes(swapped, width);
  return swapped;
}

/** Bytes of each number of the view if the dtype matches, else undefined. */
function widthFor(view: ArrayBufferView, dtype: DType): number | undefined {
  if (dtype.kind === "bool") return view instanceof Int8Array ? 1 : undefined;
  if (view.constructor.name !== `${typedArrayOf(dtype)}Array`) return undefined;
  return dtype.kind === "complex" ? dtype.itemSize / 2 : dtype.itemSize;
}

/** Start of the name of the typed array that holds values of the dtype; undefined if none does. */
function typedArrayOf({ kind, itemSize }: DType): string | undefined {
  const bits = itemSize * 8;
  if (kind === "int" || kind === "datetime" || kind === "timedelta")
    return bits === 64 ? "BigInt64" : `Int${bits}`;
  if (kind === "uint") return bits === 64 ? "BigUint64" : `Uint${bits}`;
  if (kind === "complex") return `Float${bits / 2}`;
  return kind === "float" ? `Float${bits}` : undefined;
}

/** The values that `get` returns for a float16, as items. */
function halves(values: Float32Array, dtype: DType): Uint8Array {
  const items = new DataView(new ArrayBuffer(values.length * 2));
  values.forEach((value, i) => {
    putRow(items, i * 2, dtype, [], value);
  });
  return new Uint8Array(items.buffer);
}

// Changes the shape of rows: removes what is cut off, and fills what is added with one value. Must not know where rows are stored.

/** The shape of a row before and after, and the item that is added. */
interface RowReshaping {
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly fill: Uint8Array;
}

/** Whole rows as rows of the new shape: a copy. */
export function reshapeRows(rows: Uint8Array, { before, after, fill }: RowReshaping): Uint8Array {
  const itemSize = fill.length;
  const count = rows.length / (elementsOf(before) * itemSize);
  const out = repeatItem(fill, new Uint8Array(count * elementsOf(after) * itemSize));
  const common = before.map((n, d) => Math.min(n, at(after, d)));
  copyItems(
    { bytes: rows, offset: 0, strides: stridesOf([count, ...before]) },
    { bytes: out, offset: 0, strides: stridesOf([count, ...after]) },
    [count, ...common],
    itemSize,
  );
  return out;
}
