/**
 * Writes a whole new shard piece by piece while it is encoded: chunks in their order, and the index in its place. Also splits a
 * change of a shard into changes of its inner chunks, merged with the stored items around them.
 *
 * Chunks are encoded into the store's memory if it offers any, else into reused buffers. Knows the layout of shards; must not
 * know where chunks come from or where the shard goes.
 */
import { allocate, at, BufferShelf, combine, elementsOf } from "../../bytes/arrays.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { mapAhead } from "../../store/pool.ts";
import type { PieceRooms } from "../../store/source.ts";
import { copyItems, type ItemView, repeatItem } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import { type Chain, innerGrid, permute, type ShardingSerializer } from "../codecs/chain.ts";
import { type AxisSegment, partOfView, regularAxis, segmentsOf } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import type { ChunkReading } from "../read/reading.ts";
import { emptyEntries, encodeShardIndex } from "../read/shard-index.ts";
import { type ChunkEncoding, encodeChunk, layOutShard } from "./encode-chunk.ts";
import { orderSlots } from "./write-settings.ts";

export interface InnerChunk {
  readonly slot: number;
  /** Its bytes, or undefined if it is left out. They may be made in `room`. */
  encode(signal: AbortSignal, room?: Uint8Array<ArrayBuffer>): Promise<Uint8Array | undefined>;
}

interface ShardPieces {
  /** Empty if all chunks are left out. A piece's memory is reused once the next is requested. */
  readonly pieces: AsyncGenerator<Uint8Array>;
  /** Makes the remaining chunks directly in these rooms, if they are stored one after the other. */
  useRooms(rooms: PieceRooms): void;
}

export function shardPieces(
  chunks: readonly InnerChunk[],
  grid: readonly number[],
  serializer: ShardingSerializer,
  settings: ChunkEncoding,
  signal?: AbortSignal,
): ShardPieces {
  const ahead = aheadOf(serializer.inner, settings.encoder);
  const rooms = new ChunkRooms(serializer, settings.fill.length);
  return {
    pieces: makePieces(chunks, { grid, serializer }, settings, { ahead, rooms }, signal),
    useRooms: (given) => {
      if (ahead === 0) rooms.use(given);
    },
  };
}

async function* makePieces(
  chunks: readonly InnerChunk[],
  { grid, serializer }: { readonly grid: readonly number[]; readonly serializer: ShardingSerializer },
  settings: ChunkEncoding,
  { ahead, rooms }: { readonly ahead: number; readonly rooms: ChunkRooms },
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const bySlot = new Map(chunks.map((chunk) => [chunk.slot, chunk]));
  const slots = orderSlots(bySlot.keys(), grid, settings.chunkOrder);
  const encoded = mapAhead(
    slots,
    ahead,
    async (slot, inner) => ({ slot, bytes: await bySlot.get(slot)?.encode(inner, rooms.take()) }),
    signal,
  );
  if (serializer.index.location === "start") {
    const present = new Map<number, Uint8Array>();
    for await (const { slot, bytes } of encoded) if (bytes !== undefined) present.set(slot, bytes);
    if (present.size > 0) yield* await layOutShard(present, grid, serializer, settings.chunkOrder);
    return;
  }
  const capacity = elementsOf(grid);
  const entries = emptyEntries(capacity);
  let offset = 0;
  let isEmpty = true;
  for await (const { slot, bytes } of encoded) {
    if (bytes === undefined) continue;
    isEmpty = false;
    entries[slot] = { offset, nbytes: bytes.length };
    offset += bytes.length;
    yield bytes;
    rooms.give(bytes);
  }
  if (!isEmpty) yield await encodeShardIndex(entries, grid, serializer.index);
}

/** Number of chunks to begin ahead; 0 if they are encoded one at a time, each directly after the one before. */
function aheadOf({ stages }: Chain, encoder: ChunkEncoder | undefined): number {
  if (encoder === undefined) return 0;
  const only = stages.length === 1 ? stages[0] : undefined;
  const parallel = only?.ahead?.(encoder) ?? encoder.parallel;
  return parallel > 1 ? parallel : 0;
}

/** Smallest chunk worth a reused buffer, and the largest that Blosc can hold. */
const WORTH = 64 << 10;
const MOST = 2 ** 31 - 1;

/** Free buffers, also for later shards of any array: allocating memory costs about as much as encoding into it. */
const shelf = new BufferShelf();

class ChunkRooms {
  /** Bytes of a room; 0 if the encoder makes no chunks that could be in one. */
  readonly #length: number;
  /** Whether buffers are kept. */
  readonly #isKeeping: boolean;
  #store: PieceRooms | undefined;
  /** The store's memory, which is not kept here. */
  #theirs: ArrayBuffer | undefined;

  constructor({ chunkShape, inner, index }: ShardingSerializer, itemSize: number) {
    const nbytes = elementsOf(chunkShape) * itemSize;
    const isUseful = index.location === "end" && nbytes <= MOST && makesOwnBuffer(inner);
    this.#length = isUseful ? nbytes + HEADER_LENGTH : 0;
    this.#isKeeping = isUseful && nbytes >= WORTH;
  }

  /** Makes chunks in the store's rooms from now on, if they fit. */
  use(rooms: PieceRooms): void {
    if (this.#length > 0) this.#store = rooms;
  }

  take(): Uint8Array<ArrayBuffer> | undefined {
    const theirs = this.#store?.take(this.#length);
    this.#theirs = theirs?.buffer;
    if (theirs !== undefined || !this.#isKeeping) return theirs;
    return new Uint8Array(shelf.take(this.#length) ?? new ArrayBuffer(this.#length));
  }

  /** Takes back the room of a chunk that nothing needs any more. */
  give({ buffer }: Uint8Array): void {
    const isOurs = this.#isKeeping && buffer instanceof ArrayBuffer && buffer !== this.#theirs;
    if (isOurs && buffer.byteLength >= this.#length) shelf.put(buffer);
  }
}

/** True if the last stage is a Blosc encoder, whose results are not shared. */
function makesOwnBuffer({ serializer, stages }: Chain): boolean {
  return serializer.kind === "bytes" && stages.length === 1 && stages[0]?.isBlosc === true;
}

/** Items to write into a shard. One entry for each dimension of the array. */
interface ShardChange {
  /** Which of its items. */
  readonly segments: readonly AxisSegment[];
  readonly view: ItemView;
  /** Where the shard is in the array. */
  readonly region: Region;
}

/** The inner chunks that change, in the grid of the shard. */
export interface ShardChanges {
  readonly grid: readonly number[];
  readonly changes: readonly InnerChunk[];
}

/** The inner chunks that a change touches, in C order. */
export function shardChangesOf(
  model: ArrayModel,
  serializer: ShardingSerializer,
  { segments, view, region }: ShardChange,
  settings: ChunkEncoding,
  regions: RegionMerge,
): ShardChanges {
  const { order } = model.chain;
  const { chunkShape, inner } = serializer;
  const stored = permute(region.shape, order);
  const grid = innerGrid(serializer, stored);
  const turned: ItemView = { ...view, strides: permute(view.strides, order) };
  const lists = permute(segments, order).map((extent, d) => [
    ...segmentsOf(regularAxis(at(stored, d), at(chunkShape, d)), extent),
  ]);
  const changes: InnerChunk[] = [];
  for (const parts of combine(lists)) {
    changes.push({
      slot: parts.reduce((slot, { chunk }, d) => slot * at(grid, d) + chunk, 0),
      encode: async (signal, room) => {
        const change = partOfView(turned, parts);
        const items = await regions.mergeInner(parts, change, region.start, chunkShape, signal);
        return encodeChunk(inner, items, chunkShape, settings, room);
      },
    });
  }
  return { grid, changes };
}

/** A part of the array: of a chunk, or of an inner chunk. One entry for each dimension of the array. */
export interface Region {
  readonly start: readonly number[];
  readonly shape: readonly number[];
}

/** Merges changes into chunks of one array. */
export class RegionMerge {
  readonly #model: ArrayModel;
  readonly #reading: ChunkReading;
  /** In stored byte order. */
  readonly #fill: Uint8Array;
  readonly #path: string;

  constructor(model: ArrayModel, reading: ChunkReading, fill: Uint8Array, path: string) {
    this.#model = model;
    this.#reading = reading;
    this.#fill = fill;
    this.#path = path;
  }

  /** True if everything of a region that is inside the array is written. */
  coversAll(extents: readonly AxisSegment[], { start, shape }: Region): boolean {
    return extents.every((extent, d) => {
      const length = Math.min(at(shape, d), at(this.#model.shape, d) - at(start, d));
      return extent.start === 0 && extent.count === length && (extent.step === 1 || length === 1);
    });
  }

  /** The items of a region with the change applied, in C order. They may be the caller's own bytes, so they must not be modified. */
  merge(
    extents: readonly AxisSegment[],
    change: ItemView,
    region: Region,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    return this.#merge(extents, change, region, stridesOf(region.shape), signal);
  }

  /**
   * The same for an inner chunk of the shard at `shardStart`, in the dimension order that is stored there. `parts`, `change`
   * and `chunkShape` have that dimension order.
   */
  mergeInner(
    parts: readonly AxisSegment[],
    change: ItemView,
    shardStart: readonly number[],
    chunkShape: readonly number[],
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const { order } = this.#model.chain;
    const start = [...shardStart];
    const shape = [...shardStart];
    const extents: AxisSegment[] = [];
    const strides = [...shardStart];
    const own = [...shardStart];
    const stored = stridesOf(chunkShape);
    parts.forEach((part, d) => {
      const dimension = order?.[d] ?? d;
      start[dimension] = at(shardStart, dimension) + part.chunk * at(chunkShape, d);
      shape[dimension] = at(chunkShape, d);
      extents[dimension] = part;
      strides[dimension] = at(change.strides, d);
      own[dimension] = at(stored, d);
    });
    return this.#merge(extents, { ...change, strides }, { start, shape }, own, signal);
  }

  /** `strides` give the order of the resulting items. */
  async #merge(
    extents: readonly AxisSegment[],
    change: ItemView,
    region: Region,
    strides: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array> {
    const { start, shape } = region;
    const { itemSize } = this.#model.dtype;
    const length = elementsOf(shape) * itemSize;
    const whole = this.coversAll(extents, region);
    const isPadded = shape.some((n, d) => at(start, d) + n > at(this.#model.shape, d));
    if (whole && !isPadded && shape.every((n, d) => n === 1 || change.strides[d] === strides[d]))
      return change.bytes.subarray(change.offset * itemSize, change.offset * itemSize + length);
    const bytes = allocate(length, { path: this.#path });
    if (!whole || isPadded) repeatItem(this.#fill, bytes);
    if (!whole) {
      const present = shape.map((n, d) => ({
        start: at(start, d),
        count: Math.max(0, Math.min(n, at(this.#model.shape, d) - at(start, d))),
        step: 1,
      }));
      await this.#reading.read(present, { bytes, offset: 0, strides }, signal);
    }
    let offset = 0;
    extents.forEach((extent, d) => {
      offset += extent.start * at(strides, d);
    });
    const target = { bytes, offset, strides: extents.map(({ step }, d) => step * at(strides, d)) };
    copyItems(
      change,
      target,
      extents.map(({ count }) => count),
      itemSize,
    );
    return bytes;
  }
}
