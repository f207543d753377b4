/**
 * The commits of one of several writers of an array: each replaces `meta/sizes` if it still is what was read, and keeps numbers
 * reserved for this writer. Must not know what is in the superchunks. @see FORMAT.md [FG-16]
 */
import { keepLast } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseSizes } from "../../format/folder.ts";
import {
  encodeSizes,
  hasNumber,
  parseLayout,
  type Reservation,
  type StoredLayout,
} from "../../format/layout.ts";
import { sizeOfObjects } from "../../store/key.ts";
import { pause, runPooled } from "../../store/pool.ts";
import { isWritable, type WritableStore } from "../../store/types.ts";
import type { WriterLock } from "../editable.ts";
import { type ColumnLayout, superchunkKeys } from "../layout/columns.ts";
import { liveReservations, removedNumbers, withReservation } from "../layout/runs.ts";
import { type ArrayRoot, type Committed, newArrayId, numbersOf } from "./root.ts";

/** Time and randomness. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  random(): number;
  /** Resolves after this many milliseconds. */
  pause(ms: number): Promise<void>;
}

export const CLOCK: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  pause: (ms) => pause(ms, undefined),
};

/** Numbers reserved at a time. */
const NUMBERS = 256;
/** Attempts to commit while others are faster, and the longest pause between two, in milliseconds. */
export const MAX_TRIES = 1000;
export const MAX_PAUSE = 250;
/** Superchunks inspected at a time, and sizes kept. */
const AT_ONCE = 8;
const KEPT_SIZES = 1024;
/** Bytes of `meta/sizes` requested together with its version. */
const SIZES_BYTES = 1 << 20;

/** The newest known commit. */
export interface Base extends Committed {
  /** Version of `meta/sizes` in its store. */
  readonly version: string;
}

/** What a commit changes. */
export interface Change extends Partial<Pick<StoredLayout, "next" | "runs" | "patches">> {
  /** Rows of the array afterwards. */
  readonly rows: number;
  /** Bytes of the superchunks that it names and the commit before does not. */
  readonly bytes: number;
  /** This writer's commits of rows afterwards. */
  readonly commits: number;
}

export interface CommitTools {
  readonly columns: readonly ColumnLayout[];
  readonly rowShape: readonly number[];
  readonly rowBytes: number;
  /** True if some superchunks are of version 4. */
  readonly isMoved: boolean;
  /** Held for each commit. */
  readonly lock: (() => Promise<WriterLock>) | undefined;
  readonly clock: Clock;
  readonly leaseMs: number;
}

export class SharedCommits {
  readonly #root: ArrayRoot;
  readonly #tools: CommitTools;
  readonly #name = newArrayId();
  #base: Base;
  #next = 0;
  /** Numbers taken that no known commit names. */
  readonly #taken = new Set<number>();
  readonly #sizes = new Map<number, number>();

  constructor(root: ArrayRoot, base: Base, tools: CommitTools) {
    this.#root = root;
    this.#base = base;
    this.#tools = tools;
  }

  /** The newest known commit. */
  get base(): Base {
    return this.#base;
  }

  /** This writer's reservation, as of that commit. */
  get reservation(): Reservation | undefined {
    return this.#base.layout.writers?.find(({ writer }) => writer === this.#name);
  }

  /** Reserved numbers not taken yet. */
  get free(): number {
    const { first = 0, count = 0 } = this.reservation ?? {};
    return Math.max(0, first + count - this.#next);
  }

  /** The position of this writer among all, from 0. */
  get turn(): number {
    return Math.max(0, this.#base.layout.writers?.findIndex(({ writer }) => writer === this.#name) ?? 0);
  }

  /** Takes one of the {@link free} numbers. */
  takeNumber(): number {
    this.#taken.add(this.#next);
    return this.#next++;
  }

  /** Records the stored bytes of a superchunk, all columns, for the last {@link KEPT_SIZES}. */
  noteBytes(number: number, bytes: number): void {
    keepLast(this.#sizes, number, bytes, KEPT_SIZES);
  }

  /** Waits a random time that grows with the number of tries. Throws `CONFLICT` after too many. */
  async wait(tries: number): Promise<void> {
    if (tries === 0) return;
    if (tries >= MAX_TRIES)
      throw new SuperchunkError(
        "CONFLICT",
        `other writers committed each of the ${MAX_TRIES} times that a commit was tried; try again, or let them commit more rows at a time`,
        { path: this.#root.store.describe(this.#root.key("meta/sizes")), field: "generation" },
      );
    const { clock } = this.#tools;
    await clock.pause(clock.random() * Math.min(MAX_PAUSE, 2 ** Math.min(tries, 10)));
  }

  /** Reads the newest commit. Throws `NOT_FOUND`, and `CONFLICT` if it is of another array or other settings. */
  async refresh(): Promise<void> {
    const { store } = this.#root;
    const key = this.#root.key("meta/sizes");
    const path = store.describe(key);
    const base = await readBase(store, key, this.#base);
    if (base === undefined)
      throw new SuperchunkError("NOT_FOUND", "the array has been removed since it was opened", { path });
    const { id, revision } = this.#base.layout;
    if (base.layout.id !== id || base.layout.revision !== revision)
      throw new SuperchunkError(
        "CONFLICT",
        "another array has taken its place, or its columns or settings have changed, since it was opened; open it again. Rows that wait here were not committed",
        { path, field: "layout.revision", expected: revision, found: base.layout.revision },
      );
    this.#base = base;
    this.#root.placed?.table.adopt(base.layout.places ?? []);
    this.#next = Math.max(this.#next, this.reservation?.first ?? 0);
  }

  /** Reserves numbers instead of the remaining ones; false if another writer was faster. `commits`: of rows, so far. */
  reserve(commits: number): Promise<boolean> {
    const { layout, rows } = this.#base;
    this.#next = layout.next;
    const next = layout.next + NUMBERS;
    return this.#swap({ next, rows, bytes: 0, commits }, { first: layout.next, count: NUMBERS });
  }

  /** Commits on top of the newest known commit; false if another commit came after it. Durable when resolved. */
  commit(change: Change): Promise<boolean> {
    return this.#swap(change, { first: Math.max(1, this.#next), count: this.free });
  }

  /** Gives back the reserved numbers; false if another writer was faster. */
  leave(): Promise<boolean> {
    return this.#swap({ rows: this.#base.rows, bytes: 0, commits: 0 }, undefined);
  }

  /** Throws if it is unknown whether the commit arrived. Then removes what commits no longer name. */
  async #swap(
    { rows, bytes, commits, ...change }: Change,
    numbers: { readonly first: number; readonly count: number } | undefined,
  ): Promise<boolean> {
    const { layout: before, cbytes, version } = this.#base;
    const { rowShape, rowBytes, isMoved, clock, leaseMs } = this.#tools;
    const now = clock.now();
    const { kept, lost } = liveReservations(before.writers, now);
    const own = numbers && { writer: this.#name, ...numbers, until: Math.ceil(now + leaseMs), commits };
    const { placed } = this.#root;
    const planned = { ...before, ...change };
    const after: StoredLayout = {
      ...planned,
      ...(placed === undefined ? {} : { places: placed.table.within(numbersOf(planned)) }),
      writers: withReservation(kept, this.#name, own),
      generation: before.generation + 1,
      ...(isMoved ? { isMoved: true } : {}),
    };
    const removed = [...removedNumbers(before, after)];
    const base = { layout: after, rows, cbytes: Math.max(0, cbytes + bytes - (await this.#sizeOf(removed))) };
    const facts = { shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes: base.cbytes };
    if (!(await this.#replace(encodeSizes(facts, after), version, base))) return false;
    const unused = [...this.#taken].filter((number) => !hasNumber(after, number));
    this.#taken.clear();
    const given = lost
      .filter(({ writer }) => writer !== this.#name)
      .flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i));
    this.#remove([...removed, ...unused], given);
    return true;
  }

  /** Removes superchunks. For those that another writer lost, the place is unknown. */
  #remove(own: readonly number[], lost: readonly number[]): void {
    const { columns } = this.#tools;
    const root = this.#root;
    const { placed } = root;
    if (placed === undefined) {
      root.remove(superchunkKeys(columns, [...own, ...lost]));
      return;
    }
    for (const name of [undefined, ...placed.names]) {
      const { store } = placed.folderIn(name);
      // The keys are computed now: the next commit that is read no longer says where these superchunks are.
      const there = [...own.filter((number) => placed.table.of(number) === name), ...lost];
      const keys = [...superchunkKeys(columns, there)].map((key) => placed.at(name, key).key);
      if (isWritable(store)) root.remove(keys, store);
    }
  }

  async #replace(sizes: Uint8Array, version: string, base: Committed): Promise<boolean> {
    const lock = await this.#takeLock();
    try {
      const key = this.#root.key("meta/sizes");
      const info = await this.#root.store.put(key, sizes, { durable: true, ifVersion: version });
      this.#base = { ...base, version: info.version };
      return true;
    } catch (error) {
      if (isSuperchunkError(error, "CONFLICT")) return false;
      throw error;
    } finally {
      await lock?.release();
    }
  }

  async #takeLock(): Promise<WriterLock | undefined> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#tools.lock?.();
      } catch (error) {
        // The final error says who holds the lock.
        if (!isSuperchunkError(error, "CONFLICT") || tries === MAX_TRIES) throw error;
        await this.wait(tries);
      }
    }
  }

  /** Stored bytes of superchunks, all columns. */
  async #sizeOf(numbers: readonly number[]): Promise<number> {
    let sum = 0;
    const look = async (number: number): Promise<void> => {
      const keys = superchunkKeys(this.#tools.columns, [number]);
      const bytes = this.#sizes.get(number) ?? (await sizeOfObjects(this.#root.store, keys, undefined));
      this.noteBytes(number, bytes);
      sum += bytes;
    };
    await runPooled(numbers, AT_ONCE, look);
    return sum;
  }
}

/** The newest commit, with the version of `meta/sizes`; returns `known` if it is still that one. */
export async function readBase(
  store: WritableStore,
  key: string,
  known: Base | undefined,
): Promise<Base | undefined> {
  store.unpin?.(key);
  const head = await store.getHead?.(key, SIZES_BYTES);
  let info = head?.info;
  let bytes = head?.bytes;
  if (info === undefined || bytes === undefined || bytes.length < info.size) {
    // What is read after the version is of that version, or else its commit fails.
    info = await store.stat(key);
    store.unpin?.(key);
    bytes = await store.get(key);
  }
  if (info === undefined || bytes === undefined) return undefined;
  if (info.version === known?.version) return known;
  const path = store.describe(key);
  const { raw, shape, cbytes } = parseSizes(bytes, path);
  const layout = parseLayout(raw, path);
  if (layout === undefined) return undefined;
  return { layout, rows: shape[0] as number, cbytes: cbytes ?? 0, version: info.version };
}
