/**
 * One writing task in a separate process, so that its memory is measured alone: `node works.mjs WORK PLAN`. Prints one line
 * of JSON. Times include the sync; `unsynced` is the same without any sync.
 */
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { open as openFile } from "node:fs/promises";
import { join } from "node:path";
import { open } from "../../build/src/index.js";
import { create as createArray, edit as openWritable } from "../../build/src/node/edit.js";
import { FileStore } from "../../build/src/node/index.js";
import { encoderOf } from "../../build/src/node/threads/threads.js";
import { createArray as createIn } from "../../build/src/write/array/create.js";
import { median } from "../report.mjs";
import { randomNumbers, SAMPLES } from "../samples.mjs";

const [work, text] = process.argv.slice(2);
const { folder, sample, rows, batch, rounds, singles, changes, many, dtype = "<f8" } = JSON.parse(text);
const cparams = { cname: "lz4", clevel: 5, shuffle: "shuffle" };
const kind = Object.values(SAMPLES).find((each) => each.dtype === dtype);
/** Elements of the array per row: 12 for strings of 12 bytes. */
const width = kind.typesize / kind.type.BYTES_PER_ELEMENT;
const prices = new kind.type(statSync(sample).size / kind.type.BYTES_PER_ELEMENT);
{
  const file = openSync(sample, "r");
  readSync(file, new Uint8Array(prices.buffer));
  closeSync(file);
}

class UnsyncedStore extends FileStore {
  put(key, source, options = {}) {
    return super.put(key, source, { ...options, durable: false });
  }
}

async function seconds(step) {
  const start = performance.now();
  await step();
  return (performance.now() - start) / 1000;
}

function place(name) {
  const path = join(folder, name);
  rmSync(path, { recursive: true, force: true });
  return path;
}

async function fill(array, count) {
  for (let row = 0; row < count; row += batch) {
    const at = (row * width) % prices.length;
    await array.append(prices.subarray(at, at + Math.min(batch, count - row) * width));
  }
  await array.flush();
}

const settings = (expectedLength) => ({ dtype, expectedLength, compressor: cparams });

/** The array that remains under `large` is used by the later works. */
async function append() {
  const runs = [];
  let written = 0;
  for (let round = 0; round < rounds; round++) {
    const path = place("large");
    let array;
    runs.push(
      await seconds(async () => {
        array = await createArray(path, settings(rows));
        await fill(array, rows);
      }),
    );
    written = array.bytesWritten;
    await array.close();
  }
  return { runs, written };
}

async function appendUnsynced() {
  const runs = [];
  // As for a path: without it, no thread helps.
  const encoder = encoderOf();
  for (let round = 0; round < rounds; round++) {
    const store = new UnsyncedStore(place("unsynced"));
    let array;
    runs.push(
      await seconds(async () => {
        array = await createIn(store, "", { ...settings(rows), encoder });
        await fill(array, rows);
      }),
    );
    await array.close();
  }
  place("unsynced");
  return { runs };
}

/** As many bytes as the array has, in one file, with one sync at the end: the speed of the disk alone. */
async function disk() {
  const piece = new Uint8Array(4 << 20);
  const next = randomNumbers(5);
  for (let i = 0; i < piece.length; i++) piece[i] = next() * 256;
  const length = Math.round(rows * 8 * 0.72);
  const path = place("disk");
  const file = await openFile(path, "wx");
  const synced = await seconds(async () => {
    for (let at = 0; at < length; at += piece.length) await file.write(piece, 0, piece.length, at);
    await file.sync();
  });
  await file.close();
  rmSync(path);
  return { MBps: length / 1e6 / synced };
}

async function appendSingles() {
  const array = await createArray(place("singles"), settings(singles));
  const one = new Float64Array(1);
  const synced = await seconds(async () => {
    for (let i = 0; i < singles; i++) {
      one[0] = prices[i % prices.length];
      await array.append(one);
    }
    await array.flush();
  });
  await array.close();
  place("singles");
  return { synced };
}

/** The arrays that {@link appendSmall} appends to. */
async function makeSmall() {
  for (const factor of [1, 10]) {
    const array = await createArray(place(`small-${factor}`), settings(rows * factor));
    await fill(array, rows * factor);
    await array.close();
  }
  return {};
}

/** Small appends to an array and to one ten times as long, alternating, so that both see the same disk load. */
async function appendSmall() {
  const arrays = [];
  for (const factor of [1, 10]) {
    const array = await openWritable(join(folder, `small-${factor}`));
    arrays.push({ array, before: array.bytesWritten, times: [] });
  }
  const count = 1000;
  for (let i = 0; i < count; i++) {
    const at = (i * 1000) % (prices.length - 1000);
    for (const { array, times } of i % 2 === 0 ? arrays : [...arrays].reverse()) {
      times.push(
        await seconds(async () => {
          await array.append(prices.subarray(at, at + 1000));
          await array.flush();
        }),
      );
    }
  }
  const results = arrays.map(({ array, before, times }) => ({
    totalSeconds: times.reduce((a, b) => a + b),
    medianMs: median(times) * 1000,
    writtenPerByte: (array.bytesWritten - before) / (count * 8000),
  }));
  for (const { array } of arrays) await array.close();
  place("small-1");
  return results;
}

async function shrink() {
  const array = await openWritable(join(folder, "small-10"));
  const half = Math.floor(array.length / 2);
  const commit = await seconds(() => array.resize(half));
  const removing = await seconds(() => array.close());
  place("small-10");
  return { commitMs: commit * 1000, removingMs: removing * 1000 };
}

async function change() {
  const array = await openWritable(join(folder, "large"));
  const next = randomNumbers(9);
  const one = new Float64Array(1);
  const synced = await seconds(async () => {
    for (let i = 0; i < changes; i++) {
      one[0] = i;
      await array.set([Math.floor(next() * array.length)], one);
    }
    await array.flush();
  });
  const written = array.bytesWritten;
  const closing = await seconds(() => array.close());
  return { synced, closingMs: closing * 1000, written };
}

async function verify() {
  const store = new FileStore(join(folder, "large"));
  const array = await open(store);
  const report = await array.verify();
  await store.close();
  if (report.findings.length > 0) throw new Error(report.findings[0].message);
  return {};
}

async function compact() {
  const array = await openWritable(join(folder, "large"));
  const synced = await seconds(() => array.compact({ compressor: { cname: "lz4", clevel: 1 } }));
  await array.close();
  return { synced };
}

async function openMany() {
  const path = place("many");
  const array = await createArray(path, { dtype: "<f8", chunkLength: 1, superchunkLength: 1 });
  await array.append(new Float64Array(3));
  await array.close();
  // The files themselves are not read.
  const sizes = JSON.parse(readFileSync(join(path, "meta", "sizes"), "utf8"));
  sizes.shape = [many];
  sizes.nbytes = 8 * many;
  sizes.layout.superchunks = [[1, many, 1]];
  writeFileSync(join(path, "meta", "sizes"), JSON.stringify(sizes));
  const bytes = readFileSync(join(path, "data", "__1__.bin"));
  for (let i = 1; i <= many; i++) writeFileSync(join(path, "data", `__${i}__.bin`), bytes);
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
  place("many");
  return { firstMs: times[0] * 1000, medianMs: median(times) * 1000 };
}

const works = {
  append,
  appendUnsynced,
  disk,
  appendSingles,
  makeSmall,
  appendSmall,
  shrink,
  change,
  verify,
  compact,
  openMany,
};
const results = await works[work]();
// Linux includes in a child's maxRSS the memory of its parent from before exec.
const status = existsSync("/proc/self/status") ? readFileSync("/proc/self/status", "utf8") : "";
const peak = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
console.log(JSON.stringify({ results, peakMB: (Number(peak) * 1024) / 1e6 }));
