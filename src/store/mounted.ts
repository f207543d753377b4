/**
 * Several places shown as the folders and files of one read-only store.
 *
 * Knows how keys map to mounts; must not know what the objects hold.
 */
import { SuperchunkError } from "../errors.ts";
import { checkFolder, checkKey } from "./key.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** An object or a folder of a store; `path` `""` is all of it. */
export interface Mount {
  readonly store: ReadableStore;
  readonly path: string;
}

/** A store whose root has one entry for each mount. Closing it closes the stores of the mounts. */
export class MountedStore implements ReadableStore {
  readonly #mounts: ReadonlyMap<string, Mount>;

  /** Names are single parts of keys. Throws `UNSAFE_PATH` for others. */
  constructor(mounts: ReadonlyMap<string, Mount>) {
    for (const name of mounts.keys()) {
      checkKey(name);
      if (name.includes("/")) {
        throw new SuperchunkError("UNSAFE_PATH", "the name of a mount must be a single part of a key", {
          path: name,
        });
      }
    }
    this.#mounts = mounts;
  }

  describe(key: string): string {
    const found = this.#find(key);
    if (found !== undefined) return found.store.describe(found.path);
    return key === ""
      ? [...this.#mounts.values()].map(({ store, path }) => store.describe(path)).join(", ")
      : key;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    checkKey(key);
    const found = this.#find(key);
    return found === undefined || found.path === "" ? undefined : found.store.get(found.path, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    checkKey(key);
    const found = this.#find(key);
    return found === undefined || found.path === ""
      ? undefined
      : found.store.getRange(found.path, range, options);
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    checkKey(key);
    const found = this.#find(key);
    return found === undefined || found.path === "" ? undefined : found.store.stat(found.path, options);
  }

  async isFolder(key: string, options?: StoreOptions): Promise<boolean> {
    checkKey(key);
    const found = this.#find(key);
    return (
      found !== undefined && found.path !== "" && (await found.store.isFolder?.(found.path, options)) === true
    );
  }

  async *list(folder: string, options?: StoreOptions): AsyncGenerator<ListEntry> {
    checkFolder(folder);
    if (folder !== "") {
      const found = this.#find(folder);
      if (found !== undefined) yield* found.store.list(found.path, options);
      return;
    }
    for (const [name, { store, path }] of this.#mounts) {
      const isObject = path !== "" && (await store.stat(path, options)) !== undefined;
      yield { name, kind: isObject ? "object" : "folder" };
    }
  }

  async close(): Promise<void> {
    for (const store of new Set([...this.#mounts.values()].map((mount) => mount.store)))
      await store.close?.();
  }

  #find(key: string): Mount | undefined {
    const slash = key.indexOf("/");
    const mount = this.#mounts.get(slash < 0 ? key : key.slice(0, slash));
    if (mount === undefined || slash < 0) return mount;
    const below = key.slice(slash + 1);
    return { store: mount.store, path: mount.path === "" ? below : `${mount.path}/${below}` };
  }
}
