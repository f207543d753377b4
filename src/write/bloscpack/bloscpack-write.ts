/**
 * Writes Bloscpack files, version 3: header, metadata and offsets as bloscpack 0.16 writes them.
 *
 * The offsets precede the chunks, so the chunks are held until the last one is compressed. An unknown number of chunks (-1) is
 * written only for pipes, on request: bloscpack 0.16 reads such a file as empty.
 * @see FORMAT.md [F1.3-07] [F1.3-09]
 */
import { elementsOf } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { loadDigest } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import { pythonDType } from "../../format/dtype.ts";
import { encodeFileHeader, encodeOffsets, encodeSection } from "../../format/encode-file.ts";
import { FILE_HEADER_LENGTH, OFFSET_LENGTH } from "../../format/header.ts";
import { jsonBytes } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { ChecksumName, DType, JsonInput, JsonObject, JsonObjectInput } from "../../format/types.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import { checkReserve, type Reserve, reserveOf } from "../layout/settings.ts";
import {
  type BloscpackCompression,
  type BloscpackMetadataOptions,
  type BloscpackOptions,
  bloscpackHeader,
  type Chunking,
  checkChecksum,
  cutBytes,
  METADATA_OPTIONS,
  OPTIONS,
  settleChunkSize,
  settleCompression,
  settleCount,
} from "./bloscpack-options.ts";
import { type Scratch, scratchBeside, spoolChunks } from "./chunk-spool.ts";
import { cutPieces, encodePieces } from "./pieces.ts";

/** What was written. Sizes in bytes. */
export interface BloscpackResult {
  readonly nchunks: number;
  readonly nbytes: number;
  /** Size of the file. */
  readonly cbytes: number;
}

/** An array to compress. */
export interface BloscpackArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Memory order of `data` (default C). */
  readonly order?: "C" | "F" | undefined;
  /** The values' bytes, in that order and in the byte order of the dtype. */
  readonly data: PutSource;
}

/** Implements the exported `compressBytes`. */
export async function compressBytes(
  source: PutSource,
  store: WritableStore,
  key: string,
  options: BloscpackOptions = {},
): Promise<BloscpackResult> {
  return putPacked(givenPacking(source, options), store, key, { ...options, array: undefined });
}

/**
 * Compresses an array, with the metadata that lets bloscpack restore it as a numpy array.
 * @throws as {@link compressBytes}, and UNSUPPORTED for Python objects
 */
export async function compressArray(
  array: BloscpackArray,
  store: WritableStore,
  key: string,
  options: BloscpackOptions = {},
): Promise<BloscpackResult> {
  return putPacked(packingOf(array, options), store, key, options);
}

/** Implements the exported `packBytes`. */
export function packBytes(
  source: PutSource,
  scratch: Scratch,
  options: BloscpackOptions = {},
): AsyncIterable<Uint8Array> {
  return packPieces(givenPacking(source, options), scratch, options, {});
}

/** Plain bytes, or with `array` the values of one. */
function givenPacking(source: PutSource, options: BloscpackOptions): Packing {
  checkOptions(options, OPTIONS);
  if (options.metadataOptions !== undefined) checkOptions(options.metadataOptions, METADATA_OPTIONS);
  if (options.array !== undefined) return packingOf({ ...options.array, data: source }, options);
  const size = options.size ?? (source instanceof Uint8Array ? source.length : undefined);
  return { source, size, itemSize: undefined, metadata: options.metadata };
}

interface Packing {
  readonly source: PutSource;
  readonly size: number | undefined;
  /** Item size of an array; undefined for plain bytes. */
  readonly itemSize: number | undefined;
  readonly metadata: JsonInput | undefined;
}

function packingOf(array: BloscpackArray, options: BloscpackOptions): Packing {
  const { dtype, shape } = array;
  if (dtype.kind === "object")
    throw new SuperchunkError("UNSUPPORTED", "Python objects are never written", { field: "dtype" });
  const extra = extraMetadata(options.metadata);
  const metadata = keepFloats({ ...numpyMetadata(dtype, shape, array.order ?? "C"), ...extra }, extra);
  return { source: array.data, size: elementsOf(shape) * dtype.itemSize, itemSize: dtype.itemSize, metadata };
}

/** The members by which bloscpack 0.16 recognises an array, in its order. [FM.3-01] */
export function numpyMetadata(dtype: DType, shape: readonly number[], order: "C" | "F"): JsonObject {
  // Like numpy: what is both in C and in Fortran order is in C order.
  const differs = order === "F" && !shape.includes(0) && shape.filter((length) => length > 1).length > 1;
  return { dtype: pythonDType(dtype), shape: [...shape], order: differs ? "F" : "C", container: "numpy" };
}

/** The members that make an array of a file. */
export const ARRAY_KEYS: readonly string[] = ["dtype", "shape", "order", "container"];

function extraMetadata(metadata: JsonInput | undefined): JsonObjectInput {
  if (metadata === undefined) return {};
  const members = membersOf(metadata);
  const taken = Object.keys(members).find((key) => ARRAY_KEYS.includes(key));
  if (taken === undefined) return members;
  throw new SuperchunkError("BAD_ARGUMENT", `the metadata member "${taken}" is the array's own`, {
    field: taken,
  });
}

/** The metadata of an array. Throws `BAD_ARGUMENT` for what is not an object. */
export function membersOf(metadata: JsonInput): JsonObjectInput {
  if (typeof metadata === "object" && metadata !== null && !Array.isArray(metadata))
    return metadata as JsonObjectInput;
  throw new SuperchunkError("BAD_ARGUMENT", "the metadata of an array must be an object", {
    field: "metadata",
    expected: "an object",
  });
}

async function putPacked(
  packing: Packing,
  store: WritableStore,
  key: string,
  options: BloscpackOptions,
): Promise<BloscpackResult> {
  const result: { -readonly [name in keyof BloscpackResult]?: BloscpackResult[name] } = {};
  const pieces = packPieces(packing, scratchBeside(store, key), options, result);
  const info = await store.put(key, pieces, { ifAbsent: options.force !== true, signal: options.signal });
  return { nchunks: result.nchunks ?? 0, nbytes: result.nbytes ?? 0, cbytes: info.size };
}

async function* packPieces(
  { source, size, itemSize, metadata }: Packing,
  scratch: Scratch,
  options: BloscpackOptions,
  result: { nchunks?: number; nbytes?: number },
): AsyncGenerator<Uint8Array> {
  const chunkSize = settleChunkSize(options.chunkSize, itemSize === 0 ? 1 : itemSize);
  const checksum = checkChecksum("checksum", options.checksum ?? "adler32");
  const offsets = options.stream !== true && (options.offsets ?? true);
  const reserve = checkReserve(options.reserve);
  if (reserve !== undefined && !offsets)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "chunks with a reserve need an offsets table; leave out reserve, or keep the offsets",
      { field: "reserve" },
    );
  const { typesize } = settleCompression(options, itemSize);
  const section = metadata === undefined ? undefined : await packMetadata(metadata, options.metadataOptions);
  const headOf = (cut: Chunking, sizes: readonly number[]): Uint8Array => {
    const maxAppChunks = offsets ? settleCount("max-app-chunks", options.maxAppChunks, cut.nchunks) : 0;
    const version = reserve === undefined ? 3 : 4;
    return packHead(cut, { version, offsets, checksum, typesize, maxAppChunks, section, sizes });
  };
  const cutSource = cutPieces(source, chunkSize, options.signal);
  const chunks = encodeChunks(cutSource, checksum, itemSize, options, size);
  if (!offsets && (size !== undefined || options.stream === true)) {
    const unknown = { nchunks: -1, chunkSize, lastChunk: -1 };
    yield headOf(size === undefined ? unknown : cutBytes(size, chunkSize), []);
    const counted = { nchunks: 0, nbytes: 0 };
    for await (const { bytes, digest, nbytes } of chunks) {
      counted.nchunks++;
      counted.nbytes += nbytes;
      yield bytes;
      if (digest.length > 0) yield digest;
    }
    Object.assign(result, counted);
    return;
  }
  const spool = await spoolChunks(reserve === undefined ? chunks : withReserve(chunks, reserve), scratch);
  try {
    const cut = cutBytes(spool.nbytes, chunkSize);
    Object.assign(result, { nchunks: cut.nchunks, nbytes: spool.nbytes });
    yield headOf(cut, spool.sizes);
    yield* spool.pieces();
  } finally {
    await spool.dispose();
  }
}

/** The chunks with zeros after their digests. */
async function* withReserve(
  chunks: AsyncGenerator<StoredChunk>,
  reserve: Reserve,
): AsyncGenerator<StoredChunk> {
  for await (const { bytes, digest, nbytes } of chunks) {
    const room = reserveOf(reserve, bytes.length + digest.length, nbytes + digest.length);
    const trailer = new Uint8Array(digest.length + room);
    trailer.set(digest);
    yield { bytes, digest: trailer, nbytes };
  }
}

/** Encodes pieces as chunks with their digests; an empty source is one empty chunk. Checks `size`, if given. */
export async function* encodeChunks(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  checksum: ChecksumName,
  itemSize: number | undefined,
  options: BloscpackCompression & Pick<BloscpackOptions, "onProgress">,
  size?: number,
): AsyncGenerator<StoredChunk> {
  const settings = settleCompression(options, itemSize);
  const digest = await loadDigest(checksum);
  let done = 0;
  for await (const { chunk, nbytes } of encodePieces(notEmpty(pieces), settings, options.encoder)) {
    done += nbytes;
    if (size !== undefined && done > size) throw wrongSize(size, `more than ${size}`);
    options.onProgress?.({ done, total: Math.max(done, size ?? 0) });
    yield { bytes: chunk, digest: digest(chunk), nbytes };
  }
  if (size !== undefined && done !== size) throw wrongSize(size, done);
}

/** The pieces, or an empty one if there are none. */
async function* notEmpty(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  let isEmpty = true;
  for await (const piece of pieces) {
    isEmpty = false;
    yield piece;
  }
  if (isEmpty) yield new Uint8Array(0);
}

function wrongSize(expected: number, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `the source has ${found} bytes, but ${expected} were announced`,
    { field: "size", expected, found },
  );
}

/** The metadata section. Throws `BAD_ARGUMENT` if the text does not fit. */
export async function packMetadata(
  value: JsonInput,
  options: BloscpackMetadataOptions = {},
): Promise<Uint8Array> {
  const { checksum = "adler32", codec = "zlib", level = 6, maxMetaSize = "10x" } = options;
  const length = jsonBytes(value, { python: true, compact: true }).length;
  return encodeSection(value, {
    checksum: checkChecksum("meta-checksum", checksum),
    codec,
    level,
    maxMetaSize: settleCount("max-meta-size", maxMetaSize, length),
  });
}

/** The contents of everything before the first chunk. Sizes in bytes. */
export interface HeadFacts {
  /** Default 3; 4 if only the offsets say where the chunks are. */
  readonly version?: 3 | 4;
  readonly offsets: boolean;
  readonly checksum: ChecksumName;
  readonly typesize: number;
  readonly maxAppChunks: number;
  readonly section: Uint8Array | undefined;
  /** Of each chunk with its digest; not needed without offsets. */
  readonly sizes: Iterable<number>;
}

/** Header, metadata section and offset table: everything before the first chunk. */
export function packHead(cut: Chunking, facts: HeadFacts): Uint8Array {
  const { version = 3, offsets, checksum, typesize, maxAppChunks, section, sizes } = facts;
  const entries = offsets ? cut.nchunks + maxAppChunks : 0;
  const tableAt = FILE_HEADER_LENGTH + (section?.length ?? 0);
  const length = tableAt + entries * OFFSET_LENGTH;
  if (length > MAX_HEAD)
    throw new SuperchunkError(
      "LIMIT",
      `the offsets table would have ${entries} entries; choose a smaller max-app-chunks or a larger chunk-size`,
      { field: "max-app-chunks", found: maxAppChunks },
    );
  const head = new Uint8Array(length);
  const metadata = section !== undefined;
  const own = { version, offsets, metadata, checksum, typesize, maxAppChunks };
  head.set(encodeFileHeader(bloscpackHeader(cut, own)));
  if (section !== undefined) head.set(section, FILE_HEADER_LENGTH);
  if (offsets) head.set(encodeOffsets(offsetsOf(sizes, entries, length)), tableAt);
  return head;
}

/** Most bytes before the first chunk: the table is made in memory. */
const MAX_HEAD = 1 << 30;

function offsetsOf(sizes: Iterable<number>, entries: number, first: number): Float64Array {
  const offsets = new Float64Array(entries).fill(-1);
  let at = first;
  let i = 0;
  for (const size of sizes) {
    offsets[i++] = at;
    at += size;
  }
  return offsets;
}
