/**
 * Archives over one chunk sequence: n-dimensional arrays, in C or F order, and files of plain bytes. Reads, lists and verifies them.
 */

import { type Allocation, at, elementsOf, fillResult } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { whyUnreadable } from "../../format/dtype.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { arrowBatches, oindex, scan, vindex } from "../../scan/begin.ts";
import { checkLater, sizeOfObjects } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  type ArraySlice,
  type Extent,
  firstOf,
  fortranToC,
  type RunBatch,
  resolveSelection,
  runsOf,
  type Selected,
  type Selection,
  selectedOf,
  stridesOf,
} from "../../values/selection.ts";
import { assertReadable, type Scalar, toValues } from "../../values/values.ts";
import {
  type ChunkPlace,
  type ChunkSequence,
  checkByteRange,
  chunkAt,
  endOfChunks,
  nbytesOfChunk,
} from "../places/sequence.ts";
import { readHead } from "../read/block-read.ts";
import type { ChunkDecoder, Hold } from "../read/chunk-fetch.ts";
import { SequenceReader } from "../read/sequence-reader.ts";
import type {
  ArrayArchive,
  BytesArchive,
  ChunkInfo,
  ChunkSummary,
  ChunksOptions,
  EncodedChunk,
  EncodedChunksOptions,
  ListChunksOptions,
  LongOptions,
  OpenOptions,
  ReadOptions,
  StoredParts,
  VerifyReport,
} from "./types.ts";
import type { VerifyContext } from "./verify.ts";

const PLACES = 1024;
/** For a result larger than this, the last chunk that a read touches must prove to exist before memory is allocated. */
const UNPROVEN_RESULT = 64 << 20;

export interface ArchiveParts extends StoredParts {
  /** Rows that a repair filled. [FG-15] */
  readonly filled?: readonly RowSpan[] | undefined;
  readonly sequence: ChunkSequence;
  readonly verify: boolean;
  /** Decodes chunks when many are read (default: the calling thread). */
  readonly decoder?: ChunkDecoder | undefined;
  /** Rows or bytes per chunk, for `summary`. */
  readonly cut: { readonly chunkLength: number } | { readonly chunkBytes: number };
  readonly clevel: number | undefined;
}

/** What all kinds of archives have in common. */
export abstract class StoredArchive<Parts extends StoredParts> {
  readonly dialect: Parts["dialect"];
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  /** Name in messages. */
  protected readonly shownPath: string;
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
    this.dialect = parts.dialect;
    this.store = parts.store;
    this.path = parts.path;
    this.shownPath = parts.store.describe(parts.path);
    this.attrs = parts.attrs;
    this.metadata = parts.metadata;
    this.warnings = parts.warnings;
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

let verifying: typeof import("./verify.ts") | undefined;

abstract class ChunkedBase extends StoredArchive<ArchiveParts> {
  readonly nbytes: number;
  readonly nchunks: number;
  readonly chunkBytes: number;
  readonly chunkStarts: Float64Array | undefined;
  protected readonly reader: SequenceReader;
  readonly #dtype: DType | undefined;
  readonly #unreadable: string | undefined;

  /** `dtype` is that of the items; absent for plain bytes. */
  constructor(parts: ArchiveParts, dtype?: DType) {
    super(parts);
    this.#dtype = dtype;
    this.#unreadable = dtype && whyUnreadable(dtype);
    this.nbytes = parts.sequence.nbytes;
    this.nchunks = parts.sequence.nchunks;
    this.chunkBytes = parts.sequence.chunkBytes;
    this.chunkStarts = parts.sequence.starts;
    this.reader = new SequenceReader(parts.sequence, parts.verify, parts.decoder);
  }

  /** Throws `UNSUPPORTED` for data that must not be read (Python objects). */
  protected assertReadable(): void {
    if (this.#dtype !== undefined && this.#unreadable !== undefined)
      assertReadable(this.#dtype, this.shownPath);
  }

  async summary(options: OpenOptions = {}): Promise<ChunkSummary> {
    await checkLater(options, "open");
    const { sequence, cut, clevel } = this.parts;
    const base = { nchunks: sequence.nchunks, ...cut, ...(clevel === undefined ? {} : { clevel }) };
    const [place] = sequence.nchunks === 0 ? [] : await sequence.places(0, 1, options.signal);
    if (place === undefined) return base;
    const { compressor, shuffle, typesize } = (await readHead(this.store, place, options.signal)).header;
    const checksum = sequence.hasChecksums ? { checksum: place.checksum } : {};
    return { ...base, cname: compressor, shuffle, typesize, ...checksum };
  }

  async storedBytes(options: OpenOptions = {}): Promise<number> {
    await checkLater(options, "open");
    const { sequence, metadataKeys, store } = this.parts;
    const own = await sizeOfObjects(store, metadataKeys, options.signal);
    return own + (await sizeOfObjects(store, sequence.keys(options.signal), options.signal));
  }

  async readBytes(start: number, end: number, options: LongOptions = {}): Promise<Uint8Array> {
    await checkLater(options, "long");
    this.assertReadable();
    checkByteRange(start, end, this.nbytes);
    await this.proveRoom(end - start, end, options.signal);
    return this.reader.read(start, end, options);
  }

  /** Prevents a damaged header from causing a huge allocation. */
  protected async proveRoom(length: number, end: number, signal: AbortSignal | undefined): Promise<void> {
    if (length <= UNPROVEN_RESULT) return;
    const last = chunkAt(this.parts.sequence, end - 1);
    const [place] = await this.parts.sequence.places(last, last + 1, signal);
    if (place !== undefined) await readHead(this.store, place, signal);
    if (length > 0xffff_ffff)
      throw new SuperchunkError(
        "LIMIT",
        `a result of ${length} bytes does not fit into one buffer; read it in parts, or with chunks()`,
        { path: this.shownPath, expected: "less than 4 GiB", found: length },
      );
  }

  async *encodedChunks(
    first = 0,
    end: number = this.nchunks,
    options: EncodedChunksOptions = {},
  ): AsyncIterable<EncodedChunk> {
    await checkLater(options, "encoded");
    this.assertReadable();
    let done = 0;
    for (let at = first, last = endOfChunks(first, end, this.nchunks); at < last; at += PLACES) {
      const places = await this.parts.sequence.places(at, Math.min(last, at + PLACES), options.signal);
      for await (const { place, bytes, read } of this.reader.fetch(places, options.signal, options.buffers)) {
        yield { place, bytes, read };
        done += place.nbytes;
        options.onProgress?.({ done, total: this.nbytes });
      }
    }
  }

  async chunkPlaces(
    first = 0,
    end: number = this.nchunks,
    options: OpenOptions = {},
  ): Promise<readonly ChunkPlace[]> {
    await checkLater(options, "open");
    return this.parts.sequence.places(first, endOfChunks(first, end, this.nchunks), options.signal);
  }

  async *listChunks(options: ListChunksOptions = {}): AsyncGenerator<ChunkInfo> {
    await checkLater(options, "list");
    const { listChunks } = await import("../read/list-chunks.ts");
    yield* listChunks(this.parts.sequence, options);
  }

  /**
   * Yields the decoded bytes in stored order, chunk by chunk: views, valid until the next one is requested; with `keep`, separate arrays.
   */
  protected async *decodedChunks(options: ChunksOptions, hold?: Hold): AsyncGenerator<Uint8Array> {
    await checkLater(options, hold === undefined ? "long" : "chunks");
    this.assertReadable();
    let done = 0;
    for await (const { place, bytes } of this.reader.scan({ signal: options.signal, hold })) {
      options.signal?.throwIfAborted(); // many chunks come with one read
      // A table with a shorter column can end inside a chunk of this one.
      const shown = this.chunkStarts
        ? bytes.length
        : nbytesOfChunk(place.index, this.nbytes, this.chunkBytes);
      yield shown < bytes.length ? bytes.subarray(0, shown) : bytes;
      done += shown;
      options.onProgress?.({ done, total: this.nbytes });
    }
  }

  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    const { sequence } = this.parts;
    const context: VerifyContext = {
      sequence,
      dtype: this.#unreadable === undefined ? this.#dtype : undefined,
      path: this.shownPath,
      warnings: this.warnings,
      filled: this.parts.filled,
      changing: this.dialect === "carray" ? this.path : undefined,
      scan: (places, signal) => this.reader.decodePlaces(places, sequence.nchunks, { signal, verify: true }),
      unreadable: this.#unreadable,
      identity: this.parts.identity,
    };
    verifying ??= await import("./verify.ts");
    return verifying.verifySequence(context, options);
  }
}

export class PlainArray extends ChunkedBase implements ArrayArchive {
  readonly kind = "array";
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly fillValue: JsonValue | undefined;
  readonly chunkLength: number | undefined;
  readonly columnNames: readonly string[] = [];
  readonly filled: readonly RowSpan[] | undefined;
  readonly #reading: ArrayReading;

  constructor(parts: ArchiveParts, facts: ArrayFacts & Pick<ArrayArchive, "fillValue" | "chunkLength">) {
    super(parts, facts.dtype);
    this.dtype = facts.dtype;
    this.filled = parts.filled;
    this.shape = facts.shape;
    this.order = facts.order;
    this.fillValue = facts.fillValue;
    this.chunkLength = facts.chunkLength;
    this.#reading = new ArrayReading(
      facts,
      (batches, out, options) => this.reader.gather(batches, facts.dtype.itemSize, out, options),
      { path: this.shownPath, prepare: parts.decoder?.prepareResult },
    );
  }

  column(name: string): ArrayArchive {
    throw new SuperchunkError("NOT_FOUND", `no column "${name}": the array is not stored as column folders`, {
      path: this.shownPath,
      field: name,
    });
  }

  async get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: ReadOptions = {},
  ): Promise<Selected<S>> {
    const checking = checkLater(options, "read");
    if (checking !== undefined) await checking;
    const now = selection ? this.#getNow(selection, options) : undefined;
    if (now !== undefined) return now.value as Selected<S>;
    this.assertReadable();
    const { length, end } = this.#reading.measure(selection);
    await this.proveRoom(length, end, options.signal);
    return this.#reading.get(selection as S, options);
  }

  /** Reads one value synchronously if possible, because promises would cost more than the read. */
  #getNow(selection: Selection, options: ReadOptions): { readonly value: Scalar } | undefined {
    const at = this.#reading.offsetOf(selection);
    if (at === undefined) return undefined;
    this.assertReadable();
    options.signal?.throwIfAborted();
    const bytes = this.reader.readNow(at, at + this.dtype.itemSize);
    return bytes === undefined ? undefined : { value: this.#reading.valueOf(bytes) };
  }

  async getBytes(selection?: Selection | null, options: ReadOptions = {}): Promise<Uint8Array> {
    await checkLater(options, "read");
    this.assertReadable();
    const { length, end } = this.#reading.measure(selection);
    await this.proveRoom(length, end, options.signal);
    return this.#reading.getBytes(selection, options);
  }

  chunks(options: ChunksOptions = {}): AsyncIterable<ArraySlice> {
    this.assertReadable();
    const rows = this.order === "C" ? this.chunkLength : undefined;
    return rows === undefined ? this.#reading.slabs(options) : this.#chunkSlices(options);
  }

  /** Yields the chunks themselves as slices, if chunks are whole rows. A Bloscpack file without rows has a chunk nevertheless. */
  async *#chunkSlices(options: ChunksOptions): AsyncGenerator<ArraySlice> {
    const [rows, ...rowShape] = this.shape;
    for await (const bytes of this.decodedChunks(options, options?.keep === true ? "keep" : "lend"))
      if (rows !== 0) yield this.#reading.sliceOf(bytes, rowShape);
  }

  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    const linear = this.order === "C" || this.shape.length < 2;
    return linear ? this.decodedChunks(options) : this.#reading.slabBytes(undefined, options);
  }

  readonly scan: ArrayArchive["scan"] = scan;
  readonly arrowBatches: ArrayArchive["arrowBatches"] = arrowBatches;
  readonly oindex: ArrayArchive["oindex"] = oindex;
  readonly vindex: ArrayArchive["vindex"] = vindex;
}

export class PlainBytes extends ChunkedBase implements BytesArchive {
  readonly kind = "bytes";

  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    return this.decodedChunks(options);
  }
}

type ArrayFacts = Pick<ArrayArchive, "dtype" | "shape" | "order">;

/** Copies runs of items (in stored order) into a buffer. */
export type Gather = (batches: Iterable<RunBatch>, out: Uint8Array, options: LongOptions) => Promise<void>;

/** Bytes of a slab, if chunks do not determine it. */
const SLAB_BYTES = 16 << 20;

/** For allocating results: `path` is the archive, for errors; `prepare` comes from its decoder. */
type ResultPlace = Pick<Allocation, "path" | "prepare">;

export class ArrayReading {
  readonly #facts: ArrayFacts;
  readonly #gather: Gather;
  readonly #place: ResultPlace;

  constructor(facts: ArrayFacts, gather: Gather, place: ResultPlace = {}) {
    this.#facts = facts;
    this.#gather = gather;
    this.#place = place;
  }

  /** Size of a selection's result, and the end of its last value in the stored bytes. */
  measure(selection: Selection | null | undefined): { length: number; end: number } {
    const { shape, dtype } = this.#facts;
    const extents = resolveSelection(selection, shape);
    const length = elementsOf(extents.map((extent) => extent.count)) * dtype.itemSize;
    if (length === 0) return { length, end: 0 };
    const strides = stridesOf(this.#storedShape());
    let last = 0;
    this.#storedExtents(extents).forEach((extent, d) => {
      last += (extent.start + (extent.count - 1) * extent.step) * at(strides, d);
    });
    return { length, end: (last + 1) * dtype.itemSize };
  }

  /** Byte offset of the item that a selection of integers names; undefined for any other selection, and for indices out of range. */
  offsetOf(selection: Selection): number | undefined {
    const { shape, dtype, order } = this.#facts;
    if (selection.length !== shape.length || shape.length === 0) return undefined;
    let index = 0;
    for (let i = 0; i < shape.length; i++) {
      const d = order === "F" ? shape.length - 1 - i : i;
      const entry = selection[d];
      const length = at(shape, d);
      if (typeof entry !== "number" || !Number.isInteger(entry) || entry < 0 || entry >= length)
        return undefined;
      index = index * length + entry;
    }
    return index * dtype.itemSize;
  }

  valueOf(bytes: Uint8Array): Scalar {
    return firstOf(toValues(bytes, this.#facts.dtype, 1));
  }

  /** Whole rows as a slice that uses the given bytes. */
  sliceOf(bytes: Uint8Array, rowShape: readonly number[]): ArraySlice {
    const { dtype, shape } = this.#facts;
    const row = elementsOf(rowShape);
    // Rows of zero bytes cannot be counted by their bytes; such an array has no chunks.
    const [length = 0] = shape;
    const rows = row * dtype.itemSize === 0 ? length : bytes.length / (row * dtype.itemSize);
    const sliced = [rows, ...rowShape];
    return { data: toValues(bytes, dtype, rows * row), shape: sliced, stride: stridesOf(sliced) };
  }

  /** Reads the selected values; a scalar if every entry is an integer. Copies; throws `BAD_ARGUMENT`. */
  async get<const S extends Selection | null | undefined>(
    selection: S,
    options: ReadOptions,
  ): Promise<Selected<S>> {
    const extents = resolveSelection(selection, this.#facts.shape);
    const bytes = await this.#read(extents, options);
    const count = elementsOf(extents.map((extent) => extent.count));
    return selectedOf<S>(toValues(bytes, this.#facts.dtype, count), extents);
  }

  /** Reads the selected items as bytes: C order, stored byte order. */
  getBytes(selection: Selection | null | undefined, options: ReadOptions): Promise<Uint8Array> {
    return this.#read(resolveSelection(selection, this.#facts.shape), options);
  }

  /** Yields slices of about 16 MiB along the first dimension, in order. */
  async *slabs(options: ChunksOptions): AsyncGenerator<ArraySlice> {
    await checkLater(options, "chunks");
    for (const extents of this.#slabExtents(undefined)) {
      options.signal?.throwIfAborted();
      const shape = extents.map((extent) => extent.count);
      const data = toValues(
        await this.#read(extents, { signal: options.signal }),
        this.#facts.dtype,
        elementsOf(shape),
      );
      yield { data, shape, stride: stridesOf(shape) };
      this.#report(extents, options);
    }
  }

  /** Yields the same as bytes: C order, stored byte order. */
  async *slabBytes(rows: number | undefined, options: LongOptions): AsyncGenerator<Uint8Array> {
    await checkLater(options, "long");
    for (const extents of this.#slabExtents(rows)) {
      options.signal?.throwIfAborted();
      yield await this.#read(extents, { signal: options.signal });
      this.#report(extents, options);
    }
  }

  #report(extents: readonly Extent[], { onProgress }: LongOptions): void {
    const { shape, dtype } = this.#facts;
    const [first] = extents;
    const row = elementsOf(shape.slice(1)) * dtype.itemSize;
    if (first !== undefined)
      onProgress?.({ done: (first.start + first.count) * row, total: elementsOf(shape) * dtype.itemSize });
  }

  *#slabExtents(rows: number | undefined): Generator<Extent[]> {
    const { shape, dtype } = this.#facts;
    const all = resolveSelection(null, shape);
    const [length, ...rest] = shape;
    if (length === undefined) {
      yield all;
      return;
    }
    const rowBytes = Math.max(1, elementsOf(rest) * dtype.itemSize);
    const step = rows ?? Math.max(1, Math.floor(SLAB_BYTES / rowBytes));
    for (let start = 0; start < length; start += step)
      yield all.map((extent, d) =>
        d === 0 ? { ...extent, start, count: Math.min(step, length - start) } : extent,
      );
  }

  async #read(extents: readonly Extent[], options: ReadOptions): Promise<Uint8Array> {
    const { dtype } = this.#facts;
    const counts = extents.map((extent) => extent.count);
    const length = elementsOf(counts) * dtype.itemSize;
    const bytes = await fillResult(length, { ...this.#place, shared: options.shared }, async (out) => {
      if (length === 0) return;
      await this.#gather(runsOf(this.#storedExtents(extents), this.#storedShape()), out, options);
    });
    return this.#facts.order === "F" ? fortranToC(bytes, counts, dtype.itemSize) : bytes;
  }

  /** F order is C order with the dimensions reversed. */
  #storedShape(): readonly number[] {
    const { shape, order } = this.#facts;
    return order === "F" ? [...shape].reverse() : shape;
  }

  #storedExtents(extents: readonly Extent[]): readonly Extent[] {
    return this.#facts.order === "F" ? [...extents].reverse() : extents;
  }
}
