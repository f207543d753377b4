/**
 * The cost of an array that keeps itself a Zarr array: 64 MB of prices appended and flushed in pieces, then one value set and
 * flushed again and again; compared with the same without Zarr, and with publishing less often. Without shared blocks
 * (reflinks), the open end, and each superchunk with a changed value, is copied each time.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { create as createArray } from "../../build/src/node/edit.js";
import { printTable, saveResults, workFolder } from "../report.mjs";

const ROWS = 8_000_000;
const PIECE = Number(process.env.BENCH_PIECE ?? 50_000);
const SETS = 20;
const folder = workFolder();
const prices = new Float64Array(ROWS);
for (let i = 0, price = 100, seed = 1; i < ROWS; i++) {
  seed = (seed * 48_271) % 0x7fff_ffff;
  price += ((seed % 21) - 10) / 100;
  prices[i] = Math.round(price * 100) / 100;
}

async function measure(options) {
  const root = join(folder, "mirrored");
  rmSync(root, { recursive: true, force: true });
  const mirrorCosts = { bytes: 0, shards: 0, publications: 0 };
  const array = await createArray(root, { dtype: "<f8", threads: 0, mirrorCosts, ...options });
  let start = performance.now();
  let flushes = 0;
  for (let at = 0; at < ROWS; at += PIECE, flushes++) {
    await array.append(prices.subarray(at, at + PIECE));
    await array.flush();
  }
  const append = { ms: (performance.now() - start) / flushes, bytes: mirrorCosts.bytes / flushes };
  const before = mirrorCosts.bytes;
  start = performance.now();
  for (let i = 0; i < SETS; i++) {
    await array.set([i * 1000], 1);
    await array.flush();
  }
  const set = { ms: (performance.now() - start) / SETS, bytes: (mirrorCosts.bytes - before) / SETS };
  await array.close();
  const written = array.bytesWritten / flushes;
  rmSync(root, { recursive: true, force: true });
  return { append, set, written };
}

const variants = [
  ["a plain array", { zarr: false }],
  ["zarr, publish: flush", { zarr: true, publish: "flush" }],
  ["zarr, publish: every second", { zarr: true, publish: { everySeconds: 1 } }],
  ["zarr, publish: full", { zarr: true, publish: "full" }],
];
const results = {};
const rows = [];
for (const [name, options] of variants) {
  const found = await measure(options);
  results[name] = found;
  rows.push([
    name,
    found.append.ms,
    Math.round(found.append.bytes / 1024),
    found.set.ms,
    Math.round(found.set.bytes / 1024),
  ]);
}
printTable(
  `an array that is a Zarr array as well: ${ROWS / PIECE} flushes of ${(PIECE * 8) / 1e6} MB, then ${SETS} of one set value; each flush`,
  ["", "append ms", "KiB of own shards", "set ms", "KiB of own shards"],
  rows,
);
saveResults("mirror", { piece: PIECE, results });
