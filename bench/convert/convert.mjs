/**
 * Converting 1 GB of prices (carray, 1 MiB chunks) to Zarr shards, compared with `cp -r` of the same folder and with
 * zarr-python decoding and encoding; memory for 1 GB and 4 GB; time per chunk for ten thousand and a million chunks.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { LARGE, makeBloscpack, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";
import { measure } from "./process.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const folder = workFolder();
const source = await makeCarray(join(folder, "prices-1GB"), LARGE);
const target = join(folder, "target");

function sync() {
  spawnSync("sync", ["-f", folder]);
}

/** Seconds until a command has ended, and until its data are on the disk. */
function timed(run) {
  rmSync(target, { recursive: true, force: true });
  sync();
  const start = performance.now();
  run();
  const done = performance.now();
  sync();
  return { unsynced: (done - start) / 1000, synced: (performance.now() - start) / 1000 };
}

function copy() {
  const { status } = spawnSync("cp", ["-r", "--reflink=never", source, target]);
  if (status !== 0) throw new Error("cp failed");
}

const convert = (from = source) => measure(["convert", from, target]);

function peer() {
  const cache = join(import.meta.dirname ?? "", "..", "..", ".cache", "interop");
  const environment = existsSync(cache) ? readdirSync(cache).find((name) => /^zarr-/.test(name)) : undefined;
  if (environment === undefined) return undefined;
  const python = join(cache, environment, "python", "bin", "python");
  return timed(() => {
    const { status, stderr } = spawnSync(python, [
      new URL("zarr_python.py", import.meta.url).pathname,
      source,
      target,
    ]);
    if (status !== 0) throw new Error(`zarr-python: ${stderr}`);
  });
}

const runs = { cp: [], superchunk: [] };
for (let round = 0; round < ROUNDS; round++) {
  runs.cp.push(timed(copy));
  runs.superchunk.push(timed(convert));
}
const zarrPython = peer();
const seconds = (name, kind) => median(runs[name].map((run) => run[kind]));
const ratios = runs.cp.map((run, i) => runs.superchunk[i].synced / run.synced);
const results = {
  rounds: ROUNDS,
  cp: { synced: seconds("cp", "synced"), unsynced: seconds("cp", "unsynced") },
  superchunk: { synced: seconds("superchunk", "synced"), unsynced: seconds("superchunk", "unsynced") },
  zarrPython,
  ratioToCp: median(ratios),
};
printTable(
  "convert 1 GB of prices, seconds",
  ["", "synced", "unsynced", "x cp (synced)"],
  [
    ["cp -r --reflink=never", results.cp.synced, results.cp.unsynced, 1],
    ["superchunk convert", results.superchunk.synced, results.superchunk.unsynced, results.ratioToCp],
    ...(zarrPython === undefined
      ? [["zarr-python", "absent", "", ""]]
      : [["zarr-python", zarrPython.synced, zarrPython.unsynced, zarrPython.synced / results.cp.synced]]),
  ],
);

// Peak memory of the process, including Node.js itself.
const large = await makeCarray(join(folder, "prices-4GB"), { ...LARGE, items: LARGE.items * 4 });
results.peakMB = {};
for (const [size, from] of [
  ["1 GB", source],
  ["4 GB", large],
]) {
  rmSync(target, { recursive: true, force: true });
  results.peakMB[size] = {
    convert: measure(["convert", from, target]).peakMB,
    verify: measure(["verify", from]).peakMB,
    cat: measure(["cat", from, "--format", "raw"]).peakMB,
  };
}
printTable(
  "peak memory, MB (bar: 200)",
  ["", "convert", "verify", "cat"],
  Object.entries(results.peakMB).map(([size, m]) => [size, m.convert, m.verify, m.cat]),
);

// Many small chunks in one file.
results.microsecondsPerChunk = {};
for (const chunks of [10_000, 1_000_000]) {
  const file = await makeBloscpack(join(folder, `small-${chunks}.blp`), {
    items: chunks * 128,
    chunkItems: 128,
  });
  rmSync(target, { recursive: true, force: true });
  const start = performance.now();
  measure(["convert", file, target]);
  // Starting Node.js is not a cost of chunks.
  const idle = performance.now();
  measure(["--version"]);
  const startup = performance.now() - idle;
  results.microsecondsPerChunk[chunks] = ((idle - start - startup) * 1000) / chunks;
}
printTable(
  "small chunks, microseconds each",
  ["chunks", "convert"],
  Object.entries(results.microsecondsPerChunk),
);
rmSync(target, { recursive: true, force: true });
saveResults("convert", results);
