/** Arrays and tables as folders: carray, ctable, superchunks. Must not know where values come from. */

import type { DType, Field, JsonValue } from "../../format/types.ts";
import { createArray } from "../../write/array/create.ts";
import { type CarrayOptions, createCarray } from "../../write/bcolz/carray-write.ts";
import { createTable } from "../../write/bcolz/table-write.ts";
import type { BackColumn, BackSettings, BackTable } from "../sources/source.ts";
import type { BackRun } from "./back-types.ts";
import { CopyingEncoder } from "./copying-encoder.ts";

/** bcolz 1.2 finds rows by the typesize that it would have given to Blosc; a chunk with another one gives it wrong values. */
const BCOLZ = { needsTypesize: true } as const;

/** Bytes of rows of a table that are put together at a time, about. */
const BATCH_BYTES = 4 << 20;

/** True where the chunks of an array are its rows in C order, as folders have them. */
export function isCutByRows({ chunks, order }: BackColumn): boolean {
  return chunks?.chunkLength !== undefined && order === "C";
}

/** The length of the chunks of all columns, where that is one and they can be copied. */
export function commonChunkLength(columns: readonly BackColumn[]): number | undefined {
  const lengths = new Set(columns.map(({ chunks }) => chunks?.chunkLength));
  const rows = new Set(columns.map(({ shape }) => shape[0]));
  const [length] = lengths;
  return lengths.size === 1 && rows.size === 1 && columns.every(isCutByRows) ? length : undefined;
}

/** An array as bcolz has it. */
export async function writeCarray(run: BackRun, column: BackColumn, key: string): Promise<void> {
  const { encoder, data } = rowsOf(run, column, new CopyingEncoder(run.encoder, BCOLZ));
  const { dtype, shape, attrs } = column;
  await createCarray(
    run.target,
    key,
    { dtype, rowShape: shape.slice(1), data },
    { ...carrayOptions(run, column, encoder), attrs },
  );
  run.count(column, encoder);
}

/** A table as bcolz has it. */
export async function writeCtable(
  run: BackRun,
  table: BackTable,
  columns: readonly BackColumn[],
  key: string,
): Promise<void> {
  // One encoder for all: it compares bytes, so that columns are not mixed up.
  const encoder = new CopyingEncoder(run.encoder, BCOLZ);
  const sources = columns.map((column) => {
    const { cparams, chunklen, expectedlen, dflt } = carrayOptions(run, column, encoder);
    const { name, dtype, shape, attrs } = column;
    return {
      name,
      dtype,
      rowShape: shape.slice(1),
      data: rowsOf(run, column, encoder).data,
      options: {
        cparams,
        chunklen,
        expectedlen,
        dflt,
        ...(Object.keys(attrs).length === 0 ? {} : { attrs }),
      },
    };
  });
  const { signal } = run.options;
  await createTable(run.target, key, sources, { attrs: table.attrs, encoder, signal });
  columns.forEach((column, i) => {
    run.count(column, i === 0 ? encoder : undefined);
  });
}

/** An array of superchunks. */
export async function writeSuperchunks(run: BackRun, column: BackColumn, key: string): Promise<void> {
  const { encoder, data } = rowsOf(run, column);
  const { dtype, shape, attrs, chunks, settings } = column;
  const chunkLength = chunks?.chunkLength;
  // Rows without bytes cannot be counted by what is appended.
  const isCounted = column.nbytes > 0;
  const array = await createArray(run.target, key, {
    dtype,
    shape: [isCounted ? 0 : (shape[0] ?? 0), ...shape.slice(1)],
    dflt: oneFill(run, column),
    attrs,
    // Fields apart would cut the chunks of a struct anew.
    ...(chunks === undefined ? {} : { columns: false }),
    cparams: compressionOf(settings),
    ...(chunkLength === undefined ? {} : { chunklen: chunkLength }),
    ...(settings.checksum === undefined || settings.checksum === "None"
      ? {}
      : { checksum: settings.checksum }),
    expectedlen: shape[0],
    encoder,
    signal: run.options.signal,
  });
  await finish(array, async () => (isCounted ? array.append(data) : undefined));
  run.count(column, encoder);
}

/** A table as one array of structs, each field a folder. */
export async function writeStructs(
  run: BackRun,
  table: BackTable,
  columns: readonly BackColumn[],
  key: string,
): Promise<void> {
  const rows = Math.min(...columns.map(({ shape }) => shape[0] ?? 0));
  const fields: Field[] = [];
  let itemSize = 0;
  for (const { name, dtype, shape } of columns) {
    const dimensions = shape.slice(1);
    fields.push({ name, dtype, shape: dimensions, offset: itemSize });
    itemSize += dimensions.reduce((product, n) => product * n, dtype.itemSize);
  }
  const dtype: DType = { kind: "struct", itemSize, byteOrder: "none", fields };
  const [first] = columns;
  for (const { name, attrs } of columns)
    if (Object.keys(attrs).length > 0) run.note(`${name}: attributes of columns are not carried over`);
  const fills = columns.map(rowFill);
  const chunklen = commonChunkLength(columns);
  const encoder = new CopyingEncoder(run.encoder);
  const array = await createArray(run.target, key, {
    dtype,
    shape: 0,
    dflt: columns.some(({ fillValue }) => (fillValue ?? null) === null) ? null : fills,
    attrs: table.attrs,
    cparams: first === undefined ? {} : compressionOf(first.settings),
    ...(chunklen === undefined ? {} : { chunklen }),
    expectedlen: rows,
    encoder,
    signal: run.options.signal,
  });
  const parts =
    chunklen === undefined ? batchesOf(run, columns, rows, itemSize) : chunkRows(run, columns, encoder);
  await finish(array, async () => {
    let at = 0;
    for await (const { bytes, count } of parts) {
      const items = new Uint8Array(count * itemSize);
      fields.forEach(({ offset }, i) => {
        const own = bytes[i];
        if (own !== undefined) interleave(items, own, itemSize, offset, count);
      });
      await array.append(items);
      at += count;
      run.options.onProgress?.({ done: at * itemSize, total: rows * itemSize });
    }
  });
  columns.forEach((column, i) => {
    run.count(column, i === 0 ? encoder : undefined);
  });
}

/** Rows of all columns, side by side. */
interface RowPart {
  readonly count: number;
  readonly bytes: readonly Uint8Array[];
}

async function* batchesOf(
  { options: { signal } }: BackRun,
  columns: readonly BackColumn[],
  rows: number,
  itemSize: number,
): AsyncGenerator<RowPart> {
  const batch = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, itemSize)));
  for (let at = 0; at < rows; at += batch) {
    const end = Math.min(rows, at + batch);
    const bytes: Uint8Array[] = [];
    for (const column of columns) bytes.push(await column.rows(at, end, signal));
    yield { count: end - at, bytes };
  }
}

/** Chunk by chunk, each offered; the chunks of all columns have the same rows. */
async function* chunkRows(
  { options: { signal } }: BackRun,
  columns: readonly BackColumn[],
  encoder: CopyingEncoder,
): AsyncGenerator<RowPart> {
  const streams = columns.flatMap(({ chunks }) =>
    chunks === undefined ? [] : [chunks.offer(encoder, signal)[Symbol.asyncIterator]()],
  );
  try {
    for (;;) {
      const bytes: Uint8Array[] = [];
      for (const stream of streams) {
        const next = await stream.next();
        if (next.done !== true) bytes.push(next.value);
      }
      const [column] = columns;
      const rowBytes = column?.shape.slice(1).reduce((product, n) => product * n, column.dtype.itemSize) ?? 1;
      if (bytes.length === 0) return;
      yield { count: (bytes[0]?.length ?? 0) / rowBytes, bytes };
    }
  } finally {
    for (const stream of streams) await stream.return?.();
  }
}

function carrayOptions({ options }: BackRun, column: BackColumn, encoder: CopyingEncoder): CarrayOptions {
  return {
    cparams: compressionOf(column.settings),
    chunklen: column.chunks?.chunkLength,
    expectedlen: column.shape[0],
    dflt: column.fillValue,
    encoder,
    signal: options.signal,
  };
}

/** Rows in C order, their chunks offered where they are stored so. */
function rowsOf(
  run: BackRun,
  column: BackColumn,
  encoder: CopyingEncoder = new CopyingEncoder(run.encoder),
): { encoder: CopyingEncoder; data: AsyncIterable<Uint8Array> } {
  const { signal } = run.options;
  const offered = isCutByRows(column) ? column.chunks?.offer(encoder, signal) : undefined;
  return { encoder, data: run.watch(offered ?? column.stream({ signal }), column) };
}

/** The fill value of an item. blz 0.6 keeps one for a row: a nested list. */
function oneFill(run: BackRun, { fillValue, dtype, path }: BackColumn): JsonValue | undefined {
  if (dtype.kind === "struct" || !Array.isArray(fillValue)) return fillValue;
  if (dtype.kind === "complex" && isPair(fillValue)) return fillValue;
  const [first, ...others] = flatten(fillValue as readonly JsonValue[]);
  if (others.every((other) => other === first)) return first;
  run.note(`${path}: the fill value differs within a row, and is not carried over`);
  return undefined;
}

/** The same as the default value of a field: a list that is one item is not taken for a row of items. */
function rowFill({ fillValue = null, dtype, shape }: BackColumn): JsonValue {
  const isList = dtype.kind === "struct" || (dtype.kind === "complex" && isPair(fillValue));
  if (!isList || !Array.isArray(fillValue) || shape.length < 2) return fillValue;
  return shape
    .slice(1)
    .reduceRight<JsonValue>((part, length) => new Array<JsonValue>(length).fill(part), fillValue);
}

function isPair(value: JsonValue): boolean {
  return Array.isArray(value) && value.length === 2 && !value.some((part) => Array.isArray(part));
}

function flatten(values: readonly JsonValue[]): JsonValue[] {
  return values.flatMap((value) => (Array.isArray(value) ? flatten(value as readonly JsonValue[]) : [value]));
}

function compressionOf({
  cname,
  clevel,
  shuffle,
}: BackSettings): Pick<BackSettings, "cname" | "clevel" | "shuffle"> {
  return {
    ...(cname === undefined ? {} : { cname }),
    ...(clevel === undefined ? {} : { clevel }),
    ...(shuffle === undefined ? {} : { shuffle }),
  };
}

/** Puts a column's bytes into rows of structs. */
function interleave(
  rows: Uint8Array,
  column: Uint8Array,
  rowSize: number,
  offset: number,
  count: number,
): void {
  const size = column.length / count;
  for (let row = 0; row < count; row++)
    rows.set(column.subarray(row * size, (row + 1) * size), row * rowSize + offset);
}

/** Closes an array; where writing failed, nothing of it is committed. */
async function finish(
  array: { close(): Promise<void>; abandon(): Promise<void> },
  write: () => Promise<void>,
): Promise<void> {
  try {
    await write();
    await array.close();
  } catch (error) {
    await array.abandon().catch(() => undefined); // the first error is the one to tell
    throw error;
  }
}
