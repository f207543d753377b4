/** Encodes a chunk of any chain from its items, including nested shards. Knows chains; must not know stores. */

import { at, elementsOf, joinBytes, positionsOf } from "../../bytes/arrays.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { copyItems } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import { type Chain, innerGrid, permute, type ShardingSerializer } from "../codecs/chain.ts";
import { encodeShardIndex } from "../read/shard-index.ts";
import { placeParts } from "./shard-apply.ts";
import type { ChunkOrder } from "./write-settings.ts";

/** Settings that all chunks of an array share. */
export interface ChunkEncoding {
  /** One item with the fill value, in stored byte order. */
  readonly fill: Uint8Array;
  /** Stores chunks that contain only the fill value (default: they are left out). */
  readonly writeEmptyChunks: boolean;
  readonly chunkOrder: ChunkOrder;
  /** Encodes Blosc chunks (default: in the calling thread). */
  readonly encoder: ChunkEncoder | undefined;
}

/**
 * The bytes of a chunk of this shape; undefined if it contains only the fill value and is left out. `items` are in C order and
 * stored byte order. The result may be made in `room`.
 */
export async function encodeChunk(
  chain: Chain,
  items: Uint8Array,
  shape: readonly number[],
  settings: ChunkEncoding,
  room?: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array | undefined> {
  if (!settings.writeEmptyChunks && holdsOnly(items, settings.fill)) return undefined;
  const stored = permute(shape, chain.order);
  const turned = turnItems(items, shape, chain.order, settings.fill.length);
  let bytes = turned;
  if (chain.serializer.kind === "sharding") {
    const chunks = await encodeInnerChunks(chain.serializer, turned, stored, settings);
    const grid = innerGrid(chain.serializer, stored);
    bytes = joinBytes(await layOutShard(chunks, grid, chain.serializer, settings.chunkOrder));
  }
  for (const stage of chain.stages) bytes = await stage.encode(bytes, settings.encoder, room);
  return bytes;
}

/** Permutes the items of a chunk to stored dimension order. */
export function turnItems(
  items: Uint8Array,
  shape: readonly number[],
  order: readonly number[] | undefined,
  itemSize: number,
): Uint8Array {
  if (order === undefined) return items;
  const stored = permute(shape, order);
  const bytes = new Uint8Array(items.length);
  copyItems(
    { bytes: items, offset: 0, strides: permute(stridesOf(shape), order) },
    { bytes, offset: 0, strides: stridesOf(stored) },
    stored,
    itemSize,
  );
  return bytes;
}

/** The encoded inner chunks of a shard by slot, without those left out. */
async function encodeInnerChunks(
  { chunkShape, inner }: ShardingSerializer,
  items: Uint8Array,
  shape: readonly number[],
  settings: ChunkEncoding,
): Promise<Map<number, Uint8Array>> {
  const itemSize = settings.fill.length;
  const grid = shape.map((n, d) => n / at(chunkShape, d));
  const strides = stridesOf(shape);
  const length = elementsOf(chunkShape) * itemSize;
  const chunks = new Map<number, Uint8Array>();
  let slot = 0;
  for (const position of positionsOf(grid)) {
    let offset = 0;
    position.forEach((index, d) => {
      offset += index * at(chunkShape, d) * at(strides, d);
    });
    const piece = new Uint8Array(length);
    copyItems(
      { bytes: items, offset, strides },
      { bytes: piece, offset: 0, strides: stridesOf(chunkShape) },
      chunkShape,
      itemSize,
    );
    const encoded = await encodeChunk(inner, piece, chunkShape, settings);
    if (encoded !== undefined) chunks.set(slot, encoded);
    slot++;
  }
  return chunks;
}

/** The pieces of a shard with only these chunks: chunks in their order, and the index in its place. */
export async function layOutShard(
  chunks: ReadonlyMap<number, Uint8Array>,
  grid: readonly number[],
  { index }: ShardingSerializer,
  chunkOrder: ChunkOrder,
): Promise<Uint8Array[]> {
  const parts = Array.from(chunks, ([slot, source]) => ({ slot, source }));
  const { entries, order } = placeParts(parts, { grid, layout: index, chunkOrder });
  const pieces = order.map(({ source }) => source);
  const bytes = await encodeShardIndex(entries, grid, index);
  return index.location === "start" ? [bytes, ...pieces] : [...pieces, bytes];
}

/** True if every item equals the given one bit by bit: -0 is not 0, and NaNs may differ. */
function holdsOnly(items: Uint8Array, item: Uint8Array): boolean {
  const { length } = item;
  for (let i = 0; i < length; i++) if (items[i] !== item[i]) return false;
  for (let i = length; i < items.length; i++) if (items[i] !== items[i - length]) return false;
  return true;
}
