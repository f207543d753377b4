/**
 * Reading 1 GB of prices (954 carray chunks of 1 MiB, lz4 and shuffle): whole scans with and without threads, one random element, opening
 * archives of 100,000 chunks, and memory; compared with bcolz-zipline, zarr-python, zarrs, tensorstore and zarrita on the same chunks.
 * Then scans of the seven samples, 256 MB each, compared with bcolz-zipline. Peers that `npm run test:interop` has not installed are
 * reported as absent.
 */

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FileSystemStore } from "@zarrita/storage";
import * as zarr from "zarrita";
import { Blosc } from "../../build/src/codec/index.js";

import { FileStore, open } from "../../build/src/node/index.js";
import { loadNativeBlosc } from "../../build/src/node/threads/native-blosc.js";
import { convert } from "../../build/src/zarr.js";
import { median, printTable, saveResults, workFolder } from "../report.mjs";
import { SAMPLES } from "../samples.mjs";
import { arrayOf, LARGE, makeBloscpack, makeCarray } from "./arrays.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const PICKS = 2000;
/** Elements of a zarr slab: 16 chunks. */
const SLAB = 16 * LARGE.chunkItems;
const folder = workFolder();
const cores = availableParallelism();
const root = fileURLToPath(new URL("../..", import.meta.url));

// c-blosc makes one block of 1 MiB of such a chunk; a block size of 8192 (times 8) makes 16 blocks of 64 KiB.
const automatic = await makeCarray(join(folder, "prices-1GB"), LARGE);
const blocked = await makeCarray(join(folder, "prices-1GB-blocks"), LARGE, { blocksize: 8192 });
const file = await makeBloscpack(join(folder, "prices-1GB-blocks.blp"), LARGE, { blocksize: 8192 });
const many = { items: 100_000 * 512, chunkItems: 512 };
const manyFile = await makeBloscpack(join(folder, "many-100k.blp"), many);
const manyFolder = await makeCarray(join(folder, "many-100k"), many);
const shards = join(folder, "prices-1GB.zarr");
if (!existsSync(join(shards, "zarr.json")))
  await convert(await open(automatic), { store: new FileStore(shards) }, { overwrite: true });

/** GB per second of one scan. */
async function scanOnce(archive, read) {
  const start = performance.now();
  let bytes = 0;
  // Strings are in a separate array of bytes.
  for await (const piece of read(archive)) bytes += (piece.bytes ?? piece).byteLength;
  if (bytes !== archive.nbytes) throw new Error(`${bytes} of ${archive.nbytes} bytes came`);
  return bytes / (performance.now() - start) / 1e6;
}

async function* valuesOf(archive, options) {
  for await (const { data } of archive.chunks(options)) yield data;
}

/** Microseconds for one random element, the median of many, because means would include the time of other programs. */
async function pick(archive) {
  const { shape } = archive;
  const times = [];
  for (let i = 0; i < PICKS; i++) {
    const start = performance.now();
    await archive.get([Math.floor(Math.random() * shape[0])]);
    times.push(performance.now() - start);
  }
  return median(times) * 1000;
}

const nativeVersion = await loadNativeBlosc().then(
  ({ version }) => version,
  () => undefined,
);
const stream = (archive) => archive.streamBytes();
const scans = [
  { name: "calling thread, streamBytes", archive: await open(automatic, { threads: 0 }), read: stream },
  { name: "1 worker, streamBytes", archive: await open(automatic, { threads: 1 }), read: stream },
  { name: `${cores} workers, streamBytes`, archive: await open(automatic, { threads: cores }), read: stream },
  {
    name: `${cores} workers, chunks()`,
    archive: await open(automatic, { threads: cores }),
    read: (archive) => valuesOf(archive, {}),
  },
  {
    name: `${cores} workers, chunks({ keep: true })`,
    archive: await open(automatic, { threads: cores }),
    read: (archive) => valuesOf(archive, { keep: true }),
  },
  {
    name: `${cores} workers, get() of all`,
    archive: await open(automatic, { threads: cores }),
    read: async function* (archive) {
      yield (await archive.get(null)).data;
    },
  },
  { name: `${cores} workers, 64 KiB blocks`, archive: await open(blocked, { threads: cores }), read: stream },
  { name: `${cores} workers, one file`, archive: await open(file, { threads: cores }), read: stream },
  ...(nativeVersion === undefined
    ? []
    : [
        {
          name: `${cores} workers, libblosc ${nativeVersion}`,
          archive: await open(automatic, { threads: cores, blosc: "native" }),
          read: stream,
        },
      ]),
].map((scan) => ({ ...scan, rounds: [] }));

const elements = [
  { name: "carray, 64 KiB blocks", archive: await open(blocked) },
  { name: "one Bloscpack file, 64 KiB blocks", archive: await open(file) },
  { name: "carray, blocks of 1 MiB", archive: await open(automatic) },
].map((element) => ({ ...element, rounds: [] }));

console.log(`load before: ${loadavg()[0].toFixed(1)} on ${cores} cores`);
for (let round = -1; round < ROUNDS; round++) {
  for (const { archive, read, rounds } of scans) {
    const rate = await scanOnce(archive, read);
    if (round >= 0) rounds.push(rate); // the first round warms up
  }
  for (const { archive, rounds } of elements) {
    const micros = await pick(archive);
    if (round >= 0) rounds.push(micros);
  }
}

/** Milliseconds to open. */
async function opening(path) {
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    const archive = await open(path);
    rounds.push(performance.now() - start);
    await archive.close();
  }
  return median(rounds);
}

function memoryOf(threads) {
  const args = [fileURLToPath(new URL("memory.mjs", import.meta.url)), automatic, String(threads)];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return Number(stdout) / 1e6;
}

/** A peer in Python: medians, or undefined if it is not installed. */
function pythonPeer(environment, engine, path, rounds = ROUNDS) {
  const cache = join(root, ".cache", "interop");
  const names = existsSync(cache) ? readdirSync(cache) : [];
  const found = names.find((name) => new RegExp(`^${environment}-[0-9a-f]+$`).test(name));
  if (found === undefined) return undefined;
  const script = fileURLToPath(new URL("peers.py", import.meta.url));
  const picks = engine === "bcolz-zipline" ? 500 : 100;
  const args = [script, engine, path, rounds, SLAB, picks].map(String);
  const { status, stdout, stderr } = spawnSync(join(cache, found, "python", "bin", "python"), args, {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${engine}: ${stderr}`);
  const { scan, element } = JSON.parse(stdout);
  return { scan: median(scan) / 1e9, element: median(element) * 1e6 };
}

/** zarrita in this process, with its own Blosc (numcodecs) or with ours. */
async function zarritaPeer(codec) {
  const before = zarr.registry.get("blosc");
  if (codec !== undefined) zarr.registry.set("blosc", async () => codec);
  const array = await zarr.open.v3(zarr.root(new FileSystemStore(shards)), { kind: "array" });
  const scan = [];
  const element = [];
  for (let round = 0; round < Math.min(ROUNDS, 3); round++) {
    let start = performance.now();
    for (let at = 0; at < LARGE.items; at += SLAB)
      await zarr.get(array, [zarr.slice(at, Math.min(LARGE.items, at + SLAB))]);
    scan.push((LARGE.items * 8) / (performance.now() - start) / 1e6);
    start = performance.now();
    for (let i = 0; i < 50; i++) await zarr.get(array, [Math.floor(Math.random() * LARGE.items)]);
    element.push(((performance.now() - start) / 50) * 1000);
  }
  zarr.registry.set("blosc", before);
  return { scan: median(scan), element: median(element) };
}

const peers = {
  "bcolz-zipline, 16 chunks at a time": pythonPeer("bcolz-zipline", "bcolz-zipline", blocked),
  "zarr-python (Zarr made of the same chunks)": pythonPeer("zarr", "zarr-python", shards),
  zarrs: pythonPeer("zarr", "zarrs", shards),
  tensorstore: pythonPeer("zarr", "tensorstore", shards),
  "zarrita with numcodecs": await zarritaPeer(undefined),
  "zarrita with superchunk/blosc": await zarritaPeer(Blosc),
};

function attempt(work) {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** Scans of 256 MB of each sample: GB/s of `chunks()` with all workers, in one thread, and of bcolz-zipline. */
const kinds = [];
for (const [name, sample] of Object.entries(SAMPLES)) {
  const path = await makeCarray(join(folder, `sample-${name.replace(" ", "-")}`), arrayOf(sample, 256e6));
  // bcolz refuses some samples; its message does not matter here.
  const peer = attempt(() => pythonPeer("bcolz-zipline", "bcolz-zipline", path, 3));
  const rates = [];
  for (const threads of [cores, 0]) {
    const archive = await open(path, { threads });
    const rounds = [];
    for (let round = -1; round < ROUNDS; round++) {
      const rate = await scanOnce(archive, (each) => valuesOf(each, {}));
      if (round >= 0) rounds.push(rate);
    }
    rates.push(median(rounds));
  }
  kinds.push([name, ...rates, peer?.scan ?? "absent", peer === undefined ? "" : rates[0] / peer.scan]);
}
const column = (index) =>
  kinds
    .map((row) => row[index])
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
const summary = [
  ["lowest", (values) => values[0]],
  ["median", median],
  ["highest", (values) => values.at(-1)],
].map(([name, choose]) => [name, ...[1, 2, 3, 4].map((index) => choose(column(index)))]);

const rateOf = (name) => median(scans.find((scan) => scan.name === name).rounds);
const one = rateOf("1 worker, streamBytes");
const best = rateOf(`${cores} workers, streamBytes`);
const opened = { file: await opening(manyFile), folder: await opening(manyFolder) };
const memory = { alone: memoryOf(0), threads: memoryOf(cores) };

printTable(
  `scan of 1 GB, GB/s (medians of ${ROUNDS})`,
  ["", "GB/s", "x 1 worker"],
  [
    ...scans.map(({ name, rounds }) => [name, median(rounds), median(rounds) / one]),
    ...Object.entries(peers).map(([name, peer]) =>
      peer === undefined ? [name, "absent", ""] : [name, peer.scan, peer.scan / one],
    ),
  ],
);
printTable(
  `scans of 256 MB by chunks(), GB/s (medians of ${ROUNDS})`,
  ["", `${cores} workers`, "calling thread", "bcolz-zipline", "times bcolz-zipline"],
  [...kinds, ...summary],
);
printTable(
  "one random element of 125 million, microseconds",
  ["", "µs"],
  [
    ...elements.map(({ name, rounds }) => [name, median(rounds)]),
    ...Object.entries(peers).map(([name, peer]) => [name, peer?.element ?? "absent"]),
  ],
);
printTable(
  "others",
  ["", ""],
  [
    ["open a Bloscpack file of 100,000 chunks, ms", opened.file],
    ["open a carray of 100,000 chunks, ms", opened.folder],
    ["most memory of a scan, calling thread, MB", memory.alone],
    [`most memory of a scan, ${cores} workers, MB`, memory.threads],
  ],
);
const bars = [
  ["scan with all workers, at least 2 GB/s", best >= 2, best],
  ["scan with all workers, at least 1.7 x one worker", best / one >= 1.7, best / one],
  [
    "one element in blocks of 64 KiB, under 60 µs",
    median(elements[0].rounds) < 60,
    median(elements[0].rounds),
  ],
  ["one element of one file, under 60 µs", median(elements[1].rounds) < 60, median(elements[1].rounds)],
  [
    "one element in blocks of 1 MiB, under 60 µs",
    median(elements[2].rounds) < 60,
    median(elements[2].rounds),
  ],
  [
    "one element, at most 0.4 x tensorstore",
    median(elements[2].rounds) <= 0.4 * (peers.tensorstore?.element ?? 0),
    median(elements[2].rounds) / (peers.tensorstore?.element ?? Number.NaN),
  ],
  [
    "scan by chunks(), at least 2 GB/s",
    rateOf(`${cores} workers, chunks()`) >= 2,
    rateOf(`${cores} workers, chunks()`),
  ],
  [
    "scan by chunks(), first of all peers",
    Object.values(peers).every((peer) => !(peer?.scan > rateOf(`${cores} workers, chunks()`))),
    rateOf(`${cores} workers, chunks()`),
  ],
  ["open 100,000 chunks under 300 ms", Math.max(opened.file, opened.folder) < 300, opened.file],
  ["memory under 200 MB", memory.threads < 200, memory.threads],
];
printTable(
  "bars",
  ["", "", ""],
  bars.map(([name, met, value]) => [name, met ? "met" : "LOSS", value]),
);
console.log(`load after: ${loadavg()[0].toFixed(1)}`);
saveResults("read", {
  rounds: ROUNDS,
  load: loadavg(),
  scans: Object.fromEntries(scans.map(({ name, rounds }) => [name, rounds])),
  elements: Object.fromEntries(elements.map(({ name, rounds }) => [name, rounds])),
  peers,
  kinds,
  opened,
  memory,
  bars,
});
process.exit(0);
