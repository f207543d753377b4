/**
 * Makes or updates the index of a table. Chunks whose bounds are still valid are not read again.
 *
 * @see FORMAT.md [FI]
 */
import { addTo } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { SuperchunkError } from "../errors.ts";
import { splitKey } from "../store/key.ts";
import { pause } from "../store/pool.ts";
import { isWritable } from "../store/types.ts";
import {
  type CellSource,
  CellSources,
  columnBytes,
  fingerprintOf,
  isSameSource,
  rowsOfCell,
  type ScanArray,
  type ScannedColumn,
  type ScanTable,
  scannedColumn,
  tableLength,
  tableOfArray,
  valuesOfRows,
} from "./columns.ts";
import { encodeIndex, type IndexedColumn, indexKey, type KnownCell, readIndex } from "./index-file.ts";
import { boundsOf, type Domain, domainOf } from "./predicate.ts";

/** Result of {@link writeIndex}. */
export interface IndexReport {
  /** Name of the index in messages. */
  readonly path: string;
  /** Columns that have bounds, and those whose values cannot be compared. */
  readonly columns: readonly string[];
  readonly others: readonly string[];
  /** Chunks of these columns, and how many of them were read this time. */
  readonly chunks: number;
  readonly read: number;
  /** Chunks that the index does not cover, because the store does not report changes. */
  readonly uncovered: number;
}

/** Options of {@link writeIndex}. */
export interface WriteIndexOptions {
  /** Default: all columns with comparable values. Index entries of other columns are kept. */
  readonly columns?: readonly string[] | undefined;
  /** Only updates an existing index (default false). */
  readonly ifPresent?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: { readonly done: number; readonly total: number }) => void) | undefined;
}

/** Approximate bytes that are read at a time. */
const WINDOW_BYTES = 16 << 20;
/** Wait for an object that was written just now, in milliseconds. */
const WAIT_MS = 60;
const MAX_WAITS = 50;

interface Indexed {
  readonly column: ScannedColumn;
  readonly domain: Domain;
  readonly count: number;
  readonly cells: Map<number, KnownCell>;
  /** Chunks to read, and their earlier sources. */
  readonly missing: Map<number, CellSource>;
}

/** Implements `writeIndex` of the entry. */
export async function writeIndex(
  source: ScanTable | ScanArray,
  options: WriteIndexOptions = {},
): Promise<IndexReport | undefined> {
  checkOptions(options, "columns ifPresent onProgress signal");
  const { signal, onProgress } = options;
  const table = "names" in source ? source : tableOfArray(source);
  const { store } = table;
  const key = await indexKey(table, { signal });
  const path = store.describe(key);
  const before = await readIndex(table, { signal });
  if (before === undefined && options.ifPresent === true) return undefined;
  if (!isWritable(store))
    throw new SuperchunkError("READ_ONLY", "it is only read, so no index can be stored: convert it", {
      path,
    });
  const rows = tableLength(table);
  const others: string[] = [];
  const indexed: Indexed[] = [];
  for (const name of options.columns ?? table.names) {
    const column = comparableColumn(table, name);
    if (column === undefined) others.push(name);
    else indexed.push(await startColumn(table, column, { rows, before: before?.columns.get(name), signal }));
  }
  if (others.length > 0 && options.columns !== undefined)
    throw new SuperchunkError("BAD_ARGUMENT", `column "${others[0]}" has values that cannot be compared`, {
      path,
      field: "columns",
      found: others[0],
    });
  const total = indexed.reduce((sum, { missing }) => sum + missing.size, 0);
  let done = 0;
  // Fields of one struct are read together.
  const groups = new Map<ScanArray, Indexed[]>();
  for (const each of indexed) addTo(groups, each.column.array, each);
  for (const group of groups.values())
    for (const lot of lotsOf(group)) {
      await readLot(group, lot, rows, signal);
      done += lot.length * group.length;
      onProgress?.({ done: Math.min(done, total), total });
    }
  for (const each of indexed) await confirm(table, each, signal);
  const kept = new Map<string, IndexedColumn>(
    [...(before?.columns ?? [])].filter(([name]) => table.names.includes(name)),
  );
  for (const { column, cells } of indexed) kept.set(column.name, { state: fingerprintOf(column), cells });
  const { folder, name } = splitKey(key);
  // What killed runs left. Writers that append together update the index at the same time, so they leave it.
  if (options.ifPresent !== true) await store.removeLeftovers?.(folder, { names: new Set([name]), signal });
  await store.put(key, await encodeIndex(kept), { signal });
  const chunks = indexed.reduce((sum, { count }) => sum + count, 0);
  const covered = indexed.reduce((sum, { cells }) => sum + cells.size, 0);
  const columns = indexed.map(({ column }) => column.name);
  return { path, columns, others, chunks, read: total, uncovered: chunks - covered };
}

function comparableColumn(
  table: ScanTable,
  name: string,
): (ScannedColumn & { readonly domain: Domain }) | undefined {
  if (table.names.includes(name) && table.column(name).dtype.kind === "object") return undefined;
  const column = scannedColumn(table, name);
  const domain = column.rowShape.length === 0 ? domainOf(column.dtype) : undefined;
  return domain === undefined ? undefined : { ...column, domain };
}

interface Start {
  readonly rows: number;
  readonly before: IndexedColumn | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Finds the chunks to read. Waits for objects that were written just now. */
async function startColumn(
  table: ScanTable,
  { domain, ...column }: ScannedColumn & { readonly domain: Domain },
  { rows, before, signal }: Start,
): Promise<Indexed> {
  const count = Math.ceil(rows / column.cellRows);
  const known = before?.state === fingerprintOf(column) ? before.cells : new Map<number, KnownCell>();
  const all = Array.from({ length: count }, (_, cell) => cell);
  let sources = await new CellSources(table, column).of(all, signal);
  for (let tries = 0; tries < MAX_WAITS && sources.some((each) => each?.isSettled === false); tries++) {
    await pause(WAIT_MS, signal);
    sources = await new CellSources(table, column).of(all, signal);
  }
  const cells = new Map<number, KnownCell>();
  const missing = new Map<number, CellSource>();
  for (const cell of all) {
    const now = sources[cell];
    if (now?.isSettled !== true) continue;
    const old = known.get(cell);
    if (
      old !== undefined &&
      isSameSource(old.source, now) &&
      old.bounds.rows === rowsOfCell(cell, column, rows)
    )
      cells.set(cell, old);
    else missing.set(cell, now);
  }
  return { column, domain, count, cells, missing };
}

/** Adjacent chunks that some columns lack, as many as are read together. */
function* lotsOf(group: readonly Indexed[]): Generator<readonly number[]> {
  const [first] = group;
  if (first === undefined) return;
  const { rowBytes, cellRows } = first.column;
  const most = Math.max(1, Math.floor(WINDOW_BYTES / Math.max(1, rowBytes * cellRows)));
  const cells = [...new Set(group.flatMap(({ missing }) => [...missing.keys()]))].sort((a, b) => a - b);
  let lot: number[] = [];
  for (const cell of cells) {
    const last = lot.at(-1);
    if (last !== undefined && (cell !== last + 1 || lot.length === most)) {
      yield lot;
      lot = [];
    }
    lot.push(cell);
  }
  if (lot.length > 0) yield lot;
}

async function readLot(
  group: readonly Indexed[],
  lot: readonly number[],
  rows: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [first, last] = [lot[0], lot.at(-1)];
  const [shared] = group;
  if (first === undefined || last === undefined || shared === undefined) return;
  const { array, cellRows } = shared.column;
  const start = first * cellRows;
  const stop = Math.min(rows, (last + 1) * cellRows);
  const read = await array.getBytes([{ start, stop, step: null }], { signal });
  for (const { column, domain, cells, missing } of group) {
    const bytes = columnBytes(column, read, undefined);
    for (const cell of lot) {
      const source = missing.get(cell);
      if (source === undefined) continue;
      const from = cell * cellRows - start;
      const own = bytes.subarray(from * column.size, (from + rowsOfCell(cell, column, rows)) * column.size);
      cells.set(cell, { source, bounds: boundsOf(valuesOfRows(column, own), domain) });
    }
  }
}

/** Removes the chunks whose objects changed while they were read. */
async function confirm(
  table: ScanTable,
  { column, cells }: Indexed,
  signal: AbortSignal | undefined,
): Promise<void> {
  const numbers = [...cells.keys()];
  const now = await new CellSources(table, column).of(numbers, signal);
  for (const [i, cell] of numbers.entries()) {
    const [known, found] = [cells.get(cell), now[i]];
    if (known === undefined || found === undefined || !isSameSource(known.source, found)) cells.delete(cell);
  }
}
