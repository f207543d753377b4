/**
 * An array to which several writers append concurrently, on one machine or on many.
 *
 * Each writer reserves numbers in a commit, puts its superchunks under them, and commits by replacing `meta/sizes` if that is
 * still what it read. If another writer was faster, it reads again and retries: whole chunks already put stay as they are. If
 * the answer to a commit was lost, the number of commits beside the reservation says whether it arrived. Must not know where
 * stores are. @see FORMAT.md [FG-16]
 */

import { at, elementsOf, joinBytes } from "../../bytes/arrays.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { Run } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { choosePlace, type OpenPlace } from "../../places/placed-store.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { withHeads } from "../../store/wrappers/heads.ts";
import type { AppendOptions, WriterLock } from "../editable.ts";
import { type ColumnLayout, layOutColumns } from "../layout/columns.ts";
import {
  appendRun,
  dropPatched,
  placesOf,
  type RunPlace,
  replacePlaces,
  truncateRuns,
} from "../layout/runs.ts";
import type { ArraySettings } from "../layout/settings.ts";
import { QueuedEditor } from "../queued-editor.ts";
import { type BegunChunk, ChunkMaker } from "../rows/chunk-maker.ts";
import { ChunkSource } from "../rows/chunk-source.ts";
import { RowBuffer } from "../rows/row-buffer.ts";
import { readRows } from "../rows/rows.ts";
import { ArrayRoot } from "./root.ts";
import { type Base, type Change, CLOCK, type Clock, SharedCommits } from "./shared-commits.ts";
import { formOf, type StoredChunk, superchunkPieces, totalLength } from "./superchunk-file.ts";

/** How an array is shared by writers. */
export interface SharedOptions {
  /** Seconds after its last commit after which a writer loses its reserved numbers (default 600). */
  readonly lease?: number | undefined;
  /** Called when the array is closed. */
  readonly release?: (() => Promise<void>) | undefined;
}

/** Further options of {@link openShared}. */
export interface SharedContext extends SharedOptions {
  readonly encoder?: ChunkEncoder | undefined;
  /** Held for each commit, for stores whose put does not compare and replace atomically. */
  readonly lock?: (() => Promise<WriterLock>) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Opens the places that hold superchunks outside the array's folder. */
  readonly openPlace?: OpenPlace | undefined;
  /** Time and randomness; default those of the engine. */
  readonly clock?: Clock | undefined;
}

/** Seconds. */
const LEASE = 600;
/** Most bytes of rows that are cut again if the array ends in a short chunk; of more rows, some first fill that chunk. */
const RECUT_BYTES = 1 << 20;
/** Bytes of a file that are put as one piece. */
const SMALL_BYTES = 1 << 20;
/**
 * Small superchunks at the end that are joined. Each writer waits for this many more than the writer before it, which may be gone.
 */
const JOINED = 16;
/** Rows committed together. They stay unchanged until the outcome is known. */
interface CommitBatch {
  readonly items: Uint8Array;
  /** The writer's number of commits once it is committed. */
  readonly number: number;
  /** True if one of its commits was not answered. */
  isUncertain: boolean;
  /** Its superchunks, cut from its first row on, for an array that ends in a whole chunk. */
  published?: Published;
}

/** Superchunks that are in the store. */
interface Published {
  readonly runs: readonly Run[];
  readonly bytes: number;
}

/** Verbs that only other editors have. */
const OTHER_VERBS = [
  "set",
  "resize",
  "deleteRows",
  "setAttributes",
  "addColumn",
  "renameColumn",
  "deleteColumn",
  "places",
  "compact",
];
const APPENDS_ONLY = "writers that share an array only append to it; open it without sharing";

export class SharedArray extends QueuedEditor {
  readonly kind = "array";
  readonly format = "blz";
  readonly attrs: JsonObject;
  protected readonly reasons: Readonly<Record<string, string>> = {
    ...Object.fromEntries(OTHER_VERBS.map((verb) => [verb, APPENDS_ONLY])),
    get: "others append at the same time; open the array to read it",
    getBytes: "others append at the same time; open the array to read it",
  };
  readonly #root: ArrayRoot;
  readonly #settings: ArraySettings;
  readonly #columns: readonly ColumnLayout[];
  readonly #rowBytes: number;
  readonly #chunks: ChunkMaker;
  readonly #clock: Clock;
  readonly #shared: SharedCommits;
  #source: { readonly base: Base; readonly store: ReadableStore; readonly chunks: ChunkSource } | undefined;
  /** Rows not in a batch yet, in pieces. */
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #batch: CommitBatch | undefined;
  #commits = 0;
  #bytesWritten = 0;

  constructor(
    place: { readonly store: WritableStore; readonly path: string },
    state: { readonly settings: ArraySettings; readonly base: Base; readonly attrs: JsonObject },
    context: SharedContext,
  ) {
    super(place, {
      release: async () => {
        await this.#root.placed?.closePlaces();
        await context.release?.();
      },
    });
    this.attrs = state.attrs;
    this.#settings = state.settings;
    this.#root = new ArrayRoot(place.store, place.path, undefined);
    this.#columns = layOutColumns(place.path, state.settings);
    this.#rowBytes = elementsOf(state.settings.rowShape) * state.settings.dtype.itemSize;
    this.#chunks = new ChunkMaker(context.encoder);
    this.#clock = context.clock ?? CLOCK;
    this.#shared = new SharedCommits(this.#root, state.base, {
      columns: this.#columns,
      rowShape: state.settings.rowShape,
      rowBytes: this.#rowBytes,
      isMoved: state.settings.reserve !== undefined,
      lock: context.lock,
      clock: this.#clock,
      leaseMs: (context.lease ?? LEASE) * 1000,
    });
  }

  override get dtype(): DType {
    return this.#settings.dtype;
  }
  /** Rows of the newest known commit, and those waiting here. */
  override get shape(): readonly number[] {
    const waiting = this.#waitingBytes + (this.#batch?.items.length ?? 0);
    return [this.#shared.base.rows + waiting / this.#rowBytes, ...this.#settings.rowShape];
  }
  override get chunkLength(): number {
    return this.#settings.chunklen;
  }
  override get superchunkLength(): number {
    return this.#settings.superchunklen;
  }
  override get columnNames(): readonly string[] {
    return this.#columns.flatMap(({ name }) => (name === undefined ? [] : [name]));
  }
  override get bytesWritten(): number {
    return this.#bytesWritten;
  }
  override get warnings(): readonly string[] {
    return [...this.notes, ...this.#root.warnings];
  }

  /**
   * Rows are committed by full superchunks, the rest by `flush`; `publish` commits them earlier. Rows of one `flush` that fit into
   * 1 MiB stay contiguous; between more rows, and between two flushes, there may be rows of other writers.
   * @throws BAD_ARGUMENT for values that do not fit; CONFLICT if others were faster each time, or another program changed the
   * array; NO_SPACE, IO: `flush` then retries what was not committed
   */
  protected override appendRows(source: unknown, options: AppendOptions): Promise<void> {
    const { publish, signal } = options;
    return this.line.run(async () => {
      let shownAt = this.#clock.now();
      for await (const items of readRows(source, this.#settings)) {
        signal?.throwIfAborted();
        this.#waiting.push(items.slice());
        this.#waitingBytes += items.length;
        while (this.#waitingBytes >= this.#fullBytes) await this.#commitNext();
        const isDue =
          publish === "flush" ||
          (typeof publish === "object" && this.#clock.now() - shownAt >= publish.everySeconds * 1000);
        if (!isDue) continue;
        await this.commit();
        shownAt = this.#clock.now();
      }
    });
  }

  /** Commits waiting rows, and gives back reserved numbers. */
  override async close(): Promise<void> {
    if (this.line.isClosed) return;
    await this.line.run(() => this.commit());
    await this.abandon();
  }

  /** Discards waiting rows, and gives back reserved numbers. */
  override async abandon(): Promise<void> {
    if (this.line.isClosed) return;
    await this.line.run(() => this.#leave()).catch((error: unknown) => this.#note(error));
    await super.abandon();
  }

  protected async commit(): Promise<void> {
    while (this.#batch !== undefined || this.#waitingBytes > 0) await this.#commitNext();
  }

  /** Bytes of the rows of a full superchunk. */
  get #fullBytes(): number {
    return this.#settings.chunklen * this.#settings.superchunklen * this.#rowBytes;
  }

  /** Commits the next rows, at most a full superchunk of them. */
  async #commitNext(): Promise<void> {
    this.#batch ??= this.#takeBatch(this.#fullBytes);
    await this.#land();
    await this.#join().catch((error: unknown) => this.#note(error));
  }

  #takeBatch(most: number): CommitBatch {
    const all = this.#waiting.length === 1 ? this.#waiting[0] : joinBytes(this.#waiting);
    const items = all?.subarray(0, most) ?? new Uint8Array(0);
    this.#setWaiting(all?.subarray(items.length) ?? new Uint8Array(0));
    return { items, number: this.#commits + 1, isUncertain: false };
  }

  #setWaiting(items: Uint8Array): void {
    this.#waiting = items.length === 0 ? [] : [items];
    this.#waitingBytes = items.length;
  }

  /** Commits the batch; it is durable when resolved, and committed once. */
  async #land(): Promise<void> {
    const shared = this.#shared;
    await this.#chunks.prepare(this.#settings);
    for (let tries = 0; ; tries++) {
      await shared.wait(tries);
      await shared.refresh();
      const batch = this.#batch as CommitBatch;
      const { reservation: own } = shared;
      if (own === undefined && batch.isUncertain)
        throw new SuperchunkError(
          "STALE",
          "it is not known whether the last rows were committed: the answer was lost, and the writer was silent for more than a day. Look at the end of the array before they are appended again",
          { path: this.store.describe(this.path), field: "layout.writers" },
        );
      if ((own?.commits ?? 0) >= batch.number) break; // the answer was lost, not the commit
      if (shared.base.layout.journal !== undefined) continue; // a writer that changes values in place is at work
      if (shared.free < Math.ceil(batch.items.length / this.#fullBytes) + 2) {
        delete batch.published;
        await shared.reserve(this.#commits);
        continue;
      }
      const change = await this.#plan(batch);
      if (change === undefined) continue;
      try {
        if (await shared.commit(change)) break;
      } catch (error) {
        (this.#batch as CommitBatch).isUncertain = true;
        throw error;
      }
    }
    this.#commits++;
    this.#batch = undefined;
  }

  /** What a batch changes; undefined if the array must be read again first. */
  async #plan(batch: CommitBatch): Promise<Change | undefined> {
    const { chunklen } = this.#settings;
    const { layout, rows: before, version } = this.#shared.base;
    const commits = batch.number;
    const short = before % chunklen;
    if (short === 0) {
      batch.published ??= await this.#publish(batch.items, new RowBuffer(this.#columns, this.#settings));
      const { runs, bytes } = batch.published;
      return { runs: joinRuns(layout.runs, runs), bytes, rows: before + this.#rowsOf(batch.items), commits };
    }
    delete batch.published;
    if (batch.items.length > RECUT_BYTES && !batch.isUncertain) {
      const fill = (chunklen - short) * this.#rowBytes;
      if (fill < batch.items.length) {
        this.#setWaiting(joinBytes([batch.items.subarray(fill), ...this.#waiting]));
        this.#batch = { items: batch.items.subarray(0, fill), number: batch.number, isUncertain: false };
      }
    }
    const { items } = this.#batch as CommitBatch;
    const whole = Math.floor(before / chunklen);
    const buffer = new RowBuffer(this.#columns, this.#settings);
    try {
      buffer.load(await this.#stored().decoded(whole), short);
    } catch (error) {
      // Another writer has rewritten those rows meanwhile, and removed the superchunk.
      await this.#shared.refresh();
      if (this.#shared.base.version !== version) return undefined;
      throw error;
    }
    const { runs, bytes } = await this.#publish(items, buffer);
    return {
      runs: joinRuns(truncateRuns(layout.runs, whole), runs),
      patches: dropPatched(layout.patches, (chunk) => chunk >= whole),
      rows: before + this.#rowsOf(items),
      bytes,
      commits,
    };
  }

  #rowsOf(items: Uint8Array): number {
    return items.length / this.#rowBytes;
  }

  /** The chunks of the newest known commit. */
  #stored(): ChunkSource {
    const { base } = this.#shared;
    if (this.#source?.base === base) return this.#source.chunks;
    const { layout, rows } = base;
    // Within an epoch, names mean the same files. A small file is read whole in one request.
    const isKnown = this.#source?.base.layout.epoch === layout.epoch;
    const store = isKnown ? this.#source?.store : undefined;
    const near = store ?? (this.store.getHead === undefined ? this.store : withHeads(this.store));
    const facts = { columns: this.#columns, rows, chunklen: this.#settings.chunklen };
    this.#source = { base, store: near, chunks: new ChunkSource(near, this.path, layout, facts) };
    return this.#source.chunks;
  }

  /** Puts buffered rows and the items after them as superchunks; durable when resolved. */
  async #publish(items: Uint8Array, buffer: RowBuffer): Promise<Published> {
    const { superchunklen } = this.#settings;
    let runs: readonly Run[] = [];
    let bytes = 0;
    let columns: BegunChunk[][] = this.#columns.map(() => []);
    let count = 0;
    for (let taken = 0; taken < items.length; ) {
      taken += buffer.take(taken === 0 ? items : items.subarray(taken)) * this.#rowBytes;
      if (buffer.room > 0 && taken < items.length) continue;
      const left = (superchunklen - count) * columns.length;
      for (const [i, chunks] of columns.entries())
        chunks.push(await this.#chunks.begin(buffer.column(i), at(this.#columns, i).itemSize, left));
      buffer.clear(!this.#chunks.isHere);
      if (++count < superchunklen && taken < items.length) continue;
      const made = await Promise.all(
        columns.map((chunks) => Promise.all(chunks.map((chunk) => ("bytes" in chunk ? chunk : chunk[0])))),
      );
      const put = await this.#putSuperchunk(made);
      runs = appendRun(runs, put.number, count);
      bytes += put.bytes;
      columns = this.#columns.map(() => []);
      count = 0;
    }
    return { runs, bytes };
  }

  /** Puts a superchunk under the next number, in all columns. */
  async #putSuperchunk(
    columns: readonly (readonly StoredChunk[])[],
  ): Promise<{ number: number; bytes: number }> {
    const { superchunklen } = this.#settings;
    const number = this.#shared.takeNumber();
    const { placed } = this.#root;
    // Its rows are not known before the commit, so the places alternate by number.
    if (placed !== undefined)
      placed.table.set(number, await choosePlace(placed, this.#settings, number * superchunklen, undefined));
    let bytes = 0;
    for (const [i, column] of this.#columns.entries()) {
      const pieces = superchunkPieces(columns[i] ?? [], formOf(column, this.#settings));
      // The number is reserved for this writer, so nothing else can be there.
      const key = `${column.folder}/${superchunkName(number)}`;
      const length = totalLength(pieces);
      const source = length <= SMALL_BYTES ? joinBytes(pieces) : pieces;
      await this.store.put(key, source, { durable: true });
      bytes += length;
    }
    this.#chunks.giveBack(this.#chunks.takeBlocks());
    this.#shared.noteBytes(number, bytes);
    this.#bytesWritten += bytes;
    return { number, bytes };
  }

  /**
   * Joins small superchunks at the end if there are many, so that their list stays short. If other writers are faster, it is
   * left for later.
   */
  async #join(): Promise<void> {
    const shared = this.#shared;
    const { base } = shared;
    const { chunklen, superchunklen } = this.#settings;
    const small = smallPlaces(base.layout.runs, base.rows % chunklen > 0, superchunklen);
    const [last, first] = [small[0], small.at(-1)];
    if (first === undefined || last === undefined || small.length < JOINED * (1 + shared.turn)) return;
    if (shared.free === 0) return;
    const end = last.first + last.chunks;
    const columns: StoredChunk[][] = [];
    try {
      for (let i = 0; i < this.#columns.length; i++)
        columns.push(await this.#chunks.copied(this.#stored().fetched(i, first.first, end)));
    } catch (error) {
      // Another writer has joined them, and removed the old ones.
      await shared.refresh();
      if (shared.base.version !== base.version) return;
      throw error;
    }
    const { number, bytes } = await this.#putSuperchunk(columns);
    for (let tries = 0; tries < JOINED; tries++) {
      await shared.wait(tries);
      if (tries > 0) await shared.refresh();
      const { layout, rows } = shared.base;
      const runs = replacePlaces(layout.runs, small, number);
      if (runs === undefined || shared.reservation?.count === 0) return;
      const patches = dropPatched(layout.patches, (chunk) => chunk >= first.first && chunk < end);
      if (await shared.commit({ runs, patches, rows, bytes, commits: this.#commits })) return;
    }
  }

  /** Gives back reserved numbers, unless the outcome of the last commit is unknown. */
  async #leave(): Promise<void> {
    const shared = this.#shared;
    for (let tries = 0; this.#batch?.isUncertain !== true; tries++) {
      await shared.wait(tries);
      await shared.refresh();
      if (shared.reservation === undefined || (await shared.leave())) break;
    }
    await this.#root.settled();
  }

  #note(error: unknown): void {
    this.#root.warnings.push(error instanceof Error ? error.message : String(error));
  }
}

/** Concatenates two lists of runs. */
function joinRuns(first: readonly Run[], second: readonly Run[]): readonly Run[] {
  let runs = first;
  for (const { number, chunks } of placesOf(second)) runs = appendRun(runs, number, chunks);
  return runs;
}

/**
 * The small superchunks at the end that are worth joining, the last one first: {@link JOINED} of them, then more while they are
 * not larger than all after them together. A superchunk with a short last chunk is left out, because it will soon be rewritten.
 */
function smallPlaces(runs: readonly Run[], isShort: boolean, superchunklen: number): readonly RunPlace[] {
  const places = [...placesOf(runs)].reverse().slice(isShort ? 1 : 0);
  const small: RunPlace[] = [];
  let sum = 0;
  for (const place of places) {
    if (place.chunks >= superchunklen || sum + place.chunks > superchunklen) break;
    if (small.length >= JOINED && place.chunks > sum) break;
    small.push(place);
    sum += place.chunks;
  }
  return small;
}
