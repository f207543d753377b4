/**
 * The objects that chunks are found in: where they lie, what guards them, and that they are still the same at the end.
 *
 * Knows stores and guards; must not know chunks.
 */
import type { ReadableStore } from "../../store/types.ts";
import { guardOf, SeenObjects } from "./guard.ts";
import { toLocation } from "./location.ts";
import { PackedTexts } from "./packed-texts.ts";
import type { Guard } from "./types.ts";

/** How objects are looked at. */
export interface ScanOptions {
  /** False: no guards, and what changes is not noticed (default true). */
  readonly guard?: boolean | undefined;
  /** Location of an object (default: what its store calls it, a path or a URL). */
  readonly locate?: ((key: string) => string) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An object that references point into, and its guard. */
export interface GuardedObject {
  readonly location: string;
  readonly guard: Guard;
}

/** An object as it was seen before its chunks were. */
export interface LocatedObject {
  readonly location: string;
  /** Bytes. */
  readonly size: number;
  readonly guard: Guard | undefined;
}

/** The objects of one scan. */
export class ScannedObjects {
  readonly #store: ReadableStore;
  readonly #options: ScanOptions;
  #seen: SeenObjects;
  /** Keys of the objects seen, in order. */
  readonly #keys = new PackedTexts();

  constructor(store: ReadableStore, options: ScanOptions) {
    this.#store = store;
    this.#options = options;
    this.#seen = new SeenObjects(store);
  }

  /** Begins anew. */
  clear(): void {
    this.#seen = new SeenObjects(this.#store);
    this.#keys.clear();
  }

  /** Looks at an object before anything of it is read. Throws `NOT_FOUND`, `UNSUPPORTED` for one without a location or a guard. */
  async look(key: string): Promise<LocatedObject> {
    const location = this.#locate(key);
    const { signal, guard } = this.#options;
    const info = await this.#seen.see(key, { signal });
    this.#keys.add(key);
    const path = this.#store.describe(key);
    return { location, size: info.size, guard: guard === false ? undefined : guardOf(info, path) };
  }

  /** Looks at every object again. Throws `STALE` where one has changed meanwhile. */
  async *recheck(): AsyncGenerator<GuardedObject> {
    if (this.#options.guard === false) return;
    let n = 0;
    for (const key of this.#keys) {
      const info = await this.#seen.seeAgain(n++, key, { signal: this.#options.signal });
      yield { location: this.#locate(key), guard: guardOf(info, this.#store.describe(key)) };
    }
  }

  #locate(key: string): string {
    const { locate } = this.#options;
    return toLocation(locate === undefined ? this.#store.describe(key) : locate(key));
  }
}
