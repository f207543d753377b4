/**
 * Several places shown as the folders and files of one read-only store.
 *
 * Knows how keys map to mounts; must not know what the objects hold.
 */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { checkFolder, checkKey } from "./key.ts";
import type { ReadableStore } from "./types.ts";

/** An object or a folder of a store; `path` `""` is all of it. */
export interface Mount {
  readonly store: ReadableStore;
  readonly path: string;
}

/** An entry that cannot be examined, such as a pipe, is listed like an object: who reads it gets the error. */
function onlyListed(error: unknown): true {
  if (isSuperchunkError(error)) return true;
  throw error;
}

/** A place that fails when it is read. It has no entries, because it is not a folder. */
export function unreadableMount(error: SuperchunkError): Mount {
  const path = String(error.details.path);
  const fail = (): Promise<never> => Promise.reject(error);
  return { path, store: { describe: () => path, get: fail, getRange: fail, stat: fail, async *list() {} } };
}

/**
 * A store whose root has one entry for each mount. Closing it closes the stores of the mounts. Names are single parts of
 * keys. Throws `UNSAFE_PATH` for others.
 */
export function mountedStore(mounts: ReadonlyMap<string, Mount>): ReadableStore {
  for (const name of mounts.keys()) {
    checkKey(name);
    if (name.includes("/"))
      throw new SuperchunkError("UNSAFE_PATH", "the name of a mount must be a single part of a key", {
        path: name,
      });
  }

  function find(key: string): Mount | undefined {
    const slash = key.indexOf("/");
    const mount = mounts.get(slash < 0 ? key : key.slice(0, slash));
    if (mount === undefined || slash < 0) return mount;
    const below = key.slice(slash + 1);
    return { store: mount.store, path: mount.path === "" ? below : `${mount.path}/${below}` };
  }

  /** The mount of an object; undefined for a folder that is all of a store. */
  function findObject(key: string): Mount | undefined {
    checkKey(key);
    const found = find(key);
    return found?.path === "" ? undefined : found;
  }

  return {
    describe(key) {
      const found = find(key);
      if (found !== undefined) return found.store.describe(found.path);
      return key === ""
        ? [...mounts.values()].map(({ store, path }) => store.describe(path)).join(", ")
        : key;
    },
    async get(key, options) {
      const found = findObject(key);
      return found?.store.get(found.path, options);
    },
    async getRange(key, range, options) {
      const found = findObject(key);
      return found?.store.getRange(found.path, range, options);
    },
    async stat(key, options) {
      const found = findObject(key);
      return found?.store.stat(found.path, options);
    },
    async isFolder(key, options) {
      const found = findObject(key);
      return (await found?.store.isFolder?.(found.path, options)) === true;
    },
    async *list(folder, options) {
      checkFolder(folder);
      if (folder !== "") {
        const found = find(folder);
        if (found !== undefined) yield* found.store.list(found.path, options);
        return;
      }
      for (const [name, { store, path }] of mounts) {
        const info = path === "" ? undefined : await store.stat(path, options).catch(onlyListed);
        yield { name, kind: info === undefined ? "folder" : "object" };
      }
    },
    async close() {
      for (const store of new Set([...mounts.values()].map((mount) => mount.store))) await store.close?.();
    },
  };
}
