/** Begins to mirror arrays, and removes what mirrors left. @see FORMAT.md [FY] */

import { badArgument, isSuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import type { ArrayWriter } from "../../write/array/array-writer.ts";
import { readWritable } from "../../write/array/create.ts";
import type { MirrorMaker } from "../../write/array/mirror.ts";
import { commitStorage } from "../../write/array/storage-commit.ts";
import { layOutColumns, superchunkKeys } from "../../write/layout/columns.ts";
import { type ArraySettings, storageOf } from "../../write/layout/settings.ts";
import { admitForms } from "./admission.ts";
import { MirrorDocuments } from "./documents.ts";
import { isOthers, readDocument } from "./former.ts";
import { isNodePath, memberOf, type ShardForm } from "./forms.ts";
import { assertFree } from "./free-place.ts";
import { IDLE_MIRROR } from "./idle.ts";
import { encodeMirrorState, MIRROR_STATE, readMirrorState } from "./mirror-state.ts";
import type { MirrorFiles, PublishPolicy } from "./types.ts";
import { type MirrorOptions, ZarrMirror } from "./zarr-mirror.ts";

const OWNER_WRITES = 0o200;

/** Makes mirrors of arrays on a file system. */
export function zarrMirrors(options: MirrorOptions): MirrorMaker {
  const begin = async (writer: ArrayWriter, attrs: JsonObject): Promise<ZarrMirror> => {
    checkPolicy(options.publish);
    const { store, path } = writer.root;
    let state = await readMirrorState(store, path);
    if (state === undefined) {
      // Before anything else: what it tells can be removed.
      state = { high: 0, shown: undefined, forms: [] };
      await store.put(joinKey(path, MIRROR_STATE), encodeMirrorState(state), { durable: true });
    }
    const mirror = new ZarrMirror(writer, attrs, state, options);
    await mirror.start();
    return mirror;
  };
  return {
    check: async (place, settings) => {
      checkPolicy(options.publish);
      new MirrorDocuments(place, settings, layOutColumns(place.path, settings));
      await assertFree(place.store, place.path);
    },
    create: begin,
    open: begin,
    clear: async (store, path) => {
      if ((await store.stat(joinKey(path, MIRROR_STATE))) !== undefined)
        await removeMirror(store, path, await columnNodes(store, path));
    },
  };
}

/** Throws `BAD_ARGUMENT` for words and numbers that say no time. */
function checkPolicy(publish: PublishPolicy | undefined): void {
  if (publish === undefined || publish === "flush" || publish === "full") return;
  const seconds: unknown = typeof publish === "object" ? publish?.everySeconds : undefined;
  if (typeof seconds === "number" && seconds >= 0) return;
  const found =
    typeof seconds === "number" ? `{ everySeconds: ${seconds} }` : (JSON.stringify(publish) ?? "");
  throw badArgument("publish", found, '"flush", "full", or { everySeconds } of 0 or more');
}

/** Opens mirrored arrays to be made plain ones: what is not right is left so. */
export function idleMirrors(files: MirrorFiles): MirrorMaker {
  return { ...zarrMirrors({ files }), open: async () => IDLE_MIRROR };
}

/**
 * Looks whether a mirrored array can get other settings; writes nothing.
 *
 * @throws UNSUPPORTED, CONFLICT as {@link admitForms}
 */
export async function checkChange(
  place: { readonly store: WritableStore; readonly path: string },
  before: ArraySettings,
  wanted: ArraySettings,
  isFree: boolean,
): Promise<void> {
  const { store, path } = place;
  const shown = new MirrorDocuments(place, before, layOutColumns(path, before)).forms;
  const former = (await readMirrorState(store, path))?.forms ?? [];
  await admitForms(place, wanted, { shown, former, isFree });
}

/** What went, and what stays. */
export interface RemovedMirror {
  /** Shards that went. */
  readonly shards: number;
  /** Paths of Zarr arrays and groups below the array that are others'. */
  readonly left: readonly string[];
}

/**
 * Removes the documents, the root's first, the shards, and the state: the array is none of Zarr any more. `own` are the
 * nodes of its columns. The data files stay as they are, and so does what others put below, consolidated or not.
 */
async function removeMirror(
  store: WritableStore,
  path: string,
  own: readonly string[],
): Promise<RemovedMirror> {
  const root = joinKey(path, "zarr.json");
  const forms = await formerForms(store, path);
  const nodes = new Set(own);
  const others = new Set((await nodesOf(store, root)).filter((node) => node !== "" && !nodes.has(node)));
  for (const { node } of forms) {
    if (nodes.has(node)) continue;
    if (await isOthers(store, path, node, forms)) others.add(node);
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
    if (node !== "") await store.delete(folder);
  }
  await store.delete(joinKey(path, MIRROR_STATE));
  await store.sync?.([]);
  return { shards: removed, left };
}

/**
 * Makes a mirrored array a plain one: what is visible as Zarr goes, then the array says that it is none. Resolves with
 * what went and what stays. The superchunks get the permission to be written to back; the index behind their chunks stays.
 */
export async function unmirror(writer: ArrayWriter, files: MirrorFiles): Promise<RemovedMirror> {
  const { root } = writer;
  writer.files.mirror = undefined;
  const { columns } = new MirrorDocuments(root, writer.settings, writer.columns);
  const known = columns.map(({ node }) => node);
  const removed = await removeMirror(root.store, root.path, known);
  for (const { first, count } of writer.committed.layout.runs) {
    for (const key of superchunkKeys(writer.columns, range(first, count))) {
      const at = { side: "data", key } as const;
      const facts = await files.inspect(at);
      if (facts !== undefined && facts.links === 1) await files.setMode(at, facts.mode | OWNER_WRITES);
    }
  }
  const { settings } = writer;
  writer.settings = { ...settings, zarr: false, revision: settings.revision + 1 };
  await writer.recommit({ storage: storageOf(writer.settings), revision: writer.settings.revision });
  await commitStorage(writer);
  return removed;
}

function* range(first: number, count: number): Generator<number> {
  for (let i = 0; i < count; i++) yield first + i;
}

/** Paths of the arrays that a root's document tells of; `""` where it is the one, or tells of none. */
async function nodesOf(store: WritableStore, root: string): Promise<string[]> {
  const { document } = (await readDocument(store, root)) ?? {};
  const told = memberOf(memberOf(document, "consolidated_metadata"), "metadata");
  const nodes = typeof told === "object" && told !== null ? Object.keys(told) : [""];
  return nodes.filter(isNodePath);
}

/** False also for a name that no object of the store can have, or that leads out of it. */
async function isThere(store: WritableStore, key: string): Promise<boolean> {
  try {
    return (await store.stat(key)) !== undefined;
  } catch (error) {
    if (isSuperchunkError(error, "UNSAFE_PATH")) return false;
    throw error;
  }
}

/** Nodes of the columns of an array that is not open; of a damaged one, those that its own root document has in order. */
async function columnNodes(store: WritableStore, path: string): Promise<readonly string[]> {
  try {
    const { settings } = await readWritable(store, path);
    const columns = layOutColumns(path, settings);
    return new MirrorDocuments({ store, path }, settings, columns).columns.map(({ node }) => node);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "IO") throw error;
  }
  const { document } = (await readDocument(store, joinKey(path, "zarr.json"))) ?? {};
  const order = memberOf(memberOf(document, "attributes"), "column_order");
  if (!Array.isArray(order)) return [""];
  return order.filter((node): node is string => typeof node === "string" && isNodePath(node));
}

/** Forms that were shown once, with notes where shards were. A damaged state, or a newer one, tells of none. */
async function formerForms(store: WritableStore, path: string): Promise<readonly ShardForm[]> {
  try {
    return (await readMirrorState(store, path))?.forms ?? [];
  } catch (error) {
    if (isSuperchunkError(error) && (error.isDamage || error.code === "UNSUPPORTED")) return [];
    throw error;
  }
}

/** Removes a folder; the objects that went. */
async function removeTree(store: WritableStore, folder: string): Promise<number> {
  const entries = [];
  for await (const entry of store.list(folder)) entries.push(entry);
  let removed = 0;
  for (const { name, kind } of entries) {
    const key = joinKey(folder, name);
    if (kind === "folder") removed += await removeTree(store, key);
    else {
      await store.delete(key);
      removed++;
    }
  }
  await store.delete(folder);
  return removed;
}
