/**
 * The state of an array that is being written: what is committed, what is planned, and the rows waiting to be written.
 *
 * Plan, publish, commit, clean up: superchunks are put under new names and never changed, and one replacement of `meta/sizes`
 * makes them part of the array. `runs` counts whole chunks only. A short last chunk is written with each commit from the
 * buffered rows, and does not count afterwards. Knows nothing of values. @see FORMAT.md [FG]
 */

import { arrayJournalKey, requireInPlace } from "../../archive/places/journal.ts";
import { at, elementsOf, pushAll } from "../../bytes/arrays.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { countChunks, type Patch, type RowSpan, type Run, type StoredLayout } from "../../format/layout.ts";
import type { JsonObject } from "../../format/types.ts";
import type { WritableStore } from "../../store/types.ts";
import { InPlaceChanges, makeChanges } from "../in-place/in-place-changes.ts";
import { type ColumnLayout, layOutColumns } from "../layout/columns.ts";
import { appendRun, dropPatched, fullRuns, mergeTail, replaceNumber, truncateRuns } from "../layout/runs.ts";
import type { ArraySettings } from "../layout/settings.ts";
import { type BegunChunk, ChunkMaker } from "../rows/chunk-maker.ts";
import { type ChunkSource, PlannedChunks } from "../rows/chunk-source.ts";
import { RowBuffer } from "../rows/row-buffer.ts";
import { type ArrayMirror, Publisher, type Segment, SuperchunkFiles } from "./publisher.ts";
import { type ArrayRoot, CommitLine, type Committed } from "./root.ts";
import { ownCopy, type StoredChunk } from "./superchunk-file.ts";

/** Makes mirrors of arrays. */
export interface MirrorMaker {
  /**
   * Checks whether an array can have a mirror; writes nothing.
   * @throws UNSUPPORTED for rows that the other format cannot hold; CONFLICT if something is in the way
   */
  check(
    place: { readonly store: WritableStore; readonly path: string },
    settings: ArraySettings,
  ): Promise<void>;
  /** Opens the mirror of an array, which may be new. */
  open(writer: ArrayWriter, attrs: JsonObject): Promise<ArrayMirror>;
  /** Checks whether an array with a mirror can get other settings; writes nothing. Throws like {@link ArrayMirror.admit}. */
  checkChange(
    place: { readonly store: WritableStore; readonly path: string },
    change: { readonly before: ArraySettings; readonly wanted: ArraySettings; readonly isFree: boolean },
  ): Promise<void>;
  /** Removes what mirrors left of an array at this place, which is removed as well. */
  clear(store: WritableStore, path: string): Promise<void>;
}

export interface WriterOptions {
  readonly encoder?: ChunkEncoder | undefined;
  readonly modify?: "patch" | "in-place" | undefined;
}

const NONE: ReadonlyMap<number, number> = new Map();

/** How the end of the array will be written. */
interface TailPlan {
  /** Runs that stay as they are. */
  readonly before: readonly Run[];
  /** The superchunk after them, and its whole and short chunks. */
  readonly number: number | undefined;
  readonly whole: number;
  readonly short: number;
  readonly patches: readonly Patch[];
}

export class ArrayWriter {
  readonly root: ArrayRoot;
  readonly files: SuperchunkFiles;
  /** Chunks that the next commit changes in place; undefined if chunks are never changed in place. */
  readonly changes: InPlaceChanges | undefined;
  /** Makes the chunks of the next superchunk or patch. */
  readonly chunks: ChunkMaker;
  readonly #commits: CommitLine;
  readonly #publisher: Publisher;
  settings: ArraySettings;
  columns: readonly ColumnLayout[];
  /** Planned runs of whole chunks. */
  runs: readonly Run[] = [];
  patches: readonly Patch[] = [];
  edition = 0;
  /** Planned: rows that a repair filled and that have not been set since. [FG-15] */
  filled: readonly RowSpan[] = [];
  buffer: RowBuffer;
  /** True if something is planned and not committed. */
  isDirty = false;
  /** Encoded whole chunks after the planned runs, for each column; some are still being made. */
  #pending: (StoredChunk | Promise<StoredChunk>)[][] = [];
  /** True once the rows of a short last chunk are in the buffer. */
  #isTailLoaded = false;
  /** The runs and the buffer as of the last commit. */
  #kept: { readonly runs: readonly Run[]; readonly revision: number } | undefined;
  readonly #planned = new PlannedChunks();

  constructor(root: ArrayRoot, settings: ArraySettings, committed: Committed, options: WriterOptions = {}) {
    this.root = root;
    this.files = new SuperchunkFiles(root);
    if (options.modify === "in-place")
      this.changes = new InPlaceChanges(requireInPlace(root.store, root.path), root.path);
    this.chunks = new ChunkMaker(options.encoder);
    this.#publisher = new Publisher(
      (segment) => this.#publishNoted(segment),
      (blocks) => this.chunks.giveBack(blocks),
    );
    this.settings = settings;
    this.#commits = new CommitLine(root, committed);
    this.columns = layOutColumns(this.root.path, this.settings);
    this.buffer = new RowBuffer(this.columns, this.settings);
    this.#reset();
  }

  /** The last commit. */
  get committed(): Committed {
    return this.#commits.last;
  }
  set committed(committed: Committed) {
    this.#commits.last = committed;
  }

  get rowBytes(): number {
    const { dtype, rowShape } = this.settings;
    return elementsOf(rowShape) * dtype.itemSize;
  }

  /** Number of rows, including those not committed. */
  get rows(): number {
    if (!this.#isTailLoaded) return this.committed.rows;
    return this.wholeChunks * this.settings.chunklen + this.buffer.rows;
  }

  /** Number of whole chunks, including those not committed. */
  get wholeChunks(): number {
    return countChunks(this.runs) + this.#pendingChunks;
  }

  get #pendingChunks(): number {
    return this.#pending[0]?.length ?? 0;
  }

  /** About how many chunks, in all columns, the next superchunk needs before it is published. */
  get #left(): number {
    return (this.settings.superchunklen - this.#pendingChunks) * this.columns.length;
  }

  /** Reads the chunks of the last commit with planned patches applied. */
  source(): ChunkSource {
    return this.#planned.of(this);
  }

  /** Takes over settings that chunks do not depend on, and the store with the places that they name. */
  relocate(settings: ArraySettings, store: WritableStore): void {
    this.settings = settings;
    this.root.store = store;
    this.#planned.forget();
  }

  /** Discards the plan and returns to the last commit. */
  async rollBack(settings: ArraySettings = this.settings): Promise<void> {
    await this.#publisher.clear();
    if (settings !== this.settings) this.restart(settings);
    this.#reset();
  }

  #reset(): void {
    const { layout, rows } = this.committed;
    const whole = this.rowBytes === 0 ? 0 : Math.floor(rows / this.settings.chunklen);
    this.runs = truncateRuns(layout.runs, whole);
    this.patches = layout.patches;
    this.edition = layout.edition;
    this.filled = layout.filled ?? [];
    this.files.noteLayout(layout);
    this.changes?.clear();
    this.buffer.clear();
    this.#pending = this.columns.map(() => []);
    this.chunks.rest();
    this.#isTailLoaded = false;
    this.isDirty = false;
  }

  /** Takes over other settings for the next commit; all chunks must be rewritten. */
  restart(settings: ArraySettings): void {
    this.settings = settings;
    this.#planned.forget();
    this.columns = layOutColumns(this.root.path, this.settings);
    this.buffer = new RowBuffer(this.columns, this.settings);
    this.#pending = this.columns.map(() => []);
    this.runs = [];
    this.patches = [];
    this.#kept = undefined;
    this.#isTailLoaded = true;
    this.isDirty = true;
  }

  /** Prepares the codec, the digest and the short last chunk. */
  async prepare(): Promise<void> {
    await this.chunks.prepare(this.settings);
    if (this.#isTailLoaded) return;
    const { rows } = this.committed;
    const { chunklen } = this.settings;
    const short = this.rowBytes === 0 ? rows : rows % chunklen;
    if (short > 0 && this.rowBytes > 0)
      this.buffer.load(await this.source().decoded(Math.floor(rows / chunklen)), short);
    else this.buffer.rows = this.rowBytes === 0 ? rows : 0;
    this.#isTailLoaded = true;
    this.#noteTail();
  }

  /** Buffers whole rows as far as they fit without any other work; returns the number of bytes taken. */
  takeNow(items: Uint8Array): number {
    if (!this.#isTailLoaded || this.rowBytes === 0 || items.length >= this.buffer.room * this.rowBytes)
      return 0;
    this.isDirty = true;
    return this.buffer.take(items) * this.rowBytes;
  }

  /**
   * Appends whole rows; {@link prepare} must have been awaited. If a superchunk cannot be published, all rows are still taken
   * before the error is thrown.
   */
  async append(items: Uint8Array): Promise<void> {
    if (items.length === 0) return;
    this.isDirty = true;
    const { chunklen } = this.settings;
    const chunkBytes = chunklen * this.rowBytes;
    const isPlain = this.columns.length === 1;
    for (let at = 0; at < items.length; ) {
      await this.#publisher.giveWay();
      if (isPlain && this.buffer.rows === 0 && items.length - at >= chunkBytes) {
        // A whole chunk is encoded without a copy.
        await this.#addChunk([await this.#begin(0, items.subarray(at, at + chunkBytes))]);
        at += chunkBytes;
        continue;
      }
      at += this.buffer.take(at === 0 ? items : items.subarray(at)) * this.rowBytes;
      if (this.buffer.room === 0) await this.#encodeBuffer();
    }
    // After this, the caller may reuse the items.
    await this.chunks.made();
    this.#publisher.throwDeferred();
  }

  /**
   * Replaces the rows of the short last chunk, given for each column. If that chunk is committed and chunks are changed in
   * place, it is changed there; else the rows wait for the next superchunk.
   */
  async replaceTail(parts: readonly Uint8Array[]): Promise<void> {
    const isStored = this.#isKept;
    this.buffer.load(parts, this.buffer.rows);
    if (!isStored || this.changes === undefined) return;
    const chunks: StoredChunk[] = [];
    for (const [i, part] of parts.entries()) chunks.push(await this.next(i, part));
    if (await this.changes.take(this.wholeChunks, chunks, this)) this.#noteTail();
  }

  /** Counts rows of an array whose rows have no bytes. */
  appendNothing(rows: number): void {
    this.buffer.rows += rows;
    this.isDirty = true;
  }

  /** Adds encoded whole chunks, the same number for each column. The buffer must be empty. */
  async addChunks(columns: readonly (readonly StoredChunk[])[]): Promise<void> {
    this.isDirty = true;
    for (const [i, chunks] of columns.entries()) pushAll(at(this.#pending, i), chunks);
    await this.#publisher.attempt(() => this.#closeFull());
    this.#publisher.throwDeferred();
  }

  async #addChunk(chunks: readonly BegunChunk[]): Promise<void> {
    this.isDirty = true;
    for (const [i, chunk] of chunks.entries())
      this.#pending[i]?.push(...("bytes" in chunk ? [chunk] : chunk));
    await this.#publisher.attempt(() => this.#closeFull());
  }

  /** Publishes encoded whole chunks, at most a superchunk of them, as a patch that replaces the array's chunks `chunks`. */
  async publishPatch(chunks: readonly number[], columns: readonly (readonly StoredChunk[])[]): Promise<void> {
    const number = this.files.takeLoose();
    const replaced = new Set(chunks);
    this.patches = [...dropPatched(this.patches, (chunk) => replaced.has(chunk)), { number, chunks }];
    this.isDirty = true;
    const [first = 0] = chunks;
    await this.#publisher.add({ number, first, columns }, this.chunks.takeBlocks());
    this.#publisher.throwDeferred();
  }

  /** Commits the plan and `change` of the layout. Durable when resolved. If it fails, it can be tried again. */
  async commit(change: Partial<Pick<StoredLayout, "epoch" | "storage">> = {}): Promise<void> {
    await this.finishChanges();
    await this.prepare();
    const { before, number, whole, short, patches } = await this.#publishAll();
    const runs = number === undefined ? before : appendRun(before, number, whole + short);
    const newLayout: StoredLayout = {
      ...this.committed.layout,
      isMoved: this.#movesChunks(),
      edition: this.edition,
      revision: this.settings.revision,
      next: this.files.next,
      plain: this.files.plain,
      runs,
      patches,
      filled: this.filled,
      ...change,
    };
    const journal = await this.changes?.publish(newLayout);
    // With a journal, names come to mean other bytes, so open readers must look again.
    const renewed = journal === undefined ? {} : { journal, epoch: newLayout.epoch + 1 };
    await this.#commitLayout({ ...newLayout, ...renewed });
    if (journal !== undefined) this.files.sessionBytes += this.changes?.bytes ?? 0;
    this.changes?.noteCommit();
    this.runs = truncateRuns(runs, countChunks(before) + whole);
    this.patches = patches;
    this.#pending = this.columns.map(() => []);
    this.chunks.rest();
    this.isDirty = false;
    this.#noteTail();
    await this.files.mirror?.afterCommit(this.committed);
  }

  /** True if the planned end of the array is as committed. */
  get #isKept(): boolean {
    const { runs, revision } = this.#kept ?? {};
    return this.#pendingChunks === 0 && runs === this.runs && revision === this.buffer.revision;
  }

  #noteTail(): void {
    this.#kept = { runs: this.runs, revision: this.buffer.revision };
  }

  /**
   * Commits the same rows under another layout. Nothing else may be planned. With `storageIsPut`, the layout need not contain
   * the storage.
   */
  async recommit(
    change: Partial<Omit<StoredLayout, "id" | "generation">>,
    storageIsPut = false,
  ): Promise<void> {
    await this.finishChanges();
    const { storage, ...kept } = this.committed.layout;
    const layout: StoredLayout = {
      ...kept,
      ...(storage === undefined || storageIsPut ? {} : { storage }),
      next: this.files.next,
      ...change,
    };
    const before = this.committed;
    await this.#commitLayout(layout);
    this.files.mirror?.noteMoved(before, this.committed);
    const whole = this.rowBytes === 0 ? 0 : Math.floor(this.committed.rows / this.settings.chunklen);
    this.runs = truncateRuns(layout.runs, whole);
    this.patches = layout.patches;
    this.edition = this.committed.layout.edition;
    this.files.plain = layout.plain;
  }

  /** Makes the changes in place that the last commit named. Durable when resolved; if it fails, it can be tried again. */
  async finishChanges(): Promise<void> {
    const { journal, ...layout } = this.committed.layout;
    if (journal === undefined) return;
    const { root, rowBytes, settings } = this;
    const { rows, cbytes } = this.committed;
    await makeChanges(root, this.committed.layout, this.columns, this.changes);
    // What waits for the next commit stays as it is.
    await this.#commits.put(layout, { rows, cbytes, rowBytes, rowShape: settings.rowShape });
    this.changes?.noteMade();
    await root.store.delete(arrayJournalKey(root.path, journal));
  }

  /** True if the next commit leaves a superchunk of version 4. */
  #movesChunks(): boolean {
    const isReserved = this.settings.reserve !== undefined && this.files.keepsReserve;
    return this.committed.layout.isMoved === true || this.changes?.moves === true || isReserved;
  }

  async #commitLayout(layout: StoredLayout): Promise<void> {
    const { rows, rowBytes, settings } = this;
    const before = this.committed;
    const grown = layout.journal === undefined ? NONE : (this.changes?.growth(layout) ?? NONE);
    const { gain, superfluous } = await this.files.weigh(before.layout, layout, this.columns, grown);
    const cbytes = Math.max(0, before.cbytes + gain);
    const facts = { rows, cbytes, rowBytes, rowShape: settings.rowShape };
    await this.#commits.put(layout, facts, (next) => this.files.mirror?.beforeCommit(next));
    this.edition = Math.max(this.edition, this.committed.layout.edition);
    this.files.noteCommit();
    this.files.remove(superfluous, this.columns);
  }

  /** Publishes all rows without a commit; the last superchunk also gets the number of its position. */
  async stage(): Promise<void> {
    await this.#publishAll((place) => this.files.takeName(place));
  }

  /** Writes the waiting chunks and a short last one as superchunks; merges small ones before them when there are enough. */
  async #publishAll(take = (_place: number) => this.files.takeLoose()): Promise<TailPlan> {
    await this.#closeFull();
    await this.drain();
    this.#publisher.throwDeferred();
    const short = this.rowBytes > 0 && this.buffer.rows > 0 ? 1 : 0;
    const pending = this.#pendingChunks;
    // An unchanged short last chunk stays where it is.
    if (this.#isKept) {
      const { runs } = this.committed.layout;
      return { before: runs, number: undefined, whole: -short, short, patches: this.patches };
    }
    if (pending + short === 0)
      return { before: this.runs, number: undefined, whole: 0, short, patches: this.patches };
    const { superchunklen } = this.settings;
    const { before, whole } = mergeTail(this.runs, pending, short, superchunklen);
    const columns = await this.#collect(whole - pending);
    if (short > 0)
      for (let i = 0; i < this.columns.length; i++)
        columns[i]?.push(await this.next(i, this.buffer.column(i)));
    const start = countChunks(before);
    const number = await this.publishSegment({ number: take(start / superchunklen), first: start, columns });
    const patches = dropPatched(this.patches, (chunk) => chunk >= start);
    return { before, number, whole, short, patches };
  }

  /** The last `merged` chunks of the committed runs, and the waiting ones. */
  async #collect(merged: number): Promise<StoredChunk[][]> {
    const columns: StoredChunk[][] = [];
    const end = countChunks(this.runs);
    for (let i = 0; i < this.columns.length; i++) {
      const chunks = await this.copied(i, end - merged, end);
      columns.push([...chunks, ...(await Promise.all(this.#pending[i] ?? []))]);
    }
    return columns;
  }

  /** Makes full superchunks from the small ones at the end and the waiting chunks, as long as there are enough. */
  async #closeFull(): Promise<void> {
    const { superchunklen } = this.settings;
    for (;;) {
      const full = fullRuns(this.runs, superchunklen);
      if (countChunks(this.runs) - full.chunks + this.#pendingChunks < superchunklen) return;
      const columns = await this.#collect(countChunks(this.runs) - full.chunks);
      const number = this.files.takeName(full.chunks / superchunklen);
      this.patches = dropPatched(this.patches, (chunk) => chunk >= full.chunks);
      this.runs = appendRun(full.runs, number, superchunklen);
      // More chunks wait only after a failure. They are copied, because their memory is given back with the superchunk.
      this.#pending = columns.map((chunks) => chunks.slice(superchunklen).map(ownCopy));
      const segment = {
        number,
        first: full.chunks,
        columns: columns.map((chunks) => chunks.slice(0, superchunklen)),
      };
      await this.#publisher.add(segment, this.chunks.takeBlocks());
    }
  }

  /** Waits until the whole plan is published. Throws errors; then it can be tried again. */
  drain(): Promise<void> {
    return this.#publisher.drain();
  }

  /** Publishes a segment of the plan, which gets another number if its own is taken. */
  async #publishNoted(segment: Segment): Promise<void> {
    const { number } = segment;
    const got = await this.publishSegment(segment);
    if (got === number) return;
    this.runs = replaceNumber(this.runs, number, got);
    this.patches = this.patches.map((patch) => (patch.number === number ? { ...patch, number: got } : patch));
  }

  /** Publishes one superchunk, in all columns. Returns its number, which differs from the planned one if that is taken. */
  publishSegment(segment: Segment): Promise<number> {
    return this.files.publish(segment, this.columns, this.settings, this.committed.layout);
  }

  /** The same, and takes back the memory of all chunks made for it: no others may be waiting. */
  async publishNow(segment: Segment): Promise<number> {
    try {
      return await this.publishSegment(segment);
    } finally {
      this.chunks.giveBack(this.chunks.takeBlocks());
    }
  }

  #begin(column: number, data: Uint8Array): Promise<BegunChunk> {
    return this.chunks.begin(data, at(this.columns, column).itemSize, this.#left);
  }

  /** Encodes a chunk of a column for the next superchunk or patch. */
  next(column: number, data: Uint8Array): StoredChunk | Promise<StoredChunk> {
    return this.chunks.next(data, at(this.columns, column).itemSize);
  }

  /** Copies committed chunks `[first, end)` of a column for the next superchunk or patch. */
  async copied(column: number, first: number, end: number): Promise<StoredChunk[]> {
    if (first === end) return []; // the committed chunks may have other settings
    return this.chunks.copied(this.source().fetched(column, first, end));
  }

  async #encodeBuffer(): Promise<void> {
    const chunks: BegunChunk[] = [];
    for (let i = 0; i < this.columns.length; i++) chunks.push(await this.#begin(i, this.buffer.column(i)));
    this.buffer.clear(!this.chunks.isHere);
    await this.#addChunk(chunks);
  }
}
