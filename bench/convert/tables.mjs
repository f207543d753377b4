/**
 * Converts a bcolz table to Parquet, compared with `cp -r` and a sync of the source, and with pyarrow and hyparquet-writer, which
 * write the same values from memory. At the end a filter compared with DuckDB (`filter.mjs`). `TABLE_ROWS` (default 41,000,000: 1 GB)
 * makes it smaller.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parquetWriteBuffer } from "hyparquet-writer";
import { findPython } from "../python.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";
import { measure } from "./process.mjs";

const ROWS = Number(process.env.TABLE_ROWS ?? 41_000_000);
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const script = fileURLToPath(new URL("parquet_peers.py", import.meta.url));
const folder = workFolder();
const target = join(folder, "table.parquet");
const copy = join(folder, "table.copy");

function python(environment, ...args) {
  const program = findPython(environment);
  if (program === undefined) throw new Error(`npm run test:interop makes the Python ${environment}`);
  const { status, stdout, stderr } = spawnSync(program, [script, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

function timed(work) {
  rmSync(target, { force: true });
  rmSync(copy, { recursive: true, force: true });
  spawnSync("sync");
  const start = performance.now();
  const { peakMB, cpuSeconds } = work() ?? {};
  spawnSync("sync", ["-f", folder]);
  return { seconds: (performance.now() - start) / 1000, peakMB, cpuSeconds };
}

function sizeOf(path) {
  if (!statSync(path).isDirectory()) return statSync(path).size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

const results = { rows: ROWS };
for (const cname of ["lz4", "blosclz"]) {
  const source = join(folder, `table-${cname}-${ROWS}.bcolz`);
  if (!existsSync(source)) python("bcolz-zipline", "make", source, cname, String(ROWS));
  const works = {
    // The program: Node's own copy takes twice as long in versions 24 and 26.
    cp: () => void spawnSync("cp", ["-r", source, copy]),
    none: () => measure(["convert", source, target, "--statistics", "none"]),
    pages: () => measure(["convert", source, target]),
  };
  const runs = { cp: [], none: [], pages: [] };
  // Alternating, so that other load affects all alike.
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, work] of Object.entries(works)) runs[name].push(timed(work));
  const seconds = (name) => median(runs[name].map((run) => run.seconds));
  const peakMB = (name) => Math.max(...runs[name].map((run) => run.peakMB));
  results[cname] = {
    cp: seconds("cp"),
    ...{ none: seconds("none"), pages: seconds("pages") },
    pagesProcessor: median(runs.pages.map((run) => run.cpuSeconds)),
    ...{ peakMB: Math.max(peakMB("none"), peakMB("pages")), size: sizeOf(target) / sizeOf(source) },
  };
  const { cp, none, pages, size } = results[cname];
  printTable(
    `${cname}, ${ROWS} rows of 4 columns, seconds`,
    ["", "seconds", "x cp", "peak MB", "x size"],
    [
      ["cp -r, sync", cp, 1, "", ""],
      ["convert --statistics none", none, none / cp, peakMB("none"), ""],
      ["convert", pages, pages / cp, peakMB("pages"), size],
    ],
  );
}

const writes = Array.from({ length: ROUNDS }, () =>
  python("parquet", "write", target, String(ROWS)).split(" ").map(Number),
);
const [pyarrow, pyarrowProcessor] = [0, 1].map((i) => median(writes.map((write) => write[i])));
const few = Math.min(ROWS, 1_000_000);
const started = performance.now();
parquetWriteBuffer({
  columnData: [
    { name: "t", data: BigInt64Array.from({ length: few }, (_, i) => BigInt(i) * 60n), type: "INT64" },
    {
      name: "open",
      data: Float64Array.from({ length: few }, (_, i) => 100 + (i % 977) / 100),
      type: "DOUBLE",
    },
    {
      name: "volume",
      data: Int32Array.from({ length: few }, (_, i) => (i * 7919) % 1_000_000),
      type: "INT32",
    },
    { name: "f", data: Float32Array.from({ length: few }, (_, i) => 100 + (i % 977) / 100), type: "FLOAT" },
  ],
});
const hyparquet = ((performance.now() - started) / 1000) * (ROWS / few);
Object.assign(results, { pyarrow, pyarrowProcessor, hyparquet });
printTable(
  "the same values from memory, seconds",
  ["", "seconds", "x convert with statistics"],
  [
    ["pyarrow write_table, lz4, synced", pyarrow, pyarrow / results.lz4.pages],
    ["the same, processor time", pyarrowProcessor, pyarrowProcessor / results.lz4.pagesProcessor],
    ["hyparquet-writer, snappy (reckoned from a million rows)", hyparquet, hyparquet / results.lz4.pages],
  ],
);
rmSync(target, { force: true });
rmSync(copy, { recursive: true, force: true });
saveResults("tables", results);
await import("./filter.mjs");
