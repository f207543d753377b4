/**
 * The destination as an array's tasks see it: data is written directly, documents are held back.
 *
 * Documents can be read back through this store, but reach the destination only with {@link publish}: after the comparison, if
 * one was requested. So no target can show what was not compared. If one object is both data and document (a single file), it
 * has another name until then. Data is durable before the documents that make it visible, even after a power loss.
 */

import { UNVERIFIED } from "../../archive/open/discover.ts";
import { hex32 } from "../../bytes/arrays.ts";
import { crc32c, startCrc32c } from "../../bytes/checksum.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import { MemoryStore } from "../../store/memory.ts";
import type {
  ListEntry,
  ObjectHead,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "../../store/types.ts";
import { interceptStore, type StoreCall } from "../../store/wrappers/intercept.ts";
import { SCRATCH_KEY } from "../../write/bloscpack/chunk-spool.ts";
import type { Receipt } from "../pipeline.ts";
import { readObjectPieces } from "../targets/zarr-objects.ts";

interface ConversionStoreOptions {
  isDocument(key: string): boolean;
  /** True if whole files get their names only when they are published. */
  readonly hidesFiles: boolean;
  readonly publisher: ObjectPublisher;
  readonly onReceipt: ((receipt: Receipt) => void) | undefined;
}

/** A store that holds documents back. */
export interface ConversionStore {
  readonly store: WritableStore;
  /** Stored bytes that reached the destination. */
  written(): number;
  /** Writes the documents to the destination: those of members first, and in each folder the committing one last. */
  publish(signal: AbortSignal | undefined): Promise<void>;
  /** Removes files that do not have their final names yet. */
  discard(): Promise<void>;
}

/** The destination with documents held back. */
export function holdDocuments(inner: WritableStore, options: ConversionStoreOptions): ConversionStore {
  const { isDocument, hidesFiles, publisher, onReceipt } = options;
  const held = new MemoryStore();
  const documents = new Set<string>();
  /** Temporary names of files, by key. */
  const hidden = new Map<string, string>();
  /** Receipts of objects that were made and still exist. */
  const receipts = new Map<string, Receipt>();
  let written = 0;

  const putObject = async (key: string, source: PutSource, put: PutOptions): Promise<ObjectInfo> => {
    let place = key;
    if (hidesFiles) {
      if (put.ifAbsent === true) await refuseTaken(inner, key);
      place = hiddenKey(key);
      hidden.set(key, place);
    }
    const { pieces, sum } =
      onReceipt === undefined ? { pieces: source, sum: undefined } : await summed(source);
    // A hidden file left by an earlier run may be replaced.
    const how = hidesFiles ? { ...put, ifAbsent: false } : put;
    const info = await publisher.putObject(place, pieces, how).catch((error: unknown) => {
      // The hidden name says nothing to the user.
      const isHidden = isSuperchunkError(error) && error.details.path === inner.describe(place);
      throw isHidden ? error.storedAt(inner.describe(key)) : error;
    });
    written += info.size;
    if (sum !== undefined) receipts.set(key, { key, size: info.size, crc32c: hex32(sum()) });
    return info;
  };

  /** Reads and changes what is held back, or has another name, where it is. */
  const redirect = ({ method, key, args }: StoreCall, proceed: () => unknown): unknown => {
    if (documents.has(key)) return applyTo(held, method, args);
    const place = hidden.get(key);
    return place === undefined ? proceed() : applyTo(inner, method, [place, ...args.slice(1)]);
  };

  const call = async (
    { method, key, args }: StoreCall,
    proceed: () => Promise<unknown>,
  ): Promise<unknown> => {
    if (method === "put") {
      // It is gone again before anything is published.
      if (SCRATCH_KEY.test(key)) return proceed();
      const [, source, put = {}] = args as [string, PutSource, PutOptions?];
      if (!isDocument(key)) return putObject(key, source, put);
      if (put.ifAbsent === true && !documents.has(key)) await refuseTaken(inner, key);
      documents.add(key);
      return held.put(key, source, put);
    }
    if (method === "delete") {
      receipts.delete(key);
      if (documents.delete(key)) return held.delete(key);
    }
    if (method === "sync") {
      const [keys, sync] = args as [readonly string[], StoreOptions?];
      const stored = keys.filter((each) => !documents.has(each)).map((each) => hidden.get(each) ?? each);
      return inner.sync?.(stored, sync);
    }
    if (method === "getHeads") {
      const [keys, length, head] = args as [readonly string[], number, StoreOptions?];
      const one = async (each: string): Promise<ObjectHead | undefined> => {
        if (!documents.has(each)) return (await inner.getHeads?.([each], length, head))?.[0];
        const bytes = await held.getRange(each, { offset: 0, length });
        return bytes && { bytes, info: await held.stat(each) };
      };
      return keys.some((each) => documents.has(each)) ? Promise.all(keys.map(one)) : proceed();
    }
    return redirect({ method, key, args }, proceed);
  };

  const store = interceptStore(inner, {
    onCall: <T>(each: StoreCall, proceed: () => Promise<T>) => call(each, proceed) as Promise<T>,
    onSync: (each, proceed) => redirect(each, proceed) as ReturnType<typeof proceed>,
  });

  async function* list(folder: string, listing?: StoreOptions): AsyncGenerator<ListEntry> {
    const seen = new Set<string>();
    for await (const entry of held.list(folder, listing)) {
      seen.add(entry.name);
      yield entry;
    }
    for await (const entry of inner.list(folder, listing)) if (!seen.has(entry.name)) yield entry;
  }

  return {
    store: Object.assign(store, { list }),
    written: () => written,
    async publish(signal) {
      for (const [key, place] of hidden) {
        await moveObject(inner, place, key, signal);
        hidden.delete(key);
      }
      for (const key of [...documents].sort(membersFirst)) {
        const bytes = await held.get(key);
        if (bytes === undefined) continue;
        written += await publisher.putDocument(key, bytes, signal);
        documents.delete(key);
        if (onReceipt !== undefined)
          receipts.set(key, { key, size: bytes.length, crc32c: hex32(await crc32c(bytes)) });
      }
      for (const receipt of receipts.values()) onReceipt?.(receipt);
    },
    async discard() {
      for (const place of hidden.values()) await inner.delete(place);
    },
  };
}

/** Temporary name of an unpublished file. Searches do not find archives under such names. */
export function hiddenKey(key: string): string {
  const { folder, name } = splitKey(key);
  return joinKey(folder, `.${name}${UNVERIFIED}`);
}

/** Sorts documents: deep ones first; in a folder `sizes`, which commits an array, before what names columns. */
export function membersFirst(a: string, b: string): number {
  const rank = (key: string): number =>
    key.endsWith("__rootdirs__") ? 2 : key.endsWith("meta/sizes") || key.endsWith("zarr.json") ? 1 : 0;
  // A folder's `meta/` is not a member of it.
  const depth = (key: string): number => key.replace(/(?:^|\/)meta\/(?=[^/]+$)/, "/").split("/").length;
  return depth(b) - depth(a) || rank(a) - rank(b) || (a < b ? -1 : 1);
}

function applyTo(store: WritableStore, method: StoreCall["method"], args: readonly unknown[]): unknown {
  const act: unknown = store[method];
  return typeof act === "function" ? Reflect.apply(act, store, args) : undefined;
}

async function refuseTaken(store: WritableStore, key: string): Promise<void> {
  if ((await store.stat(key)) === undefined) return;
  throw new SuperchunkError("CONFLICT", "the object exists already", { path: store.describe(key) });
}

/** Renames an object; copies it if the store cannot rename. */
export async function moveObject(
  store: WritableStore,
  from: string,
  to: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (store.rename !== undefined) {
    await store.rename(from, to, { signal });
    await store.sync?.([to], { signal });
    return;
  }
  const { size = 0 } = (await store.stat(from, { signal })) ?? {};
  await store.put(to, readObjectPieces(store, from, { offset: 0, nbytes: size }, signal), { signal });
  await store.delete(from, { signal });
}

/** The same bytes, and their crc32c once they have been read. */
async function summed(source: PutSource): Promise<{ pieces: PutSource; sum: () => number }> {
  const running = await startCrc32c();
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for await (const piece of source instanceof Uint8Array ? [source] : source) {
      running.update(piece);
      yield piece;
    }
  }
  return { pieces: pieces(), sum: () => running.digest() };
}

/** Takes the objects of conversions. */
export interface ObjectPublisher {
  putObject(key: string, source: PutSource, options: PutOptions): Promise<ObjectInfo>;
  /** Puts a document, after all objects put so far. Resolves with its size in bytes. */
  putDocument(key: string, bytes: Uint8Array, signal?: AbortSignal): Promise<number>;
}

/** Makes every object durable when its call resolves: for few large objects. */
export function publishDirectly(store: WritableStore): ObjectPublisher {
  return {
    putObject: (key, source, options) => store.put(key, source, options),
    putDocument: async (key, bytes, signal) => (await store.put(key, bytes, { signal })).size,
  };
}

/** Objects and bytes that wait for their sync before one begins, in parallel with the next conversions. */
const MANY_WAITING = 400;
const MANY_WAITING_BYTES = 64 * 1024 * 1024;

/**
 * Collects small objects and makes them durable together; documents wait until the objects before them are durable. For many
 * small conversions, which would otherwise mostly wait for single syncs. Needs a store with `sync`.
 */
export class BatchPublisher implements ObjectPublisher {
  readonly #store: WritableStore;
  #written: string[] = [];
  #documents: [key: string, bytes: Uint8Array][] = [];
  #bytes = 0;
  /** The last flush; once one has failed, so does every later one until {@link recover}. */
  #flushing: Promise<void> = Promise.resolve();

  constructor(store: WritableStore) {
    this.#store = store;
  }

  async putObject(key: string, source: PutSource, options: PutOptions): Promise<ObjectInfo> {
    const info = await this.#store.put(key, source, { ...options, durable: false });
    this.#written.push(key);
    this.#bytes += info.size;
    return info;
  }

  async putDocument(key: string, bytes: Uint8Array): Promise<number> {
    this.#documents.push([key, bytes]);
    return bytes.length;
  }

  /** Forgets what is below a folder, so that its objects can be deleted. */
  async forget(folder: string): Promise<void> {
    await this.#flushing;
    const isElsewhere = (key: string): boolean => !key.startsWith(`${folder}/`);
    this.#written = this.#written.filter(isElsewhere);
    this.#documents = this.#documents.filter(([key]) => isElsewhere(key));
  }

  /** Begins to publish what waits, if it is much; waits for this if much waits again. */
  async flushIfFull(): Promise<void> {
    const isFull = (): boolean =>
      this.#written.length + this.#documents.length >= MANY_WAITING || this.#bytes >= MANY_WAITING_BYTES;
    if (isFull()) await this.#flushing;
    if (isFull()) void this.#flush();
  }

  /** Makes what was written durable although a flush has failed; documents wait for {@link finish}. */
  async recover(): Promise<void> {
    await this.#flushing.catch(() => undefined); // thrown to those that waited for it
    await this.#store.sync?.(this.#written);
    this.#flushing = Promise.resolve();
  }

  /** Deletes the last objects that wait, and gives up the documents of their arrays and groups, to make room on a full disk. */
  async dropLast(count: number): Promise<void> {
    const dropped = this.#written.splice(-count);
    const isWhole = (key: string): boolean => {
      const { folder } = splitKey(key);
      return !dropped.some((each) => each === key || each.startsWith(`${folder}/`));
    };
    this.#documents = this.#documents.filter(([key]) => isWhole(key));
    for (const key of dropped) await this.#store.delete(key);
  }

  /** Publishes everything that waits, durably. */
  async finish(signal?: AbortSignal): Promise<void> {
    await this.#flush(signal);
    // The documents of the last flush.
    await this.#flush(signal);
  }

  #flush(signal?: AbortSignal): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#publish(signal));
    this.#flushing.catch(() => undefined); // thrown to those that wait for it
    return this.#flushing;
  }

  async #publish(signal: AbortSignal | undefined): Promise<void> {
    let written = this.#written;
    const documents = this.#documents;
    this.#written = [];
    this.#documents = [];
    this.#bytes = 0;
    try {
      if (written.length > 0) await this.#store.sync?.(written, { signal });
      written = [];
      for (let next = documents[0]; next !== undefined; next = documents[0]) {
        const [key, bytes] = next;
        await this.#store.put(key, bytes, { signal, durable: false });
        this.#written.push(key);
        documents.shift();
      }
    } catch (error) {
      this.#written.push(...written);
      this.#documents.unshift(...documents);
      throw error;
    }
  }
}
