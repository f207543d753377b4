/**
 * Writing arrays: 1 GB in batches, single rows, small appends with a flush each, shrinking, random changes, opening an array
 * of 100,000 superchunks. Every time is to synced data; what was not synced by then is in the column beside.
 */
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { open } from "../../dist/src/index.js";
import { createArray, FileStore, openWritable } from "../../dist/src/node/index.js";
import { randomNumbers, SAMPLES } from "../codec/samples.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const folder = workFolder();
const SCALE = Number(process.env.BENCH_SCALE ?? 1);
const ROWS = Math.round(125_000_000 * SCALE);
const BATCH = 100_000;
const cparams = { cname: "lz4", clevel: 5, shuffle: "shuffle" };
const results = {};

const prices = (() => {
  const bytes = SAMPLES["prices float64"].make(8 * 100 * BATCH);
  return new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
})();

const place = (name) => {
  const path = join(folder, `write-${name}`);
  rmSync(path, { recursive: true, force: true });
  spawnSync("sync", ["-f", folder]);
  return path;
};

async function seconds(step) {
  const start = performance.now();
  await step();
  return (performance.now() - start) / 1000;
}

async function makeLarge(name, rows, options = {}) {
  const path = place(name);
  const array = await createArray(path, { dtype: "<f8", expectedlen: rows, cparams, ...options });
  for (let row = 0; row < rows; row += BATCH) {
    const at = row % prices.length;
    await array.append(prices.subarray(at, at + Math.min(BATCH, rows - row)));
  }
  await array.flush();
  return { path, array };
}

async function appendLarge() {
  const runs = [];
  for (let round = 0; round < Number(process.env.BENCH_ROUNDS ?? 3); round++) {
    let made;
    const time = await seconds(async () => {
      made = await makeLarge("large", ROWS);
    });
    await made.array.close();
    runs.push((8 * ROWS) / 1e6 / time);
  }
  results.append = { MBps: median(runs), all: runs };
}

async function appendSingles() {
  const rows = 1_000_000;
  const one = new Float64Array(1);
  const path = place("single");
  const array = await createArray(path, { dtype: "<f8", expectedlen: rows, cparams });
  const time = await seconds(async () => {
    for (let i = 0; i < rows; i++) {
      one[0] = prices[i];
      await array.append(one);
    }
    await array.flush();
  });
  await array.close();
  results.singles = { rowsPerSecond: rows / time };
}

async function appendSmall(gigabytes, rows = (gigabytes * 1e9) / 8) {
  const { path, array: first } = await makeLarge(`small-${gigabytes}`, Math.round(rows * SCALE));
  await first.close();
  const array = await openWritable(path);
  const before = array.bytesWritten;
  const times = [];
  for (let i = 0; i < 1000; i++) {
    const at = (i * 1000) % (prices.length - 1000);
    times.push(
      await seconds(async () => {
        await array.append(prices.subarray(at, at + 1000));
        await array.flush();
      }),
    );
  }
  const written = (array.bytesWritten - before) / (1000 * 8000);
  await array.close();
  results[`small${gigabytes}`] = {
    total: times.reduce((a, b) => a + b),
    medianMs: median(times) * 1000,
    writtenPerByte: written,
  };
  return path;
}

async function shrink(path) {
  const array = await openWritable(path);
  const before = array.length;
  const time = await seconds(() => array.resize(Math.floor(before / 2)));
  const rest = await seconds(() => array.close());
  results.shrink = { commitMs: time * 1000, removingMs: rest * 1000 };
}

async function change(path) {
  const array = await openWritable(path);
  const next = randomNumbers(9);
  const one = new Float64Array(1);
  const time = await seconds(async () => {
    for (let i = 0; i < 1000; i++) {
      one[0] = i;
      await array.set([Math.floor(next() * array.length)], one);
    }
    await array.flush();
  });
  const closing = await seconds(() => array.close());
  results.change = { msPerElement: time, closingMs: closing * 1000, written: array.bytesWritten };
}

async function openMany() {
  const path = place("many");
  const array = await createArray(path, { dtype: "<f8", chunklen: 1, superchunklen: 1 });
  await array.append(new Float64Array(3));
  await array.close();
  // The files themselves are not looked at.
  const sizes = JSON.parse(
    await new FileStore(path).get("meta/sizes").then((bytes) => new TextDecoder().decode(bytes)),
  );
  sizes.shape = [100_000];
  sizes.nbytes = 800_000;
  sizes.layout.superchunks = [[1, 100_000, 1]];
  writeFileSync(join(path, "meta", "sizes"), JSON.stringify(sizes));
  const data = join(path, "data");
  const bytes = await new FileStore(path).get("data/__1__.bin");
  for (let i = 1; i <= 100_000; i++) writeFileSync(join(data, `__${i}__.bin`), bytes);
  const times = [];
  for (let i = 0; i < 5; i++) {
    const store = new FileStore(path);
    times.push(
      await seconds(async () => {
        await open(store);
      }),
    );
    await store.close();
  }
  results.open = { firstMs: times[0] * 1000, medianMs: median(times) * 1000 };
  rmSync(path, { recursive: true, force: true });
}

const only = process.argv.slice(2);
const wants = (name) => only.length === 0 || only.includes(name);
if (wants("append")) await appendLarge();
if (wants("singles")) await appendSingles();
if (wants("small")) {
  const one = await appendSmall(1);
  if (wants("change")) await change(one);
  rmSync(one, { recursive: true, force: true });
  const ten = await appendSmall(10);
  await shrink(ten);
  rmSync(ten, { recursive: true, force: true });
}
if (wants("open")) await openMany();
rmSync(join(folder, "write-large"), { recursive: true, force: true });
results.rss = process.resourceUsage().maxRSS / 1024;
const rows = [
  ["append, batches of 100,000 rows, one flush: MB/s", results.append?.MBps, 500],
  ["append, single rows, one flush: rows/s", results.singles?.rowsPerSecond, 1e6],
  ["append of 1,000 rows + flush, array of 1 GB: ms", results.small1?.medianMs, ""],
  ["append of 1,000 rows + flush, array of 10 GB: ms", results.small10?.medianMs, ""],
  ["bytes written for each byte appended so", results.small1?.writtenPerByte, ""],
  ["shrink of 10 GB by half, commit: ms", results.shrink?.commitMs, 50],
  ["removing the files: ms", results.shrink?.removingMs, ""],
  ["change of random elements of 1 GB: ms for each of 1,000", results.change?.msPerElement, 0.76],
  ["open an array of 100,000 superchunks: ms", results.open?.firstMs, 20],
  ["memory at most: MB", results.rss, 200],
];
printTable(
  "writing (float64 prices, lz4 level 5, crc32)",
  ["work", "superchunk", "bar"],
  rows.filter(([, value]) => value !== undefined),
);
saveResults("write", results);
