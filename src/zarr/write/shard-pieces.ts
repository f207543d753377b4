/**
 * A whole new shard, piece by piece while it is encoded: chunks in their order, the index where it belongs.
 *
 * Knows the layout of shards; must not know where chunks come from or where the shard goes.
 */
import { BufferShelf } from "../../bytes/buffer-shelf.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { mapAhead } from "../../store/pool.ts";
import type { Chain, ShardingSerializer } from "../chain.ts";
import { encodeShardIndex, type ShardEntry } from "../shard-index.ts";
import { orderSlots } from "./chunk-order.ts";
import { type EncodeSettings, layOutShard } from "./encode-chunk.ts";

/** An inner chunk that is yet to be encoded. */
export interface InnerChunk {
  readonly slot: number;
  /** Its bytes, or undefined where it is left out. `room` may be taken over for them. */
  encode(signal: AbortSignal, room?: ArrayBuffer): Promise<Uint8Array | undefined>;
}

/**
 * The pieces of a shard of these chunks; none where all are left out. A piece is used again once the next is asked for.
 */
export async function* shardPieces(
  chunks: readonly InnerChunk[],
  grid: readonly number[],
  serializer: ShardingSerializer,
  settings: EncodeSettings,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const bySlot = new Map(chunks.map((chunk) => [chunk.slot, chunk]));
  const slots = orderSlots(bySlot.keys(), grid, settings.chunkOrder);
  const rooms = new Rooms(serializer, settings.fill.length);
  const encoded = mapAhead(
    slots,
    aheadOf(serializer.inner, settings.encoder),
    async (slot, inner) => ({ slot, bytes: await bySlot.get(slot)?.encode(inner, rooms.take()) }),
    signal,
  );
  if (serializer.index.location === "start") {
    const present = new Map<number, Uint8Array>();
    for await (const { slot, bytes } of encoded) if (bytes !== undefined) present.set(slot, bytes);
    if (present.size > 0) yield* await layOutShard(present, grid, serializer, settings.chunkOrder);
    return;
  }
  const capacity = grid.reduce((product, n) => product * n, 1);
  const entries = new Array<ShardEntry | undefined>(capacity).fill(undefined);
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

/** Chunks that are worth encoding at a time. */
function aheadOf({ stages }: Chain, encoder: ChunkEncoder | undefined): number {
  if (encoder === undefined) return 1;
  const only = stages.length === 1 ? stages[0] : undefined;
  return only?.ahead?.(encoder) ?? encoder.parallel;
}

/** Chunks of this size are worth a buffer that is used again; larger ones than the second no Blosc chunk holds. */
const WORTH = 64 << 10;
const MOST = 2 ** 31 - 1;

/** Rooms that are free, for the next shard too, of whatever array. */
const shelf = new BufferShelf();

/** Buffers for encoded chunks: new memory costs about as much to get as to encode into. */
class Rooms {
  /** Bytes of a buffer; 0: the encoder makes none that could be used again. */
  readonly #length: number;

  constructor({ chunkShape, inner, index }: ShardingSerializer, itemSize: number) {
    const nbytes = chunkShape.reduce((product, n) => product * n, itemSize);
    const isUseful = index.location === "end" && nbytes >= WORTH && nbytes <= MOST && makesOwnBuffer(inner);
    this.#length = isUseful ? nbytes + HEADER_LENGTH : 0;
  }

  take(): ArrayBuffer | undefined {
    return this.#length === 0 ? undefined : (shelf.take(this.#length) ?? new ArrayBuffer(this.#length));
  }

  give({ buffer }: Uint8Array): void {
    if (this.#length > 0 && buffer instanceof ArrayBuffer && buffer.byteLength >= this.#length)
      shelf.put(buffer);
  }
}

/** True where the last step is a Blosc encoder, whose results nobody else has. */
function makesOwnBuffer({ serializer, stages }: Chain): boolean {
  return serializer.kind === "bytes" && stages.length === 1 && stages[0]?.isBlosc === true;
}
