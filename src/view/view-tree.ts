/**
 * Many archives as one hierarchy: opened on request, and opened again when they change.
 *
 * Knows which archive a key belongs to; must not know chunks.
 */
import type { Archive, OpenOptions } from "../archive/kinds/types.ts";
import { keepLast } from "../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import type { StoreOptions } from "../store/types.ts";
import { consolidate, encodeDocument, groupDocument, MOST_CONSOLIDATED } from "../zarr/document/make-v3.ts";
import type { OpenViewable } from "./table-view.ts";
import {
  cutRange,
  DOCUMENT,
  directNodes,
  type NodeView,
  type PlanOptions,
  parseViewKey,
  SingleView,
  type Viewable,
  type ViewNode,
  type ViewOptions,
  type ViewRange,
  type ViewReadOptions,
  type ZarrView,
  zarrView,
} from "./view.ts";

/** Archives to keep open. */
const KEPT_ARCHIVES = 256;
const OPENED_AT_ONCE = 8;
/** For this long a document is reused without checking whether its archive has changed. */
const FRESH_MS = 1000;

/** An archive of a tree. */
export interface ViewEntry {
  /** Path of its node in the view; `""` if it is the whole view. */
  readonly node: string;
  /** Name in messages. */
  readonly source: string;
  open(options: OpenOptions): Promise<Archive>;
  /** Shows something other than an archive, instead of `open`. */
  view?(options: ViewOptions & { readonly isMember: boolean }): Promise<NodeView>;
}

/**
 * Shows many archives as one Zarr v3 hierarchy: a group for each folder, its metadata consolidated (unless there
 * are more than 5,000 nodes below it). Archives that cannot be read are left out of it, and reading them throws why.
 * An archive that was changed by a writer is opened again. Throws `BAD_ARGUMENT` if two entries have one node.
 */
export function zarrTreeView(entries: Iterable<ViewEntry>, options: ViewOptions = {}): ZarrView {
  return new TreeView(entries, options);
}

/**
 * Shows an archive, or many (`findViewEntries`), as Zarr v3: {@link zarrView}, {@link zarrTreeView}. A function that opens the archive,
 * `(options) => open(store, path, options)`, is called for the first key. Of a table, only the columns that are read are then opened.
 */
export function viewOf(
  source: Viewable | OpenViewable | Iterable<ViewEntry>,
  options: ViewOptions = {},
): ZarrView {
  if (typeof source === "function") return new SingleView((key) => planOpened(source, options, key));
  return Symbol.iterator in Object(source)
    ? zarrTreeView(source as Iterable<ViewEntry>, options)
    : zarrView(source as Viewable, options);
}

async function planOpened(open: OpenViewable, options: PlanOptions, key: string): Promise<NodeView> {
  return (await import("./table-view.ts")).planView(open, options, key);
}

/** Documents of folders to keep. */
const KEPT_DOCUMENTS = 64;

/** The document of a folder, and the time when it was made. */
interface FolderDocument {
  readonly bytes: Promise<Uint8Array>;
  readonly at: number;
}

/** An opened archive, and the time of opening. */
interface OpenedView {
  readonly view: Promise<NodeView>;
  readonly at: number;
}

class TreeView implements ZarrView {
  readonly #options: ViewOptions;
  readonly #entries = new Map<string, ViewEntry>();
  readonly #folders = new Set<string>();
  readonly #opened = new Map<string, OpenedView>();
  readonly #documents = new Map<string, FolderDocument>();

  constructor(entries: Iterable<ViewEntry>, options: ViewOptions) {
    this.#options = options;
    for (const entry of entries) {
      const parts = entry.node === "" ? [] : entry.node.split("/");
      for (let depth = 0; depth < parts.length; depth++) this.#folders.add(parts.slice(0, depth).join("/"));
      if (this.#entries.has(entry.node)) throw doubled(entry);
      this.#entries.set(entry.node, entry);
    }
    for (const entry of this.#entries.values()) if (this.#folders.has(entry.node)) throw doubled(entry);
  }

  async get(key: string, options: ViewReadOptions = {}): Promise<Uint8Array | undefined> {
    options.signal?.throwIfAborted();
    const path = parseViewKey(key);
    if (path === undefined) return undefined;
    const parts = path.split("/");
    for (let depth = 0; depth < parts.length; depth++) {
      const entry = this.#entries.get(parts.slice(0, depth).join("/"));
      if (entry !== undefined) return this.#read(entry, parts.slice(depth).join("/"), options);
    }
    const folder = parts.slice(0, -1).join("/");
    if (parts.at(-1) !== "zarr.json" || !this.#folders.has(folder)) return undefined;
    return (await this.#folderDocument(folder)).slice();
  }

  getRange(key: string, range: ViewRange, options: StoreOptions = {}): Promise<Uint8Array | undefined> {
    return cutRange(key, range, this.get(key, options));
  }

  async list(path = "", options: StoreOptions = {}): Promise<readonly ViewNode[]> {
    const parts = path === "" ? [] : path.split("/");
    for (let depth = 0; depth <= parts.length; depth++) {
      const entry = this.#entries.get(parts.slice(0, depth).join("/"));
      if (entry === undefined) continue;
      const nodes = await (await this.#open(entry, true, DOCUMENT)).nodes();
      return directNodes(
        nodes.map((node) => below(entry, node)),
        path,
      );
    }
    if (!this.#folders.has(path)) return [];
    const isDirect = (node: string): boolean =>
      node !== path && node.slice(0, Math.max(0, node.lastIndexOf("/"))) === path;
    const nodes: ViewNode[] = [...this.#folders].map((folder) => ({ path: folder, kind: "group" }));
    const entries = [...this.#entries.values()].filter(({ node }) => isDirect(node));
    await runPooled(
      entries,
      OPENED_AT_ONCE,
      async (entry) => {
        nodes.push(await this.#describe(entry));
      },
      options.signal,
    );
    return directNodes(nodes, path);
  }

  /** The archive's own node, or the reason why it cannot be read. */
  async #describe(entry: ViewEntry): Promise<ViewNode> {
    try {
      const [self] = directNodes(await (await this.#open(entry, false, DOCUMENT)).nodes(), "");
      if (self !== undefined) return below(entry, self);
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      return {
        path: entry.node,
        kind: "group",
        source: entry.source,
        error: error.message,
        code: error.code,
      };
    }
    throw new RangeError(`${entry.node} has no node`);
  }

  async #read(entry: ViewEntry, key: string, options: ViewReadOptions): Promise<Uint8Array | undefined> {
    const isDocument = key.endsWith("zarr.json");
    const view = await this.#open(entry, isDocument, key);
    try {
      return await view.get(key, options);
    } catch (error) {
      // A writer may have changed it: what contradicts the old metadata may be right with the new ones.
      const mayBeOld = isSuperchunkError(error) && (error.isDamage || error.code === "STALE");
      if (!mayBeOld || options.signal?.aborted === true) throw error;
      const known = this.#opened.get(entry.node);
      const reopened =
        known !== undefined && (await known.view) !== view ? known.view : this.#reopen(entry, key);
      return (await reopened).get(key, options);
    }
  }

  #open(entry: ViewEntry, mustBeFresh: boolean, key: string): Promise<NodeView> {
    const known = this.#opened.get(entry.node);
    if (known === undefined || (mustBeFresh && performance.now() - known.at > FRESH_MS))
      return this.#reopen(entry, key);
    keepLast(this.#opened, entry.node, known, KEPT_ARCHIVES);
    return known.view;
  }

  /** `key`: the first requested key. */
  #reopen(entry: ViewEntry, key: string): Promise<NodeView> {
    const { node } = entry;
    const own = { ...this.#options, isMember: this.#entries.size > 1 };
    const open: OpenViewable = (options) => entry.open(options);
    const view = entry.view === undefined ? planOpened(open, own, key) : entry.view(own);
    const opened = { view, at: performance.now() };
    keepLast(this.#opened, node, opened, KEPT_ARCHIVES);
    view.catch(() => {
      if (this.#opened.get(node) === opened) this.#opened.delete(node);
    });
    return view;
  }

  #folderDocument(folder: string): Promise<Uint8Array> {
    const known = this.#documents.get(folder);
    if (known !== undefined && performance.now() - known.at <= FRESH_MS) return known.bytes;
    const making: FolderDocument = { bytes: this.#makeDocument(folder), at: performance.now() };
    const settle = (known?: FolderDocument): void => {
      if (this.#documents.get(folder) !== making) return;
      this.#documents.delete(folder);
      if (known !== undefined) this.#documents.set(folder, known);
    };
    keepLast(this.#documents, folder, making, KEPT_DOCUMENTS);
    making.bytes.then(
      () => settle({ ...making, at: performance.now() }), // making it may take longer than it stays fresh
      () => settle(),
    );
    return making.bytes;
  }

  /** The group of a folder, with the documents of all readable nodes below it, unless they are too many. */
  async #makeDocument(folder: string): Promise<Uint8Array> {
    const plain = encodeDocument(groupDocument({}));
    const prefix = folder === "" ? "" : `${folder}/`;
    const folders = [...this.#folders].filter((path) => path !== folder && path.startsWith(prefix));
    const entries = [...this.#entries.values()].filter(({ node }) => node.startsWith(prefix));
    if (entries.length + folders.length > MOST_CONSOLIDATED) return plain;
    const documents = new Map<string, JsonObject>();
    for (const path of folders) documents.set(path.slice(prefix.length), groupDocument({}));
    await runPooled(entries, OPENED_AT_ONCE, async (entry) => {
      try {
        const node = entry.node.slice(prefix.length);
        for (const [path, document] of await (await this.#open(entry, true, DOCUMENT)).documents())
          documents.set(joinKey(node, path), document);
      } catch (error) {
        // One damaged archive does not hide the others; reading it throws its error.
        if (!isSuperchunkError(error)) throw error;
      }
    });
    if (documents.size > MOST_CONSOLIDATED) return plain;
    return encodeDocument(consolidate(groupDocument({}), documents));
  }
}

function below({ node }: ViewEntry, own: ViewNode): ViewNode {
  return { ...own, path: joinKey(node, own.path) };
}

function doubled({ node, source }: ViewEntry): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `another archive is shown at "${node}" too; show one of them`, {
    path: source,
    field: "node",
  });
}
