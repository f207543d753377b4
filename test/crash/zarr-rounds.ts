/**
 * The contents of the array of `zarr-loop.mjs`: in round r chunk r % CHUNKS of each shard gets values of that round,
 * and the others keep theirs. Round 0 wrote all.
 */

export const SHARDS = 4 as const;
/** Chunks of a shard, and items of a chunk. */
export const CHUNKS = 4 as const;
export const ITEMS = 32_768 as const;

/** Values of a chunk of the array written in a round: no two alike, and the first one gives the round. */
export function chunkOf(round: number, chunk: number): Int32Array<ArrayBuffer> {
  const items = Int32Array.from({ length: ITEMS }, (_, i) =>
    Math.imul(chunk * ITEMS + i + 1 + Math.imul(round, 7919), 0x9e3779b1),
  );
  items[0] = round;
  return items;
}

/** The round in which a chunk was last written, given the round of its shard. */
function writtenIn(round: number, chunk: number): number {
  return Math.max(0, round - ((((round - chunk) % CHUNKS) + CHUNKS) % CHUNKS));
}

/** All items of a shard in a given round. */
export function shardOf(round: number, shard: number): Int32Array<ArrayBuffer> {
  const items = new Int32Array(CHUNKS * ITEMS);
  for (let chunk = 0; chunk < CHUNKS; chunk++)
    items.set(chunkOf(writtenIn(round, chunk), shard * CHUNKS + chunk), chunk * ITEMS);
  return items;
}

/** All items of an array whose shards are all in the same round. */
export function itemsOf(round: number): Int32Array<ArrayBuffer> {
  const items = new Int32Array(SHARDS * CHUNKS * ITEMS);
  for (let shard = 0; shard < SHARDS; shard++) items.set(shardOf(round, shard), shard * CHUNKS * ITEMS);
  return items;
}

/** The round of a shard: the last one in which any of its chunks was written. */
export function roundOf(items: Int32Array, shard: number): number {
  const rounds = Array.from({ length: CHUNKS }, (_, chunk) => items[(shard * CHUNKS + chunk) * ITEMS] ?? -1);
  return Math.max(...rounds);
}
