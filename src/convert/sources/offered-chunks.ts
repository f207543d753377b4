/**
 * Chunks of a source that a writer may take over as they are.
 *
 * An encoder hands out the chunks of the source where the writer asks for the same bytes: then nothing is compressed
 * again, and every copied chunk has been decoded once, so that damage is not carried on. So no writer knows of copying,
 * and none can copy a chunk that does not fit. Knows when an array's chunks are its rows in order; must not know who writes them.
 */

import type { ChunkedArchive } from "../../archive/kinds/types.ts";
import { isEqual } from "../../bytes/arrays.ts";
import { at } from "../../bytes/at.ts";
import { decode, info } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import { hasByteOrder } from "../../zarr/document/data-type.ts";
import type { ZarrArray, ZarrChunk } from "../../zarr/read/array.ts";
import { placeFailure } from "../failure.ts";

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

/** Chunks that may wait for the writer to ask for them. */
const MOST_WAITING = 64;

/** A chunk of the source, and what it decodes to. */
interface OfferedChunk {
  readonly items: Uint8Array;
  readonly chunk: Uint8Array;
}

/** Gives out offered chunks for the bytes that they decode to, and encodes what was not offered. */
export class CopyingEncoder implements ChunkEncoder {
  readonly parallel: number;
  /** Chunks that went over unchanged, and chunks that were made. */
  copied = 0;
  recoded = 0;
  readonly #encoder: ChunkEncoder;
  readonly #needsTypesize: boolean;
  readonly #needsCodec: boolean;
  readonly #mostWaiting: number;
  #offered: OfferedChunk[] = [];

  /** `needsTypesize`, `needsCodec`: a chunk with elements of another size, or of another codec, than the writer asks for is encoded again. */
  constructor(
    encoder: ChunkEncoder,
    {
      needsTypesize = false,
      needsCodec = false,
      mostWaiting = MOST_WAITING,
    }: { needsTypesize?: boolean; needsCodec?: boolean; mostWaiting?: number } = {},
  ) {
    this.#needsCodec = needsCodec;
    this.#mostWaiting = mostWaiting;
    this.#encoder = encoder;
    this.#needsTypesize = needsTypesize;
    // Writers ask at once where one at a time is enough, and then not here.
    this.parallel = Math.max(2, encoder.parallel);
  }

  /** A chunk that the writer may ask for. Neither array must be written to afterwards. */
  offer(items: Uint8Array, chunk: Uint8Array): void {
    if (this.#offered.length >= this.#mostWaiting) this.#offered.shift();
    this.#offered.push({ items, chunk });
  }

  async encode(data: Uint8Array, options: EncodeOptions): Promise<Uint8Array> {
    // Compared, not counted: a writer that cuts elsewhere must never get another chunk.
    const found = this.#offered.findIndex(
      ({ items, chunk }) => isEqual(items, data) && this.#isAsWanted(chunk, options),
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

  #isAsWanted(chunk: Uint8Array, { typesize, cname = "lz4" }: EncodeOptions): boolean {
    const { compressor, ...header } = info(chunk);
    if (this.#needsTypesize && header.typesize !== typesize) return false;
    return !this.#needsCodec || compressor === (cname === "lz4hc" ? "lz4" : cname);
  }
}

/** The decoded bytes of all chunks in stored order, each chunk offered to the encoder before. */
export async function* offerChunks(
  archive: ChunkedArchive,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  let left = archive.nbytes;
  for await (const { place, bytes } of archive.encodedChunks(0, archive.nchunks, { signal })) {
    const chunk = bytes.slice();
    const items = await placeFailure(archive.store, place, decode(chunk));
    // The last chunk of a carray may hold more rows than count.
    const shown = items.length > left ? items.subarray(0, left) : items;
    if (shown.length === items.length) encoder.offer(items, chunk);
    left -= shown.length;
    yield shown;
  }
}

/** Bytes that are read at a time; the next ones are asked for meanwhile. */
const RUN_BYTES = 8 << 20;
/** Bytes between chunks that are read along rather than asked for apart. */
const MOST_GAP = 64 << 10;

/** Why the stored chunks of an array are not chunks of Blosc of its items in C order; undefined where they are. */
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
  const rowBytes = rowShape.reduce((product, n) => product * n, dtype.itemSize);
  return {
    chunkLength,
    chunkBytes: chunkLength * rowBytes,
    nchunks: Math.ceil(rows / chunkLength),
    offer: (encoder, signal) => offerZarrChunks(array, rowBytes, encoder, signal),
  };
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

/** True where all chunks along the first dimension have the length, but for a shorter last one. */
function isEven({ model }: ZarrArray, length: number): boolean {
  const [axis] = model.axes;
  if (axis === undefined || axis.lengths.length === 1) return true;
  for (let chunk = 0; chunk < axis.count; chunk++) {
    const own = axis.lengthOf(chunk);
    if (own !== length && !(chunk === axis.count - 1 && own < length)) return false;
  }
  return true;
}

/** The typesize that a chunk of the dtype has to be copied: any writer of Zarr arrays gives Blosc the size of the items. */
export function zarrTypesize({ itemSize }: DType): number {
  return itemSize >= 1 && itemSize <= 255 ? itemSize : 1;
}

/** All rows as bytes in order; chunks that hold rows of the array alone are offered to the encoder before. */
async function* offerZarrChunks(
  array: ZarrArray,
  rowBytes: number,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const [rows = 0] = array.shape;
  const [stage] = leafOf(array.model.chain).stages;
  const typesize = zarrTypesize(array.dtype);
  let next = 0;
  for await (const { chunk, bytes } of storedBytes(array, signal)) {
    const [start = 0] = chunk.start;
    const [length = 1] = chunk.shape;
    yield* missingRows(array, next, start, signal);
    const items = await decodeAt(array.store, chunk, async () =>
      stage?.decode(bytes, length * rowBytes, true),
    );
    if (items === undefined) continue;
    next = Math.min(rows, start + length);
    const isWhole = next - start === length;
    if (isWhole && info(bytes).typesize === typesize) encoder.offer(items, bytes);
    yield isWhole ? items : items.subarray(0, (next - start) * rowBytes);
  }
  yield* missingRows(array, next, rows, signal);
}

/** Rows of chunks that are not stored: fill values, made by reading them. */
async function* missingRows(
  array: ZarrArray,
  start: number,
  end: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const step = at(array.chunkShape, 0);
  for (let at = start; at < end; at += step)
    yield await array.getBytes([{ start: at, stop: Math.min(end, at + step), step: 1 }], { signal });
}

interface StoredBytes {
  readonly chunk: ZarrChunk;
  readonly bytes: Uint8Array;
}

/** The stored chunks that have rows, in order; while some are worked on, the next ones are read. */
async function* storedBytes(array: ZarrArray, signal: AbortSignal | undefined): AsyncGenerator<StoredBytes> {
  let waiting: Promise<StoredBytes[]> | undefined;
  for await (const run of runsOf(array, signal)) {
    const reading = readRun(array.store, run, signal);
    // Told when its turn comes; until then it is not an unhandled one.
    reading.catch(() => undefined);
    if (waiting !== undefined) yield* await waiting;
    waiting = reading;
  }
  if (waiting !== undefined) yield* await waiting;
}

/** Chunks that lie close together in one object. */
async function* runsOf(
  array: ZarrArray,
  signal: AbortSignal | undefined,
): AsyncGenerator<[ZarrChunk, ...ZarrChunk[]]> {
  let run: [ZarrChunk, ...ZarrChunk[]] | undefined;
  for await (const chunk of array.listChunks({ signal })) {
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
  run: readonly [ZarrChunk, ...ZarrChunk[]],
  signal: AbortSignal | undefined,
): Promise<StoredBytes[]> {
  const [first] = run;
  const { key, offset } = first;
  const last = run.at(-1) ?? first;
  const length = last.offset + last.ctbytes - offset;
  const bytes = await store.getRange(key, { offset, length }, { signal });
  const isSame =
    store.pinsVersions === true || (await store.stat(key, { signal }))?.version === first.version;
  if (bytes?.length !== length || !isSame) {
    throw new SuperchunkError("STALE", "the object was replaced while its chunks were read; read again", {
      path: store.describe(key),
      offset,
      expected: length,
      found: bytes?.length ?? 0,
    });
  }
  return run.map((chunk) => {
    const at = chunk.offset - offset;
    return { chunk, bytes: bytes.subarray(at, at + chunk.ctbytes) };
  });
}

/** Errors name the object and the chunk. */
async function decodeAt<T>(
  store: ReadableStore,
  { key, offset, slot }: ZarrChunk,
  decode: () => Promise<T>,
): Promise<T> {
  try {
    return await decode();
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    throw error.inObject({
      path: store.describe(key),
      offset,
      ...(slot === undefined ? {} : { chunk: slot }),
    });
  }
}
