/**
 * Sharded Zarr arrays: one random element, all values, 1 % in random slices, writing; compared with zarr-python, zarrs,
 * tensorstore and zarrita on the same files. And appending chunks to one shard, which must cost the same for each.
 *
 * Each reader has a separate process, and each round begins with another reader: on virtual machines the first process that
 * needs memory may wait longer for it. The median of the rounds is reported (BENCH_ROUNDS; default 3; one for zarrita, which
 * is slow). `BENCH_ZARR_MB` sets the size (default 1000), `BENCH_ZARR_SAMPLE` the values: "wide walk float64" (default), which
 * hardly compress, or "prices float64".
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FileSystemStore } from "@zarrita/storage";
import * as zarrita from "zarrita";
import { FileStore } from "../../build/src/node/index.js";
import { decoderOf, encoderOf, shardWriterOf } from "../../build/src/node/threads/threads.js";
import { openZarrArray } from "../../build/src/zarr/read/open.js";
import { createZarr } from "../../build/src/zarr/write/create.js";
import { median, printTable, releaseMemory, saveResults, workFolder } from "../report.mjs";
import { EXTREMES, makeSample, randomNumbers, SAMPLES } from "../samples.mjs";

const MEGABYTES = Number(process.env.BENCH_ZARR_MB ?? 1000);
const SAMPLE = process.env.BENCH_ZARR_SAMPLE ?? "wide walk float64";
const CHUNK = 131_072;
const PER_SHARD = 64;
const ITEMS = Math.ceil((MEGABYTES * 1e6) / 8 / CHUNK) * CHUNK;

const folder = join(workFolder(), "zarr");
mkdirSync(folder, { recursive: true });
const NAME = `sharded-${SAMPLE.split(" ")[0]}-${MEGABYTES}`;
const source = join(folder, NAME);
const store = new FileStore(folder);

const spec = { shape: [ITEMS], dataType: "float64", chunkShape: [CHUNK], shardShape: [CHUNK * PER_SHARD] };

const measured = process.argv[2] === "--measure" ? process.argv[3] : undefined;
const values =
  measured === "zarrita"
    ? undefined
    : new Float64Array(makeSample({ ...SAMPLES, ...EXTREMES }[SAMPLE], 8 * ITEMS).buffer);
if (measured === undefined && !existsSync(join(source, "zarr.json"))) {
  rmSync(source, { recursive: true, force: true });
  await (await createZarr(store, NAME, spec)).set(null, values);
}

const next = randomNumbers(7);
const elements = Array.from({ length: 2000 }, () => Math.floor(next() * ITEMS));
const length = Math.floor(ITEMS / 10_000);
const slices = Array.from({ length: 100 }, () => {
  const start = Math.floor(next() * (ITEMS - length));
  return [start, start + length];
});

/** Seconds of a work, without the milliseconds that it returns as not counted. */
async function timed(work) {
  const start = performance.now();
  const aside = await work();
  return (performance.now() - start - (typeof aside === "number" ? aside : 0)) / 1000;
}

async function repeat(work, times = 5) {
  const found = [];
  for (let i = 0; i < times; i++) {
    found.push(await timed(work));
    await releaseMemory(); // a peer with reference counts has freed the result here
  }
  return median(found);
}

async function measureOurs() {
  const array = await openZarrArray(store, NAME, { decoder: decoderOf() });
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
  const all = await repeat(async () => void (await array.get()));
  const shared = await repeat(async () => void (await array.get(null, { shared: true })));
  // The result's memory is allocated before, because numpy, which requests huge pages, gets its memory quickly.
  const kept = new Float64Array(new SharedArrayBuffer(ITEMS * 8));
  await array.readInto(kept);
  const into = await repeat(() => array.readInto(kept));
  for (let i = 0; i < ITEMS; i += 1009) if (kept[i] !== values[i]) throw new Error(`wrong value at ${i}`);
  const target = join(folder, "ours");
  const write = await repeat(async () => {
    const options = { encoder: encoderOf(), shardWriter: shardWriterOf() };
    await (await createZarr(store, "ours", spec, options)).set(null, values);
    // Does not count removing the files.
    const elapsed = performance.now();
    rmSync(target, { recursive: true, force: true });
    return performance.now() - elapsed;
  });
  return { element, slices: some, all, shared, into, write };
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
  return { element, slices: some, all: await repeat(async () => void (await zarrita.get(array))) };
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

/** A store that counts the calls and the bytes that they return. */
function countReads(inner, counts) {
  const counted =
    (method) =>
    async (...args) => {
      counts.requests++;
      const outcome = await method(...args);
      counts.bytes += outcome?.length ?? 0;
      return outcome;
    };
  return {
    ...inner,
    get: counted(inner.get),
    getRange: counted(inner.getRange),
    stat: counted(inner.stat),
  };
}

/** Requests and bytes of a remote store with ranges: the costs of a read besides time. */
async function countRequests() {
  const counts = { requests: 0, bytes: 0 };
  const counted = countReads(withoutSyncReads(store), counts);
  const array = await openZarrArray(counted, NAME, { immutable: true });
  const count = async (selection) => {
    Object.assign(counts, { requests: 0, bytes: 0 });
    await array.get(selection);
    return { ...counts };
  };
  const index = PER_SHARD * 16 + 4;
  const found = {
    "one element of a new shard (and its index)": await count([5]),
    "one element of a known shard": await count([CHUNK + 5]),
    "eight chunks of a known shard": await count([{ start: 0, stop: 8 * CHUNK, step: 1 }]),
  };
  const stored = [];
  for await (const chunk of array.listChunks()) {
    if (stored.length === 8) break;
    stored.push(chunk.ctbytes);
  }
  // For a large chunk, the header and block starts are read first, to find the needed block.
  const most = index + (stored[0] ?? 0) + 256;
  if (found["one element of a new shard (and its index)"].bytes > most)
    throw new Error(`more than ${most} bytes`);
  if (found["eight chunks of a known shard"].bytes !== stored.reduce((sum, n) => sum + n, 0))
    throw new Error("more than the joined ranges");
  return found;
}

/** The store without synchronous reads, so that every read is awaited. */
function withoutSyncReads(inner) {
  return {
    describe: (key) => inner.describe(key),
    get: (key, options) => inner.get(key, options),
    getRange: (key, range, options) => inner.getRange(key, range, options),
    stat: (key, options) => inner.stat(key, options),
    list: (key, options) => inner.list(key, options),
  };
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

/** One reader in a separate process. */
function measureApart(name) {
  const self = fileURLToPath(import.meta.url);
  const result = spawnSync(process.execPath, ["--expose-gc", self, "--measure", name], { encoding: "utf8" });
  if (result.status !== 0) throw new Error(`${name}: ${result.stderr}`);
  return JSON.parse(result.stdout);
}

/** The median of each figure. */
function middle(found) {
  const [first = {}] = found;
  return Object.fromEntries(
    Object.keys(first).map((what) => [what, median(found.map((each) => each[what]))]),
  );
}

if (measured !== undefined) {
  const found = measured === "zarrita" ? await measureZarrita() : await measureOurs();
  process.stdout.write(JSON.stringify(found), () => process.exit(0));
  await new Promise(() => {});
}
const READERS = {
  superchunk: () => measureApart("superchunk"),
  "zarr-python": () => measurePeer("zarr-python"),
  zarrs: () => measurePeer("zarrs"),
  tensorstore: () => measurePeer("tensorstore"),
};
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const found = new Map(Object.keys(READERS).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  const names = [...found.keys()];
  for (const name of [...names.slice(round % names.length), ...names.slice(0, round % names.length)]) {
    const times = READERS[name]();
    if (times !== undefined) found.get(name).push(times);
  }
}
const results = { superchunk: middle(found.get("superchunk")), zarrita: measureApart("zarrita") };
for (const [name, rounds] of found)
  if (name !== "superchunk" && rounds.length > 0) results[name] = middle(rounds);
const ours = results.superchunk;
const rate = (seconds) => (seconds === undefined ? "-" : (ITEMS * 8) / 1e9 / seconds);
printTable(
  `${((ITEMS * 8) / 1e6).toFixed(0)} MB of ${SAMPLE}, shards of ${PER_SHARD} chunks of 1 MiB, lz4 + shuffle`,
  [
    "reader",
    "one element, us",
    "1 % in slices, ms",
    "all, GB/s",
    "shared, GB/s",
    "into memory, GB/s",
    "write, GB/s",
    "element x",
    "slices x",
    "all x",
    "shared x",
    "into x",
    "write x",
  ],
  Object.entries(results).map(([name, each]) => [
    name,
    each.element * 1e6,
    each.slices * 1e3,
    rate(each.all),
    rate(each.shared),
    rate(each.into),
    rate(each.write),
    each.element / ours.element,
    each.slices / ours.slices,
    each.all / ours.all,
    (each.shared ?? each.all) / ours.shared,
    (each.into ?? each.all) / ours.into,
    each.write === undefined ? "-" : each.write / ours.write,
  ]),
);
for (const what of ["element", "slices", "all", "shared", "into", "write"]) {
  for (const [name, each] of Object.entries(results)) {
    const theirs = what === "into" || what === "shared" ? each.all : each[what];
    if (name !== "superchunk" && theirs / ours[what] < 1)
      console.log(`  lost: ${what} against ${name}, ${(theirs / ours[what]).toFixed(2)} x`);
  }
}
const requests = await countRequests();
console.log();
for (const [what, { requests: calls, bytes }] of Object.entries(requests))
  console.log(`  ${what}: ${calls} requests, ${bytes} bytes`);
const appending = await measureAppending();
console.log(
  `  appending a chunk to a shard: ${(appending.first * 1e6).toFixed(0)} us (first 200 of 1000), ${(appending.last * 1e6).toFixed(0)} us (last 200)`,
);
saveResults("zarr", { sample: SAMPLE, megabytes: MEGABYTES, rounds: ROUNDS, results, requests, appending });
await store.close?.();
process.exit(0);
