/**
 * What is converted back: archives and Zarr nodes as one kind of thing, columns of rows.
 *
 * Knows what every source has in common; must not know what it becomes.
 */
import type {
  Archive,
  ArrayArchive,
  BytesArchive,
  ChunkedArchive,
  LongOptions,
} from "../../archive/kinds/types.ts";
import type { CompressorName, Shuffle } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { ChecksumName, DType, JsonObject, JsonValue } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { Selection } from "../../values/selection.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import { ZarrArray } from "../../zarr/read/array.ts";
import { type CopyingEncoder, offerChunks } from "../targets/copying-encoder.ts";
import { isDefaultExact, storedDefault } from "../targets/fill-words.ts";
import { copyableChunks, zarrTypesize } from "./zarr-chunks.ts";

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

/** Chunks that a writer may take over as they are, in stored order. */
export interface OfferedChunks {
  /** Rows of a chunk, where chunks end on rows. */
  readonly chunkLength: number | undefined;
  /** Decoded bytes of every chunk but the last, which may be shorter. */
  readonly chunkBytes: number;
  readonly nchunks: number;
  /** The decoded bytes of all, each chunk offered to the encoder before. */
  offer(encoder: CopyingEncoder, signal: AbortSignal | undefined): AsyncIterable<Uint8Array>;
}

/** How the source is compressed, as far as it tells. */
export interface BackSettings {
  readonly cname?: CompressorName;
  readonly clevel?: number;
  readonly shuffle?: Shuffle;
  readonly typesize?: number;
  readonly checksum?: ChecksumName;
}

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
  /** True where `fillValue` has not all bits of the source's: a NaN with a payload, or of the other sign. */
  readonly isFillInexact: boolean;
  /** Undefined where no chunk can be copied. */
  readonly chunks: OfferedChunks | undefined;
  /** Why no chunk can be copied, if so. */
  readonly whyRecoded: string | undefined;
  readonly settings: BackSettings;
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

const UNEQUAL = "its chunks are of unequal lengths";

/** An array, or a column. Reads its first header. */
export async function describeColumn(name: string, source: BackArray): Promise<BackColumn> {
  const archive = isArchive(source) && source.columnNames.length === 0 ? source : undefined;
  const found = source instanceof ZarrArray ? copyableChunks(source) : "its fields are stored apart";
  const ofZarr = typeof found === "string" ? undefined : found;
  const chunks = archive === undefined ? ofZarr : chunksOfArchive(archive, archive.chunkLength);
  const whyNot = chunks === undefined && typeof found === "string" ? found : undefined;
  return {
    name,
    dtype: source.dtype,
    shape: source.shape,
    order: archive?.order ?? "C",
    nbytes: source.nbytes,
    attrs: source.attrs,
    fillValue: source instanceof ZarrArray ? storedDefault(source) : source.fillValue,
    isFillInexact: source instanceof ZarrArray && !isDefaultExact(source),
    chunks,
    whyRecoded: archive?.chunkStarts === undefined ? whyNot : UNEQUAL,
    settings: source instanceof ZarrArray ? settingsOfZarr(source) : ((await archive?.summary()) ?? {}),
    path: source.store.describe(source.path),
    stream: (options) => source.streamBytes(options),
    rows: (start, stop, signal) => source.getBytes([{ start, stop, step: 1 }], { signal }),
  };
}

/** The chunks as they can be copied; undefined where they are of unequal lengths. */
function chunksOfArchive(
  archive: ChunkedArchive,
  chunkLength: number | undefined,
): OfferedChunks | undefined {
  if (archive.chunkStarts !== undefined) return undefined;
  const { chunkBytes, nchunks } = archive;
  return {
    chunkLength,
    chunkBytes,
    nchunks,
    offer: (encoder, signal) => offerChunks(archive, encoder, signal),
  };
}

/** What the array's blosc codec is configured for, and the typesize of the chunks that are offered. */
function settingsOfZarr({ model, dtype }: ZarrArray): BackSettings {
  const blosc = leafOf(model.chain).stages.find(({ isBlosc }) => isBlosc);
  const { cname, clevel, shuffle } = (blosc?.v3?.["configuration"] ?? {}) as BackSettings;
  return {
    ...(cname === undefined ? {} : { cname }),
    ...(clevel === undefined ? {} : { clevel }),
    ...(shuffle === undefined ? {} : { shuffle }),
    typesize: zarrTypesize(dtype),
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
    isFillInexact: false,
    chunks: chunksOfArchive(
      archive,
      Number.isInteger(chunkLength) && chunkLength > 0 ? chunkLength : undefined,
    ),
    whyRecoded: archive.chunkStarts === undefined ? undefined : UNEQUAL,
    settings: await archive.summary(),
    path,
    stream: (options) => archive.streamBytes(options),
    rows: (start, stop, signal) => archive.readBytes(start * rowBytes, stop * rowBytes, { signal }),
  };
}

function isArchive(source: BackArray): source is ArrayArchive {
  return "encodedChunks" in source;
}
