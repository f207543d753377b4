/**
 * Many archives as one hierarchy: opened on request, and opened again when they change.
 *
 * Knows which archive a key belongs to; must not know chunks.
 */

import type { Archive, OpenOptions } from "../archive/kinds/types.ts";
import { checkOptionNames, keepLast } from "../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import {
  consolidate,
  DOCUMENT,
  encodeDocument,
  groupDocument,
  MOST_CONSOLIDATED,
} from "../zarr/document/make-v3.ts";
import type { OpenViewable } from "./table-view.ts";
import {
  directNodes,
  type NodeView,
  type PlanViewOptions,
  singleView,
  unreadableNode,
  type Viewable,
  type ViewNode,
  type ViewOptions,
  type ViewReadOptions,
  viewFrom,
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
 * Shows an archive, or many (`findViewEntries`), as a store of Zarr v3 for zarrita. A function that opens the archive,
 * `(options) => open(store, path, options)`, is called for the first key. Of a table, only the columns that are read are then opened.
 */
export function viewOf(
  source: Viewable | OpenViewable | Iterable<ViewEntry>,
  options: ViewOptions = {},
): ZarrView {
  checkOptionNames(options, "portable dimensionNames columns dtype shape encoder");
  if (typeof source === "function") return singleView((key) => planOpened(source, options, key));
  return Symbol.iterator in Object(source)
    ? zarrTreeView(source as Iterable<ViewEntry>, options)
    : zarrView(source as Viewable, options);
}

async function planOpened(open: OpenViewable, options: PlanViewOptions, key: string): Promise<NodeView> {
  return (await import("./table-view.ts")).planView(open, options, key);
}

/** Documents of folders to keep. */
const KEPT_DOCUMENTS = 64;

/** What was opened or made, and the time. */
interface Timed<T> {
  readonly made: Promise<T>;
  readonly at: number;
}

/**
 * Shows many archives as one Zarr v3 hierarchy: a group for each folder, its metadata consolidated (unless there
 * are more than 5,000 nodes below it). Archives that cannot be read are left out of it, and reading them throws why.
 * An archive that was changed by a writer is opened again. Throws `BAD_ARGUMENT` if two entries have one node.
 */
export function zarrTreeView(entries: Iterable<ViewEntry>, options: ViewOptions = {}): ZarrView {
  const known = new Map<string, ViewEntry>();
  const folders = new Set<string>();
  const opened = new Map<string, Timed<NodeView>>();
  const documents = new Map<string, Timed<Uint8Array>>();
  for (const entry of entries) {
    const parts = entry.node === "" ? [] : entry.node.split("/");
    for (let depth = 0; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
    if (known.has(entry.node)) throw doubled(entry);
    known.set(entry.node, entry);
  }
  for (const entry of known.values()) if (folders.has(entry.node)) throw doubled(entry);

  /** The archive's own node, or the reason why it cannot be read. */
  async function describe(entry: ViewEntry): Promise<ViewNode> {
    try {
      const [self] = directNodes(await (await openView(entry, false, DOCUMENT)).nodes(), "");
      if (self !== undefined) return below(entry, self);
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      return { ...unreadableNode(entry.node, entry.source, error), kind: "group" };
    }
    throw new RangeError(`${entry.node} is missing`);
  }

  async function readFrom(
    entry: ViewEntry,
    key: string,
    reading: ViewReadOptions,
  ): Promise<Uint8Array | undefined> {
    const isDocument = key.endsWith("zarr.json");
    const view = await openView(entry, isDocument, key);
    try {
      return await view.get(key, reading);
    } catch (error) {
      // A writer may have changed it: what contradicts the old metadata may be right with the new ones.
      const mayBeOld = isSuperchunkError(error) && (error.isDamage || error.code === "STALE");
      if (!mayBeOld || reading.signal?.aborted === true) throw error;
      const newer = opened.get(entry.node);
      const reopened = newer !== undefined && (await newer.made) !== view ? newer.made : reopen(entry, key);
      return (await reopened).get(key, reading);
    }
  }

  function openView(entry: ViewEntry, mustBeFresh: boolean, key: string): Promise<NodeView> {
    const kept = opened.get(entry.node);
    if (kept === undefined || (mustBeFresh && performance.now() - kept.at > FRESH_MS))
      return reopen(entry, key);
    keepLast(opened, entry.node, kept, KEPT_ARCHIVES);
    return kept.made;
  }

  /** `key`: the first requested key. */
  function reopen(entry: ViewEntry, key: string): Promise<NodeView> {
    const { node } = entry;
    const own = { ...options, isMember: known.size > 1 };
    const open: OpenViewable = (own) => entry.open(own);
    const view = entry.view === undefined ? planOpened(open, own, key) : entry.view(own);
    const made = { made: view, at: performance.now() };
    keepLast(opened, node, made, KEPT_ARCHIVES);
    view.catch(() => {
      if (opened.get(node) === made) opened.delete(node);
    });
    return view;
  }

  function folderDocument(folder: string): Promise<Uint8Array> {
    const kept = documents.get(folder);
    if (kept !== undefined && performance.now() - kept.at <= FRESH_MS) return kept.made;
    const making: Timed<Uint8Array> = { made: makeDocument(folder), at: performance.now() };
    const settle = (settled?: Timed<Uint8Array>): void => {
      if (documents.get(folder) !== making) return;
      documents.delete(folder);
      if (settled !== undefined) documents.set(folder, settled);
    };
    keepLast(documents, folder, making, KEPT_DOCUMENTS);
    making.made.then(
      () => settle({ ...making, at: performance.now() }), // making it may take longer than it stays fresh
      () => settle(),
    );
    return making.made;
  }

  /** The group of a folder, with the documents of all readable nodes below it, unless they are too many. */
  async function makeDocument(folder: string): Promise<Uint8Array> {
    const plain = encodeDocument(groupDocument({}));
    const prefix = folder === "" ? "" : `${folder}/`;
    const inner = [...folders].filter((path) => path !== folder && path.startsWith(prefix));
    const own = [...known.values()].filter(({ node }) => node.startsWith(prefix));
    if (own.length + inner.length > MOST_CONSOLIDATED) return plain;
    const found = new Map<string, JsonObject>();
    for (const path of inner) found.set(path.slice(prefix.length), groupDocument({}));
    await runPooled(own, OPENED_AT_ONCE, async (entry) => {
      try {
        const node = entry.node.slice(prefix.length);
        for (const [path, document] of await (await openView(entry, true, DOCUMENT)).documents())
          found.set(joinKey(node, path), document);
      } catch (error) {
        // One damaged archive does not hide the others; reading it throws its error.
        if (!isSuperchunkError(error)) throw error;
      }
    });
    if (found.size > MOST_CONSOLIDATED) return plain;
    return encodeDocument(consolidate(groupDocument({}), found));
  }

  return viewFrom(
    async (path, reading) => {
      const parts = path.split("/");
      for (let depth = 0; depth < parts.length; depth++) {
        const entry = known.get(parts.slice(0, depth).join("/"));
        if (entry !== undefined) return readFrom(entry, parts.slice(depth).join("/"), reading);
      }
      const folder = parts.slice(0, -1).join("/");
      if (parts.at(-1) !== "zarr.json" || !folders.has(folder)) return undefined;
      return (await folderDocument(folder)).slice();
    },
    async (path, reading) => {
      const parts = path === "" ? [] : path.split("/");
      for (let depth = 0; depth <= parts.length; depth++) {
        const entry = known.get(parts.slice(0, depth).join("/"));
        if (entry === undefined) continue;
        const nodes = await (await openView(entry, true, DOCUMENT)).nodes();
        return directNodes(
          nodes.map((node) => below(entry, node)),
          path,
        );
      }
      if (!folders.has(path)) return [];
      const isDirect = (node: string): boolean =>
        node !== path && node.slice(0, Math.max(0, node.lastIndexOf("/"))) === path;
      const nodes: ViewNode[] = [...folders].map((folder) => ({ path: folder, kind: "group" }));
      const direct = [...known.values()].filter(({ node }) => isDirect(node));
      await runPooled(
        direct,
        OPENED_AT_ONCE,
        async (entry) => {
          nodes.push(await describe(entry));
        },
        reading.signal,
      );
      return directNodes(nodes, path);
    },
  );
}

function below({ node }: ViewEntry, own: ViewNode): ViewNode {
  return { ...own, path: joinKey(node, own.path) };
}

function doubled({ node, source }: ViewEntry): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `another archive is shown at "${node}" too; show one`, {
    path: source,
    field: "node",
  });
}
