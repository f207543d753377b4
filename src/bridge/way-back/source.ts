/**
 * What is converted back: archives and Zarr nodes as one kind of thing, columns of rows.
 *
 * Knows what every source has in common; must not know what it becomes.
 */
import type {
  Archive,
  ArrayArchive,
  BytesArchive,
  ChunkSummary,
  LongOptions,
  Selection,
} from "../../array/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";

/** An array of any format, as far as it takes to write its values. */
export interface BackArray {
  readonly kind: "array";
  readonly store: ReadableStore;
  readonly path: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly attrs: JsonObject;
  readonly fillValue: JsonValue | undefined;
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  getBytes(selection?: Selection | null, options?: LongOptions): Promise<Uint8Array>;
}

/** Arrays of one length side by side. */
export interface BackTable {
  readonly kind: "table";
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly names: readonly string[];
  column(name: string): BackArray;
}

/** What can be converted back. */
export type BackSource = Archive | BackArray | BackTable;

/** One array to be written. */
export interface BackColumn {
  /** Empty for an array that is not a column. */
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly nbytes: number;
  readonly attrs: JsonObject;
  readonly fillValue: JsonValue | undefined;
  /** Where encoded chunks can be had, in stored order. */
  readonly archive: ArrayArchive | BytesArchive | undefined;
  /** Rows of a chunk, where chunks end on rows. */
  readonly chunkLength: number | undefined;
  readonly summary: ChunkSummary | undefined;
  /** How messages name it. */
  readonly path: string;
  /** C order. */
  stream(options: LongOptions): AsyncIterable<Uint8Array>;
  /** Rows `[start, stop)` as bytes, C order. */
  rows(start: number, stop: number, signal: AbortSignal | undefined): Promise<Uint8Array>;
}

/** What bytes are to be taken for. */
export interface BytesAs {
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
}

/** An array, or a column. Reads its first header. */
export async function describeColumn(name: string, source: BackArray): Promise<BackColumn> {
  const archive = isArchive(source) && source.columnNames.length === 0 ? source : undefined;
  return {
    name,
    dtype: source.dtype,
    shape: source.shape,
    order: archive?.order ?? "C",
    nbytes: source.nbytes,
    attrs: source.attrs,
    fillValue: source.fillValue,
    archive,
    chunkLength: archive?.chunkLength,
    summary: await archive?.summary(),
    path: source.store.describe(source.path),
    stream: (options) => source.streamBytes(options),
    rows: (start, stop, signal) => source.getBytes([{ start, stop, step: 1 }], { signal }),
  };
}

/** Plain bytes as an array: uint8, or what is said of them. Throws `BAD_ARGUMENT` where that does not fit. */
export async function describeBytes(
  archive: BytesArchive,
  { dtype: given, shape }: BytesAs,
): Promise<BackColumn> {
  const dtype: DType = given ?? { kind: "uint", itemSize: 1, byteOrder: "none" };
  const items = archive.nbytes / dtype.itemSize;
  const dimensions = shape ?? [items];
  const path = archive.store.describe(archive.path);
  if (!Number.isInteger(items) || dimensions.reduce((product, n) => product * n, 1) !== items) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `[${dimensions.join(", ")}] items of ${dtype.itemSize} bytes are not the ${archive.nbytes} bytes of the archive`,
      { path, field: "shape", expected: archive.nbytes, found: dimensions },
    );
  }
  const rowBytes = dimensions.slice(1).reduce((product, n) => product * n, dtype.itemSize);
  const chunkLength = archive.chunkBytes / rowBytes;
  return {
    name: "",
    dtype,
    shape: dimensions,
    order: "C",
    nbytes: archive.nbytes,
    attrs: archive.attrs,
    fillValue: undefined,
    archive,
    chunkLength: Number.isInteger(chunkLength) && chunkLength > 0 ? chunkLength : undefined,
    summary: await archive.summary(),
    path,
    stream: (options) => archive.streamBytes(options),
    rows: (start, stop, signal) => archive.readBytes(start * rowBytes, stop * rowBytes, { signal }),
  };
}

function isArchive(source: BackArray): source is ArrayArchive {
  return "encodedChunks" in source;
}
