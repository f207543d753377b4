/**
 * A store in memory with every capability: for tests, for browsers, and to build archives before they are copied elsewhere.
 *
 * Knows the store contract; must not know what the bytes are.
 */

import { SuperchunkError } from "../errors.ts";
import { checkCount, checkFolder, checkKey, listKeys, resolveRange } from "./key.ts";
import { collectSource } from "./source.ts";
import type {
  ByteRange,
  DeleteOptions,
  ListEntry,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "./types.ts";

/** The bytes of an object; shared by its hard links. */
interface ObjectBody {
  bytes: Uint8Array;
  version: number;
  /** True after a hard link was made: other keys may share it. */
  isShared?: boolean;
}

/** Target of a key: bytes, or another key (a symbolic link). */
type Entry = { readonly body: ObjectBody } | { readonly target: string };

/** Most symbolic links to follow in a row. */
const MAX_LINKS = 32;

/**
 * Objects in a map. Bytes are copied in and out, so that neither side can change the other's. Each call checks and changes in one step, so
 * `ifAbsent`, `ifVersion` and `rename` are exact.
 */
export class MemoryStore implements WritableStore {
  readonly #entries = new Map<string, Entry>();
  readonly #label: string;
  #lastVersion = 0;

  /** Creates an empty store, or one with copies of `objects`; messages show `label` before the keys. */
  constructor(objects: Iterable<readonly [string, Uint8Array]> = [], label = "memory:") {
    this.#label = label;
    for (const [key, bytes] of objects) {
      checkKey(key);
      this.#set(key, new Uint8Array(bytes));
    }
  }

  describe(key: string): string {
    return `${this.#label}${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    options?.signal?.throwIfAborted();
    return this.#find(key)?.bytes.slice();
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    options?.signal?.throwIfAborted();
    const body = this.#find(key);
    const { offset, length } = resolveRange(range, body?.bytes.length ?? 0, this.describe(key));
    return body?.bytes.slice(offset, offset + length);
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    options?.signal?.throwIfAborted();
    const body = this.#find(key);
    if (body === undefined) return undefined;
    const info = {
      ...describeBody(body),
      ...("target" in (this.#entries.get(key) ?? {}) ? { isLink: true as const } : {}),
    };
    if (body.isShared !== true) return info;
    const links = [...this.#entries.values()].filter(
      (entry) => "body" in entry && entry.body === body,
    ).length;
    return { ...info, ...(links > 1 ? { links } : {}) };
  }

  async *list(folder: string, options?: StoreOptions): AsyncIterable<ListEntry> {
    yield* listKeys(this.#entries.keys(), folder, options);
  }

  async readInto(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined> {
    options?.signal?.throwIfAborted();
    return this.readIntoSync(key, offset, target);
  }

  readIntoSync(key: string, offset: number, target: Uint8Array): number | undefined {
    const body = this.#find(key);
    checkCount(offset, "offset", this.describe(key));
    if (body === undefined) return undefined;
    const part = body.bytes.subarray(offset, offset + target.length);
    target.set(part);
    return part.length;
  }

  async put(key: string, source: PutSource, options: PutOptions = {}): Promise<ObjectInfo> {
    checkKey(key);
    this.#checkCondition(key, options); // early, so that the source is not read in vain
    const bytes = await collectSource(source, options.signal);
    options.signal?.throwIfAborted();
    this.#checkCondition(key, options);
    return describeBody(this.#set(key, bytes));
  }

  async delete(key: string, options: DeleteOptions = {}): Promise<void> {
    checkKey(key);
    options.signal?.throwIfAborted();
    this.#checkCondition(key, options);
    this.#entries.delete(key);
  }

  async rename(from: string, to: string, options?: StoreOptions): Promise<void> {
    checkKey(from);
    checkKey(to);
    options?.signal?.throwIfAborted();
    const entry = this.#entries.get(from);
    if (entry !== undefined) {
      if (this.#hasFolder(to))
        throw this.#conflict(
          to,
          "a folder is there, where a file is to be written; name another place, or remove it",
        );
      if (from === to) return;
      this.#entries.delete(from);
      this.#entries.set(to, entry);
      return;
    }
    if (!this.#hasFolder(from)) throw this.#missing(from);
    if (from === to) return;
    if (`${to}/`.startsWith(`${from}/`))
      throw new SuperchunkError("BAD_ARGUMENT", `a folder cannot be moved into itself (to ${to})`, {
        path: this.describe(from),
      });
    if (this.#entries.has(to)) throw this.#conflict(to, "an object is in the way of the folder");
    if (this.#hasFolder(to)) throw this.#conflict(to, "a folder with entries is in the way");
    for (const [key, moved] of [...this.#entries]) {
      if (!key.startsWith(`${from}/`)) continue;
      this.#entries.delete(key);
      this.#entries.set(`${to}${key.slice(from.length)}`, moved);
    }
  }

  async sync(keys: readonly string[], options?: StoreOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    for (const key of keys) if (this.#find(key) === undefined) throw this.#missing(key);
  }

  async link(from: string, to: string, kind: "hard" | "symbolic" | "copy"): Promise<void> {
    checkKey(to);
    const body = this.#find(from);
    if (body === undefined) throw this.#missing(from);
    this.#checkCondition(to, { ifAbsent: true });
    if (kind === "copy") this.#set(to, body.bytes.slice());
    else this.#entries.set(to, kind === "hard" ? { body } : { target: from });
    if (kind === "hard") body.isShared = true;
  }

  async writeRange(key: string, offset: number, bytes: Uint8Array, options?: StoreOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    const body = this.#find(key);
    checkCount(offset, "offset", this.describe(key));
    if (body === undefined) throw this.#missing(key);
    const grown = new Uint8Array(Math.max(body.bytes.length, offset + bytes.length));
    grown.set(body.bytes);
    grown.set(bytes, offset);
    body.bytes = grown;
    body.version = ++this.#lastVersion;
  }

  async removeLeftovers(folder: string, options?: StoreOptions): Promise<void> {
    checkFolder(folder);
    options?.signal?.throwIfAborted();
  }

  /** Does nothing: the store holds nothing open. */
  async close(): Promise<void> {}

  #find(key: string): ObjectBody | undefined {
    checkKey(key);
    let entry = this.#entries.get(key);
    for (let links = 0; entry !== undefined && "target" in entry; links++) {
      if (links === MAX_LINKS)
        throw new SuperchunkError("UNSAFE_PATH", "symbolic links form a loop", { path: this.describe(key) });
      entry = this.#entries.get(entry.target);
    }
    return entry?.body;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #set(key: string, bytes: Uint8Array): ObjectBody {
    const body = { bytes, version: ++this.#lastVersion };
    this.#entries.set(key, { body });
    return body;
  }

  #hasFolder(folder: string): boolean {
    for (const key of this.#entries.keys()) if (key.startsWith(`${folder}/`)) return true;
    return false;
  }

  #checkCondition(key: string, options: PutOptions): void {
    if (options.ifAbsent === true && this.#entries.has(key))
      throw this.#conflict(key, "the object exists already");
    if (options.ifVersion === undefined) return;
    const body = this.#find(key);
    const found = body && describeBody(body).version;
    if (found !== options.ifVersion)
      throw this.#conflict(key, "another writer changed the object", options.ifVersion, found);
  }

  #conflict(key: string, summary: string, expected?: unknown, found?: unknown): SuperchunkError {
    return new SuperchunkError("CONFLICT", summary, { path: this.describe(key), expected, found });
  }

  #missing(key: string): SuperchunkError {
    return new SuperchunkError("NOT_FOUND", "the object does not exist", { path: this.describe(key) });
  }
}

function describeBody(body: ObjectBody): ObjectInfo {
  return { size: body.bytes.length, version: String(body.version) };
}
