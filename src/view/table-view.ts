/**
 * A table as Zarr, whose columns are opened when they are read. Loaded by the first view that opens its archive itself.
 *
 * Knows which columns are open; must not know chunks.
 */

import type { OpenOptions, TableArchive } from "../archive/kinds/types.ts";
import type { JsonObject } from "../format/types.ts";
import { DOCUMENT } from "../zarr/document/make-v3.ts";
import { nameNodes } from "../zarr/document/node-names.ts";
import {
  type ArchiveView,
  assertArchive,
  MadeChunks,
  type NodeView,
  type PlanViewOptions,
  planArchiveView,
  type Viewable,
} from "./view.ts";

/** Opens the archive to show; of a table, only the columns in the options. */
export type OpenViewable = (options: OpenOptions) => Promise<Viewable>;

/**
 * Opens an archive and plans it. `key` is the first requested key. Unless it is the archive's own document, which includes those of all
 * columns, only a table's own metadata are read here.
 */
export async function planView(open: OpenViewable, options: PlanViewOptions, key: string): Promise<NodeView> {
  if (key === DOCUMENT && options.columns === undefined)
    return planArchiveView(assertArchive(await open({})), options);
  const opened = assertArchive(await open({ columns: [] }));
  if (opened.kind !== "table") return planArchiveView(opened, options);
  const { openColumns } = opened;
  if (openColumns !== undefined) return tableView(opened, openColumns, options);
  return planArchiveView(assertArchive(await open({})), options);
}

/** True for the document of a one-dimensional array: names of further dimensions depend on the other arrays of a table. */
function isPlain(document: JsonObject | undefined): boolean {
  return (document?.["shape"] as readonly number[] | undefined)?.length === 1;
}

/** A table whose columns are opened on request; all of them for lists and for its document, which includes theirs. */
function tableView(
  { metadata }: TableArchive,
  openColumns: NonNullable<TableArchive["openColumns"]>,
  options: PlanViewOptions,
): NodeView {
  const { columns: wanted = metadata["names"] as readonly string[] } = options;
  const shown = (metadata["names"] as readonly string[]).filter((name) => wanted.includes(name));
  /** Columns by node name. */
  const names = new Map([...nameNodes(shown)].map(([name, node]) => [node, name]));
  /** By node; `""` is the whole table. Kept without keepMade, whose file a page with zarrView alone does not load. */
  const planned = new Map<string, Promise<ArchiveView>>();
  const made = new MadeChunks();
  const plan = (node: string): Promise<ArchiveView> => {
    const known = planned.get(node);
    if (known !== undefined) return known;
    const name = names.get(node);
    const columns = name === undefined ? (options.columns ?? [...names.values()]) : [name];
    const planning = openColumns(columns).then((table) =>
      planArchiveView(table, { ...options, columns }, made),
    );
    planned.set(node, planning);
    planning.catch(() => planned.delete(node));
    return planning;
  };
  return {
    async get(key, reading) {
      const [node = "", ...rest] = key.split("/");
      if (rest.length > 0 ? !names.has(node) : key !== DOCUMENT) return undefined;
      const isAlone = rest.length > 0 && !planned.has("") && options.dimensionNames === undefined;
      const alone = isAlone ? await plan(node) : undefined;
      const isSame = isPlain(alone?.documents().get(node));
      return ((isSame && alone) || (await plan(""))).get(key, reading);
    },
    documents: async () => (await plan("")).documents(),
    nodes: async () => (await plan("")).nodes(),
  };
}
