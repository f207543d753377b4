/**
 * Selected values, row by row: a common interface of arrays, columns and plain bytes for the formats of `cat`.
 *
 * Knows selections and how much to read at once; must not know any output format.
 */

import {
  type ArraySlice,
  type BytesArchive,
  type DType,
  type Extent,
  type Field,
  type LongOptions,
  type ReadableArray,
  resolveSelection,
  type ScanBatch,
  type Selection,
  type Slice,
  type StructArray,
  type TypedValues,
} from "../../src/index.ts";
import { countItems } from "../input/units.ts";

/** Selected values of one array. Rows are the entries of the first dimension of `shape`; a scalar is one row. */
export interface ValueSource {
  readonly name: string;
  readonly dtype: DType;
  /** Shape of the selected values; `[]` for a scalar. */
  readonly shape: readonly number[];
  readonly rows: number;
  /** The place of the rows in their array: row `i` is its row `first + step * i`. Absent for rows found by conditions. */
  readonly origin?: { readonly first: number; readonly step: number };
  /** Dimensions of a row. */
  readonly rowShape: readonly number[];
  readonly batchRows: number;
  /** The values of rows `[first, end)`, flat, in C order. */
  read(first: number, end: number, options: LongOptions): Promise<ValueList>;
  /** The same as bytes, in stored byte order. */
  readBytes(first: number, end: number, options: LongOptions): Promise<Uint8Array>;
  /** If conditions select the rows: yields the matching rows of all sources that are read together. */
  readonly found?: (options: LongOptions) => AsyncIterable<RowBatch>;
}

/** Values by index: typed arrays, containers, or a single scalar. */
export interface ValueList {
  readonly length: number;
  at(index: number): unknown;
}

/** Bytes of values that are read together, unless chunks need more. */
const BATCH_BYTES = 1 << 20;
/** Up to this size, rows are read by whole chunks, so that no chunk is decoded twice. */
const CHUNK_BYTES = 8 << 20;

const UINT8: DType = { kind: "uint", itemSize: 1, byteOrder: "none" };

/** A field of an array of structs, and the read that the sources of its fields share. */
interface FieldOf {
  readonly field: Field | undefined;
  readonly get: (rows: Selection, options: LongOptions) => Promise<unknown>;
}

/** Reads an array, and the same rows only once in a row: the fields of an array of structs are read side by side. */
export function readOnce(array: ReadableArray): FieldOf["get"] {
  let [asked, last]: [string, Promise<unknown>] = ["", Promise.resolve()];
  return (rows, options) => {
    const now = JSON.stringify(rows);
    if (now !== asked) [asked, last] = [now, array.get(rows, options)];
    return last;
  };
}

/**
 * The selected values of an array; of structs those of one field, if one is given, with its sub-arrays as further dimensions. Throws
 * `BAD_ARGUMENT` for a selection that does not fit.
 */
export function arraySource(
  name: string,
  array: ReadableArray,
  selection: Selection,
  { field, get }: FieldOf = { field: undefined, get: (rows, options) => array.get(rows, options) },
): ValueSource {
  const extents = resolveSelection(selection, array.shape);
  const axis = extents.findIndex((extent) => !extent.dropped);
  const step = axis === 0 ? (extents[0]?.step ?? 1) : 1;
  const shape = extents.filter((extent) => !extent.dropped).map((extent) => extent.count);
  const face =
    field === undefined
      ? describeRows(name, array.dtype, shape)
      : describeRows(name, field.dtype, [...shape, ...field.shape]);
  const chunkRows = axis === 0 ? (array.chunkLength ?? 0) : 0;
  const byChunk = chunkRows > 0 && array.chunkBytes <= CHUNK_BYTES ? Math.ceil(chunkRows / step) : 0;
  const partOf = (first: number, end: number): Selection =>
    extents.map((extent, d) => (d === axis ? cut(extent, first, end) : entryOf(extent)));
  return {
    ...face,
    origin: { first: extents[axis]?.start ?? 0, step },
    batchRows: Math.max(face.batchRows - (byChunk > 0 ? face.batchRows % byChunk : 0), byChunk, 1),
    read: async (first, end, options) => {
      const found = await get(partOf(first, end), options);
      const scalar = axis === -1 && extents.length > 0;
      if (scalar) return { length: 1, at: () => found };
      const { data } = found as ArraySlice;
      return listOf(field === undefined ? data : (data as StructArray).field(name));
    },
    readBytes: async (first, end, options) => {
      const items = await array.getBytes(partOf(first, end), options);
      return field === undefined ? items : takeField(items, array.dtype.itemSize, field);
    },
  };
}

/** One field of all whole items. */
export function takeField(items: Uint8Array, itemSize: number, { dtype, shape, offset }: Field): Uint8Array {
  const size = countItems(shape) * dtype.itemSize;
  const taken = new Uint8Array(Math.floor(items.length / itemSize) * size);
  for (let from = offset, to = 0; to < taken.length; from += itemSize, to += size)
    taken.set(items.subarray(from, from + size), to);
  return taken;
}

/** The selected bytes of plain bytes, as uint8 values. */
export function bytesSource(archive: BytesArchive, selection: Selection): ValueSource {
  const [extent] = resolveSelection(selection, [archive.nbytes]);
  const { start, count, step, dropped } = extent ?? { start: 0, count: 0, step: 1, dropped: false };
  const gather = async (first: number, end: number, options: LongOptions): Promise<Uint8Array> => {
    if (first >= end) return new Uint8Array(0);
    const from = start + first * step;
    const bytes = await archive.readBytes(from, start + (end - 1) * step + 1, options);
    return step === 1 ? bytes : Uint8Array.from({ length: end - first }, (_, i) => bytes[i * step] ?? 0);
  };
  const face = describeRows("", UINT8, dropped ? [] : [count]);
  return {
    ...face,
    origin: { first: start, step },
    batchRows: Math.max(1, Math.floor(face.batchRows / step)),
    read: async (first, end, options) => listOf(await gather(first, end, options)),
    readBytes: gather,
  };
}

/** The columns of the rows that a scan finds. */
export function foundSources(
  columns: readonly Pick<ValueSource, "name" | "dtype" | "rowShape">[],
  scan: (options: LongOptions) => AsyncIterable<ScanBatch>,
): ValueSource[] {
  const refuse = (): never => {
    throw new RangeError("rows that are found come in batches");
  };
  // A printer's options include its own.
  async function* found({ signal, onProgress }: LongOptions): AsyncGenerator<RowBatch> {
    let first = 0;
    for await (const batch of scan({ signal, onProgress })) {
      const values: Readonly<Record<string, ArraySlice>> = batch.columns;
      const lists = columns.flatMap(({ name }) => values[name] ?? []).map(({ data }) => listOf(data));
      yield { first, end: first + batch.length, lists };
      first += batch.length;
    }
  }
  return columns.map(({ name, dtype, rowShape }) => ({
    ...describeRows(name, dtype, [0, ...rowShape]),
    read: refuse,
    readBytes: refuse,
    found,
  }));
}

function describeRows(
  name: string,
  dtype: DType,
  shape: readonly number[],
): Omit<ValueSource, "read" | "readBytes"> {
  const rowShape = shape.slice(1);
  const rowBytes = countItems(rowShape) * dtype.itemSize;
  const batchRows = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, rowBytes)));
  return { name, dtype, shape, rows: shape[0] ?? 1, rowShape, batchRows };
}

function cut(extent: Extent, first: number, end: number): Slice {
  const start = extent.start + first * extent.step;
  const stop = end > first ? extent.start + (end - 1) * extent.step + 1 : start;
  return { start, stop, step: extent.step };
}

function entryOf(extent: Extent): number | Slice {
  return extent.dropped ? extent.start : cut(extent, 0, extent.count);
}

function listOf(values: TypedValues): ValueList {
  if ("get" in values) return { length: values.length, at: (i) => values.get(i) };
  return { length: values.length, at: (i) => values[i] };
}

/** Rows `[first, end)` of sources of one length, read together. */
export interface RowBatch {
  readonly first: number;
  readonly end: number;
  readonly lists: readonly ValueList[];
}

/** Rows that all sources have; none of a table without columns. */
export function rowsOf(sources: readonly ValueSource[]): number {
  return sources.length === 0 ? 0 : Math.min(...sources.map((source) => source.rows));
}

/** Reads rows of several sources side by side, in batches of bounded memory. */
export async function* readBatches(
  sources: readonly ValueSource[],
  first: number,
  end: number,
  options: LongOptions,
): AsyncIterable<RowBatch> {
  const found = sources[0]?.found;
  if (found !== undefined) return yield* found(options);
  const batch = Math.max(1, Math.min(...sources.map((source) => source.batchRows)));
  for (let at = first; at < end; ) {
    // Batches end at multiples of their size, so that they end at chunk ends.
    const stop = Math.min(end, at - (at % batch) + batch);
    const lists = await Promise.all(
      sources.map((source) => source.read(at, stop, { signal: options.signal })),
    );
    yield { first: at, end: stop, lists };
    options.onProgress?.({ done: stop - first, total: end - first });
    at = stop;
  }
}

/** The bytes of a source, in batches of bounded memory. */
export async function* readByteBatches(source: ValueSource, options: LongOptions): AsyncIterable<Uint8Array> {
  for (let at = 0; at < source.rows; ) {
    const end = Math.min(source.rows, at + source.batchRows);
    yield await source.readBytes(at, end, { signal: options.signal });
    options.onProgress?.({ done: end, total: source.rows });
    at = end;
  }
}
