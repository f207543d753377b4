/**
 * Changes all shards of a Zarr array, again and again, and tells on stdout which round it is about to write, and which is
 * written. Killed by its parent; what the one before it left is put right first, by the library's own means.
 */

const [, , folder, entry, mode, threads] = process.argv;
const { node, zarr, threadShards, pool, workerUrl, rounds } = await import(entry);
const { SHARDS, CHUNKS, ITEMS, chunkOf, itemsOf, roundOf } = rounds;

const store = new node.FileStore(folder);
const strategy = mode === "whole" ? "rewrite" : mode;
const options =
  threads === "0"
    ? {}
    : {
        encoder: node.encoderOf({ threads: 2, workerUrl }),
        shardWriter: new threadShards.ThreadShardWriter(new pool.WorkerPool(3, workerUrl), "wasm", 0, 0),
      };
const array = await zarr.openZarrWriter(store, "a", { strategy, ...options });
if (mode === "append") for (let shard = 0; shard < SHARDS; shard++) await zarr.recoverShard(array, [shard]);
let round = mode === "fixed" ? 0 : Math.max(...(await roundsNow()));
await array.set(null, itemsOf(round), { strategy: "rewrite" });
process.stdout.write(`done ${round}\n`);
for (;;) {
  process.stdout.write(`doing ${++round}\n`);
  if (mode === "whole") await array.set(null, itemsOf(round));
  else {
    const chunk = round % CHUNKS;
    const changes = Array.from({ length: SHARDS }, (_, shard) => {
      const start = (shard * CHUNKS + chunk) * ITEMS;
      return array.set([{ start, stop: start + ITEMS, step: 1 }], chunkOf(round, shard * CHUNKS + chunk));
    });
    await Promise.all(changes);
  }
  process.stdout.write(`done ${round}\n`);
}

/** The round of each shard. */
async function roundsNow() {
  const { data } = await array.get();
  return Array.from({ length: SHARDS }, (_, shard) => roundOf(data, shard));
}
