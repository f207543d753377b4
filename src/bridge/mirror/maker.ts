/** Begins to mirror arrays, and removes what mirrors left. @see FORMAT.md [FY] */
import type { ArrayWriter } from "../../array/write/array-writer.ts";
import { layOutColumns, superchunkKeys } from "../../array/write/columns.ts";
import type { MirrorMaker } from "../../array/write/mirror.ts";
import { storageOf } from "../../array/write/settings.ts";
import { commitStorage } from "../../array/write/storage-commit.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { MirrorDocuments } from "./documents.ts";
import { encodeMirrorState, MIRROR_STATE } from "./mirror-state.ts";
import type { MirrorFiles } from "./types.ts";
import { type MirrorOptions, readMirrorState, ZarrMirror } from "./zarr-mirror.ts";

const OWNER_WRITES = 0o200;

/** Makes mirrors of arrays on a file system. */
export function zarrMirrors(options: MirrorOptions): MirrorMaker {
  const begin = async (writer: ArrayWriter, attrs: JsonObject): Promise<ZarrMirror> => {
    const { store, path } = writer.root;
    let state = await readMirrorState(store, path);
    if (state === undefined) {
      // Before anything else: what it tells can be removed.
      state = { high: 0, shown: undefined };
      await store.put(joinKey(path, MIRROR_STATE), encodeMirrorState(state), { durable: true });
    }
    const mirror = new ZarrMirror(writer, attrs, state, options);
    await mirror.start();
    return mirror;
  };
  return {
    check: async (place, settings) => {
      new MirrorDocuments(place, settings, layOutColumns(place.path, settings));
      await assertFree(place.store, place.path);
    },
    create: begin,
    open: begin,
    clear: async (store, path) => {
      if ((await store.stat(joinKey(path, MIRROR_STATE))) !== undefined) await removeMirror(store, path);
    },
  };
}

/**
 * Removes the documents, the root's first, the shards, and the state: the array is none of Zarr any more. The data files
 * stay as they are. Resolves with the number of shards that went.
 */
async function removeMirror(store: WritableStore, path: string): Promise<number> {
  const root = joinKey(path, "zarr.json");
  const nodes = await nodesOf(store, root);
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
  return removed;
}

/**
 * Makes a mirrored array a plain one: what is visible as Zarr goes, then the array says that it is none. Resolves with the
 * number of shards that went. The superchunks get the permission to be written to back; the index behind their chunks stays.
 */
export async function unmirror(writer: ArrayWriter, files: MirrorFiles): Promise<number> {
  const { root } = writer;
  writer.files.mirror = undefined;
  const removed = await removeMirror(root.store, root.path);
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

/** Paths of the arrays that a root's document tells of; `""` where it is the one. */
async function nodesOf(store: WritableStore, root: string): Promise<string[]> {
  const bytes = await store.get(root);
  if (bytes === undefined) return [""];
  const document = parseJson(bytes, store.describe(root)) as JsonObject;
  const consolidated = document["consolidated_metadata"] as JsonObject | undefined;
  if (document["node_type"] !== "group" || consolidated === undefined) return [""];
  return Object.keys(consolidated["metadata"] as JsonObject);
}

/** Throws `CONFLICT` where a Zarr array, or something else, is in the way. */
async function assertFree(store: WritableStore, path: string): Promise<void> {
  for (const name of ["zarr.json", "c"]) {
    const key = joinKey(path, name);
    if ((await store.stat(key)) === undefined && !(await hasEntries(store, key))) continue;
    throw new SuperchunkError(
      "CONFLICT",
      "it is there already; the folder seems to be a Zarr array of its own. Choose another place, or remove it",
      { path: store.describe(key), field: "zarr" },
    );
  }
}

async function hasEntries(store: WritableStore, folder: string): Promise<boolean> {
  try {
    for await (const _ of store.list(folder)) return true;
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
  }
  return false;
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
