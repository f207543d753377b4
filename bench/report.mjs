/** The data folder of the benchmarks, and how they print and save figures. */
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The folder for data that are made once; `BENCH_DATA` selects another disk. The number must change whenever the data change. */
export function workFolder() {
  const folder = join(process.env.BENCH_DATA ?? join(root, ".cache", "bench"), "data-2");
  mkdirSync(folder, { recursive: true });
  return folder;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/**
 * Returns the memory of unused results to the system, as Python does when a result is dropped. Needs `--expose-gc`, with
 * which `npm run bench` starts each benchmark.
 */
export async function releaseMemory() {
  globalThis.gc();
  await new Promise(setImmediate); // large buffers are freed in the background
  globalThis.gc();
}

export function printTable(title, head, rows) {
  const cells = [head, ...rows].map((row) => row.map(format));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  console.log(`\n${title}`);
  for (const row of cells)
    console.log(
      `  ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ")}`,
    );
}

function format(cell) {
  if (typeof cell !== "number") return String(cell);
  return Number.isInteger(cell) ? String(cell) : cell.toPrecision(3);
}

/** Saves results together with the machine and the engine. */
export function saveResults(name, results) {
  const folder = join(root, "bench", "results");
  mkdirSync(folder, { recursive: true });
  const machine = {
    node: process.version,
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    date: new Date().toISOString(),
  };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify({ machine, ...results }, undefined, 2)}\n`);
}
