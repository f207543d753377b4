/**
 * A table as Zarr, whose columns are opened when they are read. Loaded by the first view that opens its archive itself.
 *
 * Knows which columns are open; must not know chunks.
 */
import type { OpenOptions, TableArchive } from "../archive/kinds/types.ts";
import type { JsonObject } from "../format/types.ts";
import { nameNodes } from "../zarr/document/node-names.ts";
import {
  ArchiveView,
  assertArchive,
  DOCUMENT,
  MadeChunks,
  type NodeView,
  type PlanOptions,
  type Viewable,
  type ViewNode,
  type ViewReadOptions,
} from "./view.ts";

/** Opens the archive to show; of a table, only the columns in the options. */
export type OpenViewable = (options: OpenOptions) => Promise<Viewable>;

/**
 * Opens an archive and plans it. `key` is the first requested key. Unless it is the archive's own document, which includes those of all
 * columns, only a table's own metadata are read here.
 */
export async function planView(open: OpenViewable, options: PlanOptions, key: string): Promise<NodeView> {
  if (key === DOCUMENT && options.columns === undefined)
    return ArchiveView.plan(assertArchive(await open({})), options);
  const opened = assertArchive(await open({ columns: [] }));
  if (opened.kind !== "table") return ArchiveView.plan(opened, options);
  const { openColumns } = opened;
  if (openColumns !== undefined) return new TableView(opened, openColumns, options);
  return ArchiveView.plan(assertArchive(await open({})), options);
}

/** True for the document of a one-dimensional array: names of further dimensions depend on the other arrays of a table. */
function isPlain(document: JsonObject | undefined): boolean {
  return (document?.["shape"] as readonly number[] | undefined)?.length === 1;
}

/** A table whose columns are opened on request; all of them for lists and for its document, which includes theirs. */
class TableView implements NodeView {
  readonly #openColumns: NonNullable<TableArchive["openColumns"]>;
  readonly #options: PlanOptions;
  /** Columns by node name. */
  readonly #columns: ReadonlyMap<string, string>;
  /** By node; `""` is the whole table. */
  readonly #planned = new Map<string, Promise<ArchiveView>>();
  readonly #made: MadeChunks = new MadeChunks();

  constructor(
    { metadata }: TableArchive,
    openColumns: NonNullable<TableArchive["openColumns"]>,
    options: PlanOptions,
  ) {
    this.#openColumns = openColumns;
    this.#options = options;
    const { columns = metadata["names"] as readonly string[] } = options;
    const shown = (metadata["names"] as readonly string[]).filter((name) => columns.includes(name));
    const nodes = nameNodes(shown);
    this.#columns = new Map([...nodes].map(([name, node]) => [node, name]));
  }

  async get(key: string, options?: ViewReadOptions): Promise<Uint8Array | undefined> {
    const [node = "", ...rest] = key.split("/");
    if (rest.length > 0 ? !this.#columns.has(node) : key !== DOCUMENT) return undefined;
    const isAlone = rest.length > 0 && !this.#planned.has("") && this.#options.dimensionNames === undefined;
    const alone = isAlone ? await this.#plan(node) : undefined;
    const isSame = isPlain(alone?.documents().get(node));
    return ((isSame && alone) || (await this.#plan(""))).get(key, options);
  }

  async documents(): Promise<Map<string, JsonObject>> {
    return (await this.#plan("")).documents();
  }

  async nodes(): Promise<readonly ViewNode[]> {
    return (await this.#plan("")).nodes();
  }

  #plan(node: string): Promise<ArchiveView> {
    const known = this.#planned.get(node);
    if (known !== undefined) return known;
    const name = this.#columns.get(node);
    const columns = name === undefined ? (this.#options.columns ?? [...this.#columns.values()]) : [name];
    const planned = this.#openColumns(columns).then((table) =>
      ArchiveView.plan(table, { ...this.#options, columns }, this.#made),
    );
    this.#planned.set(node, planned);
    planned.catch(() => this.#planned.delete(node));
    return planned;
  }
}
