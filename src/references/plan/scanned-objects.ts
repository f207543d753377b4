/**
 * The objects that hold the chunks: their locations and guards, and the check that they have not changed at the end.
 *
 * Knows stores and guards; must not know chunks.
 */
import { mapAhead } from "../../store/pool.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import { Locations } from "../containers/containers.ts";
import { type Guard, guardOf, PackedTexts, SeenObjects } from "../containers/guard.ts";

/** Objects that are checked together, and how many such lots are requested ahead. */
const LOT = 128;
const LOTS_AHEAD = 4;

/** Options of examining objects. */
export interface ObjectScanOptions {
  /** False: no guards, and changes are not noticed (default true). */
  readonly guard?: boolean | undefined;
  /** Returns the location of an object (default: the name that its store uses, a path or a URL). */
  readonly locate?: ((key: string) => string) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An object that references point into, and its guard. */
export interface GuardedObject {
  readonly location: string;
  readonly guard: Guard;
}

/** State of an object before its chunks were read. */
export interface LocatedObject {
  readonly location: string;
  /** Bytes. */
  readonly size: number;
  readonly guard: Guard | undefined;
}

/** Objects that are checked together, starting with the `first`-th seen. */
interface Lot {
  readonly first: number;
  readonly keys: readonly string[];
  readonly etags: readonly string[];
}

export class ScannedObjects {
  readonly #store: ReadableStore;
  readonly #options: ObjectScanOptions;
  #seen: SeenObjects;
  readonly #locations = new Locations();
  /** Keys of the objects seen, in order. */
  readonly #keys = new PackedTexts();

  constructor(store: ReadableStore, options: ObjectScanOptions) {
    this.#store = store;
    this.#options = options;
    this.#seen = new SeenObjects(store);
  }

  clear(): void {
    this.#seen = new SeenObjects(this.#store);
    this.#keys.clear();
  }

  /** Notes an object before it is read. Throws `INCOMPLETE` if it does not exist, else as {@link note}. */
  async look(key: string): Promise<LocatedObject> {
    const location = this.#locate(key); // before any request, because it may throw
    return this.#add(key, location, await this.#seen.see(key, { signal: this.#options.signal }));
  }

  /** Notes an object that the store described together with its first bytes. Throws `UNSUPPORTED` for one without a location or a guard. */
  note(key: string, info: ObjectInfo): LocatedObject {
    this.#seen.note(info);
    return this.#add(key, this.#locate(key), info);
  }

  #add(key: string, location: string, info: ObjectInfo): LocatedObject {
    this.#keys.add(key);
    const guard = this.#options.guard === false ? undefined : guardOf(info, this.#store.describe(key));
    return { location, size: info.size, guard };
  }

  /** Checks every object again. Throws `STALE` if one has changed. */
  async *recheck(): AsyncGenerator<GuardedObject> {
    const { guard, signal } = this.#options;
    if (guard === false) return;
    const look = async ({ first, keys, etags }: Lot, signal: AbortSignal) => ({
      keys,
      infos: await this.#seen.seeAgain(first, keys, etags, { signal }),
    });
    for await (const { keys, infos } of mapAhead(this.#lots(), LOTS_AHEAD, look, signal))
      for (const [i, key] of keys.entries()) {
        const info = infos[i];
        if (info === undefined) throw new RangeError("an object was not looked at");
        yield { location: this.#locate(key), guard: guardOf(info, this.#store.describe(key)) };
      }
  }

  *#lots(): Generator<Lot> {
    let first = 0;
    let lot = { keys: [] as string[], etags: [] as string[] };
    const etags = this.#seen.etags[Symbol.iterator]();
    for (const key of this.#keys) {
      lot.keys.push(key);
      lot.etags.push(String(etags.next().value));
      if (lot.keys.length < LOT) continue;
      yield { first, ...lot };
      first += lot.keys.length;
      lot = { keys: [], etags: [] };
    }
    if (lot.keys.length > 0) yield { first, ...lot };
  }

  #locate(key: string): string {
    const { locate } = this.#options;
    return this.#locations.of(locate === undefined ? this.#store.describe(key) : locate(key));
  }
}
