/**
 * Archives of columns, each a separate array: tables, and arrays of a structured dtype whose fields are column folders
 * and whose values are assembled on reading.
 */

import { at, elementsOf, fillResult } from "../../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../../errors.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import { arrowBatches, oindex, scan, vindex } from "../../scan/begin.ts";
import { checkLater, joinKey, sizeOfObjects } from "../../store/key.ts";
import type { ArraySlice, RunBatch, Selected, Selection } from "../../values/selection.ts";
import { assertReadable, fieldSize } from "../../values/values.ts";
import { type ChunkPlace, checkByteRange } from "../places/sequence.ts";
import { ArrayReading, StoredArchive } from "./chunked-archive.ts";
import type {
  ArrayArchive,
  ChunkInfo,
  ChunkSummary,
  ChunksOptions,
  EncodedChunk,
  Finding,
  LongOptions,
  OpenOptions,
  ReadOptions,
  StoredParts,
  TableArchive,
  VerifyReport,
} from "./types.ts";

interface ColumnParts extends StoredParts {
  readonly columns: ReadonlyMap<string, ArrayArchive>;
}

abstract class ColumnArchive<Parts extends ColumnParts> extends StoredArchive<Parts> {
  async storedBytes(options: OpenOptions = {}): Promise<number> {
    let total = 0;
    for (const column of this.parts.columns.values()) total += await column.storedBytes(options);
    return total + (await sizeOfObjects(this.store, this.parts.metadataKeys, options.signal));
  }
}

interface NestedParts extends ColumnParts {
  /** Rows that a repair filled. [FG-15] */
  readonly filled?: readonly RowSpan[] | undefined;
  readonly dtype: Extract<DType, { kind: "struct" }>;
  readonly shape: readonly number[];
  readonly order: "C";
  readonly chunkLength: number;
  readonly fillValue: JsonValue | undefined;
  /** One array for each field, with the array's shape followed by the dimensions of a sub-array. */
  readonly columns: ReadonlyMap<string, ArrayArchive>;
}

export class NestedArray extends ColumnArchive<NestedParts> implements ArrayArchive {
  readonly kind = "array";
  readonly order = "C";
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly chunkLength: number;
  readonly fillValue: JsonValue | undefined;
  readonly nbytes: number;
  readonly nchunks: number;
  readonly chunkBytes: number;
  readonly columnNames: readonly string[];
  readonly filled: readonly RowSpan[] | undefined;
  readonly #reading: ArrayReading;

  constructor(parts: NestedParts) {
    super(parts);
    this.filled = parts.filled;
    this.dtype = parts.dtype;
    this.shape = parts.shape;
    this.chunkLength = parts.chunkLength;
    this.fillValue = parts.fillValue;
    this.columnNames = [...parts.columns.keys()];
    const items = elementsOf(parts.shape);
    const [rows = 1] = parts.shape;
    this.nbytes = items * parts.dtype.itemSize;
    this.nchunks = Math.ceil(rows / parts.chunkLength);
    this.chunkBytes = parts.chunkLength * (rows === 0 ? 1 : items / rows) * parts.dtype.itemSize;
    this.#reading = new ArrayReading(parts, (batches, out, options) => this.#gather(batches, out, options), {
      path: this.shownPath,
    });
  }

  /** Opens a column; `group/x` is column `x` of column `group`, since no name contains a `/`. */
  column(name: string): ArrayArchive {
    const column = this.parts.columns.get(name);
    if (column !== undefined) return column;
    const end = name.indexOf("/");
    const group = end < 0 ? undefined : this.parts.columns.get(name.slice(0, end));
    if (group !== undefined && group.columnNames.length > 0) return group.column(name.slice(end + 1));
    throw notNamed("column", name, this.columnNames, this.shownPath);
  }

  async get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: ReadOptions = {},
  ): Promise<Selected<S>> {
    await checkLater(options, "read");
    this.#assertReadable();
    return this.#reading.get(selection as S, options);
  }

  async getBytes(selection?: Selection | null, options: ReadOptions = {}): Promise<Uint8Array> {
    await checkLater(options, "read");
    this.#assertReadable();
    return this.#reading.getBytes(selection, options);
  }

  chunks(options: ChunksOptions = {}): AsyncIterable<ArraySlice> {
    this.#assertReadable();
    return this.#slices(options);
  }

  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    this.#assertReadable();
    return this.#slabs(options, "long");
  }

  readonly scan: ArrayArchive["scan"] = scan;
  readonly arrowBatches: ArrayArchive["arrowBatches"] = arrowBatches;
  readonly oindex: ArrayArchive["oindex"] = oindex;
  readonly vindex: ArrayArchive["vindex"] = vindex;

  async *#slices(options: ChunksOptions): AsyncGenerator<ArraySlice> {
    const rowShape = this.shape.slice(1);
    for await (const slab of this.#slabs(options, "chunks")) yield this.#reading.sliceOf(slab, rowShape);
  }

  /** Yields the rows of one chunk at a time. The chunks of every column are decoded ahead, by threads if there are any. */
  async *#slabs(options: ChunksOptions, call: "chunks" | "long"): AsyncGenerator<Uint8Array> {
    await checkLater(options, call);
    const { signal, onProgress } = options;
    const { dtype, columns } = this.parts;
    const fields = dtype.fields
      .filter((field) => fieldSize(field) > 0)
      .map((field) => ({
        field,
        chunks: columns.get(field.name)?.streamBytes({ signal })[Symbol.asyncIterator](),
      }));
    try {
      for (let done = 0; done < this.nbytes; ) {
        signal?.throwIfAborted();
        const slab = new Uint8Array(Math.min(this.chunkBytes, this.nbytes - done));
        const items = slab.length / dtype.itemSize;
        for (const { field, chunks } of fields) {
          const size = fieldSize(field);
          const next = await chunks?.next();
          const from = next?.done === false ? next.value : undefined;
          if (from?.length !== items * size)
            throw new RangeError(`column ${field.name} has other chunks than its array`);
          interleave(from, size, slab.subarray(field.offset), dtype.itemSize);
        }
        done += slab.length;
        yield slab;
        onProgress?.({ done, total: this.nbytes });
      }
    } finally {
      await Promise.allSettled(fields.map(({ chunks }) => chunks?.return?.()));
    }
  }

  async readBytes(start: number, end: number, options: LongOptions = {}): Promise<Uint8Array> {
    await checkLater(options, "long");
    this.#assertReadable();
    const size = this.dtype.itemSize;
    checkByteRange(start, end, this.nbytes);
    const first = Math.floor(start / size);
    const items = Math.ceil(end / size) - first;
    const run: RunBatch = {
      source: Float64Array.of(first),
      target: Float64Array.of(0),
      length: items,
      count: items > 0 ? 1 : 0,
    };
    const path = this.shownPath;
    const bytes = await fillResult(items * size, { path }, (out) => this.#gather([run], out, options));
    return bytes.subarray(start - first * size, end - first * size);
  }

  #assertReadable(): void {
    assertReadable(this.dtype, this.shownPath);
  }

  /** Reads the runs of every column and interleaves the fields of each item. */
  async #gather(
    batches: Iterable<RunBatch>,
    out: Uint8Array,
    { signal, onProgress }: LongOptions,
  ): Promise<void> {
    const { dtype, columns } = this.parts;
    for (const batch of batches)
      for (let i = 0; i < batch.count; i++) {
        const source = at(batch.source, i);
        const target = at(batch.target, i);
        for (const field of dtype.fields) {
          const size = fieldSize(field);
          const from = await columns
            .get(field.name)
            ?.readBytes(source * size, (source + batch.length) * size, { signal, onProgress });
          if (from !== undefined)
            interleave(from, size, out.subarray(target * dtype.itemSize + field.offset), dtype.itemSize);
        }
      }
  }

  async summary(options: OpenOptions = {}): Promise<ChunkSummary> {
    const [first] = this.parts.columns.values();
    const summary = await first?.summary(options);
    return { ...summary, nchunks: this.nchunks, chunkLength: this.chunkLength };
  }

  // biome-ignore lint/correctness/useYield: refuses, as the contract says
  async *encodedChunks(): AsyncIterable<EncodedChunk> {
    throw this.#ofColumns();
  }

  async chunkPlaces(): Promise<readonly ChunkPlace[]> {
    throw this.#ofColumns();
  }

  // biome-ignore lint/correctness/useYield: refuses, as the contract says
  async *listChunks(): AsyncIterable<ChunkInfo> {
    throw this.#ofColumns();
  }

  #ofColumns(): SuperchunkError {
    return new SuperchunkError(
      "UNSUPPORTED",
      `the chunks are those of the columns ${this.columnNames.join(", ")}: ask each of them`,
      { path: this.shownPath },
    );
  }

  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    await checkLater(options, "long");
    const { findingsOf, verifyParts } = await loadVerify();
    const report = await verifyParts(this.parts.columns.values(), this.nbytes, options);
    const own = findingsOf(this, this.shownPath);
    return { ...report, findings: [...own, ...report.findings] };
  }
}

/** Copies items of `size` bytes, one every `step` bytes of `out`. */
function interleave(from: Uint8Array, size: number, out: Uint8Array, step: number): void {
  for (let source = 0, target = 0; source < from.length; source += size, target += step)
    for (let b = 0; b < size; b++) out[target + b] = from[source + b] as number;
}

/** A page that opens a table does not load it. */
const loadVerify = () => import("./verify.ts");

interface TableParts extends ColumnParts {
  readonly dialect: "ctable";
  /** The warnings about columns that an interrupted writer left longer than the table. [FT-03] */
  readonly unfinished?: readonly string[];
  readonly length: number;
  readonly openColumns?: TableArchive["openColumns"];
}

export class ColumnTable extends ColumnArchive<TableParts> implements TableArchive {
  readonly kind = "table";
  readonly names: readonly string[];
  readonly openColumns: TableArchive["openColumns"];
  readonly length: number;
  readonly nbytes: number;

  constructor(parts: TableParts) {
    super(parts);
    this.names = [...parts.columns.keys()];
    this.openColumns = parts.openColumns;
    this.length = parts.length;
    this.nbytes = [...parts.columns.values()].reduce((sum, column) => sum + column.nbytes, 0);
  }

  column(name: string): ArrayArchive {
    const column = this.parts.columns.get(name);
    if (column !== undefined) return column;
    throw notNamed("column", name, this.names, this.shownPath);
  }

  readonly scan: TableArchive["scan"] = scan;
  readonly arrowBatches: TableArchive["arrowBatches"] = arrowBatches;

  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    const { isUnfinished, joinReports, UNFINISHED, verifyParts } = await loadVerify();
    const { whileUnchanged } = await import("./unchanged.ts");
    const columns = [...this.parts.columns.values()];
    const verify = (): Promise<VerifyReport> => verifyParts(columns, this.nbytes, options);
    // Each column looks at its own; a column that is checked last must not have been replaced since the first.
    const keys =
      this.store.pinsVersions === true ? [] : columns.map(({ path }) => joinKey(path, "meta/storage"));
    const report = await whileUnchanged(
      this.store,
      keys.map((key) => ({ key })),
      verify,
      options,
    );
    const path = this.shownPath;
    const { unfinished = [] } = this.parts;
    const own = this.warnings.map((message): Finding => {
      if (unfinished.includes(message)) return { severity: "error", code: "INCOMPLETE", message, path };
      return { severity: "warning", code: "WARNING", message, path };
    });
    if (await isUnfinished(this.store, this.path))
      own.push({ severity: "warning", code: "WARNING", message: UNFINISHED, path });
    const ok = unfinished.length === 0;
    return joinReports([{ ok, chunks: 0, nbytes: 0, cbytes: 0, digests: 0, findings: own }, report]);
  }
}
