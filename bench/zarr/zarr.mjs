/**
 * Sharded Zarr arrays: one random element, all values, 1 % in random slices, writing; beside zarr-python, zarrs,
 * tensorstore and zarrita on the same files. And appending chunks to one shard, which must cost the same for each.
 *
 * `BENCH_ZARR_MB` sets the size (default 1000).
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FileSystemStore } from "@zarrita/storage";
import * as zarrita from "zarrita";
import { createZarr, openZarrArray } from "../../dist/src/bridge/index.js";
import { decoderOf, encoderOf, FileStore } from "../../dist/src/node/index.js";
import { withCounting } from "../../dist/src/store/wrappers/counting.js";
import { randomNumbers } from "../codec/samples.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const MEGABYTES = Number(process.env.BENCH_ZARR_MB ?? 1000);
const CHUNK = 131_072;
const PER_SHARD = 64;
const ITEMS = Math.ceil((MEGABYTES * 1e6) / 8 / CHUNK) * CHUNK;

const folder = join(workFolder(), "zarr");
mkdirSync(folder, { recursive: true });
const source = join(folder, `sharded-${MEGABYTES}`);
const store = new FileStore(folder);

const spec = { shape: [ITEMS], dataType: "float64", chunkShape: [CHUNK], shardShape: [CHUNK * PER_SHARD] };

/** Prices in cents, as a random walk. */
function makeValues() {
  const next = randomNumbers(1);
  const values = new Float64Array(ITEMS);
  let cents = 10_000;
  for (let i = 0; i < ITEMS; i++) {
    cents += Math.round((next() - 0.5) * 20);
    values[i] = cents / 100;
  }
  return values;
}

const values = makeValues();
if (!existsSync(join(source, "zarr.json"))) {
  rmSync(source, { recursive: true, force: true });
  await (await createZarr(store, `sharded-${MEGABYTES}`, spec)).set(null, values);
}

const next = randomNumbers(7);
const elements = Array.from({ length: 200 }, () => Math.floor(next() * ITEMS));
const length = Math.floor(ITEMS / 10_000);
const slices = Array.from({ length: 100 }, () => {
  const start = Math.floor(next() * (ITEMS - length));
  return [start, start + length];
});

async function timed(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

async function repeat(work, times = 3) {
  const found = [];
  for (let i = 0; i < times; i++) found.push(await timed(work));
  return median(found);
}

async function measureOurs() {
  const array = await openZarrArray(store, `sharded-${MEGABYTES}`, { decoder: decoderOf() });
  await array.get([0]);
  for (const at of elements)
    if ((await array.get([at])) !== values[at]) throw new Error(`wrong value at ${at}`);
  const element =
    (await repeat(async () => {
      for (const at of elements) await array.get([at]);
    })) / elements.length;
  const some = await repeat(async () => {
    for (const [start, stop] of slices) await array.get([{ start, stop, step: 1 }]);
  });
  const all = await repeat(() => array.get());
  const write = await timed(async () => {
    rmSync(join(folder, "ours"), { recursive: true, force: true });
    await (await createZarr(store, "ours", spec, { encoder: encoderOf() })).set(null, values);
  });
  rmSync(join(folder, "ours"), { recursive: true, force: true });
  return { element, slices: some, all, write };
}

async function measureZarrita() {
  const array = await zarrita.open.v3(zarrita.root(new FileSystemStore(source)), { kind: "array" });
  const few = elements.slice(0, 20);
  await zarrita.get(array, [zarrita.slice(0, 1)]);
  const element =
    (await timed(async () => {
      for (const at of few) await zarrita.get(array, [at]);
    })) / few.length;
  const some = await timed(async () => {
    for (const [start, stop] of slices) await zarrita.get(array, [zarrita.slice(start, stop)]);
  });
  return { element, slices: some, all: await timed(() => zarrita.get(array)) };
}

function findPython() {
  const cache = fileURLToPath(new URL("../../.cache/interop", import.meta.url));
  if (!existsSync(cache)) return undefined;
  const name = readdirSync(cache).find(
    (each) => /^zarr-/.test(each) && existsSync(join(cache, each, "ready")),
  );
  return name && join(cache, name, "python", "bin", "python");
}

function measurePeer(peer) {
  const python = findPython();
  if (python === undefined) return undefined;
  const script = fileURLToPath(new URL("peers.py", import.meta.url));
  const plan = JSON.stringify({ elements, slices, items: ITEMS });
  const result = spawnSync(python, [script, peer, source, join(folder, `by-${peer}`), plan], {
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`${peer}: ${result.stderr}`);
  return JSON.parse(result.stdout.trim().split("\n").at(-1));
}

async function countRequests() {
  const counted = withCounting(store);
  const array = await openZarrArray(counted.store, `sharded-${MEGABYTES}`);
  counted.reset();
  await array.get([5]);
  const first = { ...counted.counts, log: counted.counts.log.length };
  counted.reset();
  await array.get([CHUNK + 5]);
  return { first, second: { ...counted.counts, log: counted.counts.log.length } };
}

async function measureAppending() {
  rmSync(join(folder, "appended"), { recursive: true, force: true });
  const small = { shape: [1000 * 1024], dataType: "float64", chunkShape: [1024], shardShape: [1000 * 1024] };
  const array = await createZarr(store, "appended", small, { strategy: "append" });
  const found = [];
  for (let i = 0; i < 1000; i++) {
    const start = i * 1024;
    found.push(
      await timed(() =>
        array.set([{ start, stop: start + 1024, step: 1 }], values.subarray(start, start + 1024)),
      ),
    );
  }
  rmSync(join(folder, "appended"), { recursive: true, force: true });
  return { first: median(found.slice(0, 200)), last: median(found.slice(800)) };
}

const results = { superchunk: await measureOurs(), zarrita: await measureZarrita() };
for (const peer of ["zarr-python", "zarrs", "tensorstore"]) {
  const found = measurePeer(peer);
  if (found !== undefined) results[peer] = found;
}
const ours = results.superchunk;
const rate = (seconds) => (seconds === undefined ? "-" : (ITEMS * 8) / 1e9 / seconds);
printTable(
  `${((ITEMS * 8) / 1e6).toFixed(0)} MB of float64, shards of ${PER_SHARD} chunks of 1 MiB, lz4 + shuffle`,
  ["reader", "one element, us", "1 % in slices, ms", "all, GB/s", "write, GB/s", "element x", "all x"],
  Object.entries(results).map(([name, each]) => [
    name,
    each.element * 1e6,
    each.slices * 1e3,
    rate(each.all),
    rate(each.write),
    each.element / ours.element,
    each.all / ours.all,
  ]),
);
const requests = await countRequests();
console.log(
  `\n  one element of a new shard: ${requests.first.log} calls, ${requests.first.bytesRead} bytes; of a known one: ${requests.second.log} calls, ${requests.second.bytesRead} bytes`,
);
const appending = await measureAppending();
console.log(
  `  appending a chunk to a shard: ${(appending.first * 1e6).toFixed(0)} us (first 200 of 1000), ${(appending.last * 1e6).toFixed(0)} us (last 200)`,
);
saveResults("zarr", { megabytes: MEGABYTES, results, requests, appending });
await store.close?.();
process.exit(0);
