/**
 * An array that can be grown, shrunk and changed. Operations run one after another, and each is atomic, even in a crash. What
 * `flush` (and every operation but `append` and `set`) wrote is durable when it returns.
 * @see FORMAT.md [FG]
 */

import { showGeneration } from "../../archive/kinds/live-array.ts";
import type { ArrayArchive, LongOptions } from "../../archive/kinds/types.ts";
import { requireOneName } from "../../archive/places/journal.ts";
import { readGeneration } from "../../archive/places/layout-files.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import type { PlaceOpening } from "../../places/placed-store.ts";
import type { Extent, Selected, Selection } from "../../values/selection.ts";
import {
  type AppendOptions,
  type AttributeChanges,
  type ChangeCost,
  type CompactPlan,
  changeMembers,
  checkChange,
  givenShape,
  type MoveChoice,
  type Moved,
  type NewColumn,
  type PlaceChanges,
  type PlaceInfo,
  type PublishPolicy,
  type SetCost,
  type WriterLock,
} from "../editable.ts";
import { superchunkKeys } from "../layout/columns.ts";
import { type ChunkSettings, checkChunkSettings, settleSettings } from "../layout/settings.ts";
import { isDue, JoinedRows, QueuedEditor } from "../queued-editor.ts";
import { itemsOf, readRows } from "../rows/rows.ts";
import type { ArrayWriter, MirrorMaker } from "./array-writer.ts";
import {
  changePlaces,
  commitStorage,
  deleteRows,
  grow,
  listPlaces,
  moveSuperchunks,
  shrink,
} from "./changes.ts";
import { changeWithMirror, compactAll, fold, foldMany, planCompaction, recode, tidy } from "./compact.ts";
import { addColumn, deleteColumn, renameColumn } from "./schema.ts";
import { planSetting, ValueSetter } from "./value-setter.ts";

const DONE = Promise.resolve();

export interface OpenedFor extends PlaceOpening {
  readonly lock?: WriterLock | undefined;
  readonly isReadOnly?: boolean;
  readonly mirror?: MirrorMaker | undefined;
}

export class WritableArray extends QueuedEditor {
  readonly kind = "array";
  readonly format = "blz";
  protected readonly reasons: Readonly<Record<string, string>> = {};
  readonly #writer: ArrayWriter;
  readonly #joined: JoinedRows;
  #attrs: JsonObject;
  #setter: ValueSetter | undefined;
  /** True if an operation failed since the store was last known to keep what it made durable. */
  #isUnsure = false;
  #shown: { readonly sizes: Uint8Array | undefined; readonly array: ArrayArchive } | undefined;
  readonly #isReadOnly: boolean;
  readonly #mirror: MirrorMaker | undefined;
  readonly #places: PlaceOpening;

  constructor(
    writer: ArrayWriter,
    attrs: JsonObject,
    { lock, isReadOnly = false, mirror, ...places }: OpenedFor,
  ) {
    super(writer.root, lock);
    this.#writer = writer;
    this.#attrs = attrs;
    this.#isReadOnly = isReadOnly;
    this.#mirror = mirror;
    this.#places = places;
    this.#joined = new JoinedRows(this.line, (rows) => this.#append(rows));
  }

  override get dtype(): DType {
    return this.#writer.settings.dtype;
  }
  override get shape(): readonly number[] {
    return [this.#writer.rows, ...this.#writer.settings.rowShape];
  }
  override get length(): number {
    return this.#writer.rows;
  }
  override get chunkLength(): number {
    return this.#writer.settings.chunklen;
  }
  override get superchunkLength(): number {
    return this.#writer.settings.superchunklen;
  }
  override get columnNames(): readonly string[] {
    return this.#writer.columns.flatMap(({ name }) => (name === undefined ? [] : [name]));
  }
  get attrs(): JsonObject {
    return this.#attrs;
  }
  /** Number of the last commit. */
  get generation(): number {
    return this.#writer.committed.layout.generation;
  }
  override get bytesWritten(): number {
    return this.#writer.files.sessionBytes;
  }
  /** Cleanups that failed, as text: no row depends on them, and the next writer tries again. */
  override get warnings(): readonly string[] {
    return [...this.notes, ...this.#writer.root.warnings];
  }

  /**
   * Rows are collected until a chunk is full. If they fit in memory, it resolves at once. The source must not be changed before it
   * resolves. After data that end inside a row, the whole rows before stay. After NO_SPACE or IO, the rows that `length` counts are
   * kept, and `flush` tries again: all rows of a complete source, or those of a stream that had arrived.
   */
  protected override appendRows(source: unknown, options: AppendOptions): Promise<void> {
    const { publish, signal } = options;
    const items = this.#wholeRows(source);
    if (items !== undefined && this.#takeNow(items)) return DONE;
    const joins = items !== undefined && publish === undefined && signal === undefined;
    const joined = joins ? this.#joined.add(items) : undefined;
    return joined ?? this.line.run(() => this.#append(source, publish, signal));
  }

  async #append(source: unknown, publish?: PublishPolicy, signal?: AbortSignal): Promise<void> {
    await this.#finishSetting();
    const writer = this.#writer;
    await writer.prepare();
    let shown = { rows: writer.rows, at: performance.now() };
    for await (const items of readRows(source, writer.settings)) {
      signal?.throwIfAborted();
      await writer.append(items);
      if (publish === undefined || !isDue(publish, writer, shown)) continue;
      await this.commit();
      shown = { rows: writer.rows, at: performance.now() };
    }
  }

  /**
   * Changes the number of rows, or the shape: then all chunks are rewritten. Durable when resolved. An abort changes nothing.
   * @throws UNSUPPORTED for another row shape of an array that keeps itself a Zarr array
   */
  override async resize(given: number | readonly number[], options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.#change(async (writer) => {
      const [rows = 0, ...rowShape] = givenShape(given, this.shape);
      if (rowShape.join() !== writer.settings.rowShape.join()) await this.#reshape(rowShape, options);
      if (rows > writer.rows) await grow(writer, rows, options);
      else if (rows < writer.rows) await shrink(writer, rows);
    });
  }

  /** Nothing else may be planned for the array. */
  async #reshape(rowShape: readonly number[], options: LongOptions): Promise<void> {
    const writer = this.#writer;
    const { settings } = writer;
    if (writer.files.mirror !== undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "the folder of the array is a Zarr array as well, whose chunks would get another shape under names that readers know; unlink it first, or convert it",
        { path: this.store.describe(this.path), field: "shape", found: rowShape },
      );
    const base = { ...settings, rowShape, revision: settings.revision + 1 };
    await recode(writer, settleSettings(base, {}, settings), options);
  }

  protected override costOfResize(
    [rows = 0, ...rowShape]: readonly number[],
    [rowsBefore = 0, ...before]: readonly number[],
  ): ChangeCost {
    const { chunklen, dtype } = this.#writer.settings;
    const isMoved = rowShape.join() !== before.join();
    const moved = isMoved ? Math.min(rows, rowsBefore) : rows < rowsBefore ? rows % chunklen : 0;
    const nbytesRewritten = moved * elementsOf(before) * dtype.itemSize;
    return { chunksRewritten: Math.ceil(moved / chunklen), nbytesRewritten };
  }

  /**
   * Deletes the rows `[start, end)`; later rows move up and are rewritten: {@link planDelete} says how many. Durable when
   * resolved, with the number of rows rewritten. An abort changes nothing; progress is in uncompressed bytes.
   * @throws BAD_ARGUMENT for rows that do not exist
   */
  override async deleteRows(start: number, end: number, options: LongOptions = {}): Promise<number> {
    checkChange(options);
    let moved = 0;
    await this.#change(async (writer) => {
      const { rowsDeleted, rowsRewritten } = await this.planDelete(start, end);
      moved = rowsRewritten;
      if (rowsDeleted === 0) return;
      if (rowsRewritten === 0) await shrink(writer, start);
      else await deleteRows(writer, start, end, options);
    });
    return moved;
  }

  /**
   * Sets the selected values: one for each, or one for all. Changes are collected, and count once `flush` has returned; waiting
   * rows are committed first. Throws `BAD_ARGUMENT`.
   */
  override async set(selection: Selection | null, values: unknown, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.line.run(async () => {
      if (this.#setter === undefined) {
        await this.commit();
        await this.#writer.prepare();
        this.#setter = new ValueSetter(this.#writer);
      }
      await this.#setter.set(selection, values);
    });
  }

  protected override readonly noCost: SetCost = { chunksRewritten: 0, nbytesRewritten: 0, superchunks: 0 };

  protected override async costOfSet(extents: readonly Extent[]): Promise<SetCost> {
    const { changes, columns } = this.#writer;
    const { superchunks, ...cost } = planSetting(this.#writer, extents[0]);
    if (changes !== undefined)
      for (const key of superchunkKeys(columns, superchunks)) await requireOneName(this.store, key);
    return { ...cost, superchunks: superchunks.size };
  }

  /** Reads the selected values, including waiting ones, which are committed first. A scalar if every entry is an integer. */
  override get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: LongOptions = {},
  ): Promise<Selected<S>> {
    return this.#read((array) => array.get(selection, options));
  }

  override getBytes(selection?: Selection | null, options: LongOptions = {}): Promise<Uint8Array> {
    return this.#read((array) => array.getBytes(selection, options));
  }

  /**
   * Changes attributes: a value sets one, undefined deletes it; the others stay as written. Durable when resolved. `new
   * JsonFloat(1)` is `1.0` for Python, the number 1 is its integer.
   */
  override setAttributes(changes: AttributeChanges): Promise<void> {
    return this.line.run(async () => {
      const { root, files, committed } = this.#writer;
      await root.assertOurs();
      this.#attrs = await changeMembers(root.store, root.key("meta/attributes"), changes);
      await files.mirror?.setAttributes(this.#attrs, committed);
    });
  }

  override addColumn(column: NewColumn, values?: unknown): Promise<void> {
    return this.named(this.#alter((writer) => addColumn(writer, column, values)));
  }

  override renameColumn(from: string, to: string): Promise<void> {
    return this.named(this.#alter((writer) => renameColumn(writer, from, to)));
  }

  override deleteColumn(name: string): Promise<void> {
    return this.named(this.#alter((writer) => deleteColumn(writer, name)));
  }

  /**
   * Restores the plain layout of the BLZ document: full superchunks and one last one, in order, of version 3 and without
   * reserve. With other settings, all chunks are encoded again. Durable when resolved.
   */
  override async compact(changes: ChunkSettings = {}, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.onCommit({}, () => compactAll(this.#writer, checkChunkSettings(changes), options));
  }

  override async planCompact(changes: ChunkSettings = {}): Promise<CompactPlan> {
    return planCompaction(this.#writer, checkChunkSettings(changes), this.#mirror);
  }

  override async places(): Promise<readonly PlaceInfo[]> {
    return listPlaces(this.#writer);
  }

  override changePlaces(changes: PlaceChanges): Promise<void> {
    return this.onCommit({}, () => changePlaces(this.#writer, changes, this.#places));
  }

  override async moveSuperchunks(
    to: string,
    choice: MoveChoice = {},
    options: LongOptions = {},
  ): Promise<Moved> {
    checkChange(options);
    return this.onCommit({}, () => moveSuperchunks(this.#writer, choice, to, options));
  }

  /** Lets a plan that knows encoded chunks write into the array, and commits it. Internal to this library. */
  fill(plan: (writer: ArrayWriter) => Promise<void>): Promise<void> {
    return this.#change(plan);
  }

  /** Commits what waits, restores the plain layout if that is cheap, and releases the lock. */
  override async close(): Promise<void> {
    if (this.#isReadOnly) return this.abandon();
    await this.end(async () => {
      await this.commit();
      await tidy(this.#writer);
      await this.#writer.root.settled();
      await this.#writer.files.mirror?.close(this.#writer.committed);
    });
  }

  /** Discards what waits since the last commit, and releases the lock. */
  override async abandon(): Promise<void> {
    await this.end(async () => {
      await this.#writer.rollBack();
      await this.#writer.root.settled();
      // A failed commit may already have been visible to the mirror.
      await this.#writer.files.mirror?.afterCommit(this.#writer.committed);
    });
  }

  /** Rows that are given as bytes, and complete. */
  #wholeRows(source: unknown): Uint8Array | undefined {
    const { settings, rowBytes } = this.#writer;
    const items = itemsOf(source, settings);
    return items !== undefined && items.length > 0 && items.length % rowBytes === 0 ? items : undefined;
  }

  /** Buffers rows if no other work is needed; returns true if it did. */
  #takeNow(items: Uint8Array): boolean {
    if (!this.line.isFree || this.#setter !== undefined) return false;
    return this.#writer.takeNow(items) === items.length;
  }

  /** Without a lock, another writer may have removed uncommitted data of this one as leftovers. */
  protected override async explain(error: unknown): Promise<never> {
    this.#isUnsure = true;
    if (isSuperchunkError(error) && (error.isDamage || error.code === "STALE"))
      await this.#writer.root.assertOurs();
    throw error;
  }

  /** Commits, then plans a change and commits it; if that fails, the array stays as it was. */
  #change(plan: (writer: ArrayWriter) => Promise<void>): Promise<void> {
    const writer = this.#writer;
    return this.onCommit({}, async () => {
      await writer.prepare();
      try {
        await plan(writer);
        if (writer.isDirty) await writer.commit();
      } catch (error) {
        await writer.rollBack();
        // An unanswered commit may have named them, and files of another writer may be among them.
        if (!writer.root.isUncertain && !isSuperchunkError(error, "CONFLICT"))
          writer.files.discard(writer.columns);
        throw error;
      }
    });
  }

  /** The same for changes of columns, which commit by themselves, on a folded array. */
  #alter(change: (writer: ArrayWriter) => Promise<void>): Promise<void> {
    const writer = this.#writer;
    return this.onCommit({}, async () => {
      await writer.prepare();
      await fold(writer);
      await changeWithMirror(writer, async () => {
        try {
          await change(writer);
        } finally {
          await writer.rollBack();
        }
        await writer.root.settled();
      });
    });
  }

  /**
   * If it fails, nothing is lost and it can be tried again. But if written data could not be synced to the disk (`IO`, and
   * `details.field` is `sync`), every later flush and `close` fails: open the array again.
   */
  protected async commit(): Promise<void> {
    if (this.#isUnsure) await this.store.sync?.([]); // fails if an earlier sync failed: what looks correct may be lost
    this.#isUnsure = false;
    await this.#finishSetting();
    const writer = this.#writer;
    if (writer.isDirty) await writer.commit();
    await commitStorage(writer);
    await writer.files.mirror?.afterCommit(writer.committed);
    await foldMany(writer);
  }

  /** Makes patches of values that were set. If it fails, the changes are kept. */
  async #finishSetting(): Promise<void> {
    const writer = this.#writer;
    await writer.finishChanges();
    if (this.#setter === undefined) return;
    await this.#setter.finish();
    await writer.commit();
    this.#setter = undefined;
    await writer.finishChanges();
  }

  #read<T>(read: (array: ArrayArchive) => Promise<T>): Promise<T> {
    return this.onCommit({}, async () => read(await this.#show()));
  }

  /** The last commit as an array for reading. */
  async #show(): Promise<ArrayArchive> {
    const { root } = this.#writer;
    const sizes = root.committed;
    if (this.#shown === undefined || this.#shown.sizes !== sizes) {
      const storage = await root.store.get(root.key("meta/storage"));
      const generation = await readGeneration(root.store, root.path, { sizes, storage }, {});
      this.#shown = { sizes, array: showGeneration(generation, this.#attrs) };
    }
    return this.#shown.array;
  }
}
