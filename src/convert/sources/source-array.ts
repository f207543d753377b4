/** The values that a conversion takes, and how they are stored. Must not know Zarr. */

import type { ArrayArchive, BytesArchive, ChunkedArchive } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import type { LayoutOptions } from "../pipeline.ts";
import type { CellCopies } from "../plan/grid.ts";

/** What is read of an archive. */
export type SourceArchive = Pick<
  ChunkedArchive,
  | "store"
  | "path"
  | "nbytes"
  | "nchunks"
  | "chunkBytes"
  | "chunkStarts"
  | "summary"
  | "readBytes"
  | "encodedChunks"
  | "chunkPlaces"
  | "listChunks"
> & {
  readonly kind: "array" | "bytes";
  /** Where several are read as one. */
  readonly joinedFrom?: readonly SourceArchive[];
  /** Uncompressed bytes of a whole chunk where chunk `index` lies, where they are not `chunkBytes` everywhere. */
  readonly chunkBytesAt?: (index: number) => number;
};

/** Values and how they are stored. */
export interface SourceArray {
  readonly archive: SourceArchive;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly fillValue: JsonValue | undefined;
  readonly attrs: JsonObject;
  /** Rows of a chunk, as the metadata says. */
  readonly chunkLength: number | undefined;
  /** Absent where its chunks, as long as `chunkBytes` says, are one after the other. */
  readonly uneven?: UnevenChunks;
}

/** Chunks of which some are short or off the borders of a regular grid. */
export interface UnevenChunks {
  /** Why they make no regular grid. */
  readonly reason: string;
  /** Cells of `chunkBytes` that are chunks as they lie. */
  readonly copies: readonly CellCopies[];
  /** Rows of each chunk; undefined where chunks are not cut along the first axis. */
  readonly lengths: readonly LengthRun[] | undefined;
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
  const stored = order === "F" ? [...shape].reverse() : shape;
  return { archive, dtype, shape, order, fillValue, attrs, chunkLength, ...unevenOf(archive, dtype, stored) };
}

/** What is said of an archive whose chunks are of unequal lengths. `stored`: the shape in the order of storage. */
function unevenOf(
  { chunkStarts, nchunks }: ChunkedArchive,
  { itemSize }: DType,
  stored: readonly number[],
): { readonly uneven?: UnevenChunks } {
  if (chunkStarts === undefined || nchunks < 2) return {};
  const rowBytes = stored.slice(1).reduce((bytes, n) => bytes * n, itemSize);
  const isCutInRows = rowBytes > 0 && chunkStarts.every((start) => start % rowBytes === 0);
  const lengths = Array.from(chunkStarts.subarray(1), (end, i) => ({
    length: (end - at(chunkStarts, i)) / rowBytes,
    times: 1,
  }));
  // An empty chunk is not a cell of any grid.
  const isGrid = isCutInRows && lengths.every(({ length }) => length > 0);
  return {
    uneven: {
      reason: "its chunks are of unequal lengths, which Zarr's regular grid has not (--grid rectilinear has)",
      copies: [],
      lengths: isGrid ? lengths : undefined,
    },
  };
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
  const uneven = unevenOf(archive, dtype, shape);
  const isCutInRows = uneven.uneven === undefined && Number.isInteger(rows) && rows > 0;
  const chunkLength = isCutInRows ? rows : undefined;
  return {
    archive,
    dtype,
    shape,
    order: "C",
    fillValue: undefined,
    attrs: archive.attrs,
    chunkLength,
    ...uneven,
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
