/**
 * One array on its way to Zarr: where its values come from, how they are cut, and the document they get.
 *
 * Decides between copying and recoding; must not read or write chunks.
 */
import type {
  ArrayArchive,
  BytesArchive,
  ChunkedArchive,
  ChunkSummary,
  OpenOptions,
} from "../array/types.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import type { LayoutOptions } from "./convert-options.ts";
import {
  type CellGrid,
  cellItems,
  cellShape,
  chooseCells,
  fullCellItems,
  matchCells,
  planShards,
  RECODED_CHUNK_SIZE,
  type ShardGrid,
} from "./grid.ts";
import { describeValues } from "./zarr-attributes.ts";
import { mapDType, type ZarrType } from "./zarr-dtype.ts";
import { arrayDocument, type BloscSettings, withLengths } from "./zarr-metadata.ts";

/** Settings where neither metadata nor a chunk tells them. */
const DEFAULT_CLEVEL = 5;

/** What is read of an archive. */
export type SourceArchive = Pick<
  ChunkedArchive,
  | "store"
  | "path"
  | "nbytes"
  | "nchunks"
  | "chunkBytes"
  | "summary"
  | "readBytes"
  | "encodedChunks"
  | "listChunks"
> & {
  readonly kind: "array" | "bytes";
  /** Where several are read as one. */
  readonly joinedFrom?: readonly SourceArchive[];
};

/** Values and how they are stored. */
export interface SourceArray {
  readonly archive: SourceArchive;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly fillValue: JsonValue | undefined;
  readonly attrs: JsonObject;
  /** Rows of a chunk, as the metadata tells it. */
  readonly chunkLength: number | undefined;
  /** Why its chunks make no regular grid, whatever their size; absent where they may. */
  readonly unevenness?: string;
}

/** Everything that is needed to convert an array. */
export interface ArrayJob {
  /** Path below the conversion's own in the destination. */
  readonly node: string;
  readonly source: SourceArray;
  readonly type: ZarrType;
  readonly blosc: BloscSettings;
  readonly document: JsonObject;
  /** The same array without shards: each chunk an object of its own. */
  readonly chunkDocument: JsonObject;
  /** Undefined where there are no values. */
  readonly layout: JobLayout | undefined;
  /** Why chunks are recoded; undefined: they are copied. */
  readonly recodes: string | undefined;
  /** Chunks with snappy are recoded wherever they turn up. */
  readonly replacesSnappy: boolean;
  readonly notes: readonly string[];
}

/** How the values are cut. */
export interface JobLayout {
  readonly cells: CellGrid;
  readonly shards: ShardGrid;
  /** False for an array without dimensions: its one chunk is the object. */
  readonly sharded: boolean;
  /** Axes run the other way in the array than in the stored order. */
  readonly reversed: boolean;
  /** Uncompressed bytes of a whole chunk in the result. */
  readonly cellBytes: number;
  /** The last chunk has no more than its rows, in a rectilinear grid; then chunks are objects of their own. */
  readonly unequal: boolean;
  /** Cell `k` is chunk `k` of the archive. */
  readonly matchesChunks: boolean;
}

/** The array that an archive holds. Throws `BAD_ARGUMENT` for a `dtype` or `shape` that does not fit. */
export function sourceOfArray(archive: ArrayArchive, options: LayoutOptions): SourceArray {
  if (options.dtype !== undefined || options.shape !== undefined) {
    throw badArgument(
      archive,
      options.dtype === undefined ? "shape" : "dtype",
      "is given for an archive that knows its own; it is for archives of plain bytes",
    );
  }
  const { dtype, shape, order, fillValue, attrs, chunkLength } = archive;
  return { archive, dtype, shape, order, fillValue, attrs, chunkLength };
}

/** Plain bytes as an array: uint8, or what `dtype` and `shape` say. Throws `BAD_ARGUMENT` where sizes disagree. */
export function sourceOfBytes(archive: BytesArchive, options: LayoutOptions): SourceArray {
  const dtype: DType = options.dtype ?? { kind: "uint", itemSize: 1, byteOrder: "none" };
  if (dtype.itemSize === 0 || archive.nbytes % dtype.itemSize !== 0) {
    throw badArgument(
      archive,
      "dtype",
      `has items of ${dtype.itemSize} bytes, but the ${archive.nbytes} bytes of the archive are not a multiple of that`,
    );
  }
  const items = archive.nbytes / dtype.itemSize;
  const shape = options.shape ?? [items];
  const isShape = shape.every((n) => Number.isSafeInteger(n) && n >= 0);
  if (!isShape || shape.reduce((total, n) => total * n, 1) !== items) {
    throw badArgument(
      archive,
      "shape",
      `is [${shape}], but the archive has ${items} items of ${dtype.itemSize} bytes`,
    );
  }
  const rowBytes = shape.slice(1).reduce((total, n) => total * n, dtype.itemSize);
  const rows = archive.chunkBytes / rowBytes;
  const chunkLength = Number.isInteger(rows) && rows > 0 ? rows : undefined;
  return { archive, dtype, shape, order: "C", fillValue: undefined, attrs: archive.attrs, chunkLength };
}

/**
 * Plans one array. Reads the header of its first chunk. Throws `UNSUPPORTED` for data types that Zarr does not
 * have, and, with `recode: false`, where chunks cannot be copied.
 */
export async function planArray(
  node: string,
  source: SourceArray,
  options: LayoutOptions & OpenOptions,
  originalName?: string,
): Promise<ArrayJob> {
  const { archive, shape, fillValue } = source;
  const path = archive.store.describe(archive.path);
  const type = mapDType(source.dtype, { portable: options.portable, fillValue, path });
  const summary = await archive.summary({ signal: options.signal });
  const isEmpty = shape.includes(0);
  const reversed = source.order === "F" && shape.length > 1;
  const notes = [...type.notes];
  const stored = shape.length === 0 ? [1] : reversed ? [...shape].reverse() : shape;
  const matched =
    isEmpty || source.unevenness !== undefined
      ? undefined
      : matchCells(stored, archive.chunkBytes / source.dtype.itemSize);
  const recodes = isEmpty ? undefined : whyRecode(source, type, summary, matched, options, notes);
  if (recodes !== undefined && options.recode === false) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its chunks cannot be copied into Zarr: ${recodes}; allow recoding`,
      { path, field: "recode" },
    );
  }
  const matching = type.transform === undefined ? matched : undefined;
  const cells = isEmpty ? undefined : (matching ?? chooseCells(stored, type.itemSize, RECODED_CHUNK_SIZE));
  const unequal = cells !== undefined && options.grid === "rectilinear" && lastLength(cells) < cells.length;
  if (unequal) notes.push(UNEQUAL);
  const layout = cells && {
    cells,
    shards: planShards(cells, type.itemSize, unequal ? { chunksPerShard: 1 } : options),
    sharded: !unequal && (shape.length > 0 || type.itemShape.length > 0),
    unequal,
    reversed,
    cellBytes: fullCellItems(cells) * type.itemSize,
    matchesChunks: matching !== undefined,
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

/** Uncompressed bytes of a chunk in the result. */
export function bytesOfCell({ type }: ArrayJob, layout: JobLayout, cell: number): number {
  return layout.unequal ? cellItems(layout.cells, cell) * type.itemSize : layout.cellBytes;
}

const UNEQUAL =
  "its last chunk is short, so its grid is rectilinear, with one object a chunk: zarr-python reads it with array.rectilinear_chunks set, and zarrs; tensorstore and zarrita do not";

/** The document with chunks of unequal length along the axis that is cut. */
function unequalDocument(document: JsonObject, { cells, reversed }: JobLayout): JsonObject {
  const axis = reversed ? cells.shape.length - 1 - cells.axis : cells.axis;
  return withLengths(document, axis, [
    { length: cells.length, times: cells.along - 1 },
    { length: lastLength(cells), times: 1 },
  ]);
}

/** Items of the last cell along the axis that is cut. */
function lastLength({ shape, axis, length, along }: CellGrid): number {
  return (shape[axis] ?? 1) - (along - 1) * length;
}

function whyRecode(
  { archive, shape, dtype, unevenness }: SourceArray,
  type: ZarrType,
  summary: ChunkSummary,
  matched: CellGrid | undefined,
  options: LayoutOptions,
  notes: string[],
): string | undefined {
  if (type.transform !== undefined) return type.transform.reason;
  if (unevenness !== undefined) return unevenness;
  if (archive.chunkBytes % dtype.itemSize !== 0) {
    return `chunks of ${archive.chunkBytes} bytes do not end on items of ${dtype.itemSize} bytes`;
  }
  if (matched === undefined)
    return `chunks of ${archive.chunkBytes} bytes do not end on rows of the shape [${shape}]`;
  if (summary.cname !== "snappy") return undefined;
  // The Blosc of numcodecs, which zarr-python uses, is built without snappy.
  if (options.recode !== false) return "zarr-python cannot decode Blosc chunks with snappy";
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

function bloscSettings(summary: ChunkSummary, type: ZarrType, recoded: boolean): BloscSettings {
  const ownSize = type.itemSize > 255 ? 1 : type.itemSize;
  const typesize = type.transform !== undefined ? ownSize : (summary.typesize ?? ownSize);
  const cname = summary.cname ?? "lz4";
  return {
    cname: recoded && cname === "snappy" ? "lz4" : cname,
    clevel: Math.min(9, Math.max(0, summary.clevel ?? DEFAULT_CLEVEL)),
    shuffle: summary.shuffle ?? "shuffle",
    typesize: Math.min(255, Math.max(1, typesize)),
  };
}

function badArgument(
  archive: Pick<ChunkedArchive, "store" | "path">,
  field: string,
  reason: string,
): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `${field} ${reason}`, {
    path: archive.store.describe(archive.path),
    field,
  });
}
