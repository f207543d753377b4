/**
 * A carray or a bcolz table open for editing: a list of carrays of one length, which in a table have names. bcolz 1.2 and
 * bcolz-zipline can read the result of every verb, and never read a wrong value between the steps.
 * @see FORMAT.md [FA-09] [FA-10] [FA-12] [FT-05]
 */

import { readAttributes } from "../../archive/kinds/array-folder.ts";
import type { LongOptions } from "../../archive/kinds/types.ts";
import { refuseSymbolic } from "../../archive/places/linked.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { givenDType } from "../../format/given-dtype.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import { joinField, splitField } from "../../values/copy-items.ts";
import { storedTimes } from "../../values/item-bytes.ts";
import {
  type Extent,
  resolveSelection,
  type Selected,
  type Selection,
  selectedOf,
} from "../../values/selection.ts";
import { toValues } from "../../values/values.ts";
import { checkWhole } from "../bloscpack/bloscpack-options.ts";
import { cutPieces, readInPieces } from "../bloscpack/pieces.ts";
import {
  type AttributeChanges,
  type ChangeCost,
  changeMembers,
  checkChange,
  checkColumn,
  type EditorOptions,
  givenShape,
  type NewColumn,
} from "../editable.ts";
import { QueuedEditor, WaitingRows } from "../queued-editor.ts";
import { applyEdits, collectItems, editsOf, MAX_EDITS, WaitingEdits } from "../rows/edits.ts";
import { columnSources, itemsOf, readRows, repeatRow, reshapeRows } from "../rows/rows.ts";
import { readTable } from "./bcolz-create.ts";
import { defaultRowOf } from "./carray-settings.ts";
import { type CarrayState, claimCarray } from "./carray-state.ts";
import { appendRows, resizeRows, type StagedChange, stageChunks } from "./carray-steps.ts";
import { finishRedo } from "./redo.ts";
import {
  addColumn,
  type CarrayColumn,
  costOfColumnsResize,
  costOfColumnsSet,
  deleteColumn,
  readColumns,
  renameColumn,
} from "./table-columns.ts";

/** How a carray or a table is opened. */
export interface BcolzOptions extends EditorOptions {
  /** Takes no lock and writes nothing: for plans. */
  readonly readOnly?: boolean | undefined;
}

/** Most bytes of rows, and of changes, that wait in memory. */
const MAX_WAITING = 8 << 20;

const REASONS = { compact: "a carray has nothing to compact: each chunk is a separate file" };
const NO_COLUMNS = "a carray has no columns; a table has (create one of a structured dtype)";

export class BcolzArray extends QueuedEditor {
  readonly format = "bcolz";
  readonly kind: "array" | "table";
  protected readonly reasons: Readonly<Record<string, string>>;
  readonly #options: BcolzOptions;
  #columns: readonly CarrayColumn[] = [];
  #dtype: DType = { kind: "void", itemSize: 0, byteOrder: "none" };
  #attrs: JsonObject = {};
  readonly #waiting = new WaitingRows(MAX_WAITING);
  /** Of each column. */
  #edits: readonly WaitingEdits[] = [];
  #written = 0;

  private constructor(store: WritableStore, path: string, isTable: boolean, options: BcolzOptions) {
    super({ store, path }, options.lock);
    this.kind = isTable ? "table" : "array";
    this.#options = options;
    this.reasons = isTable
      ? REASONS
      : { ...REASONS, addColumn: NO_COLUMNS, renameColumn: NO_COLUMNS, deleteColumn: NO_COLUMNS };
  }

  /**
   * Opens a carray or a table, and finishes what an interrupted writer began.
   * @throws NOT_FOUND; CONFLICT if it is linked by symbolic links, or another program overwrote an interrupted change; LIMIT,
   * UNSUPPORTED, and the codes of damage
   */
  static async open(store: WritableStore, path: string, options: BcolzOptions = {}): Promise<BcolzArray> {
    const isTable = (await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined;
    const array = new BcolzArray(store, path, isTable, options);
    if (options.readOnly !== true) await array.#recover();
    await array.#read();
    return array;
  }

  get attrs(): JsonObject {
    return this.#attrs;
  }
  override get dtype(): DType {
    return this.#dtype;
  }
  override get shape(): readonly number[] {
    return [this.#rows + this.#waiting.count(this.#itemBytes), ...this.#rowShape];
  }
  /** Bytes of chunk files that were set or moved. */
  override get bytesWritten(): number {
    return this.#written;
  }
  override get columnNames(): readonly string[] {
    return this.#columns.flatMap(({ name }) => (name === undefined ? [] : [name]));
  }

  /** Number of rows; for a table whose columns differ, of the shortest column. */
  get #rows(): number {
    return Math.min(...this.#columns.map(({ state }) => state.rows));
  }
  get #rowShape(): readonly number[] {
    return this.kind === "table" ? [] : (this.#columns[0]?.state.settings.rowShape ?? []);
  }
  /** Bytes of a row of all columns. */
  get #itemBytes(): number {
    return elementsOf(this.#rowShape) * this.#dtype.itemSize;
  }

  /** The rows of a stream for a table count piece by piece. If columns are missing, unknown or of different lengths, no rows are appended. */
  protected override appendRows(values: unknown, options: LongOptions): Promise<void> {
    return this.line.run(async () => {
      options.signal?.throwIfAborted();
      await this.#commitEdits(options);
      const facts = { dtype: this.#dtype, rowShape: this.#rowShape };
      const columns = this.kind === "table" ? columnSources(values, this.#dtype) : undefined;
      if (columns !== undefined) {
        await this.#commitRows(options);
        return this.#appendAll(columns, options);
      }
      const items = itemsOf(values, facts);
      if (items !== undefined) return this.#take(items, options);
      const rows = readRows(values, facts);
      if (this.kind === "table" || Array.isArray(values)) {
        for await (const piece of rows) await this.#take(piece, options);
        return;
      }
      await this.#commitRows(options);
      await this.#appendAll([rows], options);
    });
  }

  /** Sets the selected values. The changes wait until there are many or `flush` is called. Throws `BAD_ARGUMENT`. */
  override async set(selection: Selection | null, values: unknown, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.line.run(async () => {
      await this.#commitRows(options);
      const shape = this.shape;
      const { itemSize } = this.#dtype;
      const extents = resolveSelection(selection, shape);
      const items = await collectItems(values, this.#dtype, extents);
      if (extents.some(({ count }) => count === 0)) return;
      for (const [i, column] of this.#columns.entries()) {
        const part = new Uint8Array((items.length / itemSize) * column.fieldBytes);
        splitField(items, itemSize, column, part, 0);
        const { chunklen, rowBytes } = column.state.settings;
        const bytes = { shape, itemSize: column.fieldBytes, chunkBytes: chunklen * rowBytes };
        for (const edit of editsOf(bytes, extents, part)) this.#edits[i]?.add(edit);
      }
      const waiting = (of: "bytes" | "count"): number => this.#edits.reduce((sum, each) => sum + each[of], 0);
      if (waiting("bytes") > MAX_WAITING || waiting("count") > MAX_EDITS) await this.#commitEdits(options);
    });
  }

  /**
   * Changes the number of rows, or a carray's shape: then all chunks are rewritten, and bcolz sees no rows until that is complete.
   */
  override async resize(shape: number | readonly number[], options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.onCommit(options, async () => {
      const [rows = 0, ...rowShape] = givenShape(shape, this.shape);
      if (rowShape.join() !== this.#rowShape.join()) await this.#reshape(rowShape, options);
      if (rows === this.#rows) return;
      await resizeRows(this.#states, checkWhole("rows", rows, 0, Number.MAX_SAFE_INTEGER), {
        ...this.#long(options),
      });
      await this.#read();
    });
  }

  protected override costOfResize(shape: readonly number[], before: readonly number[]): ChangeCost {
    return costOfColumnsResize(this.#columns, before, shape);
  }

  /** If it is interrupted, the next writer finishes it; meanwhile the array has `start` rows. */
  override async deleteRows(start: number, end: number, options: LongOptions = {}): Promise<number> {
    checkChange(options);
    return this.onCommit(options, async () => {
      const plan = await this.planDelete(start, end);
      if (plan.rowsDeleted === 0) return 0;
      if (plan.rowsRewritten === 0) await resizeRows(this.#states, plan.rows, this.#long(options));
      else {
        const progress = this.#counted(plan.nbytesRewritten, options);
        await this.#stage(options, ({ state }) => {
          const { chunklen, rowBytes } = state.settings;
          const first = Math.floor(start / chunklen);
          const bytes = (async function* () {
            yield* readInPieces(state, first * chunklen * rowBytes, start * rowBytes, options);
            yield* progress(readInPieces(state, end * rowBytes, plan.rowsBefore * rowBytes, options));
          })();
          const pieces = cutPieces(bytes, chunklen * rowBytes, options.signal);
          return { first, pieces, meanwhile: start, rows: plan.rows };
        });
      }
      await this.#read();
      return plan.rowsRewritten;
    });
  }

  override setAttributes(changes: AttributeChanges): Promise<void> {
    return this.line.run(async () => {
      this.#attrs = await changeMembers(this.store, joinKey(this.path, "__attrs__"), changes);
    });
  }

  override addColumn(added: NewColumn, values?: unknown): Promise<void> {
    if (this.kind === "array") return this.refuse("addColumn");
    const adding = this.#changeColumns(async () => {
      checkColumn(added);
      const { name, dtype, shape = [], fillValue } = added;
      const parsed = givenDType(dtype, this.store.describe(this.path));
      const dflt = storedTimes(parsed, (fillValue ?? null) as JsonValue);
      const data =
        values === undefined
          ? repeatRow(defaultRowOf(parsed, shape, dflt), this.#rows)
          : readRows(values, { dtype: parsed, rowShape: shape });
      const column = { name, dtype: parsed, rowShape: shape, data };
      await addColumn(this.store, this.path, column, { ...this.#long({}), fillValue: dflt });
    });
    return this.named(adding);
  }

  override renameColumn(from: string, to: string): Promise<void> {
    if (this.kind === "array") return this.refuse("renameColumn");
    return this.named(this.#changeColumns(() => renameColumn(this.store, this.path, from, to)));
  }

  override deleteColumn(name: string): Promise<void> {
    if (this.kind === "array") return this.refuse("deleteColumn");
    return this.#changeColumns(() => deleteColumn(this.store, this.path, name));
  }

  protected override costOfSet(extents: readonly Extent[]): ChangeCost {
    return costOfColumnsSet(this.#columns, at(extents, 0));
  }

  override get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: LongOptions = {},
  ): Promise<Selected<S>> {
    return this.onCommit(options, async () => {
      if (this.kind === "array") return this.#first.archive.get<S>(selection, options);
      const extents = resolveSelection(selection ?? null, this.shape);
      const bytes = await this.#readItems(selection ?? null, options);
      const data = toValues(bytes, this.#dtype, elementsOf(extents.map(({ count }) => count)));
      return selectedOf<S>(data, extents);
    });
  }

  override getBytes(selection: Selection | null = null, options: LongOptions = {}): Promise<Uint8Array> {
    return this.onCommit(options, () => this.#readItems(selection, options));
  }

  get #first(): CarrayState {
    const [column] = this.#columns;
    if (column !== undefined) return column.state;
    throw new RangeError("the columns were not read");
  }

  get #states(): readonly CarrayState[] {
    return this.#columns.map(({ state }) => state);
  }

  #long(options: LongOptions): LongOptions & { readonly encoder: ChunkEncoder | undefined } {
    return { ...options, encoder: this.#options.encoder };
  }

  /** Finishes what was interrupted, and cuts columns that an interrupted append left longer than the shortest. */
  async #recover(): Promise<void> {
    const { store, path } = this;
    await refuseSymbolic(store, path, this.#options);
    await finishRedo(store, path, this.#options);
    await store.removeLeftovers?.(path, this.#options);
    const states: CarrayState[] = [];
    for (const { folder } of await this.#folders())
      states.push(await claimCarray(store, folder, this.#options));
    const rows = Math.min(...states.map((state) => state.rows));
    if (states.some((state) => state.rows !== rows)) await resizeRows(states, rows, this.#long({}));
  }

  async #folders(): Promise<readonly { readonly name: string | undefined; readonly folder: string }[]> {
    if (this.kind === "array") return [{ name: undefined, folder: this.path }];
    return (await readTable(this.store, this.path, this.#options)).columns;
  }

  async #read(): Promise<void> {
    const { columns, dtype } = await readColumns(this.store, await this.#folders(), this.#options);
    this.#columns = columns;
    this.#dtype = dtype;
    this.#edits = columns.map(() => new WaitingEdits());
    const key = joinKey(this.path, "__attrs__");
    this.#attrs = (await readAttributes(this.store, key, this.#options)) ?? {};
  }

  async #changeColumns(change: () => Promise<void>): Promise<void> {
    return this.onCommit({}, async () => {
      await change();
      await this.#read();
    });
  }

  /** Buffers whole items. */
  async #take(items: Uint8Array, options: LongOptions): Promise<void> {
    if (this.#waiting.add(items, this.#itemBytes)) await this.#commitRows(options);
  }

  protected async commit(options: LongOptions): Promise<void> {
    await this.#commitRows(options);
    await this.#commitEdits(options);
  }

  #commitRows(options: LongOptions): Promise<void> {
    const { itemSize } = this.#dtype;
    return this.#waiting.commit((items) => {
      const sources = this.#columns.map((column) => {
        if (this.kind === "array") return items;
        return items.map((piece) => {
          const part = new Uint8Array((piece.length / itemSize) * column.fieldBytes);
          splitField(piece, itemSize, column, part, 0);
          return part;
        });
      });
      return this.#appendAll(sources, options);
    });
  }

  async #appendAll(sources: readonly PutSource[], options: LongOptions): Promise<void> {
    const edits = this.#edits;
    try {
      await appendRows(this.#columns, sources, this.#long(options));
      await this.#read();
    } catch (error) {
      // The last chunk file may hold rows that do not count, so it is looked at again; only the first error is thrown.
      if (!isSuperchunkError(error, "CONFLICT")) await this.#read().catch(() => undefined);
      throw error;
    } finally {
      this.#edits = edits;
    }
  }

  /** Rewrites all changed chunks atomically. */
  async #commitEdits(options: LongOptions): Promise<void> {
    if (this.#edits.every(({ count }) => count === 0)) return;
    await this.#stage(options, (column, i) => {
      const { state } = column;
      const chunkBytes = state.settings.chunklen * state.settings.rowBytes;
      const edits = at(this.#edits, i);
      const { chunks: indices } = edits;
      const pieces = (async function* () {
        for (const index of indices) {
          const end = Math.min((index + 1) * chunkBytes, state.rows * state.settings.rowBytes);
          const bytes = await state.archive.readBytes(index * chunkBytes, end, options);
          applyEdits(edits.of(index), bytes);
          yield bytes;
        }
      })();
      return { indices, pieces, meanwhile: state.rows, rows: state.rows };
    });
    await this.#read();
  }

  async #reshape(rowShape: readonly number[], options: LongOptions): Promise<void> {
    const { settings, rows } = this.#first;
    if (elementsOf(rowShape) === 0)
      throw new SuperchunkError("UNSUPPORTED", "bcolz does not support rows of zero bytes", {
        path: this.store.describe(this.path),
        field: "shape",
        found: rowShape,
      });
    if (Array.isArray(settings.dflt) && settings.dtype.kind !== "complex")
      throw new SuperchunkError(
        "UNSUPPORTED",
        "its default value is that of a whole row, and does not fit rows of another shape",
        { path: this.store.describe(this.path), field: "dflt" },
      );
    const fill = defaultRowOf(settings.dtype, [], settings.dflt);
    const reshaping = { before: settings.rowShape, after: rowShape, fill };
    const progress = this.#counted(rows * settings.rowBytes, options);
    await this.#stage(options, ({ state }) => {
      const { chunklen, rowBytes } = settings;
      const pieces = (async function* () {
        const bytes = progress(readInPieces(state, 0, rows * rowBytes, options));
        for await (const chunk of cutPieces(bytes, chunklen * rowBytes, options.signal))
          yield reshapeRows(chunk, reshaping);
      })();
      return { first: 0, pieces, meanwhile: 0, rows, rowShape };
    });
    await this.#read();
  }

  async #stage(
    options: LongOptions,
    change: (column: CarrayColumn, i: number) => StagedChange,
  ): Promise<void> {
    const changes = this.#columns.map((column, i) => ({ state: column.state, ...change(column, i) }));
    this.#written += await stageChunks(this.store, this.path, changes, this.#long(options));
  }

  /** Reports progress in bytes, over all columns together. */
  #counted(
    total: number,
    { onProgress }: LongOptions,
  ): (pieces: AsyncIterable<Uint8Array>) => AsyncGenerator<Uint8Array> {
    let done = 0;
    return async function* (pieces) {
      for await (const piece of pieces) {
        yield piece;
        done += piece.length;
        onProgress?.({ done, total });
      }
    };
  }

  async #readItems(selection: Selection | null, options: LongOptions): Promise<Uint8Array> {
    if (this.kind === "array") return this.#first.archive.getBytes(selection, options);
    const count = elementsOf(resolveSelection(selection, this.shape).map((extent) => extent.count));
    const items = new Uint8Array(count * this.#dtype.itemSize);
    for (const column of this.#columns)
      joinField(await column.state.archive.getBytes(selection, options), column, items, this.#dtype.itemSize);
    return items;
  }
}
