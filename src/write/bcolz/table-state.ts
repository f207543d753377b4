/** What a writer must know of a table that is there. Knows the folder; must not know how it is changed. */
import { SuperchunkError } from "../../errors.ts";
import { parseRootdirs } from "../../format/folder.ts";
import { joinMembers, memberText, splitMembers } from "../../format/json.ts";
import { joinKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";

/** A column of a table: its name, and its folder's key. */
export interface TableColumn {
  readonly name: string;
  readonly folder: string;
}

/** A table that is to be changed. */
export interface TableState {
  readonly store: WritableStore;
  readonly path: string;
  readonly columns: readonly TableColumn[];
  /** `__rootdirs__` as it was read, and its version. */
  readonly rootdirs: Uint8Array;
  readonly version: string;
  /** blz 0.6 stores the folders too. */
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

/** The column of that name. Throws `NOT_FOUND`. */
export function findColumn(state: TableState, name: string): TableColumn {
  const column = state.columns.find((each) => each.name === name);
  if (column !== undefined) return column;
  throw new SuperchunkError(
    "NOT_FOUND",
    `no column "${name}"; there are ${state.columns.map((each) => each.name).join(", ")}`,
    { path: state.store.describe(state.path), field: name },
  );
}

/** The commit of a change of columns: replaces `__rootdirs__`. Throws `CONFLICT` where another writer was faster. */
export async function commitColumns(state: TableState, columns: readonly TableColumn[]): Promise<void> {
  const { store, path, rootdirs, version, hasDirs } = state;
  const key = joinKey(path, "__rootdirs__");
  const members = splitMembers(rootdirs, store.describe(key));
  members.set("names", memberText(columns.map(({ name }) => name)));
  const depth = path === "" ? 0 : path.length + 1;
  const dirs = Object.fromEntries(columns.map(({ name, folder }) => [name, folder.slice(depth)]));
  if (hasDirs) members.set("dirs", memberText(dirs));
  await store.put(key, new TextEncoder().encode(`${joinMembers(members)}\n`), { ifVersion: version });
}
