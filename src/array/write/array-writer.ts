/**
 * The state of an array that is being written: what is committed, what is planned, and the rows on their way.
 *
 * Plan, publish, commit, clean up: superchunks are put under new names and never changed; one replacement of
 * `meta/sizes` makes them the array. `runs` counts whole chunks only: a short last one is written with each commit, from
 * the rows in the buffer, and no longer counted after. Knows nothing of values. @see FORMAT.md [FG]
 */
import { type DigestFunction, loadDigest } from "../../bytes/checksum.ts";
import { decode } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import { digestLength } from "../../format/checksums.ts";
import { encodeSizes, FIRST_LOOSE, type Patch, type Run, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { elementsOf } from "../selection.ts";
import { ChunkArena, type FilledBlocks } from "./arena.ts";
import { ChunkSource } from "./chunk-source.ts";
import { type ColumnLayout, layOutColumns } from "./columns.ts";
import { Encoding, roomFor } from "./encode-chunk.ts";
import type { ArrayRoot } from "./root.ts";
import { RowBuffer } from "./row-buffer.ts";
import { appendRun, dropPatched, removedNumbers, replaceNumber, splitLast, truncateRuns } from "./runs.ts";
import type { ArraySettings } from "./settings.ts";
import { type StoredChunk, superchunkPieces, totalLength } from "./superchunk-file.ts";

/** What the last commit says. */
export interface Committed {
  readonly layout: StoredLayout;
  readonly rows: number;
  readonly cbytes: number;
}

/** A superchunk on its way: for each column its chunks. */
interface Segment {
  readonly number: number;
  readonly columns: readonly (readonly StoredChunk[])[];
}

/** How the end of the array is to be written. */
interface TailPlan {
  /** Runs that stay as they are. */
  readonly before: readonly Run[];
  /** The superchunk behind them, and its whole and short chunks. */
  readonly number: number | undefined;
  readonly whole: number;
  readonly short: number;
  readonly patches: readonly Patch[];
}

/** A segment with what becomes of it. */
interface Publication {
  readonly segment: Segment;
  /** Where its chunks lie, to be used again. */
  readonly blocks: FilledBlocks;
  /** Under way; never rejects. Undefined: to be tried again. */
  publishing: Promise<void> | undefined;
  failure: { readonly error: unknown } | undefined;
}

/** Names that are tried for one superchunk. */
const MAX_NUMBERS = 1000;
/** Superchunks that are being published while the next one is made. */
const MAX_WAITING = 2;

export class ArrayWriter {
  readonly root: ArrayRoot;
  readonly #encoding: Encoding;
  settings: ArraySettings;
  columns: readonly ColumnLayout[];
  committed: Committed;
  /** Planned: whole chunks. */
  runs: readonly Run[] = [];
  patches: readonly Patch[] = [];
  edition = 0;
  next: number = FIRST_LOOSE;
  plain = 0;
  buffer: RowBuffer;
  /** True where something is planned that is not committed. */
  isDirty = false;
  /** Encoded whole chunks behind the planned runs, for each column; some still being made. */
  #pending: (StoredChunk | Promise<StoredChunk>)[][] = [];
  /** Chunks that are being made elsewhere. */
  readonly #underWay = new Set<Promise<StoredChunk>>();
  /** True once the rows of a short last chunk are in the buffer. */
  #isTailLoaded = false;
  readonly #arena = new ChunkArena();
  readonly #waiting = new Set<Publication>();
  /** Bytes published in this session, all columns; those of each file; and which of them no commit has named yet. */
  sessionBytes = 0;
  readonly #fileBytes = new Map<number, number>();
  readonly #uncommitted = new Set<number>();
  #deferred: { readonly error: unknown } | undefined;
  #generation: number;
  #digest: DigestFunction | undefined;
  #source: { committed: Committed; patches: readonly Patch[]; source: ChunkSource } | undefined;

  constructor(root: ArrayRoot, settings: ArraySettings, committed: Committed, encoder?: ChunkEncoder) {
    this.root = root;
    this.#encoding = new Encoding(encoder);
    this.settings = settings;
    this.committed = committed;
    this.#generation = committed.layout.generation;
    this.columns = this.#layOut();
    this.buffer = this.#newBuffer();
    this.#reset();
  }

  get rowBytes(): number {
    const { dtype, rowShape } = this.settings;
    return elementsOf(rowShape) * dtype.itemSize;
  }

  /** Rows, those on their way included. */
  get rows(): number {
    if (!this.#isTailLoaded) return this.committed.rows;
    return this.wholeChunks * this.settings.chunklen + this.buffer.rows;
  }

  /** Whole chunks, those on their way included. */
  get wholeChunks(): number {
    return this.#runChunks + this.pendingChunks;
  }

  get pendingChunks(): number {
    return this.#pending[0]?.length ?? 0;
  }

  /** True where rows or changes wait for a commit. */
  get hasChanges(): boolean {
    return this.isDirty;
  }

  get encodeOptions(): EncodeOptions {
    const { cname, clevel, shuffle } = this.settings;
    return { cname, clevel, shuffle };
  }

  /** Reads the chunks of the last commit, planned patches laid over them. */
  source(): ChunkSource {
    const { committed, patches, columns } = this;
    const known = this.#source;
    if (known?.committed === committed && known.patches === patches) return known.source;
    const layout = { ...committed.layout, patches };
    const source = new ChunkSource(this.root.store, this.root.path, layout, {
      columns,
      rows: committed.rows,
      chunklen: this.settings.chunklen,
    });
    this.#source = { committed, patches, source };
    return source;
  }

  /** Forgets all that is planned: back to the last commit. */
  async rollBack(settings: ArraySettings = this.settings): Promise<void> {
    for (const { publishing } of this.#waiting) await publishing;
    this.#waiting.clear();
    this.#deferred = undefined;
    if (settings !== this.settings) this.restart(settings);
    this.#reset();
  }

  #reset(): void {
    const { layout, rows } = this.committed;
    const whole = this.rowBytes === 0 ? 0 : Math.floor(rows / this.settings.chunklen);
    this.runs = truncateRuns(layout.runs, whole);
    this.patches = layout.patches;
    this.edition = layout.edition;
    this.next = Math.max(this.next, layout.next);
    this.plain = Math.max(this.plain, layout.plain);
    this.buffer.clear();
    this.#pending = this.columns.map(() => []);
    this.#arena.giveBack(this.#arena.take());
    this.#isTailLoaded = false;
    this.isDirty = false;
  }

  /** Takes over other settings, which the next commit will go by: all chunks are to be written anew. */
  restart(settings: ArraySettings): void {
    this.settings = settings;
    this.#digest = undefined;
    this.#source = undefined;
    this.columns = this.#layOut();
    this.buffer = this.#newBuffer();
    this.#pending = this.columns.map(() => []);
    this.runs = [];
    this.patches = [];
    this.#isTailLoaded = true;
    this.isDirty = true;
  }

  /** Makes the codec, the digest and the short last chunk ready. */
  async prepare(): Promise<void> {
    this.#digest ??= await loadDigest(this.settings.checksum);
    await this.#encoding.prepare(this.encodeOptions);
    if (this.#isTailLoaded) return;
    const { rows } = this.committed;
    const { chunklen } = this.settings;
    const short = this.rowBytes === 0 ? rows : rows % chunklen;
    if (short > 0 && this.rowBytes > 0)
      this.buffer.load(await this.source().decoded(Math.floor(rows / chunklen)), short);
    else this.buffer.rows = this.rowBytes === 0 ? rows : 0;
    this.#isTailLoaded = true;
  }

  /** Takes whole rows into the buffer as far as they fit and nothing else has to be done; the bytes taken. */
  takeNow(items: Uint8Array): number {
    if (!this.#isTailLoaded || this.rowBytes === 0 || items.length >= this.buffer.room * this.rowBytes)
      return 0;
    this.isDirty = true;
    return this.buffer.take(items) * this.rowBytes;
  }

  /**
   * Appends whole rows; {@link prepare} must have been awaited. Where a superchunk cannot be published all rows are taken
   * all the same, before what went wrong is thrown.
   */
  async append(items: Uint8Array): Promise<void> {
    if (items.length === 0) return;
    this.isDirty = true;
    const { chunklen } = this.settings;
    const chunkBytes = chunklen * this.rowBytes;
    const isPlain = this.columns.length === 1;
    for (let at = 0; at < items.length; ) {
      if (isPlain && this.buffer.rows === 0 && items.length - at >= chunkBytes) {
        // A whole chunk is encoded from where it lies.
        await this.#addChunk([await this.#begin(0, items.subarray(at, at + chunkBytes))]);
        at += chunkBytes;
        continue;
      }
      at += this.buffer.take(at === 0 ? items : items.subarray(at)) * this.rowBytes;
      if (this.buffer.room === 0) await this.#encodeBuffer();
    }
    // The items are their owner's again.
    await this.#made(0);
    this.#throwDeferred();
  }

  /** Begins to encode a chunk; at most as many at a time as the encoder likes. */
  async #begin(column: number, data: Uint8Array): Promise<StoredChunk | Promise<StoredChunk>[]> {
    if (this.#encoding.isHere) return this.#encodeToArena(column, data);
    await this.#made(this.#encoding.parallel - 1);
    const chunk = this.encodeColumn(column, data);
    this.#underWay.add(chunk);
    const forget = (): void => void this.#underWay.delete(chunk);
    chunk.then(forget, forget);
    return [chunk];
  }

  /** Encodes a chunk that goes into the next superchunk or patch to be published. */
  encodeNext(column: number, data: Uint8Array): StoredChunk | Promise<StoredChunk> {
    return this.#encoding.isHere ? this.#encodeToArena(column, data) : this.encodeColumn(column, data);
  }

  /** Encodes a chunk right behind the one before it. */
  #encodeToArena(column: number, data: Uint8Array): StoredChunk {
    const length = digestLength(this.settings.checksum);
    const room = this.#arena.reserve(roomFor(data.length) + length);
    const typesize = this.columns[column]?.itemSize ?? 1;
    const bytes = this.#encoding.encodeTo(data, room, { ...this.encodeOptions, typesize });
    const digest = room.subarray(bytes.length, bytes.length + length);
    digest.set(this.#digestOf(bytes));
    this.#arena.keep(bytes.length + length);
    return { bytes, digest, nbytes: data.length };
  }

  #digestOf(bytes: Uint8Array): Uint8Array {
    if (this.#digest === undefined) throw new RangeError("prepare() was not awaited");
    return this.#digest(bytes);
  }

  /** Waits until at most `left` chunks are being made. What goes wrong is thrown where the chunk is needed. */
  async #made(left: number): Promise<void> {
    while (this.#underWay.size > left)
      await Promise.race([...this.#underWay].map((chunk) => chunk.catch(() => undefined)));
  }

  /** Counts rows of an array whose rows have no bytes. */
  appendNothing(rows: number): void {
    this.buffer.rows += rows;
    this.isDirty = true;
  }

  /** Adds an encoded whole chunk, one for each column. The buffer must be empty. */
  async addChunk(chunks: readonly StoredChunk[]): Promise<void> {
    await this.#addChunk(chunks);
    this.#throwDeferred();
  }

  async #addChunk(chunks: readonly (StoredChunk | readonly Promise<StoredChunk>[])[]): Promise<void> {
    this.isDirty = true;
    for (const [i, chunk] of chunks.entries()) this.#pending[i]?.push(...(isList(chunk) ? chunk : [chunk]));
    const { superchunklen } = this.settings;
    const full = this.#fullRuns();
    if (this.#runChunks - full.chunks + this.pendingChunks >= superchunklen)
      await this.#closeSuperchunk(full);
  }

  /** Encoded whole chunks of one superchunk at most become a patch: each replaces the chunk of the array named with it. */
  async publishPatch(chunks: readonly number[], columns: readonly (readonly StoredChunk[])[]): Promise<void> {
    const number = this.takeLoose();
    const replaced = new Set(chunks);
    this.patches = [...dropPatched(this.patches, (chunk) => replaced.has(chunk)), { number, chunks }];
    this.isDirty = true;
    await this.#publishLater({ number, columns });
    this.#throwDeferred();
  }

  /** An encoded chunk with the digest that the array's chunks have. {@link prepare} must have been awaited. */
  withDigest(bytes: Uint8Array, nbytes: number): StoredChunk {
    return { bytes, digest: this.#digestOf(bytes), nbytes };
  }

  /** Starts the buffer, which must be empty, with the first rows of a chunk of each column. */
  async appendColumns(chunks: readonly StoredChunk[], rows: number): Promise<void> {
    const columns: Uint8Array[] = [];
    for (const { bytes } of chunks) columns.push(await decode(bytes));
    this.buffer.load(columns, rows);
    this.isDirty = true;
  }

  /** Encodes one chunk of a column. */
  encodeColumn(index: number, data: Uint8Array): Promise<StoredChunk> {
    return this.encodeItems(data, this.columns[index]?.itemSize ?? 1);
  }

  /** Encodes items of the given size as one chunk, with its digest. */
  async encodeItems(data: Uint8Array, typesize: number): Promise<StoredChunk> {
    const made = this.#encoding.encode(data, { ...this.encodeOptions, typesize });
    const bytes = made instanceof Uint8Array ? made : await made;
    return { bytes, digest: this.#digestOf(bytes), nbytes: data.length };
  }

  /**
   * Commits all that is planned. Durable when resolved; where it fails, the plan stays as it is and can be tried again.
   * `change` is what the layout gets besides.
   */
  async commit(change: Partial<Pick<StoredLayout, "epoch" | "storage">> = {}): Promise<void> {
    await this.prepare();
    await this.drain();
    const { before, number, whole, short, patches } = await this.#planTail();
    const runs = number === undefined ? before : appendRun(before, number, whole + short);
    const newLayout: StoredLayout = {
      ...this.committed.layout,
      generation: ++this.#generation,
      edition: this.edition,
      revision: this.settings.revision,
      next: this.next,
      plain: this.plain,
      runs,
      patches,
      ...change,
    };
    await this.#commitLayout(newLayout);
    this.runs = truncateRuns(runs, this.#runChunksOf(before) + whole);
    this.patches = patches;
    this.#pending = this.columns.map(() => []);
    this.#arena.giveBack(this.#arena.take());
    this.isDirty = false;
  }

  /** Commits the same rows under another layout. Nothing else may be planned. `storageIsPut`: it need not be in the layout. */
  async recommit(
    change: Partial<Omit<StoredLayout, "id" | "generation">>,
    storageIsPut = false,
  ): Promise<void> {
    const { storage, ...kept } = this.committed.layout;
    const layout: StoredLayout = {
      ...kept,
      ...(storage === undefined || storageIsPut ? {} : { storage }),
      next: this.next,
      ...change,
      generation: ++this.#generation,
    };
    await this.#commitLayout(layout);
    const whole = this.rowBytes === 0 ? 0 : Math.floor(this.committed.rows / this.settings.chunklen);
    this.runs = truncateRuns(layout.runs, whole);
    this.patches = layout.patches;
    this.edition = layout.edition;
    this.plain = layout.plain;
  }

  /** A file that was put under another name than {@link publishSegment} would. */
  adopt(number: number, bytes: number): void {
    this.#uncommitted.add(number);
    this.#fileBytes.set(number, bytes);
  }

  async #commitLayout(layout: StoredLayout): Promise<void> {
    const rows = this.rows;
    const before = this.committed;
    const removed = [...removedNumbers(before.layout, layout)];
    let cbytes = before.cbytes;
    for (const number of removed) cbytes -= await this.bytesOf(number);
    const orphans: number[] = [];
    for (const number of this.#uncommitted) {
      if (names(layout, number)) cbytes += this.#fileBytes.get(number) ?? 0;
      else orphans.push(number);
    }
    cbytes = Math.max(0, cbytes);
    const shape = [rows, ...this.settings.rowShape];
    await this.root.commit(encodeSizes({ shape, nbytes: rows * this.rowBytes, cbytes }, layout));
    this.committed = { layout, rows, cbytes };
    this.#uncommitted.clear();
    this.removeNumbers([...removed, ...orphans]);
  }

  /** Removes the superchunks of these numbers, in the background. */
  removeNumbers(numbers: readonly number[], columns: readonly ColumnLayout[] = this.columns): void {
    for (const number of numbers) this.#fileBytes.delete(number);
    const { root } = this;
    root.remove(
      (function* keys() {
        for (const number of numbers)
          for (const { folder } of columns) yield `${folder}/${superchunkName(number)}`;
      })(),
    );
  }

  /** Writes the chunks that wait, and a short last one, as a superchunk; merges small ones before it as they add up. */
  async #planTail(): Promise<TailPlan> {
    const short = this.rowBytes > 0 && this.buffer.rows > 0 ? 1 : 0;
    const pending = this.pendingChunks;
    if (pending + short === 0)
      return { before: this.runs, number: undefined, whole: 0, short, patches: this.patches };
    const { superchunklen } = this.settings;
    let before: readonly Run[] = this.runs;
    let whole = pending;
    for (let last = splitLast(before); pending > 0 && last !== undefined; last = splitLast(before)) {
      const { chunks } = last.last;
      if (chunks >= superchunklen || chunks > whole || chunks + whole + short > superchunklen) break;
      whole += chunks;
      before = last.before;
    }
    const columns = await this.#collect(whole - pending);
    if (short > 0) {
      for (let i = 0; i < this.columns.length; i++)
        columns[i]?.push(await this.encodeColumn(i, this.buffer.column(i)));
    }
    const number = await this.publishSegment({ number: this.takeLoose(), columns });
    const start = this.#runChunksOf(before);
    const patches = dropPatched(this.patches, (chunk) => chunk >= start);
    return { before, number, whole, short, patches };
  }

  /** The last `merged` chunks of the committed runs, and those that wait. */
  async #collect(merged: number): Promise<StoredChunk[][]> {
    const columns: StoredChunk[][] = [];
    const source = merged > 0 ? this.source() : undefined;
    const end = this.#runChunks;
    for (let i = 0; i < this.columns.length; i++) {
      const chunks: StoredChunk[] = [];
      if (source !== undefined)
        for await (const chunk of source.encoded(i, end - merged, end)) chunks.push(chunk);
      columns.push([...chunks, ...(await Promise.all(this.#pending[i] ?? []))]);
    }
    return columns;
  }

  /** Makes a full superchunk of the small ones at the end and the chunks that wait. */
  async #closeSuperchunk(full: { readonly runs: readonly Run[]; readonly chunks: number }): Promise<void> {
    const { superchunklen } = this.settings;
    const columns = await this.#collect(this.#runChunks - full.chunks);
    const number = this.#takeName(full.chunks / superchunklen);
    this.patches = dropPatched(this.patches, (chunk) => chunk >= full.chunks);
    this.runs = appendRun(full.runs, number, superchunklen);
    this.#pending = this.columns.map(() => []);
    await this.#publishLater({ number, columns });
  }

  /** Publishes a superchunk while the next one is made; waits where too many are under way. */
  async #publishLater(segment: Segment): Promise<void> {
    const blocks = this.#arena.take();
    const publication = { segment, blocks, publishing: undefined, failure: undefined };
    this.#waiting.add(publication);
    this.#start(publication);
    try {
      await this.drain(MAX_WAITING);
    } catch (error) {
      this.#deferred ??= { error };
    }
  }

  /** Throws what went wrong in publishing, once what was under way is in order. */
  #throwDeferred(): void {
    const deferred = this.#deferred;
    this.#deferred = undefined;
    if (deferred !== undefined) throw deferred.error;
  }

  /** Waits until at most `left` superchunks are being published. Throws what went wrong; then it can be tried again. */
  async drain(left = 0): Promise<void> {
    while (this.#waiting.size > left) {
      for (const publication of this.#waiting) {
        const { failure } = publication;
        if (failure !== undefined) {
          publication.failure = undefined;
          throw failure.error;
        }
        if (publication.publishing === undefined) this.#start(publication);
      }
      await Promise.race([...this.#waiting].map(({ publishing }) => publishing));
    }
  }

  #start(publication: Publication): void {
    const { number } = publication.segment;
    publication.publishing = this.publishSegment(publication.segment).then(
      (got) => {
        if (got !== number) {
          this.runs = replaceNumber(this.runs, number, got);
          this.patches = this.patches.map((patch) =>
            patch.number === number ? { ...patch, number: got } : patch,
          );
        }
        this.#waiting.delete(publication);
        this.#arena.giveBack(publication.blocks);
      },
      (error: unknown) => {
        publication.publishing = undefined;
        publication.failure = { error };
      },
    );
  }

  /** Publishes one superchunk, in all columns. The number that it got: another one where that is taken. */
  async publishSegment(segment: Segment): Promise<number> {
    let { number } = segment;
    for (let tries = 0; ; tries++) {
      // Whoever has the name may commit it yet; after a commit of ours he cannot, and it is removed.
      this.#uncommitted.add(number);
      try {
        const bytes = await this.#putColumns(number, segment.columns);
        this.#fileBytes.set(number, bytes);
        this.sessionBytes += bytes;
        return number;
      } catch (error) {
        if (!isSuperchunkError(error, "CONFLICT") || tries >= MAX_NUMBERS) throw error;
        number = this.takeLoose();
      }
    }
  }

  async #putColumns(number: number, columns: Segment["columns"]): Promise<number> {
    const { chunklen, checksum, superchunklen } = this.settings;
    let bytes = 0;
    for (const [i, { folder, rowBytes, itemSize }] of this.columns.entries()) {
      const chunkBytes = chunklen * rowBytes;
      const pieces = superchunkPieces(columns[i] ?? [], { chunkBytes, checksum, itemSize, superchunklen });
      await this.root.publish(`${folder}/${superchunkName(number)}`, pieces);
      bytes += totalLength(pieces);
    }
    return bytes;
  }

  /** A number that has no place. */
  takeLoose(): number {
    return this.next++;
  }

  /** The number of the superchunk at a place: its own, if that was never used in this epoch. */
  #takeName(place: number): number {
    const own = place + 1;
    if (own <= this.plain || own >= FIRST_LOOSE) return this.takeLoose();
    this.plain = own;
    return own;
  }

  /** Bytes of the files of a number, all columns. */
  async bytesOf(number: number): Promise<number> {
    const known = this.#fileBytes.get(number);
    if (known !== undefined) return known;
    let bytes = 0;
    for (const { folder } of this.columns)
      bytes += (await this.root.store.stat(`${folder}/${superchunkName(number)}`))?.size ?? 0;
    return bytes;
  }

  /** The runs of full superchunks at the front, and their chunks. */
  #fullRuns(): { runs: readonly Run[]; chunks: number } {
    const { superchunklen } = this.settings;
    const end = this.runs.findIndex((run) => run.chunks < superchunklen);
    const runs = end < 0 ? this.runs : this.runs.slice(0, end);
    return { runs, chunks: this.#runChunksOf(runs) };
  }

  async #encodeBuffer(): Promise<void> {
    const chunks: (StoredChunk | readonly Promise<StoredChunk>[])[] = [];
    for (let i = 0; i < this.columns.length; i++) chunks.push(await this.#begin(i, this.buffer.column(i)));
    this.buffer.clear(this.#encoding.parallel > 1);
    await this.#addChunk(chunks);
  }

  get #runChunks(): number {
    return this.#runChunksOf(this.runs);
  }

  #runChunksOf(runs: readonly Run[]): number {
    return runs.reduce((sum, run) => sum + run.count * run.chunks, 0);
  }

  #layOut(): readonly ColumnLayout[] {
    const { dtype, rowShape, hasColumns } = this.settings;
    return layOutColumns(this.root.path, dtype, rowShape, hasColumns);
  }

  #newBuffer(): RowBuffer {
    return new RowBuffer(this.columns, this.settings.chunklen, this.settings.dtype.itemSize, this.rowBytes);
  }
}

/** A promise in a list, so that it is not awaited on its way. */
function isList(
  chunk: StoredChunk | readonly Promise<StoredChunk>[],
): chunk is readonly Promise<StoredChunk>[] {
  return Array.isArray(chunk);
}

function names({ runs, patches }: StoredLayout, number: number): boolean {
  return (
    runs.some(({ first, count }) => number >= first && number < first + count) ||
    patches.some((patch) => patch.number === number)
  );
}
