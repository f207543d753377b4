/**
 * Creates carrays that bcolz 1.2 and bcolz-zipline open. `meta/sizes` is written last: without it no reader opens the array.
 * @see FORMAT.md [FA-08]
 */

import { defined, elementsOf } from "../../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../../errors.ts";
import { MAX_COLUMNS, parseRootdirs, tooManyColumns } from "../../format/folder.ts";
import { joinMembers, memberText, splitMembers } from "../../format/json.ts";
import { encodeFilled, type RowSpan } from "../../format/layout.ts";
import { checkStoredName } from "../../format/naming.ts";
import type { DType, JsonObjectInput, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, StoreOptions, WritableStore } from "../../store/types.ts";
import { checkWhole } from "../bloscpack/bloscpack-options.ts";
import type { ChunkSettings } from "../layout/settings.ts";
import {
  type CarraySettings,
  checkCarrayDType,
  checkChunklen,
  chooseChunklen,
  defaultRowOf,
  storageText,
  typesizeOf,
} from "./carray-settings.ts";
import { chunkFileKey } from "./carray-state.ts";
import {
  type CarrayWriteOptions,
  checkLengths,
  type StagedRows,
  sizesBytes,
  stageRows,
} from "./carray-steps.ts";
import { utf8 } from "./redo.ts";

/** Options of {@link createCarray}. */
export interface CarrayOptions
  extends CarrayWriteOptions,
    Pick<ChunkSettings, "compressor" | "chunkLength" | "expectedLength"> {
  /** Default value (zeros if absent). */
  readonly fillValue?: JsonValue | undefined;
  readonly attrs?: JsonObjectInput | undefined;
  /** Rows that a repair filled. [FG-15] */
  readonly filled?: readonly RowSpan[] | undefined;
}

/** Rows of one dtype. */
interface CarraySource {
  readonly dtype: DType;
  /** Shape of a row; empty (the default) for single values. */
  readonly rowShape?: readonly number[] | undefined;
  /** The rows' bytes: C order, in the byte order of the dtype. */
  readonly data: PutSource;
}

/**
 * Creates a carray in a folder that has none, and resolves with the number of its rows.
 * @throws CONFLICT if there is an array; BAD_ARGUMENT, LIMIT, UNSUPPORTED
 */
export async function createCarray(
  store: WritableStore,
  path: string,
  source: CarraySource,
  options: CarrayOptions = {},
): Promise<number> {
  await assertNone(store, path, options);
  const { data } = source;
  const named = { ...source, path: store.describe(path) };
  const made = settleCarray(named, options, data instanceof Uint8Array ? data.length : 0);
  const staged = await stageRows({ store, path, settings: made.settings, rows: 0 }, data, options);
  await store.sync?.(staged.keys);
  await commitCarray(store, path, made, staged, options);
  return staged.rows;
}

/** Throws `CONFLICT` if there is an array or a table in the folder. */
async function assertNone(store: WritableStore, path: string, options: StoreOptions): Promise<void> {
  for (const name of ["meta/sizes", "__rootdirs__"]) {
    if ((await store.stat(joinKey(path, name), options)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "an array or a table exists in the folder", {
      path: store.describe(path),
    });
  }
}

/** A carray to be created. */
interface NewCarray {
  readonly settings: CarraySettings;
  /** Expected rows; 0 if unknown. */
  readonly expectedlen: number;
}

/** The settings of a new carray, of `nbytes` if nothing else says its length. Throws `BAD_ARGUMENT`, `LIMIT`, `UNSUPPORTED`. */
export function settleCarray(
  { dtype, rowShape = [], path }: Pick<CarraySource, "dtype" | "rowShape"> & { readonly path?: string },
  { compressor, chunkLength, expectedLength, fillValue: dflt = null }: CarrayOptions,
  nbytes = 0,
): NewCarray {
  checkCarrayDType(dtype, rowShape, path);
  const rowBytes = elementsOf(rowShape) * dtype.itemSize;
  const { cname = "lz4", clevel = 5, shuffle = "shuffle" } = compressor ?? {};
  const expected = expectedLength ?? Math.floor(nbytes / rowBytes);
  const expectedlen = checkWhole("expectedlen", expected, 0, Number.MAX_SAFE_INTEGER);
  const chunklen = checkChunklen(chunkLength ?? chooseChunklen(expectedlen, rowBytes), rowBytes);
  const encode = { cname, clevel: checkWhole("clevel", clevel, 0, 9), shuffle, typesize: typesizeOf(dtype) };
  defaultRowOf(dtype, rowShape, dflt); // reports a default value that does not fit before anything is written
  return { settings: { dtype, rowShape, rowBytes, chunklen, encode, dflt }, expectedlen };
}

/** Makes a carray of durable chunk files: `cbytes` are the stored bytes of its whole chunks. `replaces` allows files that make it one already. */
export async function commitCarray(
  store: WritableStore,
  path: string,
  { settings, expectedlen }: NewCarray,
  { rows, cbytes }: Pick<StagedRows, "rows" | "cbytes">,
  { attrs = {}, filled, replaces }: Pick<CarrayOptions, "attrs" | "filled"> & { readonly replaces?: boolean },
): Promise<void> {
  const { dtype, encode, chunklen, rowBytes, dflt } = settings;
  if (rows === 0) await makeDataFolder(store, path);
  const text = storageText(dtype, encode, chunklen, expectedlen || rows, dflt);
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(attrs)}\n`));
  await store.put(joinKey(path, "meta/storage"), utf8(text));
  const sizes = sizesBytes(encodeFilled(filled), settings, rows, cbytes + chunklen * rowBytes);
  await store.put(joinKey(path, "meta/sizes"), sizes, { ifAbsent: replaces !== true });
}

/** Makes the folder of a carray without chunk files: bcolz does not open it otherwise, and most stores make no empty folder. */
export async function makeDataFolder(store: WritableStore, path: string): Promise<void> {
  await store.put(chunkFileKey(path, 0), new Uint8Array(0));
  await store.delete(chunkFileKey(path, 0));
}

// What a writer must know of an existing table. Knows the folder; must not know how it is changed.

/** A column of a table, and its folder's key. */
interface TableColumn {
  readonly name: string;
  readonly folder: string;
}

/** A table that will be changed. */
export interface TableState {
  readonly store: WritableStore;
  readonly path: string;
  readonly columns: readonly TableColumn[];
  /** `__rootdirs__` as it was read, and its version. */
  readonly rootdirs: Uint8Array;
  readonly version: string;
  /** True for blz 0.6, which stores the folders too. */
  readonly hasDirs: boolean;
}

/** Reads `__rootdirs__` of the table at `path`. Throws `NOT_FOUND`, and the codes of damage. */
export async function readTable(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<TableState> {
  const key = joinKey(path, "__rootdirs__");
  const info = await store.stat(key, options);
  const rootdirs = await store.get(key, options);
  if (info === undefined || rootdirs === undefined)
    throw new SuperchunkError("NOT_FOUND", "this is not a table: __rootdirs__ is missing", {
      path: store.describe(path),
    });
  const shown = store.describe(key);
  const { names, dirs } = parseRootdirs(rootdirs, shown);
  return {
    store,
    path,
    rootdirs,
    version: info.version,
    hasDirs: splitMembers(rootdirs, shown).has("dirs"),
    columns: names.map((name) => ({ name, folder: joinKey(path, dirs[name] ?? name) })),
  };
}

/** The column with this name. Throws `NOT_FOUND`. */
export function tableColumnNamed(state: TableState, name: string): TableColumn {
  const column = state.columns.find((each) => each.name === name);
  if (column !== undefined) return column;
  const names = state.columns.map((each) => each.name);
  throw notNamed("column", name, names, state.store.describe(state.path));
}

/** Commits a change of columns: replaces `__rootdirs__`. Throws `CONFLICT` if another writer was faster. */
export async function commitColumns(state: TableState, columns: readonly TableColumn[]): Promise<void> {
  const { store, path, rootdirs, version, hasDirs } = state;
  const key = joinKey(path, "__rootdirs__");
  const members = splitMembers(rootdirs, store.describe(key));
  members.set("names", memberText(columns.map(({ name }) => name)));
  const depth = path === "" ? 0 : path.length + 1;
  const dirs = Object.fromEntries(columns.map(({ name, folder }) => [name, folder.slice(depth)]));
  if (hasDirs) members.set("dirs", memberText(dirs));
  await store.put(key, utf8(`${joinMembers(members)}\n`), { ifVersion: version });
}

// Creates tables of carrays that bcolz 1.2 and bcolz-zipline open. @see FORMAT.md [FT-05]

export interface NewTableColumn extends CarraySource {
  readonly name: string;
  /** Its own settings, if they differ from the table's. */
  readonly options?:
    | Pick<CarrayOptions, "compressor" | "chunkLength" | "expectedLength" | "fillValue" | "attrs">
    | undefined;
}

/**
 * Creates a table in a folder that has none. It exists once `__rootdirs__` does.
 * @throws CONFLICT if there is something; BAD_ARGUMENT for columns of different lengths; LIMIT, UNSUPPORTED
 */
export async function createTable(
  store: WritableStore,
  path: string,
  columns: readonly NewTableColumn[],
  options: CarrayOptions = {},
): Promise<void> {
  await assertNone(store, path, options);
  const names = columns.map(({ name }) => name);
  checkNames(names);
  const { attrs, ...settings } = options;
  const lengths: number[] = [];
  for (const { name, options: own, ...source } of columns)
    lengths.push(await createCarray(store, joinKey(path, name), source, { ...settings, ...own }));
  checkLengths(names, lengths);
  await commitTable(store, path, names, { attrs });
}

/** Makes a table of carrays. `replaces` allows a table that is there already. */
export async function commitTable(
  store: WritableStore,
  path: string,
  names: readonly string[],
  { attrs = {}, replaces }: Pick<CarrayOptions, "attrs"> & { readonly replaces?: boolean },
): Promise<void> {
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(attrs)}\n`));
  await store.put(joinKey(path, "__rootdirs__"), utf8(`${memberText({ names })}\n`), {
    ifAbsent: replaces !== true,
  });
}

/**
 * Throws `BAD_ARGUMENT` for names that bcolz does not accept: they must be Python identifiers without a leading underscore. `paths`: what
 * the columns are made from, for the message.
 */
export function checkNames(names: readonly string[], paths: readonly string[] = []): void {
  if (names.length > MAX_COLUMNS) throw tooManyColumns(undefined, names.length);
  for (const [i, name] of names.entries()) {
    const isPlain = /^[\p{L}][\p{L}\p{N}_]*$/u.test(name);
    if (isPlain && names.indexOf(name) === i) {
      checkStoredName(name, name, "names");
      continue;
    }
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      isPlain
        ? `there are two columns "${name}"`
        : `"${name}" cannot name a column: bcolz takes letters, digits and underscores, a letter first; rename it`,
      defined({ path: paths[i], field: "names", found: name }),
    );
  }
  if (names.length === 0)
    throw new SuperchunkError("BAD_ARGUMENT", "a table has one column at least", { field: "names" });
}
