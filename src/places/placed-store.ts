/**
 * The store of an array with superchunks in several stores: every key is looked up in the store that holds it.
 *
 * Below a place's prefix, superchunks are in a folder named by the array's id, so that several arrays can share a place. Knows
 * keys; must not know what is in superchunks, or how places are reached. @see FORMAT.md [FG-19] [FG-20]
 */

import { at, countLeading } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { PlaceSpan } from "../format/layout.ts";
import { checkStoredName, parseSuperchunkName } from "../format/naming.ts";
import { joinKey } from "../store/key.ts";
import {
  type ByteRange,
  type DeleteOptions,
  isWritable,
  type ListEntry,
  type ListOptions,
  type ObjectInfo,
  type PutOptions,
  type PutSource,
  type ReadableStore,
  type StoreOptions,
  type WritableStore,
} from "../store/types.ts";
import type { Placing, StoredPlace } from "./declared.ts";

/**
 * Opens the store at the prefix of a place. Throws `UNSAFE_PATH` for a place that the caller did not permit. `isNamed`: the caller names
 * the place, not the archive.
 */
export type OpenPlace = (place: StoredPlace, isNamed: boolean) => ReadableStore | Promise<ReadableStore>;

/** How a writer reaches places. */
export interface PlaceOpening {
  /** Opens the places that hold superchunks outside the array's folder; default: those that `containers` and `allow` permit, as in `open`. */
  readonly openPlace?: OpenPlace | undefined;
  /** Makes the address of a place that is given as a path (default in Node.js: its `file://` URL; elsewhere places are addresses). */
  readonly placeAddress?: ((place: string) => string) | undefined;
}

/** What determines the keys of an array's superchunks. */
export interface PlacedArray {
  /** Key of the array's folder. */
  readonly path: string;
  /** `layout.id`. */
  readonly id: string;
  readonly spans: readonly PlaceSpan[];
}

/** An object in one of the stores. */
export interface PlacedKey {
  readonly store: ReadableStore;
  readonly key: string;
}

export class PlacedStore implements WritableStore {
  /** The store of the array's own folder. */
  readonly home: ReadableStore;
  readonly #path: string;
  readonly #data: string;
  readonly #id: string;
  readonly #places: ReadonlyMap<string, ReadableStore>;
  /** Which superchunk is where. */
  readonly table: PlaceTable;
  /** Stored bytes by place, for places asked about. */
  readonly #bytes = new Map<string | undefined, Promise<number>>();
  readonly readInto?: NonNullable<WritableStore["readInto"]>;
  readonly readIntoSync?: NonNullable<WritableStore["readIntoSync"]>;
  readonly getHead?: NonNullable<WritableStore["getHead"]>;
  readonly isFolder?: NonNullable<WritableStore["isFolder"]>;
  readonly sync?: NonNullable<WritableStore["sync"]>;
  readonly link?: NonNullable<WritableStore["link"]>;
  readonly writeRange?: NonNullable<WritableStore["writeRange"]>;
  readonly removeLeftovers?: NonNullable<WritableStore["removeLeftovers"]>;

  /**
   * `places` are the stores of the places by name, with their root at the prefix. Throws `UNSAFE_PATH` for an id that is not a
   * plain name.
   */
  constructor(
    home: ReadableStore,
    { path, id, spans }: PlacedArray,
    places: ReadonlyMap<string, ReadableStore>,
  ) {
    checkStoredName(id, home.describe(joinKey(path, "meta/sizes")), "layout.id");
    this.home = home;
    this.#path = path;
    this.#data = `${joinKey(path, "data")}/`;
    this.#id = id;
    this.#places = places;
    this.table = new PlaceTable(spans);
    const all: readonly (ReadableStore & Partial<WritableStore>)[] = [home, ...places.values()];
    const [own] = all;
    // For a capability that some store lacks, the caller uses another way.
    if (all.every((store) => store.readInto !== undefined))
      this.readInto = async (key, ...rest) => {
        const found = this.#find(key);
        return found.store.readInto?.(found.key, ...rest);
      };
    if (all.every((store) => store.readIntoSync !== undefined))
      this.readIntoSync = (key, ...rest) => {
        const found = this.#find(key);
        return found.store.readIntoSync?.(found.key, ...rest);
      };
    if (all.some((store) => store.getHead !== undefined))
      this.getHead = async (key, length, options) => {
        const { store, key: own } = this.#find(key);
        if (store.getHead !== undefined) return store.getHead(own, length, options);
        const info = await store.stat(own, options);
        const bytes = await store.getRange(own, { offset: 0, length }, options);
        return bytes && { bytes, info };
      };
    if (home.isFolder !== undefined)
      this.isFolder = async (...args) => (await home.isFolder?.(...args)) === true;
    if (own?.sync !== undefined) this.sync = (keys, options) => this.#sync(keys, options);
    if (all.every((store) => store.link !== undefined))
      this.link = async (from, to, kind) => {
        const [old, made] = [this.#writable(from), this.#writable(to)];
        if (old.store !== made.store)
          throw new SuperchunkError("UNSUPPORTED", "the names are in different places", {
            path: this.describe(to),
          });
        await old.store.link?.(old.key, made.key, kind);
      };
    if (all.every((store) => store.writeRange !== undefined))
      this.writeRange = async (key, ...rest) => {
        const found = this.#writable(key);
        await found.store.writeRange?.(found.key, ...rest);
      };
    if (own?.removeLeftovers !== undefined)
      this.removeLeftovers = async (...args) => own.removeLeftovers?.(...args);
  }

  /** Names of the places, without `data`. */
  get names(): readonly string[] {
    return [...this.#places.keys()];
  }

  /** True if new superchunks can be put there. */
  isWritable(place: string | undefined): boolean {
    const store = place === undefined ? this.home : this.#places.get(place);
    return store !== undefined && isWritable(store);
  }

  /** The key that a superchunk has, or would have, in a place. */
  at(place: string | undefined, key: string): PlacedKey {
    const store = place === undefined ? this.home : this.#places.get(place);
    if (store === undefined) throw new RangeError(`no place ${place}`);
    return { store, key: place === undefined ? key : joinKey(this.#id, key.slice(this.#data.length)) };
  }

  /** The key of the mark that shows that a place is present and belongs to this array. */
  markKey(): string {
    return joinKey(this.#id, "place.json");
  }

  /** The folder, in a place, of the array's superchunks and column folders. */
  folderIn(place: string | undefined): PlacedKey {
    return place === undefined
      ? { store: this.home, key: joinKey(this.#path, "data") }
      : { store: this.at(place, this.#data).store, key: this.#id };
  }

  /** An identity that the array's own folder has, but no copy of it; undefined if the store does not know. */
  async identifyHome(): Promise<readonly string[] | undefined> {
    return this.home.identify?.(this.#path);
  }

  /** Stored bytes of the array's superchunks in a place: those present at the first call, and those put since. */
  bytesIn(place: string | undefined): Promise<number> {
    const { store, key } = this.folderIn(place);
    return this.#bytes.get(place) ?? this.#remember(place, bytesBelow(store, key));
  }

  /** Remembers the bytes of a place. If the place cannot be listed, the next caller lists it again. */
  #remember(place: string | undefined, sum: Promise<number>): Promise<number> {
    this.#bytes.set(place, sum);
    sum.catch(() => {
      if (this.#bytes.get(place) === sum) this.#bytes.delete(place);
    });
    return sum;
  }

  /** Name in messages of an object in a place; undefined if it is in the array's own folder. */
  addressOf(key: string): string | undefined {
    const found = this.#find(key);
    return found.store === this.home ? undefined : found.store.describe(found.key);
  }

  describe(key: string): string {
    const found = this.#find(key);
    return found.store.describe(found.key);
  }

  get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const found = this.#find(key);
    return found.store.get(found.key, options);
  }

  getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const found = this.#find(key);
    return found.store.getRange(found.key, range, options);
  }

  stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const found = this.#find(key);
    return found.store.stat(found.key, options);
  }

  /** Lists the array's own folder, without superchunks in other places. */
  list(folder: string, options?: ListOptions): AsyncIterable<ListEntry> {
    return this.home.list(folder, options);
  }

  async put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo> {
    const found = this.#writable(key);
    const info = await found.store.put(found.key, source, options);
    for (const [place, sum] of this.#bytes) {
      const folder = this.folderIn(place);
      if (folder.store === found.store && found.key.startsWith(`${folder.key}/`))
        this.#remember(
          place,
          sum.then((bytes) => bytes + info.size),
        );
    }
    return info;
  }

  async delete(key: string, options?: DeleteOptions): Promise<void> {
    const found = this.#writable(key);
    await found.store.delete(found.key, options);
  }

  unpin(key: string): void {
    const found = this.#find(key);
    found.store.unpin?.(found.key);
  }

  explainAbsence(): string | undefined {
    return this.home.explainAbsence?.();
  }

  async close(): Promise<void> {
    await this.home.close?.();
    await this.closePlaces();
  }

  /** Closes the stores of the places only, except those that `other` uses too. */
  async closePlaces(other?: ReadableStore): Promise<void> {
    const kept = new Set(other instanceof PlacedStore ? other.#places.values() : []);
    for (const store of this.#places.values()) if (!kept.has(store)) await store.close?.();
  }

  async #sync(keys: readonly string[], options: StoreOptions | undefined): Promise<void> {
    const byStore = new Map<ReadableStore, string[]>(
      [this.home, ...this.#places.values()].map((store) => [store, []]),
    );
    for (const key of keys) {
      const found = this.#find(key);
      byStore.get(found.store)?.push(found.key);
    }
    for (const [store, own] of byStore)
      if ((keys.length === 0 || own.length > 0) && isWritable(store)) await store.sync?.(own, options);
  }

  #find(key: string): PlacedKey {
    const name = key.startsWith(this.#data) ? key.slice(key.lastIndexOf("/") + 1) : "";
    const number = parseSuperchunkName(name);
    return number === undefined ? { store: this.home, key } : this.at(this.table.of(number), key);
  }

  #writable(key: string): { readonly store: WritableStore; readonly key: string } {
    const { store, key: own } = this.#find(key);
    if (isWritable(store)) return { store, key: own };
    throw new SuperchunkError("READ_ONLY", "nothing can be written there", { path: store.describe(own) });
  }
}

async function bytesBelow(store: ReadableStore, folder: string): Promise<number> {
  let sum = 0;
  for await (const { name, kind, size } of store.list(folder, { sizes: true }))
    sum += kind === "folder" ? await bytesBelow(store, joinKey(folder, name)) : (size ?? 0);
  return sum;
}

/** Chunks with the addresses of those in other places, according to the array's store when each is listed. */
export function withAddresses<Chunk extends { readonly key: string }>(
  chunks: AsyncIterable<Chunk>,
  array: { readonly store: ReadableStore },
): AsyncIterable<Chunk & { readonly address?: string }> {
  return array.store instanceof PlacedStore ? addressed(chunks, array) : chunks;
}

async function* addressed<Chunk extends { readonly key: string }>(
  chunks: AsyncIterable<Chunk>,
  array: { readonly store: ReadableStore },
): AsyncGenerator<Chunk & { readonly address?: string }> {
  for await (const chunk of chunks) {
    const { store } = array;
    const address = store instanceof PlacedStore ? store.addressOf(chunk.key) : undefined;
    yield address === undefined ? chunk : { ...chunk, address };
  }
}

/**
 * The name of the place for a superchunk that begins with chunk `first`; undefined for `data`. One that replaces superchunk
 * `before` stays in that one's place, so that changes move nothing. Places that cannot be written are skipped.
 */
export async function choosePlace(
  placed: PlacedStore,
  { placing, superchunklen }: { readonly placing: Placing; readonly superchunklen: number },
  first: number,
  before: number | undefined,
): Promise<string | undefined> {
  const old = before === undefined ? undefined : placed.table.of(before);
  if (before !== undefined && placed.isWritable(old)) return old;
  const names = [undefined, ...placing.places.map(({ name }) => name)].filter((name) =>
    placed.isWritable(name),
  );
  if (placing.rule === "tier") return undefined;
  // By its position in the array, so that the last superchunk keeps its place while it grows.
  if (placing.rule === "round") return names[Math.floor(first / superchunklen) % names.length];
  const sizes = await Promise.all(names.map((name) => placed.bytesIn(name)));
  return names[sizes.indexOf(Math.min(...sizes))];
}

// Arithmetic of the places of superchunks: pure. @see FORMAT.md [FG-20]

/** The place of each superchunk, by number: as committed, and as changed since. */
class PlaceTable {
  /** By number, without overlaps. */
  #spans: readonly PlaceSpan[] = [];
  readonly #changed = new Map<number, string | undefined>();

  constructor(spans: readonly PlaceSpan[]) {
    this.adopt(spans);
  }

  /** Takes over the spans of another commit. Later changes are kept, because a number is never in two places. */
  adopt(spans: readonly PlaceSpan[]): void {
    this.#spans = [...spans].sort((a, b) => a.first - b.first);
  }

  /** Name of the place of a superchunk; undefined for `data`. */
  of(number: number): string | undefined {
    if (this.#changed.has(number)) return this.#changed.get(number);
    const span = this.#spans[this.#indexOf(number)];
    return span !== undefined && number < span.first + span.count ? span.place : undefined;
  }

  /** Sets the place of a superchunk: one of the names, or undefined for `data`. */
  set(number: number, place: string | undefined): void {
    this.#changed.set(number, place);
  }

  /** The spans of those of these numbers that are not in `data`, by number; adjacent ones are joined. */
  within(numbers: Iterable<Pick<PlaceSpan, "first" | "count">>): PlaceSpan[] {
    const found: { first: number; count: number; place: string }[] = [];
    const add = (first: number, count: number, place: string | undefined): void => {
      const last = found.at(-1);
      if (count < 1 || place === undefined) return;
      if (last?.place === place && last.first + last.count === first) last.count += count;
      else found.push({ first, count, place });
    };
    const changed = [...this.#changed.keys()].sort((a, b) => a - b);
    let next = 0;
    for (const { first, count } of [...numbers].sort((a, b) => a.first - b.first)) {
      const end = first + count;
      while (next < changed.length && at(changed, next) < first) next++;
      let from = first;
      while (next < changed.length && at(changed, next) < end) {
        const number = at(changed, next++);
        this.#addCommitted(from, number, add);
        add(number, 1, this.#changed.get(number));
        from = number + 1;
      }
      this.#addCommitted(from, end, add);
    }
    return found;
  }

  #addCommitted(from: number, end: number, add: (first: number, count: number, place: string) => void): void {
    for (let i = Math.max(0, this.#indexOf(from)); i < this.#spans.length; i++) {
      const span = at(this.#spans, i);
      if (span.first >= end) break;
      const first = Math.max(from, span.first);
      add(first, Math.min(end, span.first + span.count) - first, span.place);
    }
  }

  /** Index of the last span that begins at or before the number; -1 if there is none. */
  #indexOf(number: number): number {
    return countLeading(this.#spans.length, (i) => at(this.#spans, i).first <= number) - 1;
  }
}
