/**
 * Writing arrays: 1 GB in batches, single rows, random changes, compared with bcolz-zipline, zarr-python, tensorstore and
 * python-blosc2; small appends with a flush each, shrinking, opening an array of 100,000 superchunks, and memory. Times of all
 * sides include the sync; the time without it is shown beside. Then appends of 256 MB of each of the seven samples.
 *
 * `BENCH_SCALE` makes everything smaller (default 1), `BENCH_ROUNDS` is the number of runs of the long append (default 3).
 * Names after the command select works.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findPython, makePython } from "../python.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";
import { makeSample, SAMPLES } from "../samples.mjs";

const SCALE = Number(process.env.BENCH_SCALE ?? 1);
const BATCH = 100_000;
/** Batches that every side holds and appends in turn: few, so that its memory is that of the writing. */
const SAMPLE_BATCHES = 4;
const folder = join(workFolder(), "write");
mkdirSync(folder, { recursive: true });
const plan = {
  folder,
  sample: join(folder, "sample.raw"),
  batch: BATCH,
  rows: Math.round((125_000_000 * SCALE) / BATCH) * BATCH,
  rounds: Number(process.env.BENCH_ROUNDS ?? 3),
  singles: Math.round(1_000_000 * SCALE),
  changes: Math.round(1000 * Math.min(1, SCALE * 10)),
  many: 100_000,
};
writeFileSync(plan.sample, makeSample(SAMPLES["prices float64"], 8 * SAMPLE_BATCHES * BATCH));

const only = process.argv.slice(2);
const wants = (name) => only.length === 0 || only.includes(name);

function run(program, args) {
  spawnSync("sync", ["-f", folder]);
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.slice(0, 2).join(" ")}: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1));
}

const memory = {};

function ours(work) {
  const script = fileURLToPath(new URL("works.mjs", import.meta.url));
  const { results, peakMB } = run(process.execPath, [script, work, JSON.stringify(plan)]);
  memory[work] = peakMB;
  return results;
}

const requirements = new URL("requirements.txt", import.meta.url);
const PEERS = {
  "python-blosc2": () => makePython(requirements),
  "bcolz-zipline": () => findPython("bcolz-zipline"),
  tensorstore: () => findPython("zarr"),
  "zarr-python": () => findPython("zarr"),
  "zarr-python, shards": () => findPython("zarr"),
};

function measurePeer(name) {
  const python = PEERS[name]();
  if (python === undefined) {
    console.error(`${name} is absent: run "npm run test:interop" once`);
    return undefined;
  }
  const script = fileURLToPath(new URL("peers.py", import.meta.url));
  return run(python, [script, name, folder, plan.sample, JSON.stringify(plan)]);
}

const results = { plan };
if (wants("append") || wants("change")) {
  results.disk = ours("disk");
  results.append = ours("append");
  results.appendUnsynced = ours("appendUnsynced");
}
if (wants("change")) results.change = ours("change");
if (wants("append") || wants("change")) {
  ours("verify");
  if (wants("append")) results.compact = ours("compact");
  rmSync(join(folder, "large"), { recursive: true, force: true });
}
if (wants("singles")) results.singles = ours("appendSingles");
if (wants("peers") || only.length === 0) {
  results.peers = {};
  for (const name of Object.keys(PEERS)) {
    const found = measurePeer(name);
    if (found !== undefined) results.peers[name] = found;
  }
}
if (wants("small")) {
  ours("makeSmall");
  results.small = ours("appendSmall");
  results.shrink = ours("shrink");
}
if (wants("open")) results.open = ours("openMany");
if (wants("samples"))
  results.samples = Object.entries(SAMPLES).map(([name, sample]) => appendSample(name, sample));
results.memory = memory;

/** MB/s of appending 256 MB of a sample, by this library and by python-blosc2. */
function appendSample(name, sample) {
  const batch = Math.floor(800_000 / sample.typesize);
  const rows = Math.round((256e6 * SCALE) / 800_000) * batch;
  const path = join(folder, "kind.raw");
  writeFileSync(path, makeSample(sample, SAMPLE_BATCHES * batch * sample.typesize));
  const dtype = sample.dtype;
  const kind = { ...plan, sample: path, batch, rows, dtype, rounds: Math.max(3, plan.rounds) };
  const script = fileURLToPath(new URL("works.mjs", import.meta.url));
  const own = run(process.execPath, [script, "append", JSON.stringify(kind)]).results.runs;
  const python = makePython(requirements);
  const theirs =
    python &&
    run(python, [
      fileURLToPath(new URL("peers.py", import.meta.url)),
      "python-blosc2",
      folder,
      path,
      JSON.stringify(kind),
    ]).append.map(({ synced }) => synced);
  rmSync(join(folder, "large"), { recursive: true, force: true });
  const rate = (times) => times && (rows * sample.typesize) / 1e6 / median(times);
  return { name, own: rate(own), blosc2: rate(theirs) };
}

const megabytes = (8 * plan.rows) / 1e6;
const rateOf = (times) => megabytes / median(times);

/** Rows of a table: the result of each side, and ours as a multiple of it (below 1: a loss). */
function compare(own, others) {
  const ratio = (value) => (value === undefined || own.synced === undefined ? "" : own.synced / value);
  return [
    ["superchunk", own.synced, own.unsynced ?? "", ""],
    ...others.map(([name, { synced, unsynced }]) => [name, synced, unsynced ?? "", ratio(synced)]),
  ];
}

const peers = Object.entries(results.peers ?? {});
const head = (what) => [what, "synced", "unsynced", "superchunk / it"];
if (results.append !== undefined) {
  const own = { synced: rateOf(results.append.runs), unsynced: rateOf(results.appendUnsynced.runs) };
  const rates = (runs) => ({
    synced: rateOf(runs.map(({ synced }) => synced)),
    unsynced: rateOf(runs.map(({ unsynced }) => unsynced)),
  });
  printTable(
    `append ${Math.round(megabytes)} MB of float64 prices in batches of 100,000 rows, lz4 level 5, crc32: MB/s`,
    head(""),
    [
      ...compare(
        own,
        peers.map(([name, { append }]) => [name, rates(append)]),
      ),
      ["the disk alone, the compressed bytes: MB/s of them", results.disk.MBps, "", ""],
    ],
  );
}
if (results.samples !== undefined) {
  const rows = results.samples.map(({ name, own, blosc2 }) => [name, own, blosc2, own / blosc2]);
  const column = (index) => rows.map((row) => row[index]).sort((a, b) => a - b);
  const ends = [
    ["lowest", (values) => values[0]],
    ["median", median],
    ["highest", (values) => values.at(-1)],
  ].map(([name, choose]) => [name, ...[1, 2, 3].map((index) => choose(column(index)))]);
  printTable(
    "append 256 MB of each sample, lz4 level 5, synced: MB/s",
    ["", "superchunk", "python-blosc2", "superchunk / it"],
    [...rows, ...ends],
  );
}
if (results.singles !== undefined) {
  const rate = ({ synced, unsynced }) => ({
    synced: plan.singles / synced,
    unsynced: plan.singles / unsynced,
  });
  printTable(
    `append ${plan.singles} single rows, one flush: rows/s`,
    head(""),
    compare(
      { synced: plan.singles / results.singles.synced },
      peers.flatMap(([name, { singles }]) => (singles === undefined ? [] : [[name, rate(singles)]])),
    ),
  );
}
if (results.change !== undefined) {
  const rate = ({ synced, unsynced }) => ({
    synced: plan.changes / synced,
    unsynced: plan.changes / unsynced,
  });
  printTable(
    `change ${plan.changes} random elements, one flush: elements/s`,
    head(""),
    compare(
      { synced: plan.changes / results.change.synced },
      peers.map(([name, { change }]) => [name, rate(change)]),
    ),
  );
}
const [small1, small10] = results.small ?? [];
const rows = [
  ["append, MB/s", results.append && rateOf(results.append.runs), 500],
  ["append, single rows: rows/s", results.singles && plan.singles / results.singles.synced, 1e6],
  [
    "change of random elements: ms for each",
    results.change && (1000 * results.change.synced) / plan.changes,
    0.76,
  ],
  ["bytes written for each change", results.change && results.change.written / plan.changes, ""],
  ["append of 1,000 rows + flush, array of 1 GB: ms", small1?.medianMs, ""],
  ["append of 1,000 rows + flush, array of 10 GB: ms", small10?.medianMs, ""],
  ["the second for the first, all 1,000", small1 && small10.totalSeconds / small1.totalSeconds, 1.2],
  ["bytes written for each byte appended so", small1?.writtenPerByte, ""],
  [
    "bytes written for each byte of the long append",
    results.append && results.append.written / (8 * plan.rows),
    "",
  ],
  ["shrink of 10 GB by half, commit: ms", results.shrink?.commitMs, 50],
  ["removing the files: ms", results.shrink?.removingMs, ""],
  ["open an array of 100,000 superchunks: ms", results.open?.firstMs, 20],
  ...Object.entries(memory).map(([work, peak]) => [`memory at most, ${work}: MB`, peak, 200]),
  ...peers.map(([name, { rss }]) => [`memory at most, ${name}: MB`, rss, ""]),
];
printTable(
  "writing, beside the bars",
  ["work", "measured", "bar"],
  rows.filter(([, value]) => value !== undefined),
);
saveResults("write", results);
rmSync(folder, { recursive: true, force: true });
