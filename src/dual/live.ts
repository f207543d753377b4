/**
 * Opens the views of live arrays (which keep themselves Zarr arrays), makes a plain array live, and makes a live array
 * plain again. @see FORMAT.md [FY-08] [FY-10]
 */
import type { LongOptions } from "../archive/kinds/types.ts";
import { badArgument, isSuperchunkError, isUnreadable, resultOr, SuperchunkError } from "../errors.ts";
import { countChunks } from "../format/layout.ts";
import { LINK_RECORD, LIVE_STATE, superchunkName } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { removeTree } from "../store/tree.ts";
import type { WritableStore } from "../store/types.ts";
import type { ArrayWriter, MirrorMaker } from "../write/array/array-writer.ts";
import { commitSettings } from "../write/array/changes.ts";
import { fold, planFold, settleNames } from "../write/array/compact.ts";
import { readWritable } from "../write/array/create.ts";
import type { ArrayMirror } from "../write/array/publisher.ts";
import type { PublishPolicy } from "../write/editable.ts";
import { layOutColumns, superchunkKeys } from "../write/layout/columns.ts";
import { refuseSnappy } from "../zarr/write/node-document.ts";
import { ColumnShards } from "./column-shards.ts";
import {
  admitForms,
  assertNodeFree,
  isForeign,
  LiveDocuments,
  memberOf,
  readDocumentAt,
} from "./documents.ts";
import { LiveView, type LiveViewOptions } from "./live-view.ts";
import { range } from "./published-view.ts";
import { indexOfPlaces, OWNER_WRITES } from "./shard-file.ts";
import { encodeLiveState, isNodePath, readLiveState } from "./state.ts";
import type { DualFiles, ShardForm } from "./types.ts";

/** Bytes of an entry in a shard's index, which has one for each chunk that fits. */
const INDEX_ENTRY = 16;

/** For an array that is not visible yet, or should be visible no longer: only adds the index to superchunks. */
const IDLE_VIEW: ArrayMirror = {
  makeTail: indexOfPlaces,
  beforeCommit: async () => undefined,
  afterCommit: async () => undefined,
  noteMoved: () => undefined,
  setAttributes: async () => undefined,
  admit: async (settings) => settings,
  change: (step) => step(),
  close: async () => undefined,
};

/** Makes and opens live views of arrays on a file system. */
export function liveViews(options: LiveViewOptions): MirrorMaker {
  const open = async (writer: ArrayWriter, attrs: JsonObject): Promise<ArrayMirror> => {
    checkPolicy(options.publish);
    const { store, path } = writer.root;
    let state = await readLiveState(store, path);
    if (state === undefined) {
      // The state comes first: what it names can be removed later.
      state = { high: 0, published: undefined, forms: [] };
      await store.put(joinKey(path, LIVE_STATE), encodeLiveState(state), { durable: true });
    }
    const view = new LiveView(writer, attrs, state, options);
    await view.start();
    return view;
  };
  return {
    check: async (place, settings) => {
      checkPolicy(options.publish);
      refuseSnappy(place, settings.cname);
      new LiveDocuments(place, settings, layOutColumns(place.path, settings));
      await assertNodeFree(place.store, place.path);
    },
    open,
    checkChange: async (place, { before, wanted, isFree }) => {
      const { store, path } = place;
      refuseSnappy(place, wanted.cname, before.cname);
      const published = new LiveDocuments(place, before, layOutColumns(path, before)).forms;
      const old = (await readLiveState(store, path))?.forms ?? [];
      await admitForms(place, wanted, { published, old, isFree });
    },
    clear: async (store, path) => {
      if ((await store.stat(joinKey(path, LIVE_STATE))) !== undefined)
        await removeView(store, path, await columnNodes(store, path));
    },
  };
}

/** Throws `BAD_ARGUMENT` for an unknown policy or an invalid number of seconds. */
function checkPolicy(publish: PublishPolicy | undefined): void {
  if (publish === undefined || publish === "flush" || publish === "full") return;
  const seconds: unknown = typeof publish === "object" ? publish?.everySeconds : undefined;
  if (typeof seconds === "number" && seconds >= 0) return;
  const found =
    typeof seconds === "number" ? `{ everySeconds: ${seconds} }` : (JSON.stringify(publish) ?? "");
  throw badArgument("publish", found, '"flush", "full", or { everySeconds } of 0 or more');
}

/** Opens live arrays that will become plain. Errors in their views are not repaired. */
export function idleViews(files: DualFiles): MirrorMaker {
  return { ...liveViews({ files }), open: async () => IDLE_VIEW };
}

/** What was removed, and what was left. */
export interface RemovedView {
  /** Number of shards removed. */
  readonly shards: number;
  /** Paths of Zarr arrays and groups below the array that other programs made. */
  readonly left: readonly string[];
}

/**
 * Removes the documents (the root's first), the shards and the state, so that only the BLZ array is left. `own` are the
 * nodes of its columns. Data files stay as they are, and so does what other programs put below, consolidated or not.
 */
async function removeView(store: WritableStore, path: string, own: readonly string[]): Promise<RemovedView> {
  const root = joinKey(path, "zarr.json");
  const forms = await oldForms(store, path);
  const nodes = new Set(own);
  const others = new Set((await nodesOf(store, root)).filter((node) => node !== "" && !nodes.has(node)));
  for (const { node } of forms) {
    if (nodes.has(node)) continue;
    if (await isForeign(store, path, node, forms)) others.add(node);
    else nodes.add(node);
  }
  const left: string[] = [];
  for (const node of others) {
    const folder = joinKey(path, node);
    if (!nodes.has(node) && (await isThere(store, joinKey(folder, "zarr.json"))))
      left.push(store.describe(folder));
  }
  await store.delete(root);
  await store.sync?.([]);
  let removed = 0;
  for (const node of nodes) {
    const folder = joinKey(path, node);
    if (node !== "") await store.delete(joinKey(folder, "zarr.json"));
    removed += await removeTree(store, joinKey(folder, "c"));
    await store.delete(joinKey(folder, "c"));
    if (node !== "") await store.delete(folder);
  }
  await store.delete(joinKey(path, LIVE_STATE));
  await store.sync?.([]);
  return { shards: removed, left };
}

/**
 * Makes a live array a plain one: removes its Zarr view, then marks the array as plain. Resolves with what was removed
 * and what was left. Superchunks become writable again; the index after their chunks stays.
 */
export async function endLive(writer: ArrayWriter, files: DualFiles): Promise<RemovedView> {
  const { root } = writer;
  writer.files.mirror = undefined;
  const { columns } = new LiveDocuments(root, writer.settings, writer.columns);
  const known = columns.map(({ node }) => node);
  const removed = await removeView(root.store, root.path, known);
  for (const { first, count } of writer.committed.layout.runs)
    for (const key of superchunkKeys(writer.columns, range(first, first + count))) {
      const at = { side: "data", key } as const;
      const facts = await files.inspect(at);
      if (facts !== undefined && facts.links === 1) await files.setMode(at, facts.mode | OWNER_WRITES);
    }
  await commitSettings(writer, { ...writer.settings, zarr: false });
  return removed;
}

/** Paths of the arrays that a root document lists; `""` if it is the only array, or lists none. */
async function nodesOf(store: WritableStore, root: string): Promise<string[]> {
  const { document } = (await readDocumentAt(store, root)) ?? {};
  const listed = memberOf(memberOf(document, "consolidated_metadata"), "metadata");
  const nodes = typeof listed === "object" && listed !== null ? Object.keys(listed) : [""];
  return nodes.filter(isNodePath);
}

/** Also false for a name that no object of the store can have, or that leads out of the store. */
async function isThere(store: WritableStore, key: string): Promise<boolean> {
  return resultOr(false, "UNSAFE_PATH", async () => (await store.stat(key)) !== undefined);
}

/** Nodes of the columns of an array that is not open. For a damaged array, the nodes that its root document lists. */
async function columnNodes(store: WritableStore, path: string): Promise<readonly string[]> {
  try {
    const { settings } = await readWritable(store, path);
    const columns = layOutColumns(path, settings);
    return new LiveDocuments({ store, path }, settings, columns).columns.map(({ node }) => node);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "IO") throw error;
  }
  const { document } = (await readDocumentAt(store, joinKey(path, "zarr.json"))) ?? {};
  const order = memberOf(memberOf(document, "attributes"), "column_order");
  if (!Array.isArray(order)) return [""];
  return order.filter((node): node is string => typeof node === "string" && isNodePath(node));
}

/** Forms that were published earlier, whose shards were replaced by notes. A damaged or newer state lists none. */
async function oldForms(store: WritableStore, path: string): Promise<readonly ShardForm[]> {
  return resultOr([], isUnreadable, async () => (await readLiveState(store, path))?.forms ?? []);
}

/** What {@link beginLive} would do. */
interface LivePlan {
  readonly documents: readonly string[];
  /** Full superchunks after the change; each of them is a shard. */
  readonly full: number;
  /** Superchunks among them, and the open end, that are rewritten by copying their chunks. */
  readonly rewritten: number;
  /** Chunks of the open end, which is a separate shard. */
  readonly open: number;
  /** Approximate number of bytes written: superchunks with their index, the open end, documents. */
  readonly bytes: number;
}

/** Plans {@link beginLive} from the metadata and the headers and indexes of superchunks. Writes nothing; throws the same errors. */
export async function planLive(
  writer: ArrayWriter,
  attrs: JsonObject,
  files: DualFiles,
  options: LongOptions,
): Promise<LivePlan> {
  const { documents, hasIndex } = await prepareLive(writer, files, options);
  const { committed } = writer;
  const { superchunklen } = writer.settings;
  const { rewritten } = await planFold(writer, true, hasIndex);
  const chunks = countChunks(committed.layout.runs);
  const copied = rewritten.reduce(
    (sum, place) => sum + Math.min(superchunklen, chunks - place * superchunklen),
    0,
  );
  const open = chunks % superchunklen;
  const listed = documents.list(committed.rows, attrs);
  const perChunk = chunks === 0 ? 0 : committed.cbytes / chunks;
  const shards = rewritten.length + (open > 0 ? 1 : 0);
  const indexes = shards * writer.columns.length * superchunklen * INDEX_ENTRY;
  return {
    documents: listed.map(([key]) => key),
    full: Math.floor(chunks / superchunklen),
    rewritten: rewritten.length,
    open,
    bytes: listed.reduce(
      (sum, [, { length }]) => sum + length,
      indexes + Math.round(perChunk * (copied + open)),
    ),
  };
}

/**
 * Marks an array that is open for writing as live: from the next opening on, it keeps itself a Zarr array. If this is
 * interrupted, it stays a plain array, some of whose superchunks have an index after their chunks.
 * @throws CONFLICT if it is linked, or a Zarr array is in the way; UNSUPPORTED for what Zarr cannot represent as stored
 */
export async function beginLive(
  writer: ArrayWriter,
  files: DualFiles,
  options: LongOptions = {},
): Promise<void> {
  const { root } = writer;
  const { settings, hasIndex } = await prepareLive(writer, files, options);
  writer.files.mirror = IDLE_VIEW;
  try {
    await fold(writer, { ...options, walkable: true, isKept: hasIndex });
    await settleNames(writer);
    await root.settled();
    await commitSettings(writer, settings);
  } finally {
    writer.files.mirror = undefined;
  }
}

/** The checked settings of the live array, its documents, and which of its superchunks are shards already. */
async function prepareLive(
  writer: ArrayWriter,
  files: DualFiles,
  options: LongOptions,
): Promise<{
  readonly settings: ArrayWriter["settings"];
  readonly documents: LiveDocuments;
  readonly hasIndex: (number: number) => Promise<boolean>;
}> {
  const { root } = writer;
  const record = joinKey(root.path, LINK_RECORD);
  if ((await root.store.stat(record)) !== undefined)
    throw new SuperchunkError("CONFLICT", 'it is linked as it was; "superchunk unlink" it first', {
      path: root.store.describe(record),
      field: "zarr",
    });
  const settings = { ...writer.settings, zarr: true };
  if (settings.reserve !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "its chunks have a reserve for changes in place, but the shards of a Zarr array cannot be changed in place; make an array without a reserve",
      { path: root.store.describe(root.path), field: "reserve" },
    );
  await liveViews({ files }).check(root, settings);
  const documents = new LiveDocuments(root, settings, layOutColumns(root.path, settings));
  const columns = documents.columns.map(
    (column) => new ColumnShards({ store: root.store, path: root.path, files }, column),
  );
  const hasIndex = async (number: number): Promise<boolean> => {
    for (const column of columns) {
      const key = `${column.column.folder}/${superchunkName(number)}`;
      const info = await root.store.stat(key, { signal: options.signal });
      if (info === undefined || (await column.readFull(key, info.size)) === undefined) return false;
    }
    return true;
  };
  return { settings, documents, hasIndex };
}
