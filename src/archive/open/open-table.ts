/** Opens a table: `__rootdirs__` and a carray folder for each column. */
import { SuperchunkError } from "../../errors.ts";
import { parseRootdirs } from "../../format/folder.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { readAttributes } from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/table-archive.ts";
import type { ArrayArchive, OpenOptions, TableArchive } from "../kinds/types.ts";
import { openArrayFolder } from "./open-array-folder.ts";

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
  const opened = await Promise.all(folders.map(({ folder }) => openColumn(store, folder, options)));
  const lengths = opened.map((column) => column.shape[0] ?? 0);
  const length = lengths.length === 0 ? 0 : lengths.reduce((least, n) => Math.min(least, n));
  const columns = new Map<string, ArrayArchive>();
  const warnings: string[] = [];
  for (const [i, { name, folder }] of folders.entries()) {
    const column = opened[i];
    if (column === undefined) continue;
    const longer = (column.shape[0] ?? 0) > length;
    if (longer)
      warnings.push(
        `column "${name}" has ${column.shape[0]} rows, but the table's shortest has ${length}: a broken-off append or trim; the rows beyond are not shown`,
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
    warnings,
    metadataKeys: [rootdirsKey, attrsKey],
    columns,
    length,
  });
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
