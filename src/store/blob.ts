/**
 * Blobs as a read-only store: files that a browser's user chose or dropped, read in ranges on demand.
 *
 * Knows the store contract; must not know what the bytes are.
 */

import { badArgument, SuperchunkError } from "../errors.ts";
import { checkKey, listKeys, resolveRange } from "./key.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** Blobs by key. Reads only what is requested. */
export class BlobStore implements ReadableStore {
  readonly #blobs = new Map<string, Blob>();

  /** Creates a store of blobs with their keys. Throws `UNSAFE_PATH` for a name that is not a key. */
  constructor(blobs: Iterable<readonly [string, Blob]>) {
    if (typeof blobs?.[Symbol.iterator] !== "function")
      throw badArgument("the blobs", blobs, "a list of keys and blobs: [[key, blob]]");
    for (const [key, blob] of blobs) {
      checkKey(key);
      this.#blobs.set(key, blob);
    }
  }

  /** Holds the files of an `<input type="file">`, also with `webkitdirectory`. Keys are paths below the chosen folder, or names. */
  static fromFiles(files: Iterable<File>): BlobStore {
    return new BlobStore(
      Array.from(files, (file) => {
        const path = file.webkitRelativePath;
        // The first part is the name of the chosen folder.
        return [path ? path.slice(path.indexOf("/") + 1) : file.name, file] as const;
      }),
    );
  }

  describe(key: string): string {
    return `blob:${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const blob = this.#find(key, options);
    return blob && this.#read(key, blob);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const blob = this.#find(key, options);
    const { offset, length } = resolveRange(range, blob?.size ?? 0, this.describe(key));
    return blob && this.#read(key, blob.slice(offset, offset + length));
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const blob = this.#find(key, options);
    if (blob === undefined) return undefined;
    const modified = "lastModified" in blob ? Number(blob.lastModified) : undefined;
    const version = `${blob.size}-${modified ?? 0}`;
    return { size: blob.size, version, ...(modified === undefined ? {} : { modified }) };
  }

  async *list(folder: string, options?: StoreOptions): AsyncIterable<ListEntry> {
    yield* listKeys(this.#blobs.keys(), folder, options);
  }

  #find(key: string, options: StoreOptions | undefined): Blob | undefined {
    checkKey(key);
    options?.signal?.throwIfAborted();
    return this.#blobs.get(key);
  }

  async #read(key: string, part: Blob): Promise<Uint8Array> {
    try {
      return new Uint8Array(await part.arrayBuffer());
    } catch (cause) {
      // A browser refuses to read a file that changed after it was chosen.
      throw new SuperchunkError("IO", "the file cannot be read; choose it again if it was changed", {
        path: this.describe(key),
        cause,
      });
    }
  }
}
