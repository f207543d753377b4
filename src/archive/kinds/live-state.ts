/**
 * Which generation of an array is read while a writer may change it.
 *
 * A reader keeps the rows that it opened. What has been read counts only once `meta/sizes` proves that no name came to
 * mean another file meanwhile; where a file is gone, the same rows are looked up in the newest generation, as long as
 * its edition says that they are the same. Must not know how an array is read. @see FORMAT.md [FG]
 */
import { isEqual } from "../../bytes/equal.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import { parseLayout, type StoredLayout } from "../../format/layout.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { OpenedFiles } from "../places/layout-files.ts";
import type { ArrayArchive } from "./types.ts";

/** One generation, opened. */
export interface Opened {
  /** Reads this generation and knows of no other. */
  readonly array: ArrayArchive;
  readonly layout: StoredLayout;
  /** `meta/sizes` as it was read. */
  readonly sizes: Uint8Array;
  /** The superchunks that were opened. */
  readonly files: OpenedFiles;
}

/** Opens the newest generation, all of it or its first `rows`. */
export type Reopen = (rows: number | undefined, signal: AbortSignal | undefined) => Promise<Opened>;

/** What an array and its columns share: the generation that they show. */
export class LiveState {
  readonly store: ReadableStore;
  readonly path: string;
  readonly #reopen: Reopen;
  #opened: Opened;
  /** The generation that was asked for: where its files are gone, `#opened` is a newer one with the same rows. */
  #asked: StoredLayout;
  /** What `meta/sizes` held when it was last found to be of the same epoch. */
  #seen: Uint8Array;

  constructor(store: ReadableStore, path: string, opened: Opened, reopen: Reopen) {
    this.store = store;
    this.path = path;
    this.#opened = opened;
    this.#asked = opened.layout;
    this.#seen = opened.sizes;
    this.#reopen = reopen;
  }

  get opened(): Opened {
    return this.#opened;
  }

  /** Moves on to the newest generation. True where that is another one. */
  async refresh(signal: AbortSignal | undefined): Promise<boolean> {
    const before = this.#asked;
    const newest = await this.#reopen(undefined, signal);
    this.#opened = newest;
    this.#asked = newest.layout;
    this.#seen = newest.sizes;
    return before.generation !== newest.layout.generation || before.id !== newest.layout.id;
  }

  /**
   * True where all that was read by `opened` counts; false where the newest generation has taken its place, and it must be
   * read anew.
   *
   * @throws STALE where the rows have changed since they were opened
   */
  async confirm(opened: Opened, signal: AbortSignal | undefined): Promise<boolean> {
    const { files } = opened;
    const { count } = files;
    if (files.isSettled(this.store)) return opened.layout.epoch === this.#opened.layout.epoch;
    const changed = await this.#readChanged(signal);
    if (changed !== undefined) {
      const path = this.store.describe(this.#sizesKey());
      const layout = parseLayout(asObject(parseJson(changed, path)), path);
      if (layout?.id !== opened.layout.id) throw this.#stale("another array has taken its place");
      if (layout.epoch !== opened.layout.epoch) {
        await this.#follow(signal);
        return false;
      }
      this.#seen = changed;
    }
    files.confirmed = Math.max(files.confirmed, count);
    return opened.layout.epoch === this.#opened.layout.epoch;
  }

  /**
   * After a failure of reading by `opened`: true where a newer generation has taken its place and it must be read anew,
   * false where the failure is to be told.
   *
   * @throws STALE where the rows have changed since they were opened
   */
  async renew(error: unknown, opened: Opened, signal: AbortSignal | undefined): Promise<boolean> {
    if (!isSuperchunkError(error)) return false;
    if (!error.isDamage && error.code !== "STALE" && error.code !== "NOT_FOUND") return false;
    if (opened !== this.#opened) return true;
    const bytes = await this.store.get(this.#sizesKey(), { signal });
    if (bytes !== undefined && isEqual(bytes, opened.sizes)) return false;
    await this.#follow(signal);
    return this.#opened.layout.generation !== opened.layout.generation;
  }

  /** Takes the newest generation, if its rows are those that were opened. */
  async #follow(signal: AbortSignal | undefined): Promise<void> {
    const { array, layout } = this.#opened;
    let newest: Opened;
    try {
      newest = await this.#reopen(array.shape[0], signal);
    } catch (error) {
      if (isSuperchunkError(error, "NOT_FOUND")) throw this.#stale("the array has been removed");
      throw error;
    }
    if (newest.layout.id !== layout.id) throw this.#stale("another array has taken its place");
    if (newest.layout.edition !== layout.edition) throw this.#stale("a writer has changed or removed rows");
    this.#opened = newest;
    this.#seen = newest.sizes;
  }

  /** The newest `meta/sizes`, where it is not what was seen last. */
  async #readChanged(signal: AbortSignal | undefined): Promise<Uint8Array | undefined> {
    const key = this.#sizesKey();
    const seen = this.#seen;
    if (this.store.readIntoSync !== undefined) {
      const now = new Uint8Array(seen.length + 1);
      const length = this.store.readIntoSync(key, 0, now);
      if (length === seen.length && isEqual(seen, now.subarray(0, length))) return undefined;
    }
    const bytes = await this.store.get(key, { signal });
    if (bytes === undefined) throw this.#stale("the array has been removed");
    return isEqual(seen, bytes) ? undefined : bytes;
  }

  #sizesKey(): string {
    return joinKey(this.path, "meta/sizes");
  }

  #stale(what: string): SuperchunkError {
    const { generation } = this.#asked;
    return new SuperchunkError(
      "STALE",
      `${what} since generation ${generation} was opened; call refresh(), or open it again`,
      { path: this.store.describe(this.path), field: "generation", expected: generation },
    );
  }
}

function asObject(value: JsonValue): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}
