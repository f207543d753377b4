/**
 * Plans how one array becomes Zarr: the source of its values, how they are cut, its document, and which cells of its grid are
 * unchanged chunks of the source.
 *
 * {@link fitOf} is the one rule for copies, references, views and linked files. Must not read or write chunks.
 */
import type { ChunkSummary, OpenOptions } from "../../archive/kinds/types.ts";
import { at, countLeading, elementsOf } from "../../bytes/arrays.ts";
import { typesizeFor } from "../../codec/header.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { arrayDocument, type BloscSettings, withLengths } from "../../zarr/document/make-v3.ts";
import { mapDType, type ZarrType } from "../../zarr/document/zarr-dtype.ts";
import type { LayoutOptions } from "../pipeline.ts";
import { describeValues, type SourceArray } from "../sources/source-array.ts";
import {
  type CellCopies,
  type CellGrid,
  type CellRange,
  cellItems,
  cellShape,
  chooseCells,
  chooseShards,
  fullCellItems,
  lastLength,
  matchCells,
  RECODED_CHUNK_SIZE,
  type ShardGrid,
  unequalCells,
} from "./grid.ts";

/** Compression level if neither metadata nor a chunk gives it. */
const DEFAULT_CLEVEL = 5;

export interface ArrayJob {
  /** Path in the destination, relative to the conversion's own. */
  readonly node: string;
  readonly source: SourceArray;
  readonly type: ZarrType;
  readonly blosc: BloscSettings;
  readonly document: JsonObject;
  /** The same array without shards: each chunk is an object. */
  readonly chunkDocument: JsonObject;
  /** Undefined if there are no values. */
  readonly layout: JobLayout | undefined;
  /** Why the chunks not in `layout.copies` are recoded; undefined if all are copied. */
  readonly recodes: string | undefined;
  /** True if chunks with snappy are recoded wherever they occur. */
  readonly replacesSnappy: boolean;
  readonly notes: readonly string[];
}

/** How the values are cut. */
export interface JobLayout {
  readonly cells: CellGrid;
  readonly shards: ShardGrid;
  /** False for an array without dimensions: its only chunk is the object. */
  readonly sharded: boolean;
  /** True if the array's axes are in reverse of the stored order. */
  readonly reversed: boolean;
  /** Uncompressed bytes of a whole chunk in the result. */
  readonly cellBytes: number;
  /** True for a rectilinear grid: short chunks hold only their rows, and each chunk is an object. */
  readonly unequal: boolean;
  /** The cells that are chunks of the archive. All others are recoded. */
  readonly copies: readonly CellCopies[];
}

/**
 * Plans one array. Reads the header of its first chunk. Throws `UNSUPPORTED` for data types that Zarr does not have, and with
 * `recode: false` if chunks cannot be copied.
 */
export async function planArray(
  node: string,
  source: SourceArray,
  options: LayoutOptions & OpenOptions,
  originalName?: string,
): Promise<ArrayJob> {
  const { archive, shape, fillValue } = source;
  const path = archive.store.describe(archive.path);
  const type =
    source.field === undefined
      ? mapDType(source.dtype, { portable: options.portable, fillValue, path })
      : (await import("../../zarr/document/struct-fields.ts")).mapField(source.dtype, source.field, path);
  const summary = await archive.summary({ signal: options.signal });
  const isEmpty = shape.includes(0);
  const reversed = source.order === "F" && shape.length > 1;
  const notes = [...type.notes];
  const stored = shape.length === 0 ? [1] : reversed ? [...shape].reverse() : shape;
  const matched = isEmpty ? undefined : matchChunks(source, stored, options);
  const recodes =
    isEmpty && source.field === undefined
      ? undefined
      : whyRecode({ source, type, summary, matched, options }, notes);
  if (recodes !== undefined && options.recode === false)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its chunks cannot be copied into Zarr: ${recodes}; allow recoding`,
      { path, field: "recode" },
    );
  const matching = type.transform === undefined ? matched : undefined;
  const cells = isEmpty
    ? undefined
    : (matching?.cells ?? chooseCells(stored, type.itemSize, recodedBytes(source, type)));
  const unequal = cells !== undefined && options.grid === "rectilinear" && isUnequal(cells);
  if (unequal) notes.push(cells.unequal === undefined ? UNEQUAL_LAST : UNEQUAL);
  const copies = matching?.copies ?? [];
  if (cells !== undefined && recodes !== undefined && source.uneven !== undefined)
    notes.push(
      `chunks copied: ${countCopies(copies)} of ${cells.count}; the rest is recompressed: ${recodes}`,
    );
  const layout = cells && {
    cells,
    shards: chooseShards(cells, type.itemSize, unequal ? { chunksPerShard: 1 } : options),
    sharded: !unequal && (shape.length > 0 || type.itemShape.length > 0),
    unequal,
    reversed,
    cellBytes: fullCellItems(cells) * type.itemSize,
    copies,
  };
  const blosc = bloscSettings(summary, type, recodes !== undefined);
  const {
    attributes,
    dimensionNames,
    notes: more,
  } = describeValues(source, type, options.dimensionNames, originalName);
  notes.push(...more);
  const description = {
    shape: [...shape, ...type.itemShape],
    dataType: type.dataType,
    fillValue: type.fill.json,
    bytesCodec: type.bytesCodec,
    blosc,
    ...shapesOf(layout, source, type),
    transpose: reversed
      ? [...shape.map((_, i) => shape.length - 1 - i), ...type.itemShape.map((_, i) => shape.length + i)]
      : undefined,
    attributes,
    dimensionNames,
  };
  const chunkDocument = arrayDocument({ ...description, shardShape: undefined });
  return {
    node,
    source,
    type,
    blosc,
    document: layout?.unequal === true ? unequalDocument(chunkDocument, layout) : arrayDocument(description),
    chunkDocument,
    layout,
    recodes,
    replacesSnappy: options.recode !== false,
    notes,
  };
}

/** Most bytes of structs decoded for one chunk of one field. */
const STRUCT_BYTES = 8 * RECODED_CHUNK_SIZE;

/** Most uncompressed bytes of a recoded chunk: fewer for a small field of large structs. */
function recodedBytes({ dtype, field }: SourceArray, { itemSize }: ZarrType): number {
  if (field === undefined) return RECODED_CHUNK_SIZE;
  return Math.min(RECODED_CHUNK_SIZE, (STRUCT_BYTES / dtype.itemSize) * itemSize);
}

/** Uncompressed bytes of a source item that the job reads: the whole item, or one field. */
export function takenBytes({ source: { dtype, field }, type }: Pick<ArrayJob, "source" | "type">): number {
  return field === undefined ? dtype.itemSize : type.itemSize;
}

/** Uncompressed bytes of all that the job reads. */
export function nbytesOf(job: Pick<ArrayJob, "source" | "type">): number {
  const { archive, dtype, field } = job.source;
  return field === undefined ? archive.nbytes : (archive.nbytes / dtype.itemSize) * takenBytes(job);
}

export function bytesOfCell({ type }: ArrayJob, layout: JobLayout, cell: number): number {
  return layout.unequal ? cellItems(layout.cells, cell) * type.itemSize : layout.cellBytes;
}

/** The Blosc of numcodecs, which zarr-python uses, is built without snappy. */
export const SNAPPY = "zarr-python cannot decode Blosc chunks with snappy";
/** Which programs read unequal chunks. */
export const RECTILINEAR_READERS =
  "zarr-python (with array.rectilinear_chunks set) and zarrs read it; tensorstore and zarrita do not";
const RECTILINEAR = `so its grid is rectilinear, with one object a chunk: ${RECTILINEAR_READERS}`;
const UNEQUAL_LAST = `its last chunk is short, ${RECTILINEAR}`;
const UNEQUAL = `its chunks are of unequal lengths, ${RECTILINEAR}`;

/** Cells that are chunks of the archive, all or some of them. */
interface MatchedCells {
  readonly cells: CellGrid;
  readonly copies: readonly CellCopies[];
}

/** The grid of the archive's own chunks, if there is one. */
function matchChunks(
  { archive, dtype, uneven }: SourceArray,
  stored: readonly number[],
  { grid }: LayoutOptions,
): MatchedCells | undefined {
  if (grid === "rectilinear" && uneven?.lengths !== undefined) {
    const cells = unequalCells(stored, uneven.lengths);
    return { cells, copies: copyAll(cells) };
  }
  if (uneven?.copies.length === 0) return undefined;
  const cells = matchCells(stored, archive.chunkBytes / dtype.itemSize);
  return cells && { cells, copies: uneven?.copies ?? copyAll(cells) };
}

function isUnequal(cells: CellGrid): boolean {
  return cells.unequal === undefined ? lastLength(cells) < cells.length : cells.unequal.runs.length > 1;
}

/** The document with chunks of unequal length along the axis that is cut. */
function unequalDocument(document: JsonObject, { cells, reversed }: JobLayout): JsonObject {
  const axis = reversed ? cells.shape.length - 1 - cells.axis : cells.axis;
  const regular = [
    { length: cells.length, times: cells.along - 1 },
    { length: lastLength(cells), times: 1 },
  ];
  return withLengths(document, axis, cells.unequal?.runs ?? regular);
}

/** What decides between copying and recoding. */
interface Facts {
  readonly source: SourceArray;
  readonly type: ZarrType;
  readonly summary: ChunkSummary;
  readonly matched: MatchedCells | undefined;
  readonly options: LayoutOptions;
}

function whyRecode(
  { source: { archive, shape, dtype, uneven }, type, summary, matched, options }: Facts,
  notes: string[],
): string | undefined {
  if (type.transform !== undefined) return type.transform.reason;
  if (uneven !== undefined && matched?.cells.unequal === undefined) return uneven.reason;
  if (archive.chunkBytes % dtype.itemSize !== 0)
    return `chunks of ${archive.chunkBytes} bytes do not end on items of ${dtype.itemSize} bytes`;
  if (matched === undefined)
    return `chunks of ${archive.chunkBytes} bytes do not end on rows of the shape [${shape}]`;
  if (summary.cname !== "snappy") return undefined;
  if (options.recode !== false) return SNAPPY;
  notes.push("chunks with snappy are copied as they are; zarr-python cannot decode them");
  return undefined;
}

function shapesOf(
  layout: JobLayout | undefined,
  source: SourceArray,
  { itemShape }: ZarrType,
): { chunkShape: number[]; shardShape: number[] | undefined } {
  if (layout === undefined) {
    const rows = source.shape.map((n, i) =>
      Math.max(1, i === 0 && source.order === "C" ? (source.chunkLength ?? n) : n),
    );
    return { chunkShape: [...rows, ...itemShape], shardShape: [...rows, ...itemShape] };
  }
  if (source.shape.length === 0)
    return { chunkShape: [...itemShape], shardShape: layout.sharded ? [...itemShape] : undefined };
  const turn = (shape: readonly number[]): number[] => [
    ...(layout.reversed ? [...shape].reverse() : shape),
    ...itemShape,
  ];
  return { chunkShape: turn(cellShape(layout.cells)), shardShape: turn(layout.shards.shape) };
}

/** The typesize for values of a type. */
export function typesizeOf({ itemSize, itemShape }: ZarrType): number {
  return typesizeFor(itemSize / elementsOf(itemShape));
}

function bloscSettings(summary: ChunkSummary, type: ZarrType, recoded: boolean): BloscSettings {
  const typesize = (type.transform === undefined ? summary.typesize : undefined) ?? typesizeOf(type);
  const cname = summary.cname ?? "lz4";
  return {
    cname: recoded && cname === "snappy" ? "lz4" : cname,
    clevel: Math.min(9, Math.max(0, summary.clevel ?? DEFAULT_CLEVEL)),
    shuffle: summary.shuffle ?? "shuffle",
    typesize: Math.min(255, Math.max(1, typesize)),
  };
}

/** A run of cells: source chunks from number `chunk` on, or recoded cells if that is undefined. */
interface CellSegment extends CellRange {
  readonly chunk: number | undefined;
}

/** Cell `k` is chunk `k`, for all cells. */
function copyAll({ count }: CellGrid): readonly CellCopies[] {
  return [{ cell: 0, chunk: 0, times: count }];
}

export function countCopies(copies: readonly CellCopies[]): number {
  return copies.reduce((sum, { times }) => sum + times, 0);
}

/** Appends cells, extending the last run if they continue it. */
export function addCopies(copies: CellCopies[], { cell, chunk, times }: CellCopies): void {
  if (times <= 0) return;
  const last = copies.at(-1);
  if (last !== undefined && last.cell + last.times === cell && last.chunk + last.times === chunk)
    copies[copies.length - 1] = { ...last, times: last.times + times };
  else copies.push({ cell, chunk, times });
}

/** Splits a range of cells into runs that are copied or recoded, in order. */
export function* cellSegments(
  copies: readonly CellCopies[],
  { first, end }: CellRange,
): Generator<CellSegment> {
  let at = first;
  for (const { cell, chunk, times } of copies.slice(firstAfter(copies, first))) {
    if (cell >= end) break;
    if (at < cell) yield { first: at, end: cell, chunk: undefined };
    const from = Math.max(at, cell);
    at = Math.min(end, cell + times);
    yield { first: from, end: at, chunk: chunk + from - cell };
  }
  if (at < end) yield { first: at, end, chunk: undefined };
}

/**
 * Index of the first run that does not end before `cell`. A binary search, because there may be thousands of runs, looked up
 * for each shard.
 */
function firstAfter(copies: readonly CellCopies[], cell: number): number {
  return countLeading(copies.length, (i) => {
    const run = at(copies, i);
    return run.cell + run.times <= cell;
  });
}

/** What must happen to a chunk: nothing, padding to the length of its cell, or recompression. */
type ChunkFit = "copied" | "padded" | "recoded";

/** Bytes of the rows of a cell as the archive has them, without padding. */
export function rowBytesOfCell({ source }: ArrayJob, { cells }: JobLayout, cell: number): number {
  return cellItems(cells, cell) * source.dtype.itemSize;
}

/** True for a cell with fewer rows than its length: its chunk is short, or already padded. */
export function mayBePadded(job: ArrayJob, layout: JobLayout, cell: number): boolean {
  return rowBytesOfCell(job, layout, cell) < bytesOfCell(job, layout, cell);
}

/** What must happen to the chunk with this header so that it fits its cell. */
export function fitOf(
  job: ArrayJob,
  layout: JobLayout,
  cell: number,
  { nbytes, compressor, memcpyed }: Pick<ChunkHeader, "nbytes" | "compressor" | "memcpyed">,
): ChunkFit {
  const wanted = bytesOfCell(job, layout, cell);
  if (nbytes !== wanted) return nbytes < wanted ? "padded" : "recoded";
  // The Blosc of numcodecs, which zarr-python and Icechunk's users have, is built without snappy.
  return job.replacesSnappy && compressor === "snappy" && !memcpyed ? "recoded" : "copied";
}
