/**
 * A Bloscpack file open for editing. Every change makes a new file and renames it over the old one, so no reader sees an
 * intermediate state. Chunks that a change does not touch are copied as stored. @see FORMAT.md [F1.3]
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { loadDigest } from "../../bytes/checksum.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { INDEX_NAME } from "../../format/naming.ts";
import type { DType, JsonObject, JsonObjectInput } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import { type Extent, resolveSelection, type Selected, type Selection } from "../../values/selection.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import {
  type AttributeChanges,
  type ChangeCost,
  changesOf,
  checkChange,
  type EditorOptions,
  givenShape,
  withAttributes,
} from "../editable.ts";
import { compactFile, type SetChunkOptions, type SetChunkResult, setChunk } from "../in-place/set-chunk.ts";
import { type ChunkSettings, checkChunkSettings } from "../layout/settings.ts";
import { QueuedEditor, WaitingRows } from "../queued-editor.ts";
import { applyEdits, collectItems, editsOf, WaitingEdits } from "../rows/edits.ts";
import { itemsOf, readRows, reshapeRows } from "../rows/rows.ts";
import {
  appendToBloscpack,
  type BloscpackAppendOptions,
  type BloscpackAppendResult,
  forecastAppend,
  planAppend,
  rewrite,
} from "./bloscpack-append.ts";
import { type BloscpackState, growableArray, readBloscpackState } from "./bloscpack-state.ts";
import { ARRAY_KEYS, encodeChunks } from "./bloscpack-write.ts";
import { scratchBeside, spoolChunks } from "./chunk-spool.ts";
import { cutPieces, READ_BYTES, readInPieces } from "./pieces.ts";

/** How a file is opened. */
export interface BloscpackFileOptions extends EditorOptions {
  /** How chunks are made; default: like the file's last one. */
  readonly settings?: Pick<BloscpackAppendOptions, "chunkSize" | "cname" | "clevel" | "shuffle"> | undefined;
}

/** Bytes of rows that wait in memory. */
const MAX_WAITING = 8 << 20;

const BYTE: DType = { kind: "uint", itemSize: 1, byteOrder: "none" };
const NO_COLUMNS = "a Bloscpack file has no columns";

/** The folder of the array that a file at this path would hold chunks of. */
export function arrayAround(path: string): string | undefined {
  return /^(.*)[\\/]data[\\/](?:[^\\/]+[\\/])?__\d+(?:__)?\.(?:bin|blp)$/.exec(path)?.[1];
}

/** Throws `UNSUPPORTED` for a file with chunks of an array in the store: its metadata would contradict the changed file. */
export async function refusePart(store: WritableStore, key: string): Promise<void> {
  const root = arrayAround(`/${key}`)?.slice(1);
  if (root === undefined) return;
  const documents = ["meta/storage", "meta/sizes"].map((name) => store.stat(joinKey(root, name)));
  if ((await Promise.all(documents)).some((found) => found !== undefined))
    throw partError(store.describe(root), store.describe(key));
}

export function partError(root: string, path: string): SuperchunkError {
  const summary = `the file holds chunks of the array ${root}, and is not changed alone; change the array`;
  return new SuperchunkError("UNSUPPORTED", summary, { path });
}

const APPEND_OPTIONS =
  " array chunkSize clevel cname encoder grow inPlace maxAppChunks metadata metadataOptions shuffle typesize";

export class BloscpackFile extends QueuedEditor {
  readonly kind: "array" | "bytes";
  readonly format = "bloscpack";
  protected readonly reasons: Readonly<Record<string, string>> = {
    addColumn: NO_COLUMNS,
    renameColumn: NO_COLUMNS,
    deleteColumn: NO_COLUMNS,
    compact:
      "a Bloscpack file is compacted as it is, and without a plan; decompress and compress it to choose other settings",
  };
  readonly #options: BloscpackFileOptions;
  #state: BloscpackState;
  readonly #waiting = new WaitingRows(MAX_WAITING);
  #written = 0;

  private constructor(state: BloscpackState, options: BloscpackFileOptions) {
    super({ store: state.store, path: state.key }, options.lock);
    this.kind = state.archive.kind;
    this.#state = state;
    this.#options = options;
  }

  /** Opens a file. Throws `NOT_FOUND`, `UNSUPPORTED` for versions 1 and 2, and the codes of damage. */
  static async open(
    store: WritableStore,
    key: string,
    options: BloscpackFileOptions = {},
  ): Promise<BloscpackFile> {
    await refusePart(store, key);
    const { folder, name } = splitKey(key);
    // The holder of the lock removes copies of the whole file, and of its index, that killed writers left next to it.
    const names = new Set([name, `${name}.${INDEX_NAME}`]);
    if (options.lock !== undefined) await store.removeLeftovers?.(folder, { names });
    return new BloscpackFile(await readBloscpackState(store, key, { signal: options.signal }), options);
  }

  get attrs(): JsonObject {
    return this.#state.archive.attrs;
  }
  override get dtype(): DType {
    const { archive } = this.#state;
    return archive.kind === "array" ? archive.dtype : BYTE;
  }
  override get shape(): readonly number[] {
    const [rows = 0, ...rowShape] = this.#shape;
    return [rows + this.#waiting.count(this.#rowBytes), ...rowShape];
  }
  override get bytesWritten(): number {
    return this.#written;
  }

  get #shape(): readonly number[] {
    const { archive } = this.#state;
    return archive.kind === "array" ? archive.shape : [archive.nbytes];
  }
  get #rowBytes(): number {
    return elementsOf(this.#shape.slice(1)) * this.dtype.itemSize;
  }

  protected override appendRows(values: unknown, options: LongOptions): Promise<void> {
    return this.line.run(async () => {
      const facts = { dtype: this.dtype, rowShape: this.#shape.slice(1) };
      const items = itemsOf(values, facts);
      if (items === undefined) {
        await this.commit(options);
        return this.#append(readRows(values, facts), options);
      }
      if (this.#waiting.add(items, this.#rowBytes)) await this.commit(options);
    });
  }

  /**
   * Appends bytes unchanged, with options that only Bloscpack has: room in the offsets table, other metadata, a change in place. They are
   * part of the file when this resolves.
   * @throws LIMIT if the offsets table is full (`grow` enlarges it); BAD_ARGUMENT if bytes end inside a row; CONFLICT if another writer was
   * faster
   */
  async appendBytes(source: PutSource, options: BloscpackAppendOptions = {}): Promise<BloscpackAppendResult> {
    checkChange(options, APPEND_OPTIONS);
    return this.onCommit(options, async () => {
      const { encoder } = this.#options;
      const result = await appendToBloscpack(this.store, this.path, source, { encoder, ...options });
      await this.#read();
      return result;
    });
  }

  /** Returns what {@link appendBytes} of that many bytes would do; writes nothing. Throws the same. */
  async planAppend(bytes: number, options: BloscpackAppendOptions = {}): Promise<BloscpackAppendResult> {
    checkChange(options, APPEND_OPTIONS);
    return forecastAppend(this.store, this.path, bytes, options);
  }

  /**
   * Sets the decoded bytes of one chunk in place: in its slot if it fits (`reserve` leaves room), else at the end of the file, which then
   * becomes version 4; `compact` returns it to version 3. Durable when resolved.
   * @throws BAD_ARGUMENT for an unknown chunk, or another number of bytes; UNSUPPORTED for a store or a file that lacks what this needs;
   * CONFLICT if the file has other names
   */
  async setChunk(index: number, bytes: Uint8Array, options: SetChunkOptions = {}): Promise<SetChunkResult> {
    checkOptions(options, "cparams signal");
    options.signal?.throwIfAborted();
    return this.onCommit(options, async () => {
      const result = await setChunk(this.store, this.path, index, bytes, options);
      await this.#read();
      return result;
    });
  }

  /** Rewrites the file as version 3, with chunks in order and without gaps. Throws `UNSUPPORTED` for other settings. */
  override async compact(changes: ChunkSettings = {}, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    if (Object.values(checkChunkSettings(changes)).some((value) => value !== undefined))
      return this.refuse("compact");
    return this.onCommit(options, async () => {
      await compactFile(this.store, this.path, options);
      await this.#read();
    });
  }

  /** Sets the selected values by rewriting the file. Chunks without selected values are copied as stored. */
  override async set(selection: Selection | null, values: unknown, options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.onCommit(options, async () => {
      growableArray(this.#state); // refuses Fortran order
      const extents = resolveSelection(selection, this.#shape);
      const items = await collectItems(values, this.dtype, extents);
      if (extents.some(({ count }) => count === 0)) return;
      const { itemSize } = this.dtype;
      const bytes = { shape: this.#shape, itemSize, chunkBytes: this.#state.chunkSize };
      const edits = new WaitingEdits();
      for (const edit of editsOf(bytes, extents, items)) edits.add(edit);
      const [first = 0] = edits.chunks;
      await this.#rewrite(first, this.#editedChunks(first, edits, options), options);
    });
  }

  /** Changes the shape: removes values, or adds zeros. A new row shape rewrites all rows. */
  override async resize(given: number | readonly number[], options: LongOptions = {}): Promise<void> {
    checkChange(options);
    return this.onCommit(options, async () => {
      const shape = givenShape(given, this.#shape);
      const [rows = 0, ...rowShape] = shape;
      const [before = 0, ...rowBefore] = this.#shape;
      // Only the metadata count rows without bytes.
      if (rowShape.join() !== rowBefore.join() || this.#rowBytes === 0) await this.#reshape(shape, options);
      else if (rows < before) await this.#moveRows(rows, before, options);
      else if (rows > before) await this.#append(zeros((rows - before) * this.#rowBytes), options);
    });
  }

  protected override costOfResize(shape: readonly number[], before: readonly number[]): ChangeCost {
    if (shape.slice(1).join() !== before.slice(1).join()) {
      const nbytesRewritten = elementsOf(shape) * this.dtype.itemSize;
      const chunkSize = Math.max(1, this.#planAppend({}).chunkSize);
      return { chunksRewritten: Math.ceil(nbytesRewritten / chunkSize), nbytesRewritten };
    }
    const [[rows = 0], [rowsBefore = 0]] = [shape, before];
    const edge = Math.min(rows, rowsBefore) * this.#rowBytes;
    const moved = rows === rowsBefore ? 0 : edge % Math.max(1, this.#state.chunkSize);
    return { chunksRewritten: moved > 0 ? 1 : 0, nbytesRewritten: moved };
  }

  protected override costOfSet(extents: readonly Extent[]): ChangeCost {
    const { chunkSize, nbytes } = this.#state;
    const { itemSize } = this.dtype;
    const facts = { shape: this.#shape, itemSize, chunkBytes: chunkSize };
    const chunks = new Set<number>();
    for (const { index } of editsOf(facts, extents, new Uint8Array(itemSize))) chunks.add(index);
    const sizes = [...chunks].map((index) => Math.min(chunkSize, nbytes - index * chunkSize));
    return { chunksRewritten: chunks.size, nbytesRewritten: sizes.reduce((sum, size) => sum + size, 0) };
  }

  override async deleteRows(start: number, end: number, options: LongOptions = {}): Promise<number> {
    checkChange(options);
    return this.onCommit(options, async () => {
      const plan = await this.planDelete(start, end);
      if (plan.rowsDeleted > 0) await this.#moveRows(start, end, options);
      return plan.rowsRewritten;
    });
  }

  /** Changes the metadata. */
  override setAttributes(changes: AttributeChanges): Promise<void> {
    return this.onCommit({}, async () => {
      const { metadata } = this.#state;
      if (
        metadata !== undefined &&
        (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
      )
        throw new SuperchunkError("UNSUPPORTED", "the metadata of the file are not a JSON object", {
          path: this.store.describe(this.path),
          field: "metadata",
        });
      const own = this.kind === "array" ? ARRAY_KEYS : [];
      const taken = changesOf(changes).find(([name]) => own.includes(name));
      if (taken !== undefined) throw badArgument(...taken, "another name: the array itself has this one");
      const stored = Object.entries((metadata ?? {}) as JsonObjectInput).filter(
        ([name]) => !own.includes(name),
      );
      const attributes = withAttributes(Object.fromEntries(stored), changes);
      await this.#append(new Uint8Array(0), {}, attributes);
    });
  }

  override get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: LongOptions = {},
  ): Promise<Selected<S>> {
    return this.onCommit(options, async (): Promise<Selected<S>> => {
      const { archive } = this.#state;
      if (archive.kind === "array") return archive.get<S>(selection, options);
      throw this.unsupported("get");
    });
  }

  override getBytes(selection: Selection | null = null, options: LongOptions = {}): Promise<Uint8Array> {
    return this.onCommit(options, async () => {
      const { archive } = this.#state;
      if (archive.kind === "array") return archive.getBytes(selection, options);
      const [extent] = resolveSelection(selection, this.#shape);
      const { start = 0, count = 0 } = extent ?? {};
      return archive.readBytes(start, start + count, options);
    });
  }

  /** Rewrites the file with rows of another shape. */
  async #reshape(shape: readonly number[], options: LongOptions): Promise<void> {
    const state = this.#state;
    growableArray(state); // refuses Fortran order
    const { itemSize } = this.dtype;
    const [[rows = 0, ...after], [rowsBefore = 0, ...before]] = [shape, this.#shape];
    const rowBytes = this.#rowBytes;
    const widest = Math.max(1, rowBytes, elementsOf(after) * itemSize);
    const step = Math.max(1, Math.floor(READ_BYTES / widest)) * rowBytes;
    const reshaping = { before, after, fill: new Uint8Array(itemSize) };
    const source = (async function* () {
      let left = elementsOf(shape) * itemSize;
      const end = Math.min(rows, rowsBefore) * rowBytes;
      for (let at = 0; at < end; at += step) {
        const bytes = await state.archive.readBytes(at, Math.min(end, at + step), { signal: options.signal });
        const items = reshapeRows(bytes, reshaping);
        left -= items.length;
        yield items;
      }
      yield* zeros(left);
    })();
    const { checksum, chunkSize, compression } = this.#planAppend(options);
    const pieces = cutPieces(source, chunkSize, options.signal);
    await this.#rewrite(0, encodeChunks(pieces, checksum, undefined, compression), options, shape);
  }

  #growing(options: LongOptions): BloscpackAppendOptions {
    const { encoder, settings } = this.#options;
    return { ...settings, ...options, encoder, grow: true };
  }

  #planAppend(options: LongOptions): ReturnType<typeof planAppend> {
    return planAppend(this.#state, this.#growing(options));
  }

  protected commit(options: LongOptions): Promise<void> {
    return this.#waiting.commit((pieces) => this.#append(pieces, options));
  }

  async #append(
    source: Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
    options: LongOptions,
    metadata?: JsonObjectInput,
  ): Promise<void> {
    const more = metadata === undefined ? {} : { metadata };
    await appendToBloscpack(this.store, this.path, source, { ...this.#growing(options), ...more });
    await this.#read();
  }

  async #moveRows(start: number, end: number, options: LongOptions): Promise<void> {
    const state = this.#state;
    const { checksum, chunkSize, compression } = this.#planAppend(options);
    growableArray(state); // refuses Fortran order
    const [from, to] = [start * this.#rowBytes, end * this.#rowBytes];
    const rest = state.nbytes - to;
    // The last chunk is never empty.
    const kept = Math.max(0, rest > 0 ? Math.floor(from / chunkSize) : Math.ceil(from / chunkSize) - 1);
    const source = (async function* () {
      yield* readInPieces(state, kept * chunkSize, from, options);
      yield* readInPieces(state, to, state.nbytes, options);
    })();
    const pieces = cutPieces(source, chunkSize, options.signal);
    await this.#rewrite(kept, encodeChunks(pieces, checksum, undefined, compression), options);
  }

  /** The chunks from `first` on: those with edits encoded again, the others as stored. */
  async *#editedChunks(
    first: number,
    edits: WaitingEdits,
    options: LongOptions,
  ): AsyncGenerator<StoredChunk> {
    const { archive, nchunks, nbytes, header } = this.#state;
    const { checksum, chunkSize, compression } = this.#planAppend(options);
    const digest = await loadDigest(header.checksum);
    for (let index = first; index < nchunks; index++) {
      options.signal?.throwIfAborted();
      const [from, to] = [index * chunkSize, Math.min(nbytes, (index + 1) * chunkSize)];
      const changes = edits.of(index);
      if (changes.length === 0) {
        for await (const { bytes } of archive.encodedChunks(index, index + 1, { signal: options.signal })) {
          const own = bytes.slice();
          yield { bytes: own, digest: digest(own), nbytes: to - from };
        }
        continue;
      }
      const data = await archive.readBytes(from, to, { signal: options.signal });
      applyEdits(changes, data);
      yield* encodeChunks([data], checksum, undefined, compression);
    }
  }

  async #rewrite(
    kept: number,
    chunks: AsyncGenerator<StoredChunk>,
    options: LongOptions,
    shape?: readonly number[],
  ): Promise<void> {
    const spool = await spoolChunks(chunks, scratchBeside(this.store, this.path));
    try {
      const plan = { ...this.#planAppend(options), ...(shape && { shape }) };
      await rewrite(plan, kept, spool, this.#growing(options));
      this.#written += (await this.store.stat(this.path))?.size ?? 0;
    } finally {
      await spool.dispose();
    }
    await this.#read();
  }

  async #read(): Promise<void> {
    this.#state = await readBloscpackState(this.store, this.path, { signal: this.#options.signal });
  }
}

function* zeros(length: number): Generator<Uint8Array> {
  for (let left = length; left > 0; left -= READ_BYTES) yield new Uint8Array(Math.min(left, READ_BYTES));
}
