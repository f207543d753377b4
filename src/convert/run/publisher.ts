/**
 * How the objects of a conversion reach the store: data before the documents that make it visible, also after a power
 * loss.
 *
 * Knows the order and what is durable when; must not know what the objects hold.
 */
import type { ObjectInfo, PutOptions, PutSource, WritableStore } from "../../store/types.ts";

/** Takes the objects of conversions. */
export interface Publisher {
  /** Puts an object with data. */
  putObject(key: string, source: PutSource, options: PutOptions): Promise<ObjectInfo>;
  /** Puts a document, after all objects put so far. Resolves with its bytes. */
  putDocument(key: string, bytes: Uint8Array, signal?: AbortSignal): Promise<number>;
}

/** Every object is durable when its call resolves: for few large ones. */
export function publishDirectly(store: WritableStore): Publisher {
  return {
    putObject: (key, source, options) => store.put(key, source, options),
    putDocument: async (key, bytes, signal) => (await store.put(key, bytes, { signal })).size,
  };
}

/** Objects and bytes that wait for their sync, at most. */
const MOST_WAITING = 2000;
const MOST_WAITING_BYTES = 256 * 1024 * 1024;

/**
 * Collects small objects and makes them durable together: documents wait until the objects put before them are.
 * For many small conversions, most of whose time would be waiting for single syncs. Needs a store with `sync`.
 */
export class BatchPublisher implements Publisher {
  readonly #store: WritableStore;
  #written: string[] = [];
  #documents: [key: string, bytes: Uint8Array][] = [];
  #bytes = 0;
  #flushing: Promise<void> | undefined;

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

  /** Forgets what lies below a folder whose objects are being deleted. */
  forget(folder: string): void {
    const isElsewhere = (key: string): boolean => !key.startsWith(`${folder}/`);
    this.#written = this.#written.filter(isElsewhere);
    this.#documents = this.#documents.filter(([key]) => isElsewhere(key));
  }

  /** Publishes what waits, if that is much. Nothing is published while an earlier flush runs: callers wait for it. */
  async flushIfFull(signal?: AbortSignal): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
    const waiting = this.#written.length + this.#documents.length;
    if (waiting >= MOST_WAITING || this.#bytes >= MOST_WAITING_BYTES) await this.#flush(signal);
  }

  /** Publishes all that waits, durably. */
  async finish(signal?: AbortSignal): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
    await this.#flush(signal);
    // The documents of the last flush.
    await this.#flush(signal);
  }

  async #flush(signal: AbortSignal | undefined): Promise<void> {
    this.#flushing = this.#publish(signal);
    try {
      await this.#flushing;
    } finally {
      this.#flushing = undefined;
    }
  }

  async #publish(signal: AbortSignal | undefined): Promise<void> {
    const written = this.#written;
    const documents = this.#documents;
    this.#written = [];
    this.#documents = [];
    this.#bytes = 0;
    if (written.length > 0) await this.#store.sync?.(written, { signal });
    for (const [key, bytes] of documents) {
      await this.#store.put(key, bytes, { signal, durable: false });
      this.#written.push(key);
    }
  }
}
