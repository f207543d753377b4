/**
 * Scans of a table: the rows that match a filter, in batches.
 *
 * The filter's columns are read first, the others only for chunks with matching rows. Chunks whose bounds exclude a match are not
 * read. Bounds come from the index beside the table (`superchunk index`), or from earlier scans of the same handle; both are valid
 * only as long as the store reports that the objects are unchanged. @see docs/questions.md
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import { checkDType } from "../format/given-dtype.ts";
import { keepMade, mapAhead } from "../store/pool.ts";
import { type ArraySlice, stridesOf, type ValuesOf } from "../values/selection.ts";
import { type TypedValues, toValues } from "../values/values.ts";
import {
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
import { isDailyBars } from "./daily-bars.ts";
import { compileCondition, type FilterCondition, type ScanFilter } from "./filter.ts";
import { type IndexedColumn, type KnownCell, type ReadIndex, readIndex } from "./index-file.ts";
import {
  type Bounds,
  boundsOf,
  type Domain,
  domainOf,
  judge,
  type Predicate,
  selectRows,
} from "./predicate.ts";

/** Columns of a scan: names, or names with dtypes, which are checked and known to TypeScript. */
export type ScanColumns = readonly string[] | Readonly<Record<string, string>>;

/** The values of each column. */
export type ScannedValues<Columns> = Columns extends readonly (infer Name extends string)[]
  ? Readonly<Record<Name, ArraySlice>>
  : { readonly [Name in keyof Columns]: ArraySlice<ValuesOf<Columns[Name] & string>> };

/** What a scan will read. */
export interface ScanPlan {
  /** Chunks of the columns of the filter. */
  readonly chunks: number;
  /** Chunks among them that were not read, because their bounds are known. */
  readonly skipped: number;
  /** State of the index beside the table; absent if none was looked for. */
  readonly index?: "used" | "absent" | "damaged" | undefined;
  /** Why the index is unusable; it is then ignored. */
  readonly damage?: SuperchunkError | undefined;
}

/** The names of {@link ScanRowsOptions}. */
export const SCAN_OPTIONS = "columns filter limit onPlan onProgress signal statistics";

/** Options of `scan`. */
export interface ScanRowsOptions<Columns extends ScanColumns = ScanColumns> {
  /** Default: all. */
  readonly columns?: Columns | undefined;
  /** Default: every row. */
  readonly filter?: ScanFilter | undefined;
  /** Most rows to return. */
  readonly limit?: number | undefined;
  /** Uses known facts of chunks, and remembers new ones (default true). */
  readonly statistics?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called once, before values are read. */
  readonly onPlan?: ((plan: ScanPlan) => void) | undefined;
  /** Called with the rows examined so far. */
  readonly onProgress?: ((progress: { readonly done: number; readonly total: number }) => void) | undefined;
}

/** Matching rows, in order. */
export interface ScanBatch<Columns = ScanColumns> {
  /** Row numbers in the table. */
  readonly rows: Float64Array;
  readonly length: number;
  /** Values by column, as `get` returns them. The first dimension is that of `rows`. */
  readonly columns: ScannedValues<Columns>;
}

/** Approximate bytes of a column that are read at a time. */
const WINDOW_BYTES = 4 << 20;
/** Windows that are read ahead. */
const AHEAD = 2;

/** The known facts of one handle's columns: from its index and from earlier scans. */
interface Memory {
  readonly index: Promise<ReadIndex | undefined>;
  readonly columns: Map<string, IndexedColumn>;
}

const MEMORY = new WeakMap<object, Memory>();

interface FilterColumn {
  readonly column: ScannedColumn;
  readonly domain: Domain;
  readonly predicate: Predicate;
  readonly sources: CellSources;
  readonly remembered: Map<number, KnownCell>;
  /** Bounds that are valid in this scan, by cell. */
  readonly known: Map<number, Bounds>;
}

/** Rows `[from, to)`. */
interface Window {
  readonly from: number;
  readonly to: number;
}

interface Scan {
  readonly rows: number;
  readonly output: readonly ScannedColumn[];
  readonly filters: readonly FilterColumn[];
  /** Rows that may match. */
  readonly spans: readonly Window[];
  /** Rows of a window, and of the first one, after which they double. */
  readonly step: number;
  readonly firstStep: number;
}

/** Matching rows, with the bytes of each column. */
interface ScannedBytes {
  /** Row numbers in the table. */
  readonly rows: Float64Array;
  readonly columns: readonly (ScannedColumn & { readonly bytes: Uint8Array })[];
}

/**
 * The rows of a table or an array that match a filter. Bounds found on the way are remembered for this object.
 *
 * @throws BAD_ARGUMENT for an unknown option, and a filter or columns that do not fit the table; NOT_FOUND for an unknown column; UNSUPPORTED for a column
 * that cannot be compared; the codes of reading
 */
export async function* scanRows<const Columns extends ScanColumns>(
  source: ScanTable | ScanArray,
  options: ScanRowsOptions<Columns> = {},
): AsyncGenerator<ScanBatch<Columns>> {
  checkOptions(options, SCAN_OPTIONS);
  const { batches } = await scanBytes(source, options);
  for await (const { rows, columns } of batches)
    yield { rows, length: rows.length, columns: slicesOf(columns, rows.length) as ScannedValues<Columns> };
}

/** Like {@link scanRows}, but returns the columns, and the bytes of their rows. */
export async function scanBytes(
  source: ScanTable | ScanArray,
  options: ScanRowsOptions,
): Promise<{ readonly columns: readonly ScannedColumn[]; readonly batches: AsyncGenerator<ScannedBytes> }> {
  const table = "names" in source ? source : tableOfArray(source);
  const { limit = Number.POSITIVE_INFINITY, filter = {} } = options;
  if (typeof filter !== "object" || filter === null || Array.isArray(filter))
    throw badArgument("filter", filter, "an object of conditions by column, such as { close: { gt: 100 } }");
  if (typeof (options.columns ?? {}) !== "object")
    throw badArgument("columns", options.columns, "a list of names, or an object of dtypes by name");
  if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit >= 0))
    throw badArgument("limit", limit, "a number of rows, an integer of 0 or more");
  options.signal?.throwIfAborted();
  const scan = await prepareScan(source, table, options);
  return { columns: scan.output, batches: foundRows(scan, limit, options) };
}

async function* foundRows(
  scan: Scan,
  limit: number,
  { signal, onProgress }: ScanRowsOptions,
): AsyncGenerator<ScannedBytes> {
  let left = limit;
  if (left === 0) return;
  // With a limit, hardly more than the limit should be read.
  const ahead = limit === Number.POSITIVE_INFINITY ? AHEAD : 0;
  const read = (span: Window, call: AbortSignal): Promise<Matches> => readWindow(scan, span, limit, call);
  for await (const { span, hits, values } of mapAhead(windowsOf(scan), ahead, read, signal)) {
    const count = Math.min(left, hits.length);
    if (count > 0) {
      const rows = Float64Array.from(hits.subarray(0, count), (hit) => span.from + hit);
      const columns = scan.output.flatMap((column) => {
        const bytes = values.get(column.name);
        return bytes === undefined ? [] : [{ ...column, bytes: bytes.subarray(0, count * column.size) }];
      });
      yield { rows, columns };
      left -= count;
    }
    onProgress?.({ done: span.to, total: scan.rows });
    if (left === 0) return;
  }
}

/** Checks the options, and finds the rows that need not be read. */
async function prepareScan(handle: object, table: ScanTable, options: ScanRowsOptions): Promise<Scan> {
  const { filter = {}, signal, statistics = true } = options;
  const asked = options.columns ?? table.names;
  const dtypes: Readonly<Record<string, string>> = isList(asked) ? {} : asked;
  const output = [...new Set(isList(asked) ? asked : Object.keys(asked))].map((name) => {
    const column = scannedColumn(table, name);
    const dtype = Object.hasOwn(dtypes, name) ? dtypes[name] : undefined;
    if (dtype !== undefined) checkDType(column.dtype, dtype, column.array.store.describe(column.array.path));
    return column;
  });
  const path = table.store.describe(table.path);
  const memory = statistics && Object.keys(filter).length > 0 ? await memoryOf(handle, table) : undefined;
  const filters = Object.entries(filter).flatMap(([name, given]) => {
    const column = scannedColumn(table, name);
    const domain = column.rowShape.length === 0 ? domainOf(column.dtype) : undefined;
    if (domain === undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        `column "${name}" cannot be filtered: its rows are ${column.rowShape.length > 0 ? "arrays" : `of kind ${column.dtype.kind}`}, which have no order`,
        { path, field: `filter.${name}` },
      );
    const isSeconds = name === "day" && column.dtype.kind === "uint" && isDailyBars(table.names, table.attrs);
    const remembered = memory === undefined ? new Map<number, KnownCell>() : rememberedOf(memory, column);
    const sources = new CellSources(table, column);
    const conditions = Array.isArray(given)
      ? (given as readonly FilterCondition[])
      : [given as FilterCondition];
    return conditions.map((condition) => {
      const predicate = compileCondition({ name, dtype: column.dtype, isSeconds }, condition, domain);
      return { column, domain, predicate, sources, remembered, known: new Map<number, Bounds>() };
    });
  });
  const rows = tableLength(table);
  let spans: readonly Window[] = rows === 0 ? [] : [{ from: 0, to: rows }];
  let [chunks, skipped] = [0, 0];
  for (const each of filters) {
    const cells = Math.ceil(rows / each.column.cellRows);
    const kept = statistics ? await skipCells(each, rows, signal) : undefined;
    chunks += cells;
    skipped += kept?.skipped ?? 0;
    if (each.predicate.isImpossible) spans = [];
    else if (kept !== undefined) spans = intersect(spans, kept.spans);
  }
  const damage = memory?.found?.damage;
  const index = memory?.found === undefined ? "absent" : damage === undefined ? "used" : "damaged";
  options.onPlan?.({ chunks, skipped, ...(memory === undefined ? {} : { index }), damage });
  const filtered = filters.map(({ column }) => column);
  const step = windowRows([...output, ...filtered]);
  // With a limit, the first chunk may be enough.
  const cells = options.limit === undefined ? [] : filtered.map(({ cellRows }) => cellRows);
  return { rows, output, filters, spans, step, firstStep: Math.min(step, ...cells) };
}

function isList(columns: ScanColumns): columns is readonly string[] {
  return Array.isArray(columns);
}

/** The remembered facts of a handle. Its index is read once. */
async function memoryOf(
  handle: object,
  table: ScanTable,
): Promise<Memory & { readonly found: ReadIndex | undefined }> {
  // Several scans may wait for it, so the signal of one does not end it.
  const memory = MEMORY.get(handle) ?? { index: readIndex(table, {}), columns: new Map() };
  MEMORY.set(handle, memory);
  try {
    return { ...memory, found: await memory.index };
  } catch (error) {
    // Another scan may succeed.
    MEMORY.delete(handle);
    throw error;
  }
}

function rememberedOf(
  { columns, found }: Memory & { readonly found: ReadIndex | undefined },
  column: ScannedColumn,
): Map<number, KnownCell> {
  const state = fingerprintOf(column);
  const known = columns.get(column.name);
  if (known?.state === state) return known.cells;
  const indexed = found?.columns.get(column.name);
  const cells = new Map(indexed?.state === state ? indexed.cells : []);
  columns.set(column.name, { state, cells });
  return cells;
}

/** The rows of one column that may match, by the bounds that are still valid. */
async function skipCells(
  { column, predicate, sources, remembered, known }: FilterColumn,
  rows: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly spans: readonly Window[]; readonly skipped: number } | undefined> {
  const useful = [...remembered].filter(
    ([cell, { bounds }]) =>
      bounds.rows === rowsOfCell(cell, column, rows) && judge(predicate, bounds) !== "some",
  );
  if (useful.length === 0) return undefined;
  const now = await sources.of(
    useful.map(([cell]) => cell),
    signal,
  );
  const skipped = new Set<number>();
  for (const [i, [cell, { source, bounds }]] of useful.entries()) {
    const found = now[i];
    if (found === undefined || !isSameSource(source, found)) continue;
    known.set(cell, bounds);
    if (judge(predicate, bounds) === "none") skipped.add(cell);
  }
  const spans: { from: number; to: number }[] = [];
  for (let cell = 0; cell * column.cellRows < rows; cell++) {
    if (skipped.has(cell)) continue;
    const from = cell * column.cellRows;
    const to = Math.min(rows, from + column.cellRows);
    const last = spans.at(-1);
    if (last?.to === from) last.to = to;
    else spans.push({ from, to });
  }
  return { spans, skipped: skipped.size };
}

function intersect(some: readonly Window[], others: readonly Window[]): Window[] {
  const both: Window[] = [];
  for (let i = 0, j = 0; i < some.length && j < others.length; ) {
    const [a, b] = [at(some, i), at(others, j)];
    const [from, to] = [Math.max(a.from, b.from), Math.min(a.to, b.to)];
    if (from < to) both.push({ from, to });
    if (a.to <= b.to) i++;
    else j++;
  }
  return both;
}

/** Rows of a window: whole chunks of every column, if their lengths have a common multiple that is not too long. */
function windowRows(columns: readonly ScannedColumn[]): number {
  const longest = Math.max(1, ...columns.map(({ cellRows }) => cellRows));
  const widest = Math.max(1, ...columns.map(({ rowBytes }) => rowBytes));
  const wanted = Math.max(longest, Math.floor(WINDOW_BYTES / widest));
  let common = 1;
  for (const { cellRows } of columns) common *= cellRows / gcd(common, cellRows);
  const unit = common <= 4 * wanted ? common : longest;
  return Math.max(1, Math.floor(wanted / unit)) * unit;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** The rows that may match, cut at window ends. */
function* windowsOf({ spans, step, firstStep }: Scan): Generator<Window> {
  let size = firstStep;
  for (const { from: first, to: end } of spans)
    for (let from = first; from < end; size = Math.min(step, 2 * size)) {
      const to = Math.min(end, (Math.floor(from / size) + 1) * size);
      yield { from, to };
      from = to;
    }
}

/** Matching rows of a window, counted from its first, and their values by column. */
interface Matches {
  readonly span: Window;
  readonly hits: Uint32Array;
  readonly values: ReadonlyMap<string, Uint8Array>;
}

async function readWindow(scan: Scan, span: Window, limit: number, signal: AbortSignal): Promise<Matches> {
  const reader = new WindowReader(span, signal);
  let hits: Uint32Array | undefined;
  for (const filter of scan.filters) {
    if (isAllTaken(filter, span)) continue;
    hits = await reader.select(filter, scan.rows, hits);
    if (hits.length === 0) return { span, hits, values: new Map() };
  }
  const count = Math.min(limit, hits?.length ?? span.to - span.from);
  const found = (hits ?? Uint32Array.from({ length: count }, (_, i) => i)).subarray(0, count);
  const isWhole = found.length === span.to - span.from;
  const values = new Map<string, Uint8Array>();
  for (const column of scan.output)
    values.set(column.name, await reader.values(column, isWhole ? undefined : found));
  return { span, hits: found, values };
}

/** True if the bounds of all chunks show that every row matches. */
function isAllTaken({ column, predicate, known }: FilterColumn, { from, to }: Window): boolean {
  for (let cell = Math.floor(from / column.cellRows); cell * column.cellRows < to; cell++) {
    const bounds = known.get(cell);
    if (bounds === undefined || judge(predicate, bounds) !== "all") return false;
  }
  return true;
}

/** Reads the columns of one window. Bytes that several columns share are read once. */
class WindowReader {
  readonly #span: Window;
  readonly #signal: AbortSignal;
  readonly #read = new Map<object, Promise<Uint8Array>>();

  constructor(span: Window, signal: AbortSignal) {
    this.#span = span;
    this.#signal = signal;
  }

  /** The rows of `from`, or of the whole window, that match a condition. Bounds of whole chunks are remembered. */
  async select(filter: FilterColumn, rows: number, from: Uint32Array | undefined): Promise<Uint32Array> {
    const { column, domain, predicate, sources, remembered, known } = filter;
    const span = this.#span;
    const cells: number[] = [];
    for (let cell = Math.ceil(span.from / column.cellRows); cell * column.cellRows < span.to; cell++) {
      const end = Math.min(rows, (cell + 1) * column.cellRows);
      if (end <= span.to && !known.has(cell)) cells.push(cell);
    }
    // Sources are examined before reading: a change in between gives another source next time.
    const now = await sources.of(cells, this.#signal);
    const bytes = columnBytes(column, await this.#all(column), undefined);
    const values = valuesOfRows(column, bytes);
    for (const [i, cell] of cells.entries()) {
      const source = now[i];
      if (source?.isSettled !== true) continue;
      const first = cell * column.cellRows - span.from;
      const part = partOf(column, bytes, values, [first, first + rowsOfCell(cell, column, rows)]);
      remembered.set(cell, { source, bounds: boundsOf(part, domain) });
    }
    return selectRows(predicate, values, span.to - span.from, from);
  }

  /** The bytes of a column in some rows of the window, or in all. */
  async values(column: ScannedColumn, hits: Uint32Array | undefined): Promise<Uint8Array> {
    if (hits === undefined || this.#read.has(column.array))
      return columnBytes(column, await this.#all(column), hits);
    const out = new Uint8Array(hits.length * column.size);
    for (let first = 0; first < hits.length; ) {
      // Adjacent chunks with matching rows are read together.
      let end = first + 1;
      const cellOf = (hit: number): number => Math.floor((this.#span.from + at(hits, hit)) / column.cellRows);
      while (end < hits.length && cellOf(end) <= cellOf(end - 1) + 1) end++;
      const [start, stop] = [at(hits, first), at(hits, end - 1) + 1];
      const bytes = await this.#rows(column, start, stop);
      const own = hits.subarray(first, end).map((hit) => hit - start);
      out.set(columnBytes(column, bytes, own), first * column.size);
      first = end;
    }
    return out;
  }

  #all(column: ScannedColumn): Promise<Uint8Array> {
    const { from, to } = this.#span;
    return keepMade(this.#read, column.array, () => this.#rows(column, 0, to - from));
  }

  #rows({ array }: ScannedColumn, start: number, stop: number): Promise<Uint8Array> {
    const { from } = this.#span;
    return array.getBytes([{ start: from + start, stop: from + stop, step: null }], { signal: this.#signal });
  }
}

/** The values of rows `first` to `end`. */
function partOf(
  column: ScannedColumn,
  bytes: Uint8Array,
  values: TypedValues,
  [first, end]: readonly [number, number],
): TypedValues {
  if ("subarray" in values) return values.subarray(first, end);
  return valuesOfRows(column, bytes.subarray(first * column.size, end * column.size));
}

function slicesOf(columns: ScannedBytes["columns"], count: number): Record<string, ArraySlice> {
  const values: Record<string, ArraySlice> = Object.create(null);
  for (const { name, dtype, rowShape, bytes } of columns) {
    const shape = [count, ...rowShape];
    values[name] = { data: toValues(bytes, dtype, elementsOf(shape)), shape, stride: stridesOf(shape) };
  }
  return values;
}
