/**
 * Changes all shards of a Zarr array, again and again, and prints the round that it is about to write and the one
 * that is written. Its parent kills it; what the process before it left is repaired first, with the library's own
 * functions.
 */

const [, , folder, entry, mode, threads] = process.argv;
const {
  node,
  reading,
  writing,
  recovering,
  threads: made,
  encoding,
  pool,
  workerUrl,
  rounds,
} = await import(entry);
const { SHARDS, CHUNKS, ITEMS, chunkOf, itemsOf, roundOf } = rounds;

const store = new node.FileStore(folder);
const strategy = mode === "whole" ? "rewrite" : mode;
const options =
  threads === "0"
    ? {}
    : {
        encoder: made.encoderOf({ threads: 2, workerUrl }),
        shardWriter: encoding.threadShardWriter(new pool.WorkerPool(3, workerUrl), "wasm", 0, 0),
      };
const { model } = await reading.openZarrArray(store, "a");
const array = new writing.WritableZarrArray(store, model, { strategy, ...options });
if (mode === "append")
  for (let shard = 0; shard < SHARDS; shard++) await recovering.recoverShard(array, [shard]);
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
