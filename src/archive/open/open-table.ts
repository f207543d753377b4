/** Opens a table: `__rootdirs__` and a carray folder for each column. */
import { SuperchunkError } from "../../errors.ts";
import { parseRootdirs } from "../../format/folder.ts";
import { joinKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { readAttributes } from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/table-archive.ts";
import type { ArrayArchive, OpenOptions, TableArchive } from "../kinds/types.ts";
import { openArrayFolder } from "./open-array-folder.ts";

/** Columns that are opened at a time: after one that fails, no further one is. */
const COLUMNS_AT_ONCE = 64;

/** Opens the table at `path`, whose `__rootdirs__` has been read. */
export async function openTable(
  store: ReadableStore,
  path: string,
  rootdirs: Uint8Array,
  options: OpenOptions,
): Promise<TableArchive> {
  const rootdirsKey = joinKey(path, "__rootdirs__");
  const { names, dirs } = parseRootdirs(rootdirs, store.describe(rootdirsKey));
  const folders = names.map((name) => ({ name, folder: joinKey(path, dirs[name] ?? name) }));
  const opened = new Array<ArrayArchive | undefined>(folders.length).fill(undefined);
  await runPooled(
    folders.entries(),
    COLUMNS_AT_ONCE,
    async ([i, { folder }]) => {
      opened[i] = await openColumn(store, folder, options);
    },
    options.signal,
  );
  const length = opened.reduce((least, column) => Math.min(least, rowsOf(column)), Number.POSITIVE_INFINITY);
  const columns = new Map<string, ArrayArchive>();
  const unfinished: string[] = [];
  for (const [i, { name, folder }] of folders.entries()) {
    const column = opened[i];
    if (column === undefined) continue;
    const longer = rowsOf(column) > length;
    if (longer)
      unfinished.push(
        `column "${name}" has ${rowsOf(column)} rows, but the table's shortest has ${length}: an append or a resize did not finish. superchunk does not show the rows beyond; bcolz shows them in the column, and its next append puts rows side by side that do not belong together. "superchunk resize ${store.describe(path)} ${length}" cuts them off, and so does the next append by superchunk`,
      );
    columns.set(name, longer ? await openColumn(store, folder, options, length) : column);
  }
  const attrsKey = joinKey(path, "__attrs__");
  const attrs = (await readAttributes(store, attrsKey, options)) ?? {};
  return new ColumnTable({
    store,
    path,
    attrs,
    metadata: { names, dirs },
    warnings: unfinished,
    unfinished,
    metadataKeys: [rootdirsKey, attrsKey],
    columns,
    length: opened.length === 0 ? 0 : length,
  });
}

function rowsOf(column: ArrayArchive | undefined): number {
  const rows = column?.shape[0];
  if (rows === undefined) throw new RangeError("a column has at least one dimension");
  return rows;
}

async function openColumn(
  store: ReadableStore,
  folder: string,
  options: OpenOptions,
  rows?: number,
): Promise<ArrayArchive> {
  const [sizes, storage] = await Promise.all([
    store.get(joinKey(folder, "meta/sizes"), options),
    store.get(joinKey(folder, "meta/storage"), options),
  ]);
  if (sizes === undefined && storage === undefined) {
    throw new SuperchunkError(
      "INCOMPLETE",
      "the column's folder is missing or has no metadata, but __rootdirs__ names it. Look for a whole copy of the table",
      {
        path: store.describe(folder),
        field: "__rootdirs__",
        expected: "meta/sizes and meta/storage",
        found: "nothing",
      },
    );
  }
  return openArrayFolder(store, folder, { sizes, storage }, options, rows);
}
