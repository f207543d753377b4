/**
 * Presents archives and Zarr nodes alike as columns of rows, for targets that write values in order.
 *
 * Knows what all sources have in common; must not know what they become. The default value of an archive is the `dflt` of its
 * `meta/storage`. Zarr's documents spell fill values by version and data type (base64, hexadecimal bits, objects); what counts
 * is the item that they stand for. @see FORMAT.md [FD]
 */

import type { ArrayArchive, BytesArchive, ChunkedArchive, LongOptions } from "../../archive/kinds/types.ts";
import { defined, elementsOf, isEqual, stepsOf } from "../../bytes/arrays.ts";
import type { CompressorName, Shuffle } from "../../codec/types.ts";
import type { ChecksumName, DType, JsonObject, JsonValue } from "../../format/types.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import { toValues } from "../../values/values.ts";
import { isLongDouble } from "../../zarr/document/zarr-dtype.ts";
import { ZarrArray } from "../../zarr/read/array.ts";
import type { ColumnArray, LayoutOptions } from "../pipeline.ts";
import {
  bloscSettingsOf,
  type CopyingEncoder,
  copyableChunks,
  type OfferedChunks,
  offerChunks,
  type StoredChunks,
  zarrTypesize,
} from "./offered-chunks.ts";
import { sourceOfBytes } from "./source-array.ts";
import { withoutMeaning } from "./zipline.ts";

/** How the source is compressed, as far as it says. */
export interface ColumnSettings {
  readonly cname?: CompressorName;
  readonly clevel?: number;
  readonly shuffle?: Shuffle;
  readonly typesize?: number;
  readonly checksum?: ChecksumName;
}

/** One array to be written. */
export interface Column {
  /** Empty for an array that is not a column. */
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly nbytes: number;
  readonly attrs: JsonObject;
  readonly fillValue?: JsonValue | undefined;
  /** True if `fillValue` lacks some bits of the source's: a NaN with a payload or a sign. */
  readonly isFillInexact?: boolean;
  /** Undefined if no chunk can be copied. */
  readonly chunks?: OfferedChunks | undefined;
  /** The archive whose chunks hold the values, if there is one. */
  readonly archive?: ChunkedArchive | undefined;
  /** The stored Blosc chunks, if they hold rows in order: for archives, also of unequal lengths. */
  readonly stored?: StoredChunks | undefined;
  /** Rows of `stored` before the first one; default 0. */
  readonly skip?: number;
  readonly zarr?: ZarrArray | undefined;
  /** Why no chunk can be copied; undefined if chunks can be. */
  readonly whyRecoded?: string | undefined;
  readonly settings: ColumnSettings;
  /** Name in messages. */
  readonly path: string;
  /** Yields the values in C order. */
  stream(options: LongOptions): AsyncIterable<Uint8Array>;
  /** Rows `[start, stop)` as bytes, in C order. */
  rows(start: number, stop: number, signal: AbortSignal | undefined): Promise<Uint8Array>;
}

/** True if an array's chunks are whole rows in C order, as folders need them. */
export function isCutByRows({ chunks, order }: Column): boolean {
  return chunks?.chunkLength !== undefined && order === "C";
}

/** Rows of an array: from the first one up to, but excluding, the end. */
export type RowRange = readonly [first: number, end: number];

/** Rows of an array in C order; chunks that are rows are offered to the encoder. The range begins with a chunk. */
export function offeredRows(
  column: Column,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
  range: RowRange,
): AsyncIterable<Uint8Array> {
  const [first, end] = range;
  const { chunks, shape } = column;
  if (chunks?.chunkLength !== undefined && isCutByRows(column))
    return offerChunks(chunks, encoder, signal, [
      first / chunks.chunkLength,
      Math.ceil(end / chunks.chunkLength),
    ]);
  return first === 0 && end === shape[0] ? column.stream({ signal }) : rowsBetween(column, range, signal);
}

/** Bytes of rows read at a time. */
const SPAN_BYTES = 4 << 20;
/** From this many bytes on, chunks cost too much to be read by two processes. */
const LARGE_CHUNK = 64 << 20;

async function* rowsBetween(
  column: Column,
  [first, end]: RowRange,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const length = rowsOfChunk(column) ?? 1;
  const step = Math.max(1, Math.floor(SPAN_BYTES / (length * rowBytesOf(column)))) * length;
  for (const [from, to] of stepsOf(first, end, step)) yield column.rows(from, to, signal);
}

/** Rows that are stored, and read, together; undefined if reading some rows costs about as much as reading all. */
export function rowsOfChunk(column: Column): number | undefined {
  const { chunks, archive, zarr, order, shape } = column;
  if (isCutByRows(column)) return chunks?.chunkLength;
  if (order === "F" && shape.length > 1) return undefined;
  const rows = zarr?.chunkShape[0] ?? (archive as Partial<ArrayArchive> | undefined)?.chunkLength;
  return rows === undefined || rows * rowBytesOf(column) > LARGE_CHUNK ? undefined : rows;
}

export function rowBytesOf({ shape, dtype }: Pick<Column, "shape" | "dtype">): number {
  return elementsOf(shape.slice(1)) * dtype.itemSize;
}

/** Compression settings for writers. */
export function compressionOf({ cname, clevel, shuffle }: ColumnSettings): Partial<ColumnSettings> {
  return defined({ cname, clevel, shuffle });
}

const UNEQUAL = "its chunks are of unequal lengths";

/** Describes an array or a column. Reads its first header. */
export async function describeColumn(name: string, source: ColumnArray): Promise<Column> {
  const archive = hasEncodedChunks(source) && source.columnNames.length === 0 ? source : undefined;
  const zarr = source instanceof ZarrArray ? source : undefined;
  const found = zarr === undefined ? "its fields are stored apart" : copyableChunks(zarr);
  const ofZarr = typeof found === "string" ? undefined : found;
  const chunks = archive === undefined ? ofZarr : chunksOfArchive(archive, archive.chunkLength);
  const whyNot = chunks === undefined && typeof found === "string" ? found : undefined;
  return {
    name,
    dtype: source.dtype,
    shape: source.shape,
    order: archive?.order ?? "C",
    nbytes: source.nbytes,
    attrs: zarr === undefined ? source.attrs : withoutMeaning(zarr.attrs, name),
    fillValue: zarr === undefined ? source.fillValue : storedDefault(zarr),
    isFillInexact: zarr !== undefined && !isDefaultExact(zarr),
    chunks,
    archive,
    stored: archive ?? chunks?.stored,
    zarr,
    whyRecoded: archive?.chunkStarts === undefined ? whyNot : UNEQUAL,
    settings:
      zarr === undefined
        ? ((await archive?.summary()) ?? {})
        : { ...compressionOf(bloscSettingsOf(zarr)), typesize: zarrTypesize(zarr.dtype) },
    path: source.store.describe(source.path),
    stream: (options) => source.streamBytes(options),
    rows: (start, stop, signal) => source.getBytes([{ start, stop, step: 1 }], { signal }),
  };
}

/** The chunks as they can be copied; undefined if they are of unequal lengths. An empty Bloscpack file has chunks of 0 rows. */
function chunksOfArchive(
  archive: ChunkedArchive,
  chunkLength: number | undefined,
): OfferedChunks | undefined {
  const isRows = Number.isInteger(chunkLength) && chunkLength !== 0;
  return archive.chunkStarts === undefined
    ? { stored: archive, nbytes: archive.nbytes, chunkLength: isRows ? chunkLength : undefined }
    : undefined;
}

/** Describes plain bytes as an array: uint8, or what the options say. Throws `BAD_ARGUMENT` if that does not fit. */
export async function describeBytes(archive: BytesArchive, options: LayoutOptions): Promise<Column> {
  const { dtype, shape, order, attrs, chunkLength } = sourceOfBytes(archive, options);
  const rowBytes = rowBytesOf({ dtype, shape });
  return {
    name: "",
    dtype,
    shape,
    order,
    nbytes: archive.nbytes,
    attrs,
    archive,
    stored: archive,
    path: archive.store.describe(archive.path),
    chunks: chunksOfArchive(archive, chunkLength),
    whyRecoded: archive.chunkStarts === undefined ? undefined : UNEQUAL,
    settings: await archive.summary(),
    stream: (options) => archive.streamBytes(options),
    rows: (start, stop, signal) => archive.readBytes(start * rowBytes, stop * rowBytes, { signal }),
  };
}

function hasEncodedChunks(source: ColumnArray): source is ArrayArchive {
  return "encodedChunks" in source;
}

/** An array's fill value as an archive's default value; null if the array has none (Zarr v2's null), or it is a long double of zero. */
function storedDefault({ model: { fillItem, fillValue, dtype } }: ZarrArray): JsonValue {
  if (fillValue === null || (isLongDouble(dtype) && fillItem.every((byte) => byte === 0))) return null;
  const values = toValues(fillItem.slice(), dtype, 1);
  return wordsOf("get" in values ? values.get(0) : values[0], dtype);
}

/** False if the JSON value stands for another item than the array's: JSON has one NaN, without sign and payload. */
function isDefaultExact(array: ZarrArray): boolean {
  const words = storedDefault(array);
  const { dtype, fillItem } = array.model;
  return words === null || isEqual(encodeItem(dtype, words), fillItem);
}

function wordsOf(value: unknown, dtype: DType): JsonValue {
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (typeof value === "boolean" || typeof value === "string") return value;
  // Raw bytes are written as Latin-1 characters, like numpy's `S`.
  if (value instanceof Uint8Array) return Array.from(value, (byte) => String.fromCharCode(byte)).join("");
  if (dtype.kind === "struct" && !Array.isArray(value)) {
    const fields = value as Readonly<Record<string, unknown>>;
    return dtype.fields.map((field) => wordsOf(fields[field.name], field.dtype));
  }
  return (value as readonly unknown[]).map((part) => wordsOf(part, dtype));
}

/** True for a fill value that is the default anyway: none, zero (not -0), false, the empty string, and lists of these. */
export function isNothing(fill: JsonValue | undefined): boolean {
  if (Array.isArray(fill)) return (fill as readonly JsonValue[]).every(isNothing);
  return fill === undefined || fill === null || Object.is(fill, 0) || fill === false || fill === "";
}
