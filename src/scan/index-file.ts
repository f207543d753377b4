/**
 * The index beside a table or an array: the bounds of its chunks, and which bytes they describe.
 *
 * Knows the file; must not know how bounds are found or used. @see FORMAT.md [FI]
 */
import { at, hex32, joinBytes } from "../bytes/arrays.ts";
import { crc32c } from "../bytes/checksum.ts";
import { isUnreadable, SuperchunkError } from "../errors.ts";
import { INDEX_NAME } from "../format/naming.ts";
import { joinKey } from "../store/key.ts";
import type { StoreOptions } from "../store/types.ts";
import type { CellSource, ScanTable } from "./columns.ts";
import { type Bounds, type Comparable, orderOf } from "./predicate.ts";

/** The bounds of a cell, and the bytes that they describe. */
export interface KnownCell {
  readonly source: CellSource;
  readonly bounds: Bounds;
}

/** The indexed facts of a column. */
export interface IndexedColumn {
  /** How the bytes are read, from {@link fingerprintOf}. */
  readonly state: string;
  /** By the number of the chunk. */
  readonly cells: Map<number, KnownCell>;
}

/** The index, or the reason why it cannot be read. */
export interface ReadIndex {
  readonly columns: ReadonlyMap<string, IndexedColumn>;
  readonly damage?: SuperchunkError;
}

const MAGIC = /^superchunk-index (\d{1,9}) ([0-9a-f]{8})\n/;
const VERSION = 1;
/** Most bytes of the first line. */
const LINE = 40;

/** Key of a table's index: in its folder, or beside a file. [FI-01] */
export async function indexKey(table: ScanTable, options: StoreOptions): Promise<string> {
  const { path, array } = table;
  const isFolder = array?.chunkPlaces === undefined || array.columnNames.length > 0;
  const [place] = isFolder ? [] : ((await array.chunkPlaces?.(0, 1, options)) ?? []);
  return place?.key === path && path !== "" ? `${path}.${INDEX_NAME}` : joinKey(path, INDEX_NAME);
}

/** The index of a table; undefined if there is none. A damaged index is reported, and none of it is used. [FI-05] */
export async function readIndex(table: ScanTable, options: StoreOptions): Promise<ReadIndex | undefined> {
  const key = await indexKey(table, options);
  const path = table.store.describe(key);
  try {
    const bytes = await table.store.get(key, options);
    return bytes === undefined ? undefined : { columns: await parseIndex(bytes, path) };
  } catch (error) {
    if (isUnreadable(error)) return { columns: new Map(), damage: error };
    throw error;
  }
}

/** Columns of an index. @throws BAD_MAGIC, UNSUPPORTED, CHECKSUM_MISMATCH, BAD_FIELD */
async function parseIndex(bytes: Uint8Array, path: string): Promise<Map<string, IndexedColumn>> {
  const start = String.fromCharCode(...bytes.subarray(0, LINE));
  const [line, version, sum] = MAGIC.exec(start) ?? [];
  if (line === undefined)
    throw new SuperchunkError(
      "BAD_MAGIC",
      `the file does not begin as an index does; "superchunk index" makes it again`,
      { path, offset: 0, expected: `superchunk-index ${VERSION}`, found: start.slice(0, 16) },
    );
  if (Number(version) !== VERSION)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the index has version ${version}, but this program knows ${VERSION}`,
      { path, field: "version", expected: VERSION, found: Number(version) },
    );
  const body = bytes.subarray(line.length);
  const found = hex32(await crc32c(body));
  if (found !== sum)
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the crc32c of the index is ${found}, but its first line says ${sum}; "superchunk index" makes it again`,
      { path, field: "crc32c", expected: sum, found },
    );
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (cause) {
    throw badIndex(path, "is not JSON", "columns", cause);
  }
  const { columns } = (json ?? {}) as { readonly columns?: unknown };
  if (!Array.isArray(columns)) throw badIndex(path, "has no list of columns", "columns");
  return new Map(columns.map((column: unknown) => parseColumn(column, path)));
}

interface StoredColumn {
  readonly name: string;
  readonly state: string;
  readonly objects: readonly (readonly [key: string, stamp: string])[];
  readonly cell: readonly number[];
  readonly object: readonly number[];
  readonly offset: readonly number[];
  readonly rows: readonly number[];
  readonly nulls: readonly number[];
  readonly least: readonly (string | number | null)[];
  readonly greatest: readonly (string | number | null)[];
  readonly kind: "number" | "integer" | "text";
}

const LISTS = ["cell", "object", "offset", "rows", "nulls", "least", "greatest"] as const;

function parseColumn(value: unknown, path: string): readonly [name: string, column: IndexedColumn] {
  const stored = (value ?? {}) as Partial<StoredColumn>;
  const { name, state, objects, kind } = stored;
  if (typeof name !== "string" || typeof state !== "string")
    throw badIndex(path, "has a column without a name", "name");
  const where = `column ${JSON.stringify(name)}`;
  const isPair = (pair: unknown): boolean =>
    Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === "string");
  if (!Array.isArray(objects) || !objects.every(isPair))
    throw badIndex(path, `has no objects for ${where}`, "objects");
  if (kind !== "number" && kind !== "integer" && kind !== "text")
    throw badIndex(path, `has no kind of bounds for ${where}`, "kind");
  const count = stored.cell?.length;
  for (const list of LISTS)
    if (!Array.isArray(stored[list]) || stored[list].length !== count)
      throw badIndex(path, `has lists of unequal lengths for ${where}`, list);
  const whole = stored as StoredColumn;
  const cells = new Map<number, KnownCell>();
  whole.cell.forEach((cell, i) => {
    const counts = [whole.object, whole.offset, whole.rows, whole.nulls].map((list) => at(list, i));
    const [object = 0, offset = 0, rows = 0, nulls = 0] = counts;
    const isCount = [cell, ...counts].every((n) => Number.isSafeInteger(n) && n >= 0);
    const pair = isCount ? whole.objects[object] : undefined;
    if (pair === undefined || nulls > rows || cells.has(cell))
      throw badIndex(path, `contradicts itself for chunk ${String(cell)} of ${where}`, "cell");
    const [least, greatest] = [boundOf(whole.least[i], kind), boundOf(whole.greatest[i], kind)];
    const isBounded = least !== undefined && greatest !== undefined;
    const isNone = whole.least[i] === null && whole.greatest[i] === null;
    if (isBounded ? nulls === rows || orderOf(least, greatest) > 0 : !isNone)
      throw badIndex(path, `has wrong bounds for chunk ${cell} of ${where}`, "least");
    const source = { key: pair[0], stamp: pair[1], offset, isSettled: true };
    cells.set(cell, { source, bounds: { rows, nulls, least, greatest, isOpen: !isBounded && nulls < rows } });
  });
  return [name, { state, cells }];
}

/** A stored bound for comparison; undefined for null and for invalid bounds. */
function boundOf(stored: unknown, kind: StoredColumn["kind"]): Comparable | undefined {
  if (kind === "text") return typeof stored === "string" ? stored : undefined;
  if (kind === "integer")
    return typeof stored === "string" && /^-?\d{1,20}$/.test(stored) ? BigInt(stored) : undefined;
  if (stored === "Infinity" || stored === "-Infinity") return Number(stored);
  return typeof stored === "number" ? stored : undefined;
}

function badIndex(path: string, what: string, field: string, cause?: unknown): SuperchunkError {
  const message = `the index ${what}; "superchunk index" makes it again`;
  return new SuperchunkError("BAD_FIELD", message, { path, field, cause });
}

export async function encodeIndex(columns: ReadonlyMap<string, IndexedColumn>): Promise<Uint8Array> {
  const stored = [...columns].map(([name, { state, cells }]) => storedColumn(name, state, cells));
  const body = new TextEncoder().encode(`${JSON.stringify({ columns: stored })}\n`);
  const sum = hex32(await crc32c(body));
  return joinBytes([new TextEncoder().encode(`superchunk-index ${VERSION} ${sum}\n`), body]);
}

function storedColumn(name: string, state: string, cells: ReadonlyMap<number, KnownCell>): StoredColumn {
  const sorted = [...cells].sort(([a], [b]) => a - b);
  const numbers = new Map<string, number>();
  const objects: (readonly [string, string])[] = [];
  const object = sorted.map(([, { source }]) => {
    const id = JSON.stringify([source.key, source.stamp]);
    const known = numbers.get(id);
    if (known !== undefined) return known;
    numbers.set(id, objects.length);
    return objects.push([source.key, source.stamp]) - 1;
  });
  const bounds = sorted.map(([, { bounds: each }]) => each);
  const sample = bounds.find(({ least }) => least !== undefined)?.least;
  return {
    name,
    state,
    kind: typeof sample === "bigint" ? "integer" : typeof sample === "string" ? "text" : "number",
    objects,
    cell: sorted.map(([cell]) => cell),
    object,
    offset: sorted.map(([, { source }]) => source.offset),
    rows: bounds.map(({ rows }) => rows),
    nulls: bounds.map(({ nulls }) => nulls),
    least: bounds.map(({ least }) => storedBound(least)),
    greatest: bounds.map(({ greatest }) => storedBound(greatest)),
  };
}

function storedBound(bound: Comparable | undefined): string | number | null {
  if (bound === undefined) return null;
  return typeof bound === "number" && Number.isFinite(bound) ? bound : String(bound);
}
