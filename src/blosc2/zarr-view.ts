/**
 * A Blosc2 frame as a store of Zarr v3: an array whose shards are the chunks, and whose inner chunks are the blocks. Each is a Blosc1
 * chunk with the streams of the source.
 *
 * All code that reads Zarr arrays can therefore read `.b2nd` files, and `convert` copies their streams. If blocks do not divide the
 * chunks, and no chunk spans the whole axis either, a chunk is decoded and encoded as one. Read-only.
 */

import { at, elementsOf, joinBytes, positionsOf, roundUp } from "../bytes/arrays.ts";
import { decode } from "../codec/decode/decode.ts";
import { typesizeFor } from "../codec/header.ts";
import { HERE } from "../codec/made.ts";
import type { CompressorName, Shuffle } from "../codec/types.ts";
import { decode as decodeBlosc2, nanOf } from "../codec2/decode.ts";
import { HEADER2_LENGTH } from "../codec2/fields.ts";
import { pluginText, readBlosc2Header } from "../codec2/header.ts";
import { blocksAsBlosc1 } from "../codec2/restream.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import { jsonBytes } from "../format/json.ts";
import type { DType, JsonObject } from "../format/types.ts";
import { partOf } from "../store/key.ts";
import { keepMade } from "../store/pool.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import { arrayDocument, DOCUMENT } from "../zarr/document/make-v3.ts";
import { DESCR } from "../zarr/document/metadata-v3.ts";
import { mapDType, type ZarrType } from "../zarr/document/zarr-dtype.ts";
import { encodeShardIndex } from "../zarr/read/shard-index.ts";
import { putBlock } from "./blocks.ts";
import { type Cut, whyNotCopied } from "./cut.ts";
import { codecName, type Frame, type FrameChunk } from "./frame.ts";
import { SomeBlocks } from "./some-blocks.ts";

/** Shards that are kept: readers request the index first, and then chunks. */
const KEPT = 4;
/** Most bytes of memory kept for the next chunk. */
const MAX_ROOM = 64 << 20;
const MAX_CHUNK = 0x7fff_ffff;
/** The attribute for names of dimensions, which frames do not have; xarray and conversions write it. */
export const DIMENSIONS = "_ARRAY_DIMENSIONS";
/** Most blocks of a chunk, and most bytes of a block; c-blosc2 writes fewer. */
const MAX_BLOCKS = 1 << 22;
const MAX_BLOCK = 536_866_816;

/** The bytes of a shard; undefined if it holds only the fill value. */
type Shown = Uint8Array | undefined;

/** A block as a chunk of Blosc1, in pieces; undefined: all zeros. */
type Pieces = readonly Uint8Array[] | undefined;

/** Chunks that are made from other data, as one block each: why, and their bytes. */
export interface MadeChunks {
  readonly why: string;
  make(index: number): Promise<Uint8Array>;
}

/** A frame as a Zarr array; it is a `GeneratingStore`. */
export class Blosc2Store implements ReadableStore {
  readonly hasAllChunks = true;
  readonly #store: ReadableStore;
  readonly #frame: Frame;
  readonly #cut: Cut;
  /** True if blocks are converted one by one: they divide the chunks, or a chunk reaches past the end of the array. */
  readonly #byBlocks: boolean;
  readonly #shardShape: readonly number[];
  /** Number of chunks along each dimension; undefined without chunks. */
  readonly #grid: readonly number[] | undefined;
  readonly #kept = new Map<number, Promise<Shown>>();
  readonly #document: Uint8Array;
  readonly #some: SomeBlocks;
  readonly #why = new Map<0, Promise<string | undefined>>();
  /** Memory that chunks are read into. */
  readonly #rooms: Uint8Array[] = [];
  readonly #made: MadeChunks | undefined;

  /** `made`: its chunks are not those of the frame. */
  constructor(store: ReadableStore, frame: Frame, cut: Cut, made?: MadeChunks) {
    const { shape, chunks, blocks } = cut;
    this.#made = made;
    this.#store = store;
    this.#frame = frame;
    this.#some = new SomeBlocks(store, frame);
    this.#cut = cut;
    const padded = chunks.map((length, d) => roundUp(length, at(blocks, d)));
    this.#byBlocks = padded.every((length, d) => length === at(chunks, d) || at(chunks, d) >= at(shape, d));
    this.#shardShape = this.#byBlocks ? padded : chunks;
    const counts = shape.map((length, d) => (frame.nbytes === 0 ? 0 : Math.ceil(length / at(chunks, d))));
    const needed = frame.nbytes === 0 ? 0 : elementsOf(counts);
    if (needed > frame.chunks.length)
      throw new SuperchunkError(
        "INCOMPLETE",
        `the number of chunks is ${frame.chunks.length}, but the shape needs ${needed}; the frame was not finished, or is damaged`,
        { path: frame.path, expected: needed, found: frame.chunks.length },
      );
    if (needed > 0 && codecName(frame.codec) === undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        `its chunks are compressed by the codec ${pluginText(frame.codec, frame.filters)}, which superchunk does not read; read it with python-blosc2`,
        { path: frame.path, field: "codec", found: frame.codec },
      );
    const perChunk = frame.chunkBytes / Math.max(1, frame.blockBytes);
    if (perChunk > MAX_BLOCKS || frame.blockBytes > MAX_BLOCK)
      throw new SuperchunkError(
        "LIMIT",
        `blocks of ${frame.blockBytes} bytes, ${Math.ceil(perChunk)} of them in a chunk; at most ${MAX_BLOCKS} of ${MAX_BLOCK} bytes are read`,
        { path: frame.path, field: "block_size", expected: MAX_BLOCK, found: frame.blockBytes },
      );
    this.#grid = needed === 0 ? undefined : counts;
    this.#document = jsonBytes(this.#describe());
  }

  describe(key: string): string {
    return key === "" || key === DOCUMENT ? this.#frame.path : `${this.#frame.path}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    options?.signal?.throwIfAborted();
    return key === DOCUMENT ? this.#document : this.#shard(key);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const bytes = await this.get(key, options);
    return bytes && partOf(bytes, range, key);
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    const bytes = await this.get(key, options);
    const { file, version } = this.#frame;
    // The version of the document is that of the file now, so that a conversion notices a change.
    const now = key === DOCUMENT ? (await this.#store.stat(file, options))?.version : version;
    return bytes && { size: bytes.length, version: `${now}:${key}`, opened: `${version}:${key}` };
  }

  async *list(folder: string): AsyncGenerator<ListEntry> {
    const [first, ...parts] = folder === "" ? [] : folder.split("/");
    const grid = this.#grid;
    const kindAt = (depth: number): ListEntry["kind"] => (depth === grid?.length ? "object" : "folder");
    if (first === undefined) yield { name: DOCUMENT, kind: "object" };
    if (first === undefined && grid !== undefined) yield { name: "c", kind: kindAt(0) };
    if (first !== "c" || grid === undefined || parts.length >= grid.length || !positionIn(grid, parts))
      return;
    const count = at(grid, parts.length);
    for (let i = 0; i < count; i++) yield { name: String(i), kind: kindAt(parts.length + 1) };
  }

  /** The number of the chunk at a key; undefined for other keys. */
  #indexOf(key: string): number | undefined {
    const [first, ...parts] = key.split("/");
    const grid = this.#grid;
    if (first !== "c" || parts.length !== grid?.length) return undefined;
    return positionIn(grid, parts)?.reduce((index, n, d) => index * at(grid, d) + n, 0);
  }

  /** The place of a block, or of its chunk if that is encoded as one. */
  readonly filePlace: NonNullable<ReadableStore["filePlace"]> = async (key, slot = 0) => {
    const index = this.#indexOf(key) ?? Number.POSITIVE_INFINITY;
    const place = this.#made === undefined ? this.#frame.chunks.at(index) : undefined;
    if (place === undefined || !("key" in place)) return undefined;
    const { offset, end } = place;
    const whole = {
      key: place.key,
      offset,
      ...(end !== undefined && !this.#byBlocks && { ctbytes: end - offset }),
    };
    return { ...whole, ...(this.#byBlocks && (await this.#some.placeOf(index, slot))) };
  };

  async storedBytes(): Promise<number> {
    return this.#frame.storedBytes;
  }

  /** Decides by the frame, and the header of its first stored chunk. */
  async whyEncoded(): Promise<string | undefined> {
    return this.#made?.why ?? keepMade(this.#why, 0, () => this.#findWhy());
  }

  async #findWhy(): Promise<string | undefined> {
    const { blocks, chunks } = this.#cut;
    if (!this.#byBlocks)
      return `blocks of ${blocks.join(" x ")} do not divide chunks of ${chunks.join(" x ")}`;
    let place: FrameChunk | undefined;
    for (place of this.#frame.chunks) if ("key" in place) break;
    if (place === undefined || !("key" in place)) return undefined;
    const range = { offset: place.offset, length: HEADER2_LENGTH };
    const bytes = await this.#store.getRange(place.key, range);
    return bytes && whyNotCopied(readBlosc2Header(bytes, MAX_CHUNK));
  }

  async attributesLeft(): Promise<readonly string[]> {
    return this.#frame.attrsLeft;
  }

  async close(): Promise<void> {
    await this.#store.close?.();
  }

  #describe(): JsonObject {
    const { dtype, shape, blocks } = this.#cut;
    const { codec, clevel, filters, path, attrs } = this.#frame;
    const exact = exactType(dtype, path);
    const type = exact ?? mapDType({ ...dtype, kind: "void", byteOrder: "none" }, { path });
    const { [DIMENSIONS]: names, ...others } = attrs;
    const isText = Array.isArray(names) && names.every((name) => name === null || typeof name === "string");
    const dimensionNames = isText && names.length === shape.length && shape.length > 0 ? names : undefined;
    const document = arrayDocument({
      shape,
      dataType: type.dataType,
      fillValue: type.fill.json,
      bytesCodec: type.bytesCodec,
      blosc: {
        cname: codecName(codec) ?? "lz4",
        clevel: Math.min(9, clevel),
        shuffle: shuffleOf(filters),
        typesize: typesizeFor(dtype.itemSize),
      },
      chunkShape: this.#byBlocks ? blocks : this.#shardShape,
      shardShape: this.#shardShape,
      transpose: undefined,
      attributes: dimensionNames === undefined ? attrs : others,
      dimensionNames,
    });
    if (exact !== undefined) return document;
    return { ...document, [DESCR]: { must_understand: false, dtype: formatDType(dtype) } };
  }

  /** Without a signal: the shard is kept for all callers. */
  #shard(key: string): Promise<Shown> {
    const index = this.#indexOf(key);
    if (index === undefined || this.#frame.nbytes === 0) return Promise.resolve(undefined);
    const make = async (): Promise<Shown> => {
      const pieces = await this.#lend(index);
      return pieces && joinBytes([...pieces]);
    };
    return keepMade(this.#kept, index, make, KEPT);
  }

  async getPieces(key: string, options?: StoreOptions): Promise<Iterable<Uint8Array> | undefined> {
    const index = this.#indexOf(key);
    if (index === undefined || this.#frame.nbytes === 0) return undefined;
    return this.#lend(index, options);
  }

  /** The pieces of a shard. Most are views of memory that is reused after the last piece. */
  async #lend(index: number, options?: StoreOptions): Promise<Iterable<Uint8Array> | undefined> {
    return this.#placed(index, async (place) => {
      const room = "key" in place ? await this.#read(place, options) : undefined;
      if (room !== undefined) this.#checkLength(index, readBlosc2Header(room).nbytes);
      const own = await this.#made?.make(index);
      if (own?.every((byte) => byte === 0)) return undefined;
      const typesize = typesizeFor(this.#cut.dtype.itemSize);
      const blocks = own ? [[await HERE.encode(own, { typesize })]] : await this.#blocksOf(place, room);
      if (blocks.every((block) => block === undefined)) return undefined;
      const pieces = await shardOf(
        this.#byBlocks ? await this.#whole(blocks) : [[await this.#joined(blocks)]],
      );
      return this.#lent(pieces, room);
    });
  }

  async getInner(
    key: string,
    slots: readonly number[],
  ): Promise<readonly (Uint8Array | undefined)[] | undefined> {
    const index = this.#indexOf(key);
    if (index === undefined || !this.#byBlocks || this.#kept.has(index)) return undefined;
    return this.#placed(index, () => this.#some.read(index, slots));
  }

  /** Calls `work` with the place of a chunk of the grid, and adds the place to errors. */
  async #placed<T>(index: number, work: (place: FrameChunk) => Promise<T>): Promise<T> {
    const place = this.#frame.chunks.at(index) as FrameChunk;
    try {
      return await work(place);
    } catch (error) {
      if (error instanceof SuperchunkError)
        throw error.inObject({
          path: "key" in place ? this.#store.describe(place.key) : this.#frame.path,
          chunk: index,
          offset: "key" in place ? place.offset : 0,
        });
      throw error;
    }
  }

  *#lent(pieces: readonly Uint8Array[], room: Uint8Array | undefined): Generator<Uint8Array> {
    yield* pieces;
    if (room !== undefined && this.#rooms.length < KEPT && room.buffer.byteLength <= MAX_ROOM)
      this.#rooms.push(new Uint8Array(room.buffer));
  }

  /** Checks that a chunk has the frame's chunk length; only the last of a frame without dimensions may be shorter. Throws `BAD_FIELD`. */
  #checkLength(index: number, nbytes: number): void {
    const { chunkBytes, chunks, metalayers } = this.#frame;
    const mayBeShort = !metalayers.has("b2nd") && !metalayers.has("caterva") && index === chunks.length - 1;
    if (nbytes === chunkBytes || (mayBeShort && nbytes < chunkBytes)) return;
    throw new SuperchunkError(
      "BAD_FIELD",
      `nbytes of the chunk is ${nbytes}, but should be ${chunkBytes}; the file is damaged`,
      { field: "nbytes", expected: chunkBytes, found: nbytes },
    );
  }

  /** Reads a chunk, into kept memory if it fits and the store can: allocating memory takes longer than filling it. */
  async #read(
    { key, offset, end }: Extract<FrameChunk, { readonly key: string }>,
    options?: StoreOptions,
  ): Promise<Uint8Array> {
    const length = end === undefined ? ((await this.#store.stat(key, options))?.size ?? 0) : end - offset;
    if (length > MAX_CHUNK)
      throw new SuperchunkError("LIMIT", `a chunk of ${length} bytes; ${MAX_CHUNK} is the limit`, {
        expected: MAX_CHUNK,
        found: length,
      });
    let bytes: Uint8Array | undefined;
    if (this.#store.readInto === undefined)
      bytes = await this.#store.getRange(key, { offset, length }, options);
    else {
      const room = this.#rooms.pop();
      const target =
        room !== undefined && room.length >= length ? room : new Uint8Array(length + (length >> 3));
      const read = await this.#store.readInto(key, offset, target.subarray(0, length), options);
      bytes = read === undefined ? undefined : target.subarray(0, read);
    }
    if (bytes !== undefined && bytes.length >= HEADER2_LENGTH) return bytes;
    throw new SuperchunkError("INCOMPLETE", "the chunk's file is missing, or ends before its header", {
      path: this.#store.describe(key),
    });
  }

  /** The blocks of a chunk; undefined for each that is all zeros. */
  async #blocksOf(place: FrameChunk, bytes: Uint8Array | undefined): Promise<readonly Pieces[]> {
    const { chunkBytes, blockBytes } = this.#frame;
    if ("special" in place || bytes === undefined) {
      const count = Math.ceil(chunkBytes / Math.max(1, blockBytes));
      if (!("special" in place) || place.special !== "nan")
        return Array.from({ length: count }, () => undefined);
      const nan = nanOf(this.#cut.dtype.itemSize);
      const filled = Uint8Array.from({ length: blockBytes }, (_, i) => at(nan, i % nan.length));
      const settings = { typesize: typesizeFor(this.#cut.dtype.itemSize), blocksize: blockBytes };
      const block = await HERE.encode(filled, settings);
      return Array.from({ length: count }, () => [block]);
    }
    const { blocksize, nbytes } = readBlosc2Header(bytes);
    // A chunk of a frame without dimensions can have its own block size.
    if (Math.min(blocksize, nbytes) !== Math.min(blockBytes, nbytes)) return this.#cutAgain(bytes);
    return (await blocksAsBlosc1(bytes)).map((block) => block?.pieces);
  }

  async #cutAgain(chunk: Uint8Array): Promise<readonly Pieces[]> {
    const { chunkBytes, blockBytes } = this.#frame;
    const bytes = await decodeBlosc2(chunk, { maxNbytes: chunkBytes });
    const blocks: Pieces[] = [];
    for (let start = 0; start < bytes.length; start += blockBytes)
      blocks.push([
        await HERE.encode(bytes.subarray(start, start + blockBytes), {
          typesize: typesizeFor(this.#cut.dtype.itemSize),
        }),
      ]);
    return blocks;
  }

  /** Pads blocks to full length: the last chunk of a frame without dimensions can be shorter. */
  async #whole(blocks: readonly Pieces[]): Promise<readonly Pieces[]> {
    const { blockBytes, chunkBytes } = this.#frame;
    const full: Pieces[] = [];
    for (const block of blocks) {
      const isWhole = block === undefined || nbytesOf(at(block, 0)) === blockBytes;
      full.push(isWhole ? block : [await pad(joinBytes(block), blockBytes, this.#cut.dtype)]);
    }
    const count = Math.ceil(chunkBytes / blockBytes);
    while (full.length < count) full.push(undefined);
    return full;
  }

  /** Joins all blocks of a chunk, without the padding. */
  async #joined(blocks: readonly Pieces[]): Promise<Uint8Array> {
    const { dtype, chunks, blocks: shape } = this.#cut;
    const out = new Uint8Array(elementsOf(chunks) * dtype.itemSize);
    const grid = chunks.map((length, d) => Math.ceil(length / at(shape, d)));
    for (const [i, position] of [...positionsOf(grid)].entries()) {
      const block = blocks[i];
      if (block === undefined) continue;
      const bytes = await decode(joinBytes(block), { maxNbytes: this.#frame.blockBytes });
      putBlock(
        { bytes, shape, origin: position.map((index, d) => index * at(shape, d)) },
        { bytes: out, shape: chunks },
        dtype.itemSize,
      );
    }
    const cname: CompressorName = codecName(this.#frame.codec) ?? "lz4";
    return HERE.encode(out, {
      cname,
      clevel: Math.min(9, Math.max(1, this.#frame.clevel)),
      shuffle: shuffleOf(this.#frame.filters),
      typesize: typesizeFor(dtype.itemSize),
    });
  }
}

/**
 * The data type that Zarr has for items as stored, with a fill value of zero bytes, because blocks of zeros are left out: that of dates
 * would be NaT. Undefined where Zarr has none. Throws `UNSUPPORTED` for items of no bytes.
 */
function exactType(dtype: DType, path: string): ZarrType | undefined {
  try {
    const isTime = dtype.kind === "datetime" || dtype.kind === "timedelta";
    const type = mapDType(dtype, { path, fillValue: isTime ? 0 : undefined });
    return type.transform === undefined ? type : undefined;
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED") || dtype.itemSize === 0) throw error;
    return undefined;
  }
}

/** The numbers of a key's parts; undefined if one is outside of the grid, or not written as in keys. */
function positionIn(grid: readonly number[], parts: readonly string[]): readonly number[] | undefined {
  const isInside = (part: string, d: number): boolean =>
    /^(?:0|[1-9]\d*)$/.test(part) && Number(part) < at(grid, d);
  return parts.every(isInside) ? parts.map(Number) : undefined;
}

function shuffleOf(filters: readonly number[]): Shuffle {
  const last = filters.filter((id) => id === 1 || id === 2).at(-1);
  return last === 1 ? "shuffle" : last === 2 ? "bitshuffle" : "noshuffle";
}

function nbytesOf(chunk: Uint8Array): number {
  return new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength).getInt32(4, true);
}

async function pad(block: Uint8Array, length: number, dtype: DType): Promise<Uint8Array> {
  const out = new Uint8Array(length);
  out.set(await decode(block, { maxNbytes: length }));
  return HERE.encode(out, { typesize: typesizeFor(dtype.itemSize) });
}

/** A shard: the bytes of its chunks, and then the index. */
async function shardOf(chunks: readonly Pieces[]): Promise<readonly Uint8Array[]> {
  let offset = 0;
  const entries = chunks.map((pieces) => {
    if (pieces === undefined) return undefined;
    const entry = { offset, nbytes: pieces.reduce((sum, { length }) => sum + length, 0) };
    offset += entry.nbytes;
    return entry;
  });
  return [...chunks.flatMap((pieces) => pieces ?? []), await encodeShardIndex(entries)];
}
