/**
 * The face of an array that a writer may change while it is read: each read is made anew until {@link LiveState} confirms it.
 * Must not know how an array is read. @see FORMAT.md [FG]
 */
import { SuperchunkError } from "../../errors.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { Dialect, DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { ArraySlice, Selected } from "../../values/selected.ts";
import type { Selection } from "../../values/selection.ts";
import type { LiveState } from "./live-state.ts";
import type {
  ArrayArchive,
  ChunkInfo,
  ChunkPlace,
  ChunkSummary,
  EncodedChunk,
  EncodedChunksOptions,
  ListChunksOptions,
  LongOptions,
  OpenOptions,
  ReadOptions,
  VerifyReport,
} from "./types.ts";

/** Times that a read is tried anew because a writer was faster. */
const MAX_TRIES = 1000;
/** Descriptions of chunks that are confirmed together. */
const LISTED_AT_ONCE = 512;

/** The array, or one of its columns. */
export class LiveArray implements ArrayArchive {
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
  get store(): ReadableStore {
    return this.#state.store;
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
  /** Number of the commit that the rows are read from: see {@link ArrayArchive}. */
  get generation(): number {
    return this.#state.opened.layout.generation;
  }

  column(name: string): ArrayArchive {
    this.#array.column(name); // NOT_FOUND where there is none
    return new LiveArray(this.#state, name);
  }

  /** Moves on to what the last writer committed. True where something was. */
  refresh(options: StoreOptions = {}): Promise<boolean> {
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
    return this.#verify(options);
  }

  chunks(options: LongOptions = {}): AsyncIterable<ArraySlice> {
    return this.#each(options, (array) => array.chunks(options));
  }
  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    return this.#each(options, (array) => array.streamBytes(options));
  }
  chunkPlaces(
    first = 0,
    end: number = this.nchunks,
    options: OpenOptions = {},
  ): Promise<readonly ChunkPlace[]> {
    return this.#once(options, (array) => array.chunkPlaces(first, end, options));
  }
  listChunks(options: ListChunksOptions = {}): AsyncIterable<ChunkInfo> {
    return this.#each(options, (array) => array.listChunks(options), { batch: LISTED_AT_ONCE });
  }
  encodedChunks(
    first = 0,
    end: number = this.nchunks,
    options: EncodedChunksOptions = {},
  ): AsyncIterable<EncodedChunk> {
    return this.#each(options, (array, done) => array.encodedChunks(first + done, end, options), {
      skips: true,
    });
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }

  get #array(): ArrayArchive {
    const { array } = this.#state.opened;
    return this.#column === undefined ? array : array.column(this.#column);
  }

  /** Runs a read until what it read was not changed by a writer meanwhile. */
  async #once<T>(options: OpenOptions, read: (array: ArrayArchive) => Promise<T>): Promise<T> {
    const state = this.#state;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { opened } = state;
      let outcome: T;
      try {
        outcome = await read(this.#array);
      } catch (error) {
        if (await state.renew(error, opened, options.signal)) continue;
        throw error;
      }
      if (await state.confirm(opened, options.signal)) return outcome;
    }
    throw this.#neverStill();
  }

  /**
   * The same for reads that hand out parts: they are confirmed before they are; what was handed out is not repeated. With
   * `skips` the read begins behind what is done; up to `batch` parts, which must stay valid, are confirmed together.
   */
  async *#each<T>(
    options: LongOptions,
    read: (array: ArrayArchive, done: number) => AsyncIterable<T>,
    { skips = false, batch = 1 }: { readonly skips?: boolean; readonly batch?: number } = {},
  ): AsyncGenerator<T> {
    const state = this.#state;
    let done = 0;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { opened } = state;
      try {
        let left = skips ? 0 : done;
        let isCurrent = true;
        // The first parts come at once, later ones in larger lots.
        let lot = 1;
        let waiting: T[] = [];
        for await (const part of read(this.#array, done)) {
          waiting.push(part);
          if (waiting.length < lot) continue;
          isCurrent = await state.confirm(opened, options.signal);
          if (!isCurrent) break;
          tries = 0;
          const parts = waiting;
          waiting = [];
          lot = Math.min(batch, lot * 2);
          for (const each of parts) {
            if (left-- > 0) continue;
            done++;
            yield each;
          }
        }
        if (isCurrent && waiting.length > 0) isCurrent = await state.confirm(opened, options.signal);
        if (!isCurrent) continue;
        for (const each of waiting) {
          if (left-- > 0) continue;
          done++;
          yield each;
        }
        return;
      } catch (error) {
        if (!(await state.renew(error, opened, options.signal))) throw error;
      }
    }
    throw this.#neverStill();
  }

  /** What is found counts only where no writer can have been the cause. */
  async #verify(options: LongOptions): Promise<VerifyReport> {
    const state = this.#state;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { opened } = state;
      const report = await this.#array.verify(options);
      if (!report.ok && (await state.renew(FINDINGS, opened, options.signal))) continue;
      if (await state.confirm(opened, options.signal)) return report;
    }
    throw this.#neverStill();
  }

  #neverStill(): SuperchunkError {
    return new SuperchunkError(
      "STALE",
      `writers changed the places of the rows ${MAX_TRIES} times while they were read; try again when they are done`,
      { path: this.store.describe(this.path) },
    );
  }
}

/** Stands for damage that `verify` found. */
const FINDINGS = new SuperchunkError("INCOMPLETE", "verify found damage");
