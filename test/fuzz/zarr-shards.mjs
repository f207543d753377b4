/** Damaged shards: every read is right or an error, and no write loses what was whole or makes damage look right. */

import { MemoryStore } from "../../build/src/store/memory.js";
import { openZarrArray } from "../../build/src/zarr/read/open.js";
import { createZarr } from "../../build/src/zarr/write/create.js";
import { BIG, blosc, CRC, choicesFrom, GZIP, LITTLE, openZarrWriter, sharding } from "./zarr-chains.mjs";

const [ROWS, COLUMNS] = [13, 17];
const KEY = "c/0/0";
/** Bytes of the entries of a shard of two by two. */
const ENTRIES = 64;

/** Damages a shard in one way, and tries every reader and writer on it. Throws if one is wrong. */
export async function fuzzShards(seed) {
  const choices = choicesFrom(seed);
  const { pick } = choices;
  const [indexLocation, indexCodecs] = [pick(["start", "end"]), pick([[LITTLE, CRC], [LITTLE], [BIG, CRC]])];
  const codecs = pick([
    [LITTLE, CRC],
    [LITTLE, blosc(choices), CRC],
    [LITTLE, GZIP],
    [sharding([2, 2], [LITTLE, CRC], indexLocation, indexCodecs)],
    [sharding([2, 2], [sharding([1, 2], [LITTLE, CRC], pick(["start", "end"]))], indexLocation)],
    [sharding([2, 2], [LITTLE, CRC], indexLocation), GZIP],
  ]);
  const store = new MemoryStore();
  const array = await createZarr(store, "", {
    ...{ shape: [ROWS, COLUMNS], dataType: "int32", fillValue: -7, chunkShape: [4, 6], shardShape: [8, 12] },
    ...{ codecs, indexLocation, indexCodecs },
  });
  await array.set(
    null,
    Int32Array.from({ length: ROWS * COLUMNS }, (_, i) => ((i % 50) + 1) * 3),
  );
  const cells = cellsOf();
  const right = await readAll(store, cells);
  const whole = await store.get(KEY);
  const isBig = indexCodecs[0] === BIG;
  const indexLength = ENTRIES + (indexCodecs.length > 1 ? 4 : 0);
  const indexAt = indexLocation === "start" ? 0 : whole.length - indexLength;
  const damage = damageOf(whole, { at: indexAt, isBig, isSummed: indexCodecs.length > 1 }, choices);
  await store.put(KEY, damage.bytes);
  try {
    const found = await readAll(store, cells);
    // Without a checksum an entry may name another chunk, which no reader can detect.
    const isNoticed = !damage.isInIndex || indexCodecs.length > 1;
    for (const [i, cell] of found.entries())
      if (isNoticed && cell !== undefined && cell !== right[i])
        throw new Error(`cell ${i} is wrong: ${cell}`);
    const { ok } = await (await openZarrArray(store)).verify();
    if (ok && found.includes(undefined)) throw new Error("verify finds nothing where a read fails");
    for (const strategy of ["rewrite", "append", "fixed"]) {
      for (const job of ["whole", "part", "compact"])
        await tryWriting(store, cells, found, strategy, job, choices);
    }
  } catch (cause) {
    const about = `seed ${seed}, ${damage.name}, ${JSON.stringify(array.metadata.codecs)}`;
    throw new Error(about, { cause });
  }
}

/** The inner chunks of all shards, clipped at the array's end; those of the damaged shard first. */
function cellsOf() {
  const cells = [];
  for (let row = 0; row < ROWS; row += 4)
    for (let column = 0; column < COLUMNS; column += 6)
      cells.push([
        { start: row, stop: Math.min(ROWS, row + 4), step: 1 },
        { start: column, stop: Math.min(COLUMNS, column + 6), step: 1 },
      ]);
  const isInside = ([rows, columns]) => rows.start < 8 && columns.start < 12;
  return [...cells.filter(isInside), ...cells.filter((cell) => !isInside(cell))];
}

/** The values of cells as text; undefined for damage. Throws every other error. */
async function readAll(store, cells) {
  const array = await openZarrArray(store);
  const found = [];
  for (const cell of cells) found.push(await orDamage(async () => (await array.get(cell)).data.join()));
  return found;
}

async function orDamage(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "SuperchunkError" || !error.isDamage || error.details.path === undefined) throw error;
    return undefined;
  }
}

function damageOf(whole, index, { below, pick }) {
  const bytes = whole.slice();
  switch (below(4)) {
    case 0: {
      const at = below(bytes.length);
      bytes[at] ^= 1 << below(8);
      return { bytes, name: `bit of byte ${at}`, isInIndex: at >= index.at && at < index.at + ENTRIES };
    }
    case 1: {
      const at = below(bytes.length);
      return { bytes: bytes.slice(0, at), name: `cut at ${at}`, isInIndex: true };
    }
    case 2: {
      const longer = new Uint8Array(bytes.length + 1 + below(100));
      longer.set(bytes, pick([0, longer.length - bytes.length]));
      return { bytes: longer, name: "longer", isInIndex: true };
    }
    default: {
      const view = new DataView(bytes.buffer, index.at);
      const at = 8 * below(ENTRIES / 8);
      const old = view.getBigUint64(at, !index.isBig);
      const values = [
        0n,
        1n,
        2n ** 64n - 1n,
        2n ** 64n - 2n,
        2n ** 63n,
        2n ** 53n + 1n,
        BigInt(whole.length),
        old + 1n,
        old - 1n,
      ];
      const value = BigInt.asUintN(64, pick(values));
      view.setBigUint64(at, value, !index.isBig);
      return { bytes, name: `word ${at / 8} of the index is ${value}`, isInIndex: true };
    }
  }
}

/** A failed write changes nothing; a successful one changes what it should, and damage stays damage. */
async function tryWriting(damaged, cells, before, strategy, job, { below, pick }) {
  const store = new MemoryStore();
  for await (const key of keysOf(damaged, "")) await store.put(key, await damaged.get(key));
  const bytes = await store.get(KEY);
  const writer = await openZarrWriter(store);
  const at = below(4);
  const [rows, columns] = cells[at];
  const first = [rows, columns].map(({ start }) => ({ start, stop: start + 1, step: 1 }));
  const options = { strategy, maxUnused: pick([undefined, 0, 100]) };
  const done = await orDamage(async () => {
    if (job === "compact") await writer.compactShard([0, 0]);
    else await writer.set(job === "whole" ? cells[at] : first, 1000, options);
    return true;
  });
  if (done === undefined) {
    if (Buffer.compare(await store.get(KEY), bytes) !== 0)
      throw new Error(`${job} by ${strategy} failed, and changed the shard`);
    return;
  }
  if (job === "part" && before[at] === undefined)
    throw new Error(`a part was written into the damaged cell ${at}`);
  const expected = [...before];
  if (job === "whole") expected[at] = Array(24).fill(1000).join();
  if (job === "part") expected[at] = before[at]?.replace(/^-?\d+/, "1000");
  for (const [i, cell] of (await readAll(store, cells)).entries())
    if (cell !== expected[i])
      throw new Error(`${job} by ${strategy} at ${at}: cell ${i} was ${before[i]} and is ${cell}`);
}

async function* keysOf(store, folder) {
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "object") yield key;
    else yield* keysOf(store, key);
  }
}
