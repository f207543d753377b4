/** The settings of an array of superchunks, and how `meta/storage` stores them. Knows the settings; must not know any store. */

import { SHARED_FEATURE, ZARR_FEATURE } from "../../archive/places/layout-files.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { settleEncode } from "../../codec/encode/encode-settings.ts";
import { HEADER_LENGTH } from "../../codec/index.ts";
import type { CompressorName, EncodeOptions, Shuffle } from "../../codec/types.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { StoredStorage } from "../../format/folder.ts";
import { CHECKSUM_NAMES } from "../../format/header.ts";
import type { ChecksumName, DType, JsonObject, JsonValue } from "../../format/types.ts";
import { encodePlaces, NO_PLACES, PLACES_FEATURE, type Placing } from "../../places/declared.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import { checkWritableDType } from "./columns.ts";

/** Compression of chunks. */
export interface CompressionOptions {
  /** Default lz4. */
  readonly cname?: CompressorName | undefined;
  /** 0 to 9, default 5. */
  readonly clevel?: number | undefined;
  /** Default `shuffle`. */
  readonly shuffle?: Shuffle | undefined;
}

/** How an array is chunked and compressed, in the terms of `create`. `compact` takes them too; omitted members stay unchanged. */
export interface ChunkSettings {
  /** Default: that of the format's own program, with lz4 for `blz`, `bcolz` and `zarr`. */
  readonly compressor?: CompressionOptions | undefined;
  /** Rows of a chunk; default: by the item size and `expectedLength`. */
  readonly chunkLength?: number | undefined;
  /** Expected number of rows, approximately; decides the chunk length. */
  readonly expectedLength?: number | undefined;
  /** `blz`: chunks per full superchunk (default: about 32 MiB, at most 512). */
  readonly superchunkLength?: number | undefined;
  /** `blz` and `bloscpack`: checksum of each chunk. */
  readonly checksum?: ChecksumName | undefined;
}

/** Throws `BAD_ARGUMENT` for other names, and for lengths that are not whole numbers. Returns the settings. */
export function checkChunkSettings(settings: ChunkSettings): ChunkSettings {
  checkOptions(settings, "checksum chunkLength compressor expectedLength superchunkLength");
  const { compressor, chunkLength, expectedLength, superchunkLength } = settings;
  const { cname, clevel, shuffle, ...unknown } = compressor ?? {};
  if (compressor === null || typeof compressor === "string" || Object.keys(unknown).length > 0)
    throw badArgument("compressor", JSON.stringify(compressor), "an object with cname, clevel or shuffle");
  for (const [name, rows] of Object.entries({ chunkLength, superchunkLength }))
    if (rows !== undefined) count(name, rows, 1);
  if (expectedLength !== undefined) count("expectedLength", expectedLength, 0);
  return settings;
}

/** Settings fixed when an array is created. */
export interface ReserveOptions {
  /**
   * Room after each chunk, so that `modify: "in-place"` finds a slot for a larger one (default none): bytes, or a share of the chunk such
   * as `10%`. Such superchunks are version 4, are readable only through their offsets, and are refused by Bloscpack; `compact` leaves
   * version 3, without reserve.
   */
  readonly reserve?: Reserve | undefined;
  /**
   * Chunk size: `read`, about 1 MiB; `update`, at most 128 KiB. Default `update`; for an array that is a Zarr array as well, a 128th of the
   * expected bytes (of a column), from 16 KiB to 1 MiB.
   */
  readonly optimize?: Optimize | undefined;
}

/** What chunk sizes are optimised for. */
export type Optimize = "read" | "update";
const PURPOSES: readonly Optimize[] = ["read", "update"];

/** Complete settings. */
export interface ArraySettings {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  /** True if each field of the dtype is stored in a folder. */
  readonly hasColumns: boolean;
  readonly cname: CompressorName;
  readonly clevel: number;
  readonly shuffle: Shuffle;
  readonly chunklen: number;
  readonly superchunklen: number;
  readonly checksum: ChecksumName;
  readonly expectedlen: number | undefined;
  readonly reserve: Reserve | undefined;
  /** Default value as stored. */
  readonly dflt: JsonValue;
  /** Counts the changes of `meta/storage`. */
  readonly revision: number;
  /** True if its folder is also kept a Zarr array. */
  readonly zarr: boolean;
  /** True if several writers may append concurrently. */
  readonly shared: boolean;
  /** Where superchunks may be stored besides `data`. */
  readonly placing: Placing;
}

/** Default limits of the uncompressed bytes of a chunk, summed over all columns. */
const MAX_CHUNK_BYTES = 1 << 17;
const MIN_CHUNK_BYTES = 1 << 14;
/** The same for Zarr readers, which have a high cost per chunk. */
const MAX_READ_CHUNK_BYTES = 1 << 20;
const MAX_ROW_OF_CHUNKS = 8 << 20;
/** Uncompressed bytes of a superchunk: one is held in memory while it is made. */
const SUPERCHUNK_BYTES = 32 << 20;
/**
 * Default limit of the chunks of a superchunk: each of its files, however small, has an offset for each of them, so that chunks
 * keep their places when it is rewritten with more.
 */
const MAX_SUPERCHUNKLEN = 512;
/** A Blosc chunk holds at most 2^31 - 1 bytes including its header. */
const MAX_CHUNK = 0x7fff_ffff - HEADER_LENGTH;
/** Expected bytes of an array whose length is not given. */
const EXPECTED_BYTES = 1 << 28;

/** Completes the settings. Throws `BAD_ARGUMENT`, `LIMIT`, `UNSUPPORTED`. */
export function settleSettings(
  base: Pick<ArraySettings, "dtype" | "rowShape" | "hasColumns" | "dflt" | "revision"> & {
    readonly zarr?: boolean;
    readonly shared?: boolean;
    readonly placing?: Placing;
  },
  options: ChunkSettings & ReserveOptions,
  before?: ArraySettings,
): ArraySettings {
  checkWritableDType(base.dtype);
  encodeItem(base.dtype, base.dflt);
  const { compressor = {}, optimize } = options;
  settleEncode(1, compressor as EncodeOptions);
  if (optimize !== undefined && !PURPOSES.includes(optimize))
    throw badArgument("optimize", optimize, `one of ${PURPOSES.join(", ")}`);
  const checksum = options.checksum ?? before?.checksum ?? "crc32";
  if (!CHECKSUM_NAMES.includes(checksum))
    throw badArgument("checksum", checksum, `one of ${CHECKSUM_NAMES.join(", ")}`);
  const expected = options.expectedLength ?? before?.expectedlen;
  const expectedlen = expected === undefined ? undefined : count("expectedlen", expected, 0);
  const largest = largestRow(base);
  const chunklen = count(
    "chunklen",
    options.chunkLength ?? before?.chunklen ?? chooseChunklen(base, expectedlen, options.optimize),
    1,
  );
  checkChunkRoom(chunklen, largest);
  const kept = options.chunkLength === undefined ? before?.superchunklen : undefined;
  const superchunklen = count(
    "superchunklen",
    options.superchunkLength ?? kept ?? chooseSuperchunklen(base, chunklen),
    1,
  );
  return {
    ...base,
    zarr: base.zarr ?? false,
    shared: base.shared ?? before?.shared ?? false,
    placing: base.placing ?? before?.placing ?? NO_PLACES,
    cname: compressor.cname ?? before?.cname ?? "lz4",
    clevel: (compressor.clevel ?? before?.clevel ?? 5) + 0,
    shuffle: compressor.shuffle ?? before?.shuffle ?? "shuffle",
    chunklen,
    superchunklen,
    checksum,
    expectedlen,
    reserve: checkReserve(options.reserve ?? before?.reserve),
  };
}

/** {@link settleSettings} for the contents of `meta/storage` at `path`. Throws `BAD_FIELD`, `LIMIT`, `UNSUPPORTED`. */
export function settleStored(
  base: Parameters<typeof settleSettings>[0],
  options: ChunkSettings & ReserveOptions,
  path: string,
): ArraySettings {
  try {
    return settleSettings(base, options);
  } catch (error) {
    throw isSuperchunkError(error) ? error.storedAt(path) : error;
  }
}

/** The options in a `meta/storage`, unchecked: {@link settleStored} checks them. */
export function storedOptions({
  raw,
  cparams,
  chunklen,
  expectedlen,
  superchunk,
}: StoredStorage): ChunkSettings & ReserveOptions {
  const { cname, clevel, shuffle } = cparams;
  const declared = (raw["superchunk"] ?? {}) as JsonObject;
  return {
    compressor: { cname: cname as CompressorName | undefined, clevel, shuffle },
    chunkLength: chunklen,
    superchunkLength: superchunk?.superchunklen,
    checksum: declared["checksum"] as ChecksumName | undefined,
    expectedLength: expectedlen,
    reserve: declared["reserve"] as Reserve | undefined,
  };
}

type Shaped = Pick<ArraySettings, "dtype" | "rowShape" | "hasColumns">;

function largestRow(
  { dtype, rowShape, hasColumns }: Shaped,
  sizeOf = (each: DType) => each.itemSize,
): number {
  const items = elementsOf(rowShape);
  if (!hasColumns || dtype.kind !== "struct") return items * sizeOf(dtype);
  return dtype.fields.reduce(
    (most, { dtype: own, shape }) => Math.max(most, items * sizeOf(own) * elementsOf(shape)),
    0,
  );
}

/** Most bytes of a text that count for the length of a chunk: one very long value pads all others to its length. */
const MAX_TEXT_BYTES = 256;

/** Bytes of an item, of which long text counts only in part. */
function countedSize(dtype: DType): number {
  const { kind, itemSize } = dtype;
  if (kind === "struct")
    return dtype.fields.reduce((sum, each) => sum + elementsOf(each.shape) * countedSize(each.dtype), 0);
  return kind === "unicode" || kind === "bytes" ? Math.min(itemSize, MAX_TEXT_BYTES) : itemSize;
}

/**
 * Chunk length by expected bytes: from 16 KiB for 4 MiB to 128 KiB for 256 MiB. Longer chunks hardly compress better, and
 * changing one value rewrites a chunk. For Zarr readers it grows faster, to 1 MiB for 128 MiB.
 */
function chooseChunklen(
  base: Shaped & { readonly zarr?: boolean },
  expectedlen: number | undefined,
  optimize: Optimize | undefined,
): number {
  const row = elementsOf(base.rowShape) * base.dtype.itemSize;
  const largest = largestRow(base, countedSize);
  if (row === 0 || largest === 0) return 1024;
  const forZarr = optimize === undefined && base.zarr === true;
  // Zarr readers treat each column as an array.
  const expected =
    expectedlen === undefined ? EXPECTED_BYTES : Math.max(1, expectedlen * (forZarr ? largest : row));
  const wished = 2 ** Math.round(forZarr ? Math.log2(expected) - 7 : Math.log2(expected) / 2 + 3);
  const most = forZarr ? MAX_READ_CHUNK_BYTES : MAX_CHUNK_BYTES;
  const bytes =
    optimize === "read" ? MAX_READ_CHUNK_BYTES : Math.min(most, Math.max(MIN_CHUNK_BYTES, wished));
  return Math.max(1, Math.min(Math.floor(bytes / largest), Math.floor(MAX_ROW_OF_CHUNKS / row)));
}

function chooseSuperchunklen(base: Shaped, chunklen: number): number {
  const bytes = Math.max(1, chunklen * elementsOf(base.rowShape) * base.dtype.itemSize);
  return Math.min(MAX_SUPERCHUNKLEN, Math.max(4, Math.round(SUPERCHUNK_BYTES / bytes)));
}

/** The contents of `meta/storage`. [FZ-03] [FZ-09] */
export function storageOf(settings: ArraySettings): JsonObject {
  const { cname, clevel, shuffle, expectedlen } = settings;
  return {
    dtype: formatDType(settings.dtype),
    cparams: { clevel, shuffle: shuffle === "bitshuffle" ? 2 : shuffle === "shuffle", cname },
    chunklen: settings.chunklen,
    ...(expectedlen === undefined ? {} : { expectedlen }),
    dflt: settings.dflt,
    superchunk: {
      version: 1,
      superchunklen: settings.superchunklen,
      checksum: settings.checksum,
      columns: settings.hasColumns,
      revision: settings.revision,
      ...(settings.reserve === undefined ? {} : { reserve: settings.reserve }),
      ...encodePlaces(settings.placing),
      readFeatures: ["layout", ...(settings.placing.places.length > 0 ? [PLACES_FEATURE] : [])],
      writeFeatures: [...(settings.zarr ? [ZARR_FEATURE] : []), ...(settings.shared ? [SHARED_FEATURE] : [])],
    },
  };
}

/** Checks that Blosc can hold chunks of so many rows, and returns their number. Throws `LIMIT`. */
export function checkChunkRoom(chunklen: number, rowBytes: number): number {
  if (chunklen * rowBytes <= MAX_CHUNK) return chunklen;
  throw new SuperchunkError(
    "LIMIT",
    `a chunk of ${chunklen} rows has ${chunklen * rowBytes} bytes, but Blosc holds at most ${MAX_CHUNK}; choose fewer rows for each chunk`,
    { field: "chunklen", expected: Math.floor(MAX_CHUNK / rowBytes), found: chunklen },
  );
}

/** Never minus zero, which would be stored as -0.0. */
function count(field: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value + 0;
  throw badArgument(field, value, `an integer from ${least}`);
}

// Space left after a chunk, so that a larger one fits into its slot later. Pure. @see FORMAT.md [F1.4-03]

/** Bytes after each chunk and its digest, or a share of the two: `10%`. */
export type Reserve = number | `${number}%`;

/** Bytes to leave after a chunk of `length` bytes, digest included; `most` is its decoded size with the digest. */
export function reserveOf(reserve: Reserve | undefined, length: number, most: number): number {
  if (reserve === undefined) return 0;
  const wished =
    typeof reserve === "number" ? reserve : Math.ceil((length * Number(reserve.slice(0, -1))) / 100);
  // Stored uncompressed, a chunk is its data and a header: more space is never needed.
  return Math.max(0, Math.min(wished, most + HEADER_LENGTH - length));
}

/** Checks a given or stored reserve; undefined for none. Throws `BAD_ARGUMENT`. */
export function checkReserve(value: unknown): Reserve | undefined {
  if (value === undefined || value === 0) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  if (typeof value === "string" && /^\d+(\.\d+)?%$/.test(value))
    return Number(value.slice(0, -1)) > 0 ? (value as Reserve) : undefined;
  throw badArgument("reserve", value, 'bytes, or a share of each chunk such as "10%"');
}
