/**
 * An array that a writer may change while it is read.
 *
 * A reader keeps the rows that it opened. Data count only after `meta/sizes` proves that no name came to mean another file in
 * the meantime; otherwise the read is repeated. If a file is gone, the same rows are looked up in the newest generation, as
 * long as its edition says that they are unchanged. Must not know how an array is read. @see FORMAT.md [FG]
 */
import { at, isEqual } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { objectOf, parseJson } from "../../format/json.ts";
import { parseLayout, type RowSpan, type StoredLayout, VIEW_IS_BEHIND } from "../../format/layout.ts";
import type { Dialect, DType, JsonObject, JsonValue } from "../../format/types.ts";
import { withAddresses } from "../../places/placed-store.ts";
import { arrowBatches, oindex, scan, vindex } from "../../scan/begin.ts";
import { checkLater, joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { ArraySlice, Selected, Selection } from "../../values/selection.ts";
import {
  type Generation,
  isViewBehind,
  layoutSequence,
  OpenedFiles,
  readGeneration,
} from "../places/layout-files.ts";
import type { ChunkPlace } from "../places/sequence.ts";
import {
  type ArrayFace,
  type FolderMetadata,
  nestedArray,
  plainArray,
  readAttributes,
} from "./array-folder.ts";
import type {
  ArrayArchive,
  ChunkInfo,
  ChunkSummary,
  EncodedChunk,
  EncodedChunksOptions,
  ListChunksOptions,
  LongOptions,
  OpenOptions,
  ReadOptions,
  VerifyReport,
} from "./types.ts";

/** A read is repeated at most this often when a writer interferes. */
const MAX_TRIES = 1000;
/** Chunk descriptions confirmed together. */
const LISTED_AT_ONCE = 512;

/** The store read that brought a part. All its bytes were in memory before its first part was returned. */
type ReadOf<T> = (part: T) => object | undefined;

/** The array, or one of its columns. */
class LiveArray implements ArrayArchive {
  readonly kind = "array";
  readonly order = "C";
  readonly #state: LiveState;
  readonly #column: string | undefined;

  constructor(state: LiveState, column?: string) {
    this.#state = state;
    this.#column = column;
  }

  get dialect(): Dialect {
    return this.#array.dialect;
  }
  /** The store, with the places that hold superchunks. */
  get store(): ReadableStore {
    return this.#state.opened.store;
  }
  get path(): string {
    return this.#state.path;
  }
  get attrs(): JsonObject {
    return this.#array.attrs;
  }
  get metadata(): JsonObject {
    return this.#array.metadata;
  }
  get warnings(): readonly string[] {
    return this.#array.warnings;
  }
  get filled(): readonly RowSpan[] | undefined {
    return this.#array.filled;
  }
  get dtype(): DType {
    return this.#array.dtype;
  }
  get shape(): readonly number[] {
    return this.#array.shape;
  }
  get fillValue(): JsonValue | undefined {
    return this.#array.fillValue;
  }
  get chunkLength(): number | undefined {
    return this.#array.chunkLength;
  }
  get columnNames(): readonly string[] {
    return this.#array.columnNames;
  }
  get nbytes(): number {
    return this.#array.nbytes;
  }
  get nchunks(): number {
    return this.#array.nchunks;
  }
  get chunkBytes(): number {
    return this.#array.chunkBytes;
  }
  /** Number of the commit that rows are read from: see {@link ArrayArchive}. */
  get generation(): number {
    return this.#state.opened.layout.generation;
  }

  column(name: string): ArrayArchive {
    this.#array.column(name); // NOT_FOUND if there is none
    return new LiveArray(this.#state, name);
  }

  /** Moves to the last commit. Returns true if there was a newer one. */
  async refresh(options: StoreOptions = {}): Promise<boolean> {
    await checkLater(options, "refresh");
    return this.#state.refresh(options.signal);
  }

  get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: ReadOptions = {},
  ): Promise<Selected<S>> {
    return this.#once(options, (array) => array.get(selection, options));
  }
  getBytes(selection?: Selection | null, options: ReadOptions = {}): Promise<Uint8Array> {
    return this.#once(options, (array) => array.getBytes(selection, options));
  }
  readBytes(start: number, end: number, options: LongOptions = {}): Promise<Uint8Array> {
    return this.#once(options, (array) => array.readBytes(start, end, options));
  }
  summary(options: OpenOptions = {}): Promise<ChunkSummary> {
    return this.#once(options, (array) => array.summary(options));
  }
  storedBytes(options: OpenOptions = {}): Promise<number> {
    return this.#once(options, (array) => array.storedBytes(options));
  }
  verify(options: LongOptions = {}): Promise<VerifyReport> {
    return this.#once(
      options,
      (array) => array.verify(options),
      ({ ok }) => !ok,
    );
  }

  chunks(options: LongOptions = {}): AsyncIterable<ArraySlice> {
    return this.#each(options, (array) => array.chunks(options));
  }
  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    return this.#each(options, (array) => array.streamBytes(options));
  }
  readonly scan: ArrayArchive["scan"] = scan;
  readonly arrowBatches: ArrayArchive["arrowBatches"] = arrowBatches;
  readonly oindex: ArrayArchive["oindex"] = oindex;
  readonly vindex: ArrayArchive["vindex"] = vindex;
  chunkPlaces(
    first = 0,
    end: number = this.nchunks,
    options: OpenOptions = {},
  ): Promise<readonly ChunkPlace[]> {
    return this.#once(options, (array) => array.chunkPlaces(first, end, options));
  }
  listChunks(options: ListChunksOptions = {}): AsyncIterable<ChunkInfo> {
    const chunks = this.#each(options, (array) => array.listChunks(options), { batch: LISTED_AT_ONCE });
    return withAddresses(chunks, this);
  }
  encodedChunks(
    first = 0,
    end: number = this.nchunks,
    options: EncodedChunksOptions = {},
  ): AsyncIterable<EncodedChunk> {
    return this.#each(options, (array, done) => array.encodedChunks(first + done, end, options), {
      skips: true,
      readOf: ({ read }) => read,
    });
  }

  async close(): Promise<void> {
    for (const store of new Set([this.store, this.#state.store])) await store.close?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #array(): ArrayArchive {
    const { array } = this.#state.opened;
    return this.#column === undefined ? array : array.column(this.#column);
  }

  /** Repeats a read until no writer changed the data meanwhile. A result with findings counts only if no writer can have caused them. */
  async #once<T>(
    options: OpenOptions,
    read: (array: ArrayArchive) => Promise<T>,
    hasFindings: (outcome: T) => boolean = () => false,
  ): Promise<T> {
    const state = this.#state;
    const signal = options?.signal; // the read refuses options that are no object
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { opened } = state;
      let outcome: T;
      try {
        outcome = await read(this.#array);
      } catch (error) {
        if (await state.renew(error, opened, signal)) continue;
        throw error;
      }
      if (hasFindings(outcome) && (await state.renew(FINDINGS, opened, signal))) continue;
      if (await state.confirm(opened, signal)) return outcome;
    }
    throw this.#neverStill();
  }

  /**
   * The same for reads that yield parts, each confirmed before it is yielded; a repeated read does not yield them
   * again. With `skips` the read itself starts after the parts already yielded. Up to `batch` parts, which must stay
   * valid, are confirmed together, as are those of one `readOf`.
   */
  async *#each<T>(
    options: LongOptions,
    read: (array: ArrayArchive, done: number) => AsyncIterable<T>,
    { skips = false, batch = 1, readOf }: { skips?: boolean; batch?: number; readOf?: ReadOf<T> } = {},
  ): AsyncGenerator<T> {
    const state = this.#state;
    const signal = options?.signal; // the read refuses options that are no object
    let done = 0;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { opened } = state;
      try {
        let left = skips ? 0 : done;
        let [isCurrent, confirmed]: [boolean, object | undefined] = [true, undefined];
        // The first part is confirmed alone, later ones in growing lots.
        let lot = 1;
        const waiting: T[] = [];
        for await (const part of read(this.#array, done)) {
          waiting.push(part);
          const own = readOf?.(part);
          if (own === undefined || own !== confirmed) {
            if (waiting.length < lot) continue;
            isCurrent = await state.confirm(opened, signal);
            if (!isCurrent) break;
            confirmed = own;
          }
          tries = 0;
          lot = Math.min(batch, lot * 2);
          for (const each of waiting.splice(0)) {
            signal?.throwIfAborted();
            if (left-- > 0) continue;
            done++;
            yield each;
          }
        }
        if (isCurrent && waiting.length > 0) isCurrent = await state.confirm(opened, signal);
        if (!isCurrent) continue;
        for (const each of waiting) {
          signal?.throwIfAborted();
          if (left-- > 0) continue;
          done++;
          yield each;
        }
        return;
      } catch (error) {
        if (!(await state.renew(error, opened, signal))) throw error;
      }
    }
    throw this.#neverStill();
  }

  #neverStill(): SuperchunkError {
    return new SuperchunkError(
      "STALE",
      `writers moved the rows ${MAX_TRIES} times while they were read; try again when they are done`,
      { path: this.store.describe(this.path) },
    );
  }
}

/** Represents damage that `verify` found. */
const FINDINGS = new SuperchunkError("INCOMPLETE", "verify found damage");

interface Opened {
  /** Reads this generation only. */
  readonly array: ArrayArchive;
  readonly layout: StoredLayout;
  readonly store: ReadableStore;
  /** `meta/sizes` as it was read. */
  readonly sizes: Uint8Array;
  /** The superchunks opened so far. */
  readonly files: OpenedFiles;
}

/** Opens the newest generation, or its first `rows` rows. `before` is the one that is open. */
type Reopen = (
  rows: number | undefined,
  signal: AbortSignal | undefined,
  before: StoredLayout,
) => Promise<Opened>;

/** State shared by an array and its columns: the generation that they show. */
class LiveState {
  readonly store: ReadableStore;
  readonly path: string;
  readonly #reopen: Reopen;
  #opened: Opened;
  /** The generation that the caller opened. If its files are gone, `#opened` is a newer one with the same rows. */
  #asked: StoredLayout;
  /** `meta/sizes` when it was last found to be of the same epoch. */
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

  /** Moves to the newest generation. Returns true if it is another one. */
  async refresh(signal: AbortSignal | undefined): Promise<boolean> {
    const before = this.#asked;
    const newest = await this.#reopen(undefined, signal, this.#opened.layout);
    this.#opened = newest;
    this.#asked = newest.layout;
    this.#seen = newest.sizes;
    return before.generation !== newest.layout.generation || before.id !== newest.layout.id;
  }

  /**
   * True if everything read through `opened` is valid; false if the newest generation replaced it and the read must be repeated.
   * @throws STALE if the rows have changed since they were opened
   */
  async confirm(opened: Opened, signal: AbortSignal | undefined): Promise<boolean> {
    const { files } = opened;
    const { count } = files;
    if (files.isSettled(this.store)) return opened.layout.epoch === this.#opened.layout.epoch;
    const changed = await this.#readChanged(signal);
    if (changed !== undefined) {
      const path = this.store.describe(this.#sizesKey());
      const layout = parseLayout(objectOf(parseJson(changed, path)), path);
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
   * After a failed read through `opened`: true if a newer generation replaced it and the read must be repeated, false
   * if the error is genuine.
   * @throws STALE if the rows have changed since they were opened
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

  /** Moves to the newest generation, if its rows are those that were opened. */
  async #follow(signal: AbortSignal | undefined): Promise<void> {
    const { array, layout } = this.#opened;
    let newest: Opened;
    try {
      newest = await this.#reopen(array.shape[0], signal, layout);
    } catch (error) {
      if (isSuperchunkError(error, "NOT_FOUND")) throw this.#stale("the array has been removed");
      throw error;
    }
    if (newest.layout.id !== layout.id) throw this.#stale("another array has taken its place");
    if (newest.layout.edition !== layout.edition) throw this.#stale("a writer has changed or removed rows");
    this.#opened = newest;
    this.#seen = newest.sizes;
  }

  /** The newest `meta/sizes`, if it differs from what was seen last. */
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

/** Opens the array at `path`, whose metadata have been read. */
export async function openLiveArray(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
): Promise<ArrayArchive> {
  const { verify, decoder, openPlace } = options;
  let current = store;
  const openIt = async (rows?: number, first?: FolderMetadata, signal?: AbortSignal): Promise<Opened> => {
    const read = await readGeneration(current, path, first, { verify, decoder, openPlace, signal }, rows);
    const generation = await withViewWarning(current, path, read, signal);
    const attrs = (await readAttributes(current, joinKey(path, "meta/attributes"), { signal })) ?? {};
    const { layout, sizes, store: placed } = generation;
    const files = new OpenedFiles();
    // With several stores, no single one tracks the versions of all files.
    files.hasVersions = placed === current;
    return { array: showGeneration(generation, attrs, files), layout, store: placed, sizes, files };
  };
  const reopen: Reopen = async (rows, signal, before) => {
    try {
      const newest = await openIt(rows, undefined, signal);
      const { layout } = newest;
      if (current.renew === undefined || (layout.id === before.id && layout.epoch === before.epoch))
        return newest;
    } catch (error) {
      if (current.renew === undefined || !isSuperchunkError(error, "STALE")) throw error;
    }
    // Names may mean other files than those that the store remembers.
    current = current.renew();
    return openIt(rows, undefined, signal);
  };
  const opened = await openIt(undefined, found, options.signal);
  return new LiveArray(new LiveState(store, path, opened, reopen));
}

/** Adds a warning if Zarr readers see an older generation. `verify` reports a view whose state cannot be read. */
async function withViewWarning(
  store: ReadableStore,
  path: string,
  generation: Generation,
  signal: AbortSignal | undefined,
): Promise<Generation> {
  try {
    if (!(await isViewBehind(store, path, generation, { signal }))) return generation;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return generation;
    throw error;
  }
  const { folder } = generation;
  return { ...generation, folder: { ...folder, warnings: [...folder.warnings, VIEW_IS_BEHIND] } };
}

/** One generation as an array that ignores all others. */
export function showGeneration(generation: Generation, attrs: JsonObject, files?: OpenedFiles): ArrayArchive {
  const { folder, layout, hasColumns } = generation;
  const { store, path, dtype } = folder;
  const key = (name: string): string => joinKey(path, "meta", name);
  const face: ArrayFace = {
    dialect: "blz-superchunk",
    attrs,
    metadataKeys: [key("sizes"), key("storage"), key("attributes")],
    sequence: (dataFolder, rowBytes) =>
      layoutSequence(store, {
        folder: dataFolder,
        layout,
        heldRows: folder.heldRows,
        rows: at(folder.shape, 0),
        rowBytes,
        chunklen: folder.chunklen,
        sizesPath: store.describe(key("sizes")),
        opened: files,
      }),
  };
  if (hasColumns && dtype.kind === "struct") return nestedArray(folder, dtype, face);
  return plainArray(folder, face);
}
