/**
 * A whole new shard, piece by piece while it is encoded: chunks in their order, the index where it belongs.
 *
 * Knows the layout of shards; must not know where chunks come from or where the shard goes.
 */
import type { ChunkEncoder } from "../../codec/types.ts";
import { mapAhead } from "../../store/pool.ts";
import type { PieceRooms } from "../../store/types.ts";
import type { Chain, ShardingSerializer } from "../codecs/chain.ts";
import { encodeShardIndex, type ShardEntry } from "../read/shard-index.ts";
import { orderSlots } from "./chunk-order.ts";
import { ChunkRooms } from "./chunk-rooms.ts";
import { type EncodeSettings, layOutShard } from "./encode-chunk.ts";

/** An inner chunk that is yet to be encoded. */
export interface InnerChunk {
  readonly slot: number;
  /** Its bytes, or undefined where it is left out. They may be made in `room`. */
  encode(signal: AbortSignal, room?: Uint8Array<ArrayBuffer>): Promise<Uint8Array | undefined>;
}

/** The pieces of a shard while they are made. */
export interface ShardPieces {
  /** None where all chunks are left out. A piece is used again once the next is asked for. */
  readonly pieces: AsyncGenerator<Uint8Array>;
  /** Has the chunks that are yet to be encoded made in these rooms, where they go there one after the other. */
  useRooms(rooms: PieceRooms): void;
}

/** The pieces of a shard of these chunks. */
export function shardPieces(
  chunks: readonly InnerChunk[],
  grid: readonly number[],
  serializer: ShardingSerializer,
  settings: EncodeSettings,
  signal?: AbortSignal,
): ShardPieces {
  const ahead = aheadOf(serializer.inner, settings.encoder);
  const rooms = new ChunkRooms(serializer, settings.fill.length);
  return {
    pieces: makePieces(chunks, grid, serializer, settings, ahead, rooms, signal),
    useRooms: (given) => {
      if (ahead === 0) rooms.use(given);
    },
  };
}

async function* makePieces(
  chunks: readonly InnerChunk[],
  grid: readonly number[],
  serializer: ShardingSerializer,
  settings: EncodeSettings,
  ahead: number,
  rooms: ChunkRooms,
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

/** Chunks that are worth beginning ahead; 0 where they are encoded one at a time: then each goes right behind the one before it. */
function aheadOf({ stages }: Chain, encoder: ChunkEncoder | undefined): number {
  if (encoder === undefined) return 0;
  const only = stages.length === 1 ? stages[0] : undefined;
  const parallel = only?.ahead?.(encoder) ?? encoder.parallel;
  return parallel > 1 ? parallel : 0;
}
