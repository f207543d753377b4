/** Finds what is converted back below a folder or a Zarr group: archives, Zarr arrays, groups that are tables. */

import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import { findArchives } from "../../archive/open/discover.ts";
import { open } from "../../archive/open/open.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { JsonValue } from "../../format/types.ts";
import { isZarrFolder } from "../../open/find-readables.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import { openZarr } from "../../zarr/read/open.ts";
import type { BackSource } from "./source.ts";
import { isTableGroup, zarrSource } from "./zarr-source.ts";

/** One thing to be converted. */
export interface BackJob {
  /** How messages name it. */
  readonly path: string;
  /** Path below the destination; `""` is that itself. Without the extension of a file. */
  readonly node: string;
  /** What changes when the source does: versions of the objects that describe it. */
  fingerprint(): Promise<JsonValue>;
  open(): Promise<BackSource>;
  /** What is lost besides, in words. */
  readonly notes: readonly string[];
}

/** Objects whose change means that an archive has changed; those that exist count. */
const METADATA = ["", "meta/sizes", "meta/storage", "meta/attributes", "__attrs__", "__rootdirs__"];

/** All that lies at or below `path`, in the order of names; or the archive there, if it is open. Throws what listing throws. */
export async function* findBackJobs(
  store: ReadableStore,
  path: string,
  options: OpenOptions = {},
  archive?: Archive,
): AsyncGenerator<BackJob> {
  if (archive !== undefined) {
    yield archiveJob(store, path, "", async () => archive);
    return;
  }
  for await (const found of findArchives(store, path, { ...options, isOther: isZarrFolder })) {
    const node = found.path === path ? "" : path === "" ? found.path : found.path.slice(path.length + 1);
    if (found.kind === "other") {
      yield* zarrJobs(store, found.path, node, () => openZarr(store, found.path, options));
      continue;
    }
    const { error } = found;
    if (error === undefined)
      yield archiveJob(store, found.path, node, () => open(store, found.path, options));
    else
      yield {
        path: found.path,
        node,
        notes: [],
        fingerprint: async () => null,
        open: () => Promise.reject(error),
      };
  }
}

function archiveJob(
  store: ReadableStore,
  path: string,
  node: string,
  openArchive: () => Promise<Archive>,
): BackJob {
  const keys = METADATA.map((name) => joinKey(path, name));
  return {
    path: store.describe(path),
    node: node.replace(/\.(?:blp|bcolz|blz)$/i, ""),
    fingerprint: () => versionsOf(store, keys),
    open: openArchive,
    notes: [],
  };
}

/** The arrays of a node, and its groups that are tables; others become folders. */
export async function* zarrJobs(
  store: ReadableStore,
  path: string,
  node: string,
  openNode: () => Promise<ZarrArray | ZarrGroup>,
  lost: readonly string[] = [],
): AsyncGenerator<BackJob> {
  let found: ZarrArray | ZarrGroup;
  let isWhole: boolean;
  try {
    found = await openNode();
    isWhole = found.kind === "array" || (await isTableGroup(found));
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    const fail = (): Promise<never> => Promise.reject(error);
    yield { path: store.describe(path), node, fingerprint: fail, open: fail, notes: [] };
    return;
  }
  if (isWhole) {
    const source = zarrSource(found);
    source.catch(() => undefined); // told when it is opened
    yield {
      path: store.describe(path),
      node: node.replace(/\.zarr$/i, ""),
      fingerprint: async () => fingerprintZarr(found),
      open: () => source,
      notes: lost,
    };
    return;
  }
  if (found.kind === "array") return;
  const group = found;
  let notes = [
    ...lost,
    ...(Object.keys(group.attrs).length > 0
      ? [`${store.describe(path)}: attributes of the group are not carried over: a folder has none`]
      : []),
  ];
  for (const name of await group.members()) {
    yield* zarrJobs(store, joinKey(path, name), joinKey(node, name), () => group.open(name), notes);
    notes = [];
  }
}

async function fingerprintZarr(node: ZarrArray | ZarrGroup): Promise<JsonValue> {
  if (node.kind === "array") return versionsOf(node.store, node.model.metadataKeys);
  const all: JsonValue[] = [];
  for (const name of await node.members()) all.push(await fingerprintZarr(await node.open(name)));
  return all;
}

async function versionsOf(store: ReadableStore, keys: readonly string[]): Promise<JsonValue> {
  const versions: Record<string, string> = {};
  for (const key of keys) {
    const info = key === "" ? undefined : await store.stat(key);
    if (info !== undefined) versions[key] = `${info.size} ${info.version}`;
  }
  return versions;
}
