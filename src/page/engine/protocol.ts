/** The calls from the page to the worker that reads archives, and their results. All of it can be posted between threads. */
import type { VerifyReport } from "../../archive/kinds/types.ts";
import type { DType, JsonObject } from "../../format/types.ts";

/** Where archives are read from. */
export type Source =
  /** The page's own server: the address of its files for the page, with a final `/`. */
  | { readonly kind: "server"; readonly base: string }
  | { readonly kind: "url"; readonly url: string }
  /** Dropped or chosen files, by path. */
  | { readonly kind: "files"; readonly files: readonly (readonly [path: string, file: File])[] };

/** Something that can be opened. */
export interface Entry {
  readonly name: string;
  readonly kind?: "group" | "array" | undefined;
  /** Why it cannot be opened. */
  readonly error?: string | undefined;
}

/** An array, a column of a table, or plain bytes. */
export interface ColumnFacts {
  /** Path of the column in its archive; empty for the archive itself. */
  readonly name: string;
  readonly dtype: DType;
  /** The data type as people write it. */
  readonly typeName: string;
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly nchunks: number;
  readonly chunkLength: number | undefined;
  /** Values of a chunk along each dimension; undefined if chunks differ. */
  readonly chunkShape: readonly number[] | undefined;
  /** Where chunks begin along each dimension, if they have different lengths. */
  readonly cuts?: readonly (readonly number[])[] | undefined;
  /** For an array whose chunks end inside of rows: the number of values in a chunk, which are consecutive in stored order. */
  readonly run?: { readonly length: number; readonly order: "C" | "F" } | undefined;
  /** Rows that a repair filled, according to the archive. */
  readonly filled?: readonly { readonly from: number; readonly to: number }[] | undefined;
}

/** Place of a chunk in its array: the first index along each dimension, and the one after the last. */
export function boxOf(
  { shape, chunkShape, cuts }: Pick<ColumnFacts, "shape" | "chunkShape" | "cuts">,
  index: number,
): readonly (readonly [first: number, end: number])[] | undefined {
  if (chunkShape === undefined && cuts === undefined) return undefined;
  const box: (readonly [number, number])[] = [];
  let rest = index;
  for (let d = shape.length - 1; d >= 0; d--) {
    const [whole, length, starts] = [shape.at(d) ?? 0, Math.max(1, chunkShape?.at(d) ?? 1), cuts?.[d]];
    const count = starts?.length ?? Math.max(1, Math.ceil(whole / length));
    const at = rest % count;
    rest = Math.floor(rest / count);
    const first = starts?.[at] ?? at * length;
    const end = starts === undefined ? first + length : (starts[at + 1] ?? whole);
    box.unshift([Math.min(whole, first), Math.min(whole, end)]);
  }
  return box;
}

/** The indices of a value, from its number in stored order. */
export function indicesOf(shape: readonly number[], order: "C" | "F", number: number): number[] {
  const indices = shape.map(() => 0);
  let rest = number;
  for (let i = 0; i < shape.length; i++) {
    const d = order === "F" ? i : shape.length - 1 - i;
    const length = Math.max(1, shape.at(d) ?? 1);
    indices[d] = rest % length;
    rest = Math.floor(rest / length);
  }
  return indices;
}

/** An opened archive. */
export interface NodeFacts {
  readonly name: string;
  readonly kind: "table" | "array" | "bytes" | "group";
  readonly dialect: string;
  /** Name in messages. */
  readonly place: string;
  readonly nbytes: number;
  /** Rows of a table, or of an array; bytes of plain bytes. */
  readonly length: number;
  readonly columns: readonly ColumnFacts[];
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
}

/** How a column is compressed, for a line of text. */
export interface ColumnSummary {
  readonly codec: string;
  readonly checksum: string | undefined;
  /** Stored bytes of the whole archive, including headers and metadata. */
  readonly stored: number | undefined;
}

/** State of a chunk. A missing chunk had a file; an absent one was never stored, which Zarr allows. */
export const STATE = {
  unknown: 0,
  whole: 1,
  damaged: 2,
  filled: 3,
  missing: 4,
  absent: 5,
  unlisted: 6,
} as const;

/** Stands for the file of a chunk that is made of other data. */
export const MADE = "made when it is read";

/** Most chunks that are listed, or drawn at once. Limits the memory of the page, because a column may have any number of chunks. */
export const MOST_CHUNKS = 4_000_000;

/** Listed chunks, in columns. */
export interface ChunkBatch {
  readonly index: Float64Array;
  readonly offset: Float64Array;
  readonly nbytes: Float64Array;
  readonly cbytes: Float64Array;
  /** Indices into `words`, which is complete in every batch. */
  readonly file: Uint32Array;
  readonly codec: Uint32Array;
  readonly digest: readonly (string | undefined)[];
  readonly words: readonly string[];
  /** State of each according to the list, as in {@link STATE}. */
  readonly state: Uint8Array;
}

export interface BlockFacts {
  /** Offset in the chunk. */
  readonly offset: number;
  readonly cbytes: number;
  readonly nbytes: number;
  /** Stored bytes of its streams: one for each byte of an element if blocks are split, else one. */
  readonly streams: readonly number[];
}

/** A chunk that was read. */
export interface ChunkDetail {
  readonly index: number;
  /** Milliseconds that reading and decoding took. */
  readonly took: number;
  /** Index of the first of its values, by dimension. */
  readonly start: readonly number[] | undefined;
  /** The first blocks, of `nblocks` in all. */
  readonly blocks: readonly BlockFacts[];
  readonly nblocks: number;
  /** The first values, as text. */
  readonly values: readonly string[];
  /** Why it cannot be read; `isDamaged` unless that holds for all values of its type. */
  readonly error?: string | undefined;
  readonly isDamaged: boolean;
}

/** Progress: done of total. */
export interface Step {
  readonly done: number;
  readonly total: number;
}

/** Cells of rows: for each column its texts, row by row, and why some are marked as unreadable. */
export interface RowCells {
  readonly first: number;
  readonly end: number;
  readonly columns: readonly { readonly texts: readonly string[]; readonly error?: string | undefined }[];
}

/** Least, greatest, first and last values of runs of rows. NaN if a run has no finite number. */
export interface Envelope {
  readonly name: string;
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly first: Float64Array;
  readonly last: Float64Array;
}

export interface PlotRequest {
  readonly columns: readonly string[];
  /** Column of the horizontal axis; undefined for row numbers. */
  readonly x: string | undefined;
  readonly first: number;
  readonly end: number;
  readonly buckets: number;
}

/** The part of a plot that was read so far. */
export interface PlotData {
  /** Row, time in seconds, or value of the axis at the first row of each run. */
  readonly x: Float64Array;
  readonly xKind: "rows" | "time" | "values";
  /** Why the requested axis is not used. */
  readonly xNote?: string | undefined;
  readonly series: readonly Envelope[];
  /** True if each row is a point. */
  readonly isExact: boolean;
  /** One in this many chunks was read. */
  readonly every: number;
  /** Why the first skipped chunk cannot be read. */
  readonly lost?: string | undefined;
  readonly done: number;
  readonly total: number;
}

/** Values of a plane, reduced to the size of a screen. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Every n-th row and column is shown. */
  readonly stepX: number;
  readonly stepY: number;
  readonly values: Float64Array;
  readonly min: number;
  readonly max: number;
  /** Why some rows have no values. */
  readonly lost: string | undefined;
}

/** Facts of the values of a column, all or a sample. */
export interface Statistics {
  readonly count: number;
  readonly missing: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly deviation: number;
  /** Number of values in equal parts from min on, and their width; parts of integers hold whole ones. */
  readonly histogram: readonly number[];
  readonly binWidth: number;
  readonly isWhole: boolean;
  /** True for seconds since 1970. */
  readonly isTime: boolean;
  readonly every: number;
  /** Rows of damaged chunks, which are skipped, and the reason for the first. */
  readonly lostRows: number;
  readonly lost?: string | undefined;
}

/** How a call may be watched. */
export interface Watch<Progress = Step> {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** A column of an archive. */
export interface Target {
  readonly archive: string;
  readonly column: string;
}

/** The worker's functions. */
export interface Engine {
  /** Finds the archives of a source, and forgets the previous one. */
  list(source: Source, watch?: Watch<readonly Entry[]>): Promise<readonly Entry[]>;
  open(archive: string, watch?: Watch): Promise<NodeFacts>;
  summary(target: Target, watch?: Watch): Promise<ColumnSummary>;
  chunks(target: Target, watch?: Watch<ChunkBatch>): Promise<string | undefined>;
  /** When files were written, in milliseconds since 1970; NaN if unknown. */
  written(files: Target & { readonly files: readonly string[] }, watch?: Watch): Promise<Float64Array>;
  chunk(target: Target & { readonly index: number }, watch?: Watch): Promise<ChunkDetail>;
  verify(target: Target, watch?: Watch): Promise<VerifyReport>;
  rows(request: RowsRequest, watch?: Watch): Promise<RowCells>;
  plot(request: PlotRequest & { readonly archive: string }, watch?: Watch<PlotData>): Promise<PlotData>;
  /** Of a plane of an array, by the indices of the leading dimensions. */
  picture(request: Target & Pick<RowsRequest, "fixed">, watch?: Watch): Promise<Picture>;
  statistics(target: Target, watch?: Watch<Statistics>): Promise<Statistics>;
}

/** Rows of columns, requested as text. */
export interface RowsRequest {
  readonly archive: string;
  readonly columns: readonly string[];
  readonly first: number;
  readonly end: number;
  /** Fixed indices of the leading dimensions, of arrays of more than two. */
  readonly fixed: readonly number[];
  /** Visible columns of a plane. */
  readonly across: readonly [first: number, end: number];
  /** For a copy: whole values, as text or as JSON. Default: texts that fit into a table. */
  readonly as?: "csv" | "json" | undefined;
}
