/**
 * A Zarr v3 array open for editing. Chunks are added before the document that counts them, and removed after it; then the
 * document's copies in consolidated metadata are updated.
 */

import type { LongOptions } from "../archive/kinds/types.ts";
import { at, elementsOf, joinBytes, roundUp } from "../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import type { DType, JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import type { StoreOptions } from "../store/types.ts";
import { type Extent, resolveSelection, type Selected, type Selection } from "../values/selection.ts";
import {
  type AttributeChanges,
  type ChangeCost,
  checkChange,
  type DeletePlan,
  givenShape,
  type WriterLock,
  withAttributes,
} from "../write/editable.ts";
import { type ChunkSettings, checkChunkSettings } from "../write/layout/settings.ts";
import { QueuedEditor, WaitingRows } from "../write/queued-editor.ts";
import { collectItems } from "../write/rows/edits.ts";
import { itemsOf, readRows } from "../write/rows/rows.ts";
import { segmentsOf } from "../zarr/document/chunk-grid.ts";
import { DOCUMENT } from "../zarr/document/make-v3.ts";
import { parseDocument } from "../zarr/document/metadata-v3.ts";
import type { ArrayModel } from "../zarr/document/model.ts";
import type { ReadSettings } from "../zarr/read/leaf.ts";
import { storedPositions } from "../zarr/read/stored-chunks.ts";
import { asRead, type NodeDocument, putDocument, readDocument } from "../zarr/write/node-document.ts";
import { recoverShard, type ShardRecovery } from "../zarr/write/recover-shard.ts";
import {
  encodeInnerChunk,
  finishReserved,
  reserveShard,
  type ShardReservation,
  type WrittenSlot,
  writeReserved,
} from "../zarr/write/reserve.ts";
import { withClaim } from "../zarr/write/shard-apply.ts";
import { WritableZarrArray } from "../zarr/write/writable-array.ts";
import type { SetOptions, WriteSettings } from "../zarr/write/write-settings.ts";

/** How a Zarr array is edited. */
export interface ZarrEditSettings extends WriteSettings, ReadSettings {
  /** Released by `close`. */
  readonly lock?: WriterLock | undefined;
}

/** Bytes of rows that wait in memory, or are written at a time: whole shards if these are smaller. */
const MAX_WAITING = 32 << 20;
/** Objects removed at a time. */
const AT_ONCE = 8;

const NO_COLUMNS = "a Zarr array has no columns; a group has arrays";
const OLD = "only Zarr v3 documents are changed; convert the array first";

/** Operations on single shards of an array: parallel filling, compaction, recovery. Positions are those in the grid of shards. */
export interface ShardTools {
  /**
   * Reserves space for a shard with its index at the start, with `slotBytes` for each encoded chunk (default: enough for
   * incompressible values). The reservation is plain data that can be sent to threads and processes.
   */
  reserve(position: readonly number[], slotBytes?: number): Promise<ShardReservation>;
  /** Encodes one inner chunk from the bytes of all its items, including those beyond the array's edge. */
  encode(items: Uint8Array): Promise<Uint8Array>;
  /** Writes an encoded chunk into its slot, in any order, from any process. */
  write(reservation: ShardReservation, slot: number, encoded: Uint8Array): Promise<WrittenSlot>;
  /** Writes the index of all written slots, and gives the shard its name. */
  finish(reservation: ShardReservation, written: Iterable<WrittenSlot>): Promise<void>;
  /** Rewrites a shard without its unused bytes. */
  compact(position: readonly number[], options?: StoreOptions): Promise<unknown>;
  /** Restores a shard whose index an interrupted append left unwritten to the contents of its last whole index. */
  recover(position: readonly number[], options?: StoreOptions): Promise<ShardRecovery>;
}

export class ZarrEdit extends QueuedEditor {
  readonly kind = "array";
  readonly format = "zarr";
  protected readonly reasons: Readonly<Record<string, string>>;
  #array: WritableZarrArray;
  readonly #settings: ZarrEditSettings;
  readonly #waiting = new WaitingRows(MAX_WAITING);
  /** Why the groups above do not show the last change; thrown when the operation has ended as if it had succeeded, which it did. */
  #behind: SuperchunkError | undefined;

  constructor(array: WritableZarrArray, settings: ZarrEditSettings) {
    super({ store: array.store, path: array.path }, settings.lock);
    this.#array = array;
    this.#settings = settings;
    this.reasons = {
      addColumn: NO_COLUMNS,
      renameColumn: NO_COLUMNS,
      deleteColumn: NO_COLUMNS,
      deleteRows:
        "the rows after them would move through many shards, which Zarr has no common commit for: a kill would leave rows twice, or not at all. Cut rows off the end, or convert what is to stay",
      compact:
        "shards are compacted as they are, and without a plan; convert the array to another with the settings that you want",
      ...(array.dialect === "zarr3" ? {} : { append: OLD, resize: OLD, setAttributes: OLD }),
    };
  }

  get attrs(): JsonObject {
    return this.#array.attrs;
  }
  override get dtype(): DType {
    return this.#array.dtype;
  }
  override get shape(): readonly number[] {
    const [rows, ...rowShape] = this.#array.shape;
    if (rows === undefined) return [];
    return [rows + this.#waiting.count(this.#rowBytes), ...rowShape];
  }
  override get chunkLength(): number | undefined {
    return this.#array.chunkShape[0];
  }
  override get warnings(): readonly string[] {
    return this.#array.warnings;
  }

  /** Operations on single shards. Rows that wait in memory are not in the shards before `flush`. */
  get shards(): ShardTools {
    const array = this.#array;
    return {
      reserve: (position, slotBytes) => reserveShard(array, position, slotBytes),
      encode: (items) => encodeInnerChunk(array, items),
      write: (reservation, slot, encoded) => writeReserved(this.store, reservation, slot, encoded),
      finish: (reservation, written) => finishReserved(this.store, reservation, written),
      compact: (position, options) => array.compactShard(position, options),
      recover: (position, options) => recoverShard(array, position, options),
    };
  }

  get #rowBytes(): number {
    return elementsOf(this.#array.shape.slice(1)) * this.#array.dtype.itemSize;
  }

  protected override appendRows(values: unknown, options: LongOptions): Promise<void> {
    return this.#run("append", async () => {
      options.signal?.throwIfAborted();
      this.#assertGrid();
      if (this.#array.shape.length === 0) throw badArgument("the array", "a single value", "rows; use set");
      if (this.#rowBytes === 0) throw badArgument("append", "rows without bytes", "resize");
      const facts = { dtype: this.#array.dtype, rowShape: this.#array.shape.slice(1) };
      const items = itemsOf(values, facts);
      if (items === undefined && !Array.isArray(values)) {
        await this.#commitRows(options);
        await this.#reshaping(options, (own) => this.#appendAll(readRows(values, facts), own));
        return;
      }
      let areMany = false;
      for await (const piece of items === undefined ? readRows(values, facts) : [items])
        areMany = this.#waiting.add(piece, this.#rowBytes);
      if (areMany) await this.#commitRows(options);
    });
  }

  /** Sets the selected values. Durable on resolve; with the strategies `append` and `fixed`, after `flush`. */
  override async set(
    selection: Selection | null,
    values: unknown,
    options: LongOptions & SetOptions = {},
  ): Promise<void> {
    checkChange(options, " chunkOrder encoder maxUnused shardWriter strategy writeEmptyChunks");
    return this.#run("set", async () => {
      await this.#commitRows(options);
      const { dtype, shape } = this.#array;
      const extents = resolveSelection(selection, shape);
      const items = await collectItems(values, dtype, extents);
      if (extents.every(({ count }) => count > 0)) await this.#array.setBytes(selection, items, options);
    });
  }

  /** Changes the shape. Values cut off never reappear; new items have the fill value. */
  override async resize(given: number | readonly number[], options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.#run("resize", () => this.#resize(given, options));
  }

  protected override costOfResize(shape: readonly number[], before: readonly number[]): ChangeCost {
    this.#assertGrid();
    // The chunks that the old or the new edge cuts.
    const counts = this.#array.model.axes.map(({ lengths }, d) => {
      const length = at(lengths, 0);
      const from = Math.min(at(shape, d), at(before, d));
      return { chunks: Math.ceil(from / length), isCut: shape[d] !== before[d] && from % length !== 0 };
    });
    const all = counts.reduce((product, { chunks }) => product * chunks, 1);
    const whole = counts.reduce((product, { chunks, isCut }) => product * (isCut ? chunks - 1 : chunks), 1);
    return this.#costOf(all - whole);
  }

  protected override costOfSet(extents: readonly Extent[]): ChangeCost {
    const { axes } = this.#array.model;
    return this.#costOf(elementsOf(axes.map((axis, d) => [...segmentsOf(axis, at(extents, d))].length)));
  }

  #costOf(chunksRewritten: number): ChangeCost {
    const { axes } = this.#array.model;
    const items = axes.reduce((product, { lengths }) => product * at(lengths, 0), 1);
    return { chunksRewritten, nbytesRewritten: chunksRewritten * items * this.dtype.itemSize };
  }

  /** Cuts off rows at the end. Throws `UNSUPPORTED` for other rows. */
  override async deleteRows(start: number, end: number, options: LongOptions = {}): Promise<number> {
    checkChange(options);
    await this.#run("resize", async () => {
      const { rowsDeleted } = await this.planDelete(start, end);
      if (rowsDeleted > 0) await this.#resize(start, options);
    });
    return 0;
  }

  override async planDelete(start: number, end: number): Promise<DeletePlan> {
    const plan = await super.planDelete(start, end);
    if (plan.rowsRewritten > 0) throw this.unsupported("deleteRows");
    return plan;
  }

  override setAttributes(changes: AttributeChanges): Promise<void> {
    return this.#run("setAttributes", () =>
      this.#changeDocument((document) => ({
        ...document,
        attributes: withAttributes(document["attributes"], changes, { strict: true }),
      })),
    );
  }

  /** Rewrites every shard without its unused bytes. Throws `BAD_ARGUMENT` if there are no shards, and `UNSUPPORTED` for other settings. */
  override async compact(changes: ChunkSettings = {}, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    const { signal, onProgress } = options;
    if (Object.values(checkChunkSettings(changes)).some((value) => value !== undefined))
      return this.refuse("compact");
    return this.#run("compact", async () => {
      await this.#commitRows({ signal });
      const positions: (readonly number[])[] = [];
      for await (const position of storedPositions(this.store, this.#array.model, signal))
        positions.push(position);
      for (const [i, position] of positions.entries()) {
        await this.#array.compactShard(position, { signal });
        onProgress?.({ done: i + 1, total: positions.length, label: "chunks" });
      }
    });
  }

  override get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: LongOptions = {},
  ): Promise<Selected<S>> {
    return this.line.run(async (): Promise<Selected<S>> => {
      await this.#commitRows(options);
      return this.#array.get<S>(selection, options);
    });
  }

  override getBytes(selection: Selection | null = null, options: LongOptions = {}): Promise<Uint8Array> {
    return this.line.run(async () => {
      await this.#commitRows(options);
      return this.#array.getBytes(selection, options);
    });
  }

  protected async commit(options: LongOptions): Promise<void> {
    await this.#commitRows(options);
    await this.#array.flush();
  }

  #run<T>(verb: string, operation: () => Promise<T>): Promise<T> {
    if (verb in this.reasons && verb !== "compact") return this.refuse(verb);
    return this.line.run(() => operation().then((result) => this.#assertShown(result)));
  }

  /** Throws `UNSUPPORTED` if the grid lists the length of each chunk. */
  #assertGrid(): void {
    const grid = this.#array.metadata["chunk_grid"] as JsonObject | undefined;
    if (grid?.["name"] === "regular") return;
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the grid of the array lists the length of each chunk, and has none for other rows; convert it to a regular grid",
      { path: this.store.describe(joinKey(this.path, DOCUMENT)), field: "chunk_grid" },
    );
  }

  async #commitRows(options: LongOptions): Promise<void> {
    await this.#waiting.commit((pieces) => this.#reshaping(options, (own) => this.#appendAll(pieces, own)));
    this.#assertShown(undefined);
  }

  #assertShown<T>(result: T): T {
    const behind = this.#behind;
    this.#behind = undefined;
    if (behind !== undefined) throw behind;
    return result;
  }

  /**
   * Changes the shape while no other process does: rows of two writers would go to the same place, before the document of the slower one is
   * refused.
   */
  #reshaping<T>(
    options: LongOptions,
    work: (options: LongOptions, held: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    return withClaim(this.store, joinKey(this.path, "shape"), (held) => {
      const signals = [held, options.signal].filter((signal) => signal !== undefined);
      return work({ ...options, signal: AbortSignal.any(signals) }, held);
    });
  }

  async #resize(given: number | readonly number[], options: LongOptions): Promise<void> {
    this.#assertGrid();
    await this.#commitRows(options);
    const before = this.#array.shape;
    const shape = givenShape(given, before);
    if (shape.join() !== before.join())
      await this.#reshaping(options, ({ signal }, held) => this.#reshape(shape, signal, held));
  }

  /** Writes rows after the last one, and then the shape that counts them. */
  async #appendAll(
    pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    { signal, onProgress }: LongOptions,
  ): Promise<void> {
    const [before = 0, ...rowShape] = this.#array.shape;
    const shardRows = at(at(this.#array.model.axes, 0).lengths, 0);
    const shards = Math.max(1, Math.floor(MAX_WAITING / (shardRows * this.#rowBytes)));
    let rows = before;
    let held: Uint8Array[] = [];
    let heldRows = 0;
    const write = async (): Promise<void> => {
      if (heldRows === 0) return;
      await this.#readOwn(); // before the rows of a faster writer would be overwritten
      const target = this.#reshaped([rows + heldRows, ...rowShape]);
      await target.setBytes([{ start: rows, stop: rows + heldRows, step: 1 }], joinBytes(held), { signal });
      await target.flush();
      rows += heldRows;
      [held, heldRows] = [[], 0];
      onProgress?.({ done: (rows - before) * this.#rowBytes, total: (rows - before) * this.#rowBytes });
    };
    for await (const piece of pieces) {
      signal?.throwIfAborted();
      for (let from = 0; from < piece.length; ) {
        // Write up to the end of a shard, so that none is written twice.
        const room = shards * shardRows - (rows % shardRows) - heldRows;
        const part = piece.subarray(from, from + room * this.#rowBytes);
        held.push(part.slice());
        heldRows += part.length / this.#rowBytes;
        from += part.length;
        if (heldRows >= shards * shardRows - (rows % shardRows)) await write();
      }
    }
    await write();
    if (rows > before) await this.#putShape([rows, ...rowShape], false);
  }

  /** One document changes all dimensions: what it adds is clear before it, and what it cuts off is removed after it, unless `held` aborts. */
  async #reshape(
    shape: readonly number[],
    signal: AbortSignal | undefined,
    held: AbortSignal | undefined,
  ): Promise<void> {
    await this.#readOwn();
    const before = this.#array.shape;
    const whole = this.#reshaped(shape.map((length, d) => Math.max(length, at(before, d))));
    const clear = async (edge: readonly number[], until: AbortSignal | undefined): Promise<void> => {
      if (edge.join() === whole.shape.join()) return;
      await this.#removeOutside(whole.model, edge);
      await fillBeyond(whole, edge, until);
    };
    // Leftovers of an interrupted writer, and values of other writers after the edge, would appear once the document counts them.
    await clear(before, signal);
    await this.#putShape(
      shape,
      shape.some((length, d) => length < at(before, d)),
    );
    await clear(shape, held);
  }

  /** Removes the objects of chunks wholly outside the shape. */
  async #removeOutside(model: ArrayModel, shape: readonly number[]): Promise<void> {
    const keys: string[] = [];
    for await (const position of storedPositions(this.store, model))
      if (position.some((p, d) => p * at(at(model.axes, d).lengths, 0) >= at(shape, d)))
        keys.push(model.chunkKey(position));
    await runPooled(keys, AT_ONCE, (key, signal) => this.store.delete(key, { signal }));
    if (keys.length > 0) await this.store.sync?.([]);
  }

  /** The same array with another shape, which is not in any document yet. */
  #reshaped(shape: readonly number[]): WritableZarrArray {
    return this.#described({ ...this.#array.metadata, shape });
  }

  #described(document: JsonObject): WritableZarrArray {
    const { path, store } = this;
    const name = store.describe(joinKey(path, DOCUMENT));
    const model = parseDocument(document, path, name, this.#settings.customCodecs);
    return new WritableZarrArray(store, model as ArrayModel, this.#settings);
  }

  #putShape(shape: readonly number[], shrinks: boolean): Promise<void> {
    return this.#changeDocument((document) => ({ ...document, shape }), shrinks);
  }

  /** The present document. Throws `CONFLICT` if another writer has changed the shape. */
  async #readOwn(): Promise<Awaited<ReturnType<typeof readDocument>>> {
    const before = await readDocument(this.store, this.path);
    const own = this.#array.metadata["shape"] as readonly number[];
    if (String(before.document["shape"]) !== String(own))
      throw new SuperchunkError(
        "CONFLICT",
        "another writer has changed the shape of the array since it was opened; open it again",
        {
          path: this.store.describe(this.path),
          field: "shape",
          expected: own,
          found: before.document["shape"],
        },
      );
    return before;
  }

  async #changeDocument(change: (document: NodeDocument) => NodeDocument, shrinks = false): Promise<void> {
    const before = await this.#readOwn();
    const document = change(before.document);
    this.#behind = await putDocument(this.store, this.path, before, document, shrinks);
    this.#array = this.#described(asRead(document, this.store.describe(joinKey(this.path, DOCUMENT))));
  }
}

/** Puts the fill value into the rest of the chunks that the edge of `shape` cuts, up to the end of the array. */
async function fillBeyond(
  array: WritableZarrArray,
  shape: readonly number[],
  signal: AbortSignal | undefined,
): Promise<void> {
  // The end of the chunk that contains the first index beyond; if a chunk begins there, nothing is filled.
  const ends = shape.map((length, d) =>
    Math.min(at(array.shape, d), roundUp(length, at(at(array.model.axes, d).lengths, 0))),
  );
  for (const [d, length] of shape.entries())
    if (at(ends, d) > length && !shape.includes(0))
      await array.fill(
        // Up to the ends of later dimensions, so that the corners are filled too.
        shape.map((n, i) => ({
          start: i === d ? length : 0,
          stop: i < d ? n : at(ends, i),
          step: 1,
        })),
        { signal },
      );
  await array.flush();
}
