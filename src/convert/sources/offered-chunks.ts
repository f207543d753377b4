/**
 * Chunks of a source that a writer may copy unchanged.
 *
 * An encoder returns a chunk of the source when the writer asks it to encode the same bytes. Nothing is then compressed again,
 * and every copied chunk has been decoded once, so damage is not passed on. So writers need not know about copying, and cannot
 * copy a chunk that does not fit. Knows when an array's chunks are its rows in order; must not know the writers.
 */

import type { ChunkedArchive, EncodedChunk } from "../../archive/kinds/types.ts";
import { at, elementsOf, isEqual } from "../../bytes/arrays.ts";
import { decode, encode, info } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";
import { placedError, SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { repeatItem } from "../../values/copy-items.ts";
import { wholeChunk } from "../../zarr/codecs/bytes-codecs.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import { hasByteOrder } from "../../zarr/document/data-type.ts";
import type { ZarrArray, ZarrChunk } from "../../zarr/read/array.ts";
import { placeFailure } from "./chunk-source.ts";

/** Chunks that a writer may copy unchanged, in stored order. */
export interface OfferedChunks {
  readonly stored: StoredChunks;
  /** Decoded bytes of all chunks. */
  readonly nbytes: number;
  /** Rows of a chunk, if chunks end on rows. */
  readonly chunkLength: number | undefined;
  /** Chunks with another typesize are not offered; default: all are. */
  readonly typesize?: number;
}

/** Blosc chunks as stored, in the order of the rows. */
export type StoredChunks = Pick<
  ChunkedArchive,
  "store" | "nchunks" | "chunkBytes" | "chunkStarts" | "encodedChunks"
>;

/** Offered chunks kept until the writer asks for them. */
const MOST_WAITING = 64;

/** A chunk of the source, and its decoded bytes. */
interface OfferedChunk {
  readonly items: Uint8Array;
  readonly chunk: Uint8Array;
}

interface CopyingOptions {
  /** Encodes a chunk again whose typesize, or codec, differs from the writer's. */
  readonly needsTypesize?: boolean;
  readonly needsCodec?: boolean;
  readonly mostWaiting?: number;
}

/** Returns an offered chunk for the bytes that it decodes to, and encodes everything else. */
export class CopyingEncoder implements ChunkEncoder {
  readonly parallel: number;
  /** Chunks copied unchanged, and chunks encoded. */
  copied = 0;
  recoded = 0;
  readonly #encoder: ChunkEncoder;
  readonly #options: CopyingOptions;
  #offered: OfferedChunk[] = [];

  constructor(encoder: ChunkEncoder, options: CopyingOptions = {}) {
    this.#encoder = encoder;
    this.#options = options;
    // With a parallelism of 1, writers would encode synchronously, bypassing this encoder.
    this.parallel = Math.max(2, encoder.parallel);
  }

  /** Offers a chunk that the writer may ask for. Neither array may be modified afterwards. */
  offer(items: Uint8Array, chunk: Uint8Array): void {
    if (this.#offered.length >= (this.#options.mostWaiting ?? MOST_WAITING)) this.#offered.shift();
    this.#offered.push({ items, chunk });
  }

  async encode(data: Uint8Array, options: EncodeOptions): Promise<Uint8Array> {
    // Chunks are compared, not counted: a writer that cuts elsewhere must never get a wrong chunk.
    const found = this.#offered.findIndex(
      ({ items, chunk }) => isEqual(items, data) && this.#hasSettings(chunk, options),
    );
    const offered = this.#offered[found];
    if (offered === undefined) {
      this.recoded++;
      return this.#encoder.encode(data, options);
    }
    this.#offered = this.#offered.slice(found + 1);
    this.copied++;
    return offered.chunk;
  }

  #hasSettings(chunk: Uint8Array, { typesize, cname = "lz4" }: EncodeOptions): boolean {
    const { compressor, ...header } = info(chunk);
    if (this.#options.needsTypesize === true && header.typesize !== typesize) return false;
    return this.#options.needsCodec !== true || compressor === (cname === "lz4hc" ? "lz4" : cname);
  }
}

/** The decoded bytes of chunks `[first, end)`, by default all, in stored order; each chunk is first offered to the encoder. */
export async function* offerChunks(
  { stored, nbytes, typesize }: OfferedChunks,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
  [first, end]: readonly [number, number] = [0, stored.nchunks],
): AsyncIterable<Uint8Array> {
  let left = nbytes - first * stored.chunkBytes;
  for await (const { place, bytes } of stored.encodedChunks(first, end, { signal })) {
    const chunk = bytes.slice();
    const items = await placeFailure(stored.store, place, decode(chunk));
    // The last chunk may hold more rows than count.
    const shown = items.length > left ? items.subarray(0, left) : items;
    const isStored = place.available > 0 && (typesize === undefined || info(chunk).typesize === typesize);
    if (isStored && shown.length === items.length) encoder.offer(items, chunk);
    left -= shown.length;
    yield shown;
  }
}

/** Bytes read at a time, while the next ones are requested. */
const RUN_BYTES = 8 << 20;
/** Gaps between chunks up to this size are read, to save a request. */
const MOST_GAP = 64 << 10;

/** Why an array's stored chunks are not Blosc chunks of its items in C order; undefined if they are. */
export function whyNotBlosc({ model, dtype }: ZarrArray): string | undefined {
  const leaf = leafOf(model.chain);
  const [stage, ...others] = leaf.stages;
  if (stage?.isBlosc !== true || others.length > 0) {
    const names = leaf.stages.map(({ name }) => name).join(" and ");
    return `chunks are encoded with ${names === "" ? "no codec" : names}, not with blosc alone`;
  }
  if (hasTranspose(model.chain)) return "chunks are stored in another order than C";
  if (model.dialect === "zarr3" && leaf.serializer.endian === "big" && hasByteOrder(dtype))
    return "items are stored in big-endian order, and the array's type is little-endian";
  return undefined;
}

/** The chunks of an array that can be copied, or why they cannot. */
export function copyableChunks(array: ZarrArray): OfferedChunks | string {
  const { shape, dtype, chunkShape } = array;
  const [rows, ...rowShape] = shape;
  const reason = whyNotBlosc(array);
  if (reason !== undefined) return reason;
  if (rows === undefined) return "an array without dimensions has no rows";
  if (rowShape.some((length, d) => chunkShape[d + 1] !== length))
    return "chunks are cut along more than the first dimension";
  const chunkLength = at(chunkShape, 0);
  if (array.shardShape === undefined && !isEven(array, chunkLength)) return "chunks are of unequal length";
  const rowBytes = elementsOf(rowShape) * dtype.itemSize;
  const chunkBytes = chunkLength * rowBytes;
  const nchunks = Math.ceil(rows / chunkLength);
  const stored = { store: array.store, nchunks, chunkBytes, encodedChunks: zarrChunks(array, chunkBytes) };
  return { stored, nbytes: array.nbytes, chunkLength, typesize: zarrTypesize(dtype) };
}

/**
 * Reads chunks of an array whose chunks are rows. The list of chunks is read once. A chunk that is not stored consists of fill
 * values.
 */
function zarrChunks(array: ZarrArray, chunkBytes: number): ChunkedArchive["encodedChunks"] {
  const chunkLength = at(array.chunkShape, 0);
  let places: Promise<readonly ListedChunk[]> | undefined;
  let missing: Promise<Uint8Array> | undefined;
  const list = async (signal?: AbortSignal): Promise<readonly ListedChunk[]> => {
    const found: ListedChunk[] = [];
    for await (const { start, key, offset, ctbytes, nbytes, slot, version } of array.listChunks({ signal }))
      found.push({ index: at(start, 0) / chunkLength, key, offset, ctbytes, nbytes, slot, version });
    return found;
  };
  const fill = (): Promise<Uint8Array> => {
    const { cname = "lz4", shuffle = "noshuffle" } = bloscSettingsOf(array);
    const items = repeatItem(array.model.fillItem, new Uint8Array(chunkBytes));
    return encode(items, { cname, shuffle, typesize: zarrTypesize(array.dtype) });
  };
  const nowhere = { key: array.path, offset: 0, nbytes: chunkBytes, ctbytes: undefined, available: 0 };
  return async function* (first = 0, end = Math.ceil(at(array.shape, 0) / chunkLength), { signal } = {}) {
    places ??= list(signal).catch((error: unknown) => {
      places = undefined; // the next reader tries again
      throw error;
    });
    const wanted = (await places).filter(({ index }) => index >= first && index < end);
    let next = first;
    const gap = async function* (until: number): AsyncGenerator<EncodedChunk> {
      for (; next < until; next++) {
        missing ??= fill();
        const bytes = await missing;
        yield { place: { ...nowhere, index: next }, bytes };
      }
    };
    for await (const { chunk, bytes } of storedBytes(array, wanted, signal)) {
      yield* gap(chunk.index);
      const place = { ...chunk, available: bytes.length };
      try {
        wholeChunk(bytes, chunk.nbytes);
      } catch (error) {
        throw placedError(error, array.store.describe(place.key), place);
      }
      yield { place, bytes };
      next = chunk.index + 1;
    }
    yield* gap(end);
  };
}

export function bloscSettingsOf({ model }: ZarrArray): Pick<EncodeOptions, "cname" | "clevel" | "shuffle"> {
  const blosc = leafOf(model.chain).stages.find(({ isBlosc }) => isBlosc);
  return (blosc?.v3?.["configuration"] ?? {}) as Pick<EncodeOptions, "cname" | "clevel" | "shuffle">;
}

function hasTranspose(whole: ZarrArray["model"]["chain"]): boolean {
  let chain = whole;
  for (;;) {
    if (chain.order !== undefined || (chain.stages.length > 0 && chain.serializer.kind === "sharding"))
      return true;
    if (chain.serializer.kind === "bytes") return false;
    chain = chain.serializer.inner;
  }
}

/** True if all chunks along the first dimension have this length, except a shorter last one. */
function isEven({ model }: ZarrArray, length: number): boolean {
  const [axis] = model.axes;
  if (axis === undefined || axis.lengths.length === 1) return true;
  for (let chunk = 0; chunk < axis.count; chunk++) {
    const own = axis.lengthOf(chunk);
    if (own !== length && !(chunk === axis.count - 1 && own < length)) return false;
  }
  return true;
}

/** The typesize that a chunk must have to be copied: every writer of Zarr arrays gives Blosc the item size. */
export function zarrTypesize({ itemSize }: DType): number {
  return itemSize >= 1 && itemSize <= 255 ? itemSize : 1;
}

/** What is kept of every chunk of an array, which can have millions. */
export type ListedChunk = Pick<
  ZarrChunk,
  "index" | "key" | "offset" | "ctbytes" | "nbytes" | "slot" | "version"
>;

interface StoredBytes {
  readonly chunk: ListedChunk;
  readonly bytes: Uint8Array;
}

/**
 * The bytes of stored chunks, in their order; reads the next ones while some are processed, and those that are near one another in one
 * object together.
 */
export async function* storedBytes(
  array: ZarrArray,
  chunks: Iterable<ListedChunk>,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredBytes> {
  let waiting: Promise<StoredBytes[]> | undefined;
  for (const run of nearbyChunks(chunks)) {
    const reading = readRun(array.store, run, signal);
    reading.catch(() => undefined); // thrown when its turn comes
    if (waiting !== undefined) yield* await waiting;
    waiting = reading;
  }
  if (waiting !== undefined) yield* await waiting;
}

/** Groups chunks that are close together in one object. */
function* nearbyChunks(chunks: Iterable<ListedChunk>): Generator<[ListedChunk, ...ListedChunk[]]> {
  let run: [ListedChunk, ...ListedChunk[]] | undefined;
  for (const chunk of chunks) {
    const first = run?.[0];
    const last = run?.at(-1);
    const gap = last === undefined ? 0 : chunk.offset - last.offset - last.ctbytes;
    const follows = last?.key === chunk.key && last.version === chunk.version && gap >= 0 && gap <= MOST_GAP;
    const size = chunk.offset + chunk.ctbytes - (first?.offset ?? 0);
    if (run !== undefined && follows && size <= RUN_BYTES) {
      run.push(chunk);
      continue;
    }
    if (run !== undefined) yield run;
    run = [chunk];
  }
  if (run !== undefined) yield run;
}

async function readRun(
  store: ReadableStore,
  run: readonly [ListedChunk, ...ListedChunk[]],
  signal: AbortSignal | undefined,
): Promise<StoredBytes[]> {
  const [first] = run;
  const { key, offset } = first;
  const last = run.at(-1) ?? first;
  const length = last.offset + last.ctbytes - offset;
  const bytes = await store.getRange(key, { offset, length }, { signal });
  const isSame =
    store.pinsVersions === true || (await store.stat(key, { signal }))?.version === first.version;
  if (bytes?.length !== length || !isSame)
    throw new SuperchunkError("STALE", "the object was replaced while its chunks were read; read again", {
      path: store.describe(key),
      offset,
      expected: length,
      found: bytes?.length ?? 0,
    });
  return run.map((chunk) => {
    const at = chunk.offset - offset;
    return { chunk, bytes: bytes.subarray(at, at + chunk.ctbytes) };
  });
}
