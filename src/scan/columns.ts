/**
 * The columns of a scan, and whether the bytes of a chunk are still the same as before.
 *
 * Knows what arrays have in common; must not know filters. @see FORMAT.md [FI]
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import { stringifyJson } from "../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { runPooled } from "../store/pool.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import type { Selection } from "../values/selection.ts";
import { assertReadable, fieldSize, type TypedValues, toValues } from "../values/values.ts";

/** What a scan needs of an array of any format. */
export interface ScanArray {
  readonly kind: "array";
  readonly dialect: string;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly metadata: JsonObject;
  readonly chunkLength: number | undefined;
  readonly chunkStarts?: Float64Array | undefined;
  readonly columnNames: readonly string[];
  column(name: string): ScanArray;
  getBytes(selection?: Selection | null, options?: StoreOptions): Promise<Uint8Array>;
  /** For archives: the places of chunks. */
  chunkPlaces?(
    first?: number,
    end?: number,
    options?: StoreOptions,
  ): Promise<readonly { readonly key: string; readonly offset: number }[]>;
  /** For Zarr: the objects of the grid. */
  readonly model?: {
    readonly axes: readonly { chunkOf(item: number): number }[];
    chunkKey(position: readonly number[]): string;
  };
}

/** Columns of equal length. */
export interface ScanTable {
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly names: readonly string[];
  /** Undefined if the columns differ in length. */
  readonly length: number | undefined;
  column(name: string): ScanArray;
  /** The array that is shown as a table. */
  readonly array?: ScanArray;
}

/** Number of rows of a table. Throws `BAD_ARGUMENT` if its columns differ in length. */
export function tableLength({ store, path, length }: ScanTable): number {
  if (length !== undefined) return length;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "this group is not a table: its arrays are not all directly in it and of one length; scan them by themselves",
    { path: store.describe(path), field: "kind", expected: "table", found: "group" },
  );
}

/** The column of an array without fields. */
const ONLY_COLUMN = "value";

/** An array as a table: its fields are the columns, or it is the column `value`. Throws `BAD_ARGUMENT`, `UNSUPPORTED`. */
export function tableOfArray(array: ScanArray): ScanTable {
  const { store, path, attrs, dtype, shape, columnNames } = array;
  const [length] = shape;
  if (length === undefined)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "an array without dimensions has no rows to scan; read its value with get",
      {
        path: store.describe(path),
      },
    );
  const fields = dtype.kind === "struct" && shape.length === 1 ? dtype.fields.map(({ name }) => name) : [];
  const isInFolders = columnNames.length > 0;
  return {
    store,
    path,
    attrs,
    length,
    names: fields.length > 0 ? fields : [ONLY_COLUMN],
    column: (name) => (isInFolders ? array.column(name) : array),
    array,
  };
}

/** A column of a table, and the place of its values in the items of an array. */
export interface ScannedColumn {
  readonly name: string;
  readonly array: ScanArray;
  readonly dtype: DType;
  /** Dimensions of a row. */
  readonly rowShape: readonly number[];
  /** Bytes of a row of the array, and the offset and size of the column's part. */
  readonly rowBytes: number;
  readonly offset: number;
  readonly size: number;
  /** Rows of a chunk, or of the unit that is examined together if chunks do not end at rows. */
  readonly cellRows: number;
}

/** Rows that are examined together if chunks do not decide it. */
const CELL_ROWS = 65_536;

/** The column with a name. Throws `NOT_FOUND`, `UNSUPPORTED`. */
export function scannedColumn(table: ScanTable, name: string): ScannedColumn {
  const path = table.store.describe(table.path);
  if (!table.names.includes(name)) throw notNamed("column", name, table.names, path);
  const array = table.column(name);
  const [, ...inner] = array.shape;
  const cellRows = isCutByRows(array) ? (array.chunkLength ?? CELL_ROWS) : CELL_ROWS;
  const whole = array.dtype;
  const field =
    table.array === array && whole.kind === "struct" && inner.length === 0
      ? whole.fields.find((each) => each.name === name)
      : undefined;
  const dtype = field?.dtype ?? whole;
  assertReadable(whole, path);
  const rowBytes = elementsOf(inner) * whole.itemSize;
  const size = field === undefined ? rowBytes : fieldSize(field);
  const rowShape = field?.shape ?? inner;
  return { name, array, dtype, rowShape, rowBytes, offset: field?.offset ?? 0, size, cellRows };
}

function isCutByRows({ chunkLength, chunkStarts }: ScanArray): boolean {
  return chunkLength !== undefined && chunkLength > 0 && chunkStarts === undefined;
}

/** Where the values of a cell come from. */
export interface CellSource {
  /** Key of the object relative to the table, and offset of the chunk in it. */
  readonly key: string;
  readonly offset: number;
  /** Changes whenever the bytes of the object change. */
  readonly stamp: string;
  /** False if the object was written so recently that a second write could have the same stamp. */
  readonly isSettled: boolean;
}

/** True if the bytes are still the same. */
export function isSameSource(a: CellSource, b: CellSource): boolean {
  return a.key === b.key && a.offset === b.offset && a.stamp === b.stamp;
}

/** File systems store times in steps of some milliseconds; old ones in steps of one or two seconds. */
const STEP_MS = 50;
const LONG_STEP_MS = 2_500;
/** Objects that are examined at a time. */
const AT_ONCE = 32;

/** Finds the sources of a column's cells. Examines each object once. */
export class CellSources {
  readonly #column: ScannedColumn;
  readonly #root: string;
  #places: Promise<readonly { readonly key: string; readonly offset: number }[] | undefined> | undefined;
  readonly #stamps = new Map<string, Pick<CellSource, "stamp" | "isSettled"> | undefined>();

  constructor(table: ScanTable, column: ScannedColumn) {
    this.#column = column;
    this.#root = table.path;
  }

  /** Undefined for a cell if the store does not report changes of its bytes. */
  async of(cells: readonly number[], signal?: AbortSignal): Promise<(CellSource | undefined)[]> {
    const { store } = this.#column.array;
    const none = cells.map(() => undefined);
    // Such a store would read everything just to report that it is unchanged.
    if (cells.length === 0 || store.readsToStat === true) return none;
    this.#places ??= this.#findPlaces(signal);
    const places = await this.#places;
    if (places === undefined) return none;
    const wanted = new Set(
      cells.flatMap((cell) => places[cell]?.key ?? []).filter((key) => !this.#stamps.has(key)),
    );
    await this.#look([...wanted], signal);
    return cells.map((cell) => {
      const place = places[cell];
      const stamp = place && this.#stamps.get(place.key);
      return place && stamp && { ...place, ...stamp, key: this.#relative(place.key) };
    });
  }

  #relative(key: string): string {
    return this.#root === "" ? key : key.slice(this.#root.length).replace(/^\//, "");
  }

  async #findPlaces(
    signal: AbortSignal | undefined,
  ): Promise<readonly { readonly key: string; readonly offset: number }[] | undefined> {
    const { array, cellRows } = this.#column;
    const [rows = 0] = array.shape;
    if (!isCutByRows(array)) return undefined;
    if (array.chunkPlaces !== undefined) return array.chunkPlaces(0, undefined, { signal });
    const { model } = array;
    // Stores that show other formats as Zarr read one version of a file.
    if (model === undefined || !/^zarr[23]$/.test(array.dialect)) return undefined;
    const [axis] = model.axes;
    if (axis === undefined || array.shape.length !== 1) return undefined;
    return Array.from({ length: Math.ceil(rows / cellRows) }, (_, cell) => {
      const chunk = axis.chunkOf(cell * cellRows);
      const isOne = axis.chunkOf(Math.min(rows, (cell + 1) * cellRows) - 1) === chunk;
      return { key: isOne ? model.chunkKey([chunk]) : "", offset: 0 };
    });
  }

  async #look(keys: readonly string[], signal: AbortSignal | undefined): Promise<void> {
    const { store } = this.#column.array;
    const isArchive = this.#column.array.chunkPlaces !== undefined;
    const note = (key: string, info: ObjectInfo | undefined): void =>
      void this.#stamps.set(key, stampOf(info, isArchive));
    const named = keys.filter((key) => key !== "");
    if (store.getHeads !== undefined) {
      const heads = await store.getHeads(named, 0, { signal });
      for (const [i, key] of named.entries()) note(key, heads[i]?.info);
    } else {
      const ask = async (key: string, call: AbortSignal): Promise<void> =>
        note(key, await store.stat(key, { signal: call }));
      await runPooled(named, AT_ONCE, ask, signal);
    }
  }
}

function stampOf(
  info: ObjectInfo | undefined,
  isArchive: boolean,
): Pick<CellSource, "stamp" | "isSettled"> | undefined {
  // A missing Zarr chunk has the fill value.
  if (info === undefined) return isArchive ? undefined : { stamp: "absent", isSettled: true };
  const { size, version, etag, modified, changed = "" } = info;
  if (etag !== undefined) return { stamp: etag, isSettled: true };
  if (modified === undefined)
    return version === String(size) ? undefined : { stamp: version, isSettled: true };
  const last = Math.max(modified, Number(changed) / 1e6);
  const stamp = changed === "" ? version : `${version}-${changed}`;
  return { stamp, isSettled: Date.now() - last > (last % 1000 === 0 ? LONG_STEP_MS : STEP_MS) };
}

/**
 * What else the values of a column depend on: how bytes are read and decoded, and, for an array with commits, which rows they are. Known
 * bounds are valid only if this is unchanged.
 */
export function fingerprintOf({ array, dtype, offset, cellRows }: ScannedColumn): string {
  const { sizes, codecs, filters, compressor } = array.metadata;
  const layout = (sizes as JsonObject | undefined)?.["layout"] as JsonObject | undefined;
  const isZarr = array.model !== undefined;
  const facts = isZarr ? [codecs, filters, compressor] : layout && [layout["id"], layout["edition"]];
  const own = facts?.map((fact) => fact ?? null) ?? null;
  const whole = formatDType(array.dtype);
  const { fillValue = null } = array as { readonly fillValue?: JsonValue };
  return stringifyJson([formatDType(dtype), whole, array.shape.slice(1), offset, cellRows, fillValue, own]);
}

export function rowsOfCell(cell: number, { cellRows }: ScannedColumn, rows: number): number {
  return Math.max(0, Math.min(rows, (cell + 1) * cellRows) - cell * cellRows);
}

/** The bytes of a column in the read rows. */
export function columnBytes(
  { rowBytes, offset, size }: ScannedColumn,
  bytes: Uint8Array,
  rows: Uint32Array | undefined,
): Uint8Array {
  const isWhole = size === rowBytes;
  if (rows === undefined && isWhole) return bytes;
  const count = rows?.length ?? Math.floor(bytes.length / Math.max(1, rowBytes));
  const first = rows?.[0] ?? 0;
  const isRun = rows === undefined || (count > 0 && at(rows, count - 1) === first + count - 1);
  if (isRun && isWhole) return bytes.slice(first * rowBytes, (first + count) * rowBytes);
  const out = new Uint8Array(count * size);
  for (let i = 0, to = 0; i < count; i++) {
    const from = (rows === undefined ? i : (rows[i] as number)) * rowBytes + offset;
    for (let b = 0; b < size; b++) out[to++] = bytes[from + b] as number;
  }
  return out;
}

/** The values of a column's bytes. The bytes are not changed. */
export function valuesOfRows({ dtype }: ScannedColumn, bytes: Uint8Array): TypedValues {
  const isBig = "byteOrder" in dtype && dtype.byteOrder === "big";
  return toValues(isBig ? bytes.slice() : bytes, dtype);
}
