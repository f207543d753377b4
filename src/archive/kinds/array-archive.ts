/** An n-dimensional array over one chunk sequence. */
import { SuperchunkError } from "../../errors.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import type { ArraySlice, Selected } from "../../values/selected.ts";
import type { Selection } from "../../values/selection.ts";
import { assertReadable, type Scalar, whyUnreadable } from "../../values/values.ts";
import { type ArrayFacts, ArrayReading } from "./array-reading.ts";
import { type ArchiveParts, ChunkedBase } from "./chunked-base.ts";
import type { ArrayArchive, ChunksOptions, LongOptions, ReadOptions } from "./types.ts";

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

  constructor(
    parts: ArchiveParts,
    facts: ArrayFacts & {
      readonly fillValue: JsonValue | undefined;
      readonly chunkLength: number | undefined;
    },
  ) {
    super(parts);
    this.dtype = facts.dtype;
    this.filled = parts.filled;
    this.shape = facts.shape;
    this.order = facts.order;
    this.fillValue = facts.fillValue;
    this.chunkLength = facts.chunkLength;
    this.#reading = new ArrayReading(
      facts,
      (batches, out, options) => this.reader.gather(batches, facts.dtype.itemSize, out, options),
      { path: this.store.describe(this.path), prepare: parts.decoder?.prepareResult },
    );
  }

  protected override assertReadable(): void {
    assertReadable(this.dtype, this.store.describe(this.path));
  }

  protected override unreadable(): string | undefined {
    return whyUnreadable(this.dtype);
  }

  column(name: string): ArrayArchive {
    throw new SuperchunkError("NOT_FOUND", `no column "${name}": the array is not stored as column folders`, {
      path: this.store.describe(this.path),
      field: name,
    });
  }

  async get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: ReadOptions = {},
  ): Promise<Selected<S>> {
    const now = selection ? this.#getNow(selection, options) : undefined;
    if (now !== undefined) return now.value as Selected<S>;
    this.assertReadable();
    const { length, end } = this.#reading.measure(selection);
    await this.proveRoom(length, end, options.signal);
    return this.#reading.get(selection as S, options);
  }

  /** One value at once, where that does; a promise for each step would cost more than the steps. */
  #getNow(selection: Selection, options: ReadOptions): { readonly value: Scalar } | undefined {
    const at = this.#reading.offsetOf(selection);
    if (at === undefined) return undefined;
    this.assertReadable();
    options.signal?.throwIfAborted();
    const bytes = this.reader.readNow(at, at + this.dtype.itemSize);
    return bytes === undefined ? undefined : { value: this.#reading.valueOf(bytes) };
  }

  async getBytes(selection?: Selection | null, options: ReadOptions = {}): Promise<Uint8Array> {
    this.assertReadable();
    const { length, end } = this.#reading.measure(selection);
    await this.proveRoom(length, end, options.signal);
    return this.#reading.getBytes(selection, options);
  }

  chunks(options: ChunksOptions = {}): AsyncIterable<ArraySlice> {
    this.assertReadable();
    const rows = this.order === "C" ? this.chunkLength : undefined;
    return rows === undefined ? this.#reading.slabs(undefined, options) : this.#chunkSlices(options);
  }

  /** The chunks themselves as slices, where they are rows of the first dimension. */
  async *#chunkSlices(options: ChunksOptions): AsyncGenerator<ArraySlice> {
    const rowShape = this.shape.slice(1);
    for await (const bytes of this.decodedChunks(options, options.reuse !== true))
      yield this.#reading.sliceOf(bytes, rowShape);
  }

  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    const linear = this.order === "C" || this.shape.length < 2;
    return linear ? this.decodedChunks(options) : this.#reading.slabBytes(undefined, options);
  }
}
