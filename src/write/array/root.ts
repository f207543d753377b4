/**
 * The root folder of an array: publishes superchunks, commits generations, removes what no generation names. Knows the order
 * that makes crashes harmless; must not know what is in the files. @see FORMAT.md [FG-09]
 */
import { isEqual, toHex } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeSizes, type Run, type StoredLayout } from "../../format/layout.ts";
import type { Placing } from "../../places/declared.ts";
import { type AllPlacesOptions, checkMarks, openAllPlaces } from "../../places/open-places.ts";
import { PlacedStore } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import { rethrowAfter } from "../../store/pool.ts";
import type { WritableStore } from "../../store/types.ts";

/** Concurrent deletions. */
const AT_ONCE = 8;

export class ArrayRoot {
  store: WritableStore;
  readonly path: string;
  /** Errors of removing superfluous files, which stay until the next writer. */
  readonly warnings: string[] = [];
  #committed: Uint8Array | undefined;
  /** A `meta/sizes` that was put without a confirmation. */
  #attempted: Uint8Array | undefined;
  /** Commits that arrived although their answers were lost, since the last confirmed one. */
  lostAnswers = 0;
  #removing: Promise<void> = Promise.resolve();

  readonly #replaces: boolean;

  /**
   * `committed` is `meta/sizes` as it was read; undefined if there is none. With `replaces`, what is there was made by another process that
   * makes the same array, and is written over.
   */
  constructor(
    store: WritableStore,
    path: string,
    committed: Uint8Array | undefined,
    { replaces = false }: { readonly replaces?: boolean } = {},
  ) {
    this.store = store;
    this.path = path;
    this.#committed = committed;
    this.#replaces = replaces;
  }

  get committed(): Uint8Array | undefined {
    return this.#committed;
  }

  /** True if a commit was sent and not confirmed: it may have arrived, or may still arrive. */
  get isUncertain(): boolean {
    return this.#attempted !== undefined;
  }

  /** The store, if it has places; else undefined. */
  get placed(): PlacedStore | undefined {
    return this.store instanceof PlacedStore ? this.store : undefined;
  }

  key(...parts: readonly string[]): string {
    return joinKey(this.path, ...parts);
  }

  /**
   * Puts a file under a name that no generation of this epoch has named; durable when resolved.
   * @throws CONFLICT if the file exists: from a failed attempt, or from another writer that may still commit it
   */
  async publish(key: string, pieces: readonly Uint8Array[]): Promise<void> {
    if (this.#replaces) await this.store.put(key, pieces, { durable: true });
    else await this.store.put(key, pieces, { durable: true, ifAbsent: true });
  }

  /**
   * The commit: replaces `meta/sizes` if it is still what this writer committed last. Durable when resolved.
   * @throws CONFLICT if another writer was faster; NOT_FOUND if the array has been removed
   */
  async commit(sizes: Uint8Array): Promise<void> {
    const { store } = this;
    const key = this.key("meta/sizes");
    const info = await store.stat(key);
    await this.assertOurs();
    this.#attempted = sizes;
    await store.put(key, sizes, {
      durable: true,
      ...(this.#replaces ? {} : info === undefined ? { ifAbsent: true } : { ifVersion: info.version }),
    });
    this.#committed = sizes;
    this.#attempted = undefined;
    this.lostAnswers = 0;
  }

  /** Throws `CONFLICT` unless `meta/sizes` is what this writer put, and `NOT_FOUND` if it has been removed. */
  async assertOurs(): Promise<void> {
    if (this.#replaces) return;
    const key = this.key("meta/sizes");
    const current = await this.store.get(key);
    if (current === undefined && this.#committed === undefined) return;
    if (current !== undefined) {
      if (this.#committed !== undefined && isEqual(current, this.#committed)) return;
      if (this.#attempted !== undefined && isEqual(current, this.#attempted)) {
        // An earlier commit arrived, and only its answer was lost.
        this.#committed = this.#attempted;
        this.lostAnswers++;
        return;
      }
    }
    throw new SuperchunkError(
      current === undefined ? "NOT_FOUND" : "CONFLICT",
      current === undefined
        ? "the array has been removed since it was opened; nothing was committed"
        : "another writer has committed since the array was opened; nothing was committed. Open it again, and make sure that there is one writer at a time",
      { path: this.store.describe(key), field: "generation" },
    );
  }

  /** Removes files that no generation names, in the background; failures become warnings. */
  remove(keys: Iterable<string>, store: WritableStore = this.store): void {
    const rest = keys[Symbol.iterator]();
    const removeNext = async (): Promise<void> => {
      for (let next = rest.next(); next.done !== true; next = rest.next()) {
        try {
          await store.delete(next.value);
        } catch (error) {
          this.warnings.push(error instanceof Error ? error.message : String(error));
        }
      }
    };
    const before = this.#removing;
    this.#removing = before.then(async () => {
      await Promise.all(Array.from({ length: AT_ONCE }, removeNext));
    });
  }

  /** Waits for pending removals. */
  settled(): Promise<void> {
    return this.#removing;
  }
}

/** A random id, which distinguishes an array from another one at the same place. */
export function newArrayId(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}

// The sequence of an array's commits: the last one, and how the next is distinguished from all that may have arrived. Must not
// know what is planned. @see FORMAT.md [FG-05] [FG-06]

/** The last commit. */
export interface Committed {
  readonly layout: StoredLayout;
  readonly rows: number;
  readonly cbytes: number;
}

/** What a commit states besides the layout. Sizes in bytes. */
interface CommitFacts {
  readonly rows: number;
  readonly rowShape: readonly number[];
  readonly rowBytes: number;
  readonly cbytes: number;
}

/** The superchunks that a layout counts. */
export function* numbersOf({
  runs,
  patches,
}: Pick<StoredLayout, "runs" | "patches">): Generator<Pick<Run, "first" | "count">> {
  yield* runs;
  for (const { number } of patches) yield { first: number, count: 1 };
}

export class CommitLine {
  readonly #root: ArrayRoot;
  last: Committed;
  #generation: number;
  #hasFailed = false;

  constructor(root: ArrayRoot, last: Committed) {
    this.#root = root;
    this.last = last;
    this.#generation = last.layout.generation;
  }

  /**
   * Commits; durable when resolved. The layout gets the next generation. If it fails, it can be tried again. `prepare` runs
   * just before, if rows are added.
   */
  async put(
    planned: Omit<StoredLayout, "generation">,
    facts: CommitFacts,
    prepare?: (next: Committed) => Promise<void> | undefined,
  ): Promise<void> {
    const root = this.#root;
    if (this.#hasFailed) await root.assertOurs();
    // A commit that arrived without an answer must not be mistaken for the one that replaces it.
    const { lostAnswers } = root;
    const { placed } = root;
    const layout: StoredLayout = {
      ...planned,
      ...(placed === undefined ? {} : { places: placed.table.within(numbersOf(planned)) }),
      generation: ++this.#generation,
      epoch: planned.epoch + lostAnswers,
      edition: planned.edition + lostAnswers,
    };
    const { rows, rowShape, rowBytes, cbytes } = facts;
    const sizes = encodeSizes({ shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes }, layout);
    const next: Committed = { layout, rows, cbytes };
    if (rows > this.last.rows) await prepare?.(next);
    this.#hasFailed = true;
    await root.commit(sizes);
    this.#hasFailed = false;
    this.last = next;
  }
}

/** The store of an array with all its places, which are there, and are this array's ({@link checkMarks}). */
export async function openOwnPlaces(
  store: WritableStore,
  { path, layout }: { readonly path: string; readonly layout: Pick<StoredLayout, "id" | "places"> },
  placing: Placing,
  options: AllPlacesOptions & { readonly ownPlaces?: boolean | undefined },
): Promise<WritableStore> {
  const { id, places: spans = [] } = layout;
  const placed = await openAllPlaces(store, { path, id, spans }, placing, options);
  if (options.readOnly !== true && placed instanceof PlacedStore)
    await checkMarks(placed, placing.places, options.ownPlaces).catch(
      rethrowAfter(() => placed.closePlaces()),
    );
  return placed;
}
