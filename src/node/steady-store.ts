/**
 * A folder whose files nobody exchanges meanwhile: small reads go to files that stay open, without looking at the path anew.
 *
 * For walks over thousands of chunk headers while a lock is held. Knows open files; must not know what they hold.
 */
import * as fs from "node:fs";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import { explainError } from "./fs-errors.ts";
import type { FileStore } from "./fs-store.ts";

/** Files kept open, and bytes that are read at once from one of them. */
const MAX_OPEN = 64;
const SMALL = 1 << 16;

/** The same objects as the store's, read as they were when they were first looked at. */
export class SteadyStore implements ReadableStore {
  readonly #store: FileStore;
  readonly #open = new Map<string, number>();

  constructor(store: FileStore) {
    this.#store = store;
  }

  describe(key: string): string {
    return this.#store.describe(key);
  }

  get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    return this.#store.get(key, options);
  }

  stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    return this.#store.stat(key, options);
  }

  list(folder: string, options?: StoreOptions): AsyncIterable<ListEntry> {
    return this.#store.list(folder, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    if (!("offset" in range) || range.length > SMALL) return this.#store.getRange(key, range, options);
    const bytes = new Uint8Array(range.length);
    const read = this.readIntoSync(key, range.offset, bytes);
    return read === undefined ? undefined : bytes.subarray(0, read);
  }

  async readInto(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined> {
    return target.length > SMALL
      ? this.#store.readInto(key, offset, target, options)
      : this.readIntoSync(key, offset, target);
  }

  readIntoSync(key: string, offset: number, target: Uint8Array): number | undefined {
    const file = this.#open.get(key);
    if (file === undefined) {
      // The store looks at the path, and refuses what leads out of its folder.
      const read = this.#store.readIntoSync(key, offset, target);
      if (read === undefined) return undefined;
      this.#keep(key, this.#openFile(key));
      return read;
    }
    let done = 0;
    while (done < target.length) {
      const read = fs.readSync(file, target, done, target.length - done, offset + done);
      if (read === 0) break;
      done += read;
    }
    return done;
  }

  /** Closes the files of its own; the store is its owner's. */
  async close(): Promise<void> {
    for (const file of this.#open.values()) fs.closeSync(file);
    this.#open.clear();
  }

  #openFile(key: string): number {
    const path = this.#store.describe(key);
    try {
      return fs.openSync(path, "r");
    } catch (error) {
      throw explainError(error, path, "opening it", false);
    }
  }

  #keep(key: string, file: number): void {
    this.#open.set(key, file);
    if (this.#open.size <= MAX_OPEN) return;
    const [oldest] = this.#open;
    if (oldest === undefined) return;
    fs.closeSync(oldest[1]);
    this.#open.delete(oldest[0]);
  }
}
