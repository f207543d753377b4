/**
 * A filter over a bcolz table with an index (`superchunk index`), compared with DuckDB over the Parquet file of the same table. The
 * filter selects one row in a thousand, all adjacent, so one chunk in a thousand is read. `FILTER_ROWS` (default 100,000,000) makes
 * the table smaller. Both sides run in warm processes; each question opens the table or the file.
 */
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { create, openTable } from "../../build/src/node/index.js";
import { findPython } from "../python.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROWS = Number(process.env.FILTER_ROWS ?? 100_000_000);
const ROUNDS = Number(process.env.ROUNDS ?? 15);
const PIECE = 1_000_000;
const folder = workFolder();
const source = join(folder, `filter-${ROWS}.bcolz`);
const parquet = join(folder, `filter-${ROWS}.parquet`);
const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** Rows of 16 bytes: a time that rises, and a walk with two decimals. */
function* pieces() {
  let [seed, price] = [1, 10_000];
  for (let first = 0; first < ROWS; first += PIECE) {
    const count = Math.min(PIECE, ROWS - first);
    const bytes = new Uint8Array(16 * count);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < count; i++) {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
      price += ((seed >> 16) % 11) - 5;
      view.setBigInt64(16 * i, BigInt(first + i) * 60n, true);
      view.setFloat64(16 * i + 8, price / 100, true);
    }
    yield bytes;
  }
}

function run(...args) {
  const { status, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}

if (!existsSync(parquet)) {
  rmSync(source, { recursive: true, force: true });
  const dtype = [
    ["t", "<i8"],
    ["close", "<f8"],
  ];
  const made = await create(source, {
    ...{ format: "bcolz", dtype, shape: 0, data: pieces(), expectedLength: ROWS },
    compressor: { cname: "lz4", clevel: 5, shuffle: "shuffle" },
  });
  await made.close();
  run("convert", source, parquet);
  run("index", source);
}

// At the beginning of a chunk, if chunks have 2^17 rows.
const from = Math.floor(ROWS / 2 / 131_072) * 131_072 * 60;
const to = from + Math.floor(ROWS / 1000) * 60;

async function ask() {
  const start = performance.now();
  const table = await openTable(source);
  let [rows, sum] = [0, 0];
  let plan;
  const filter = { t: { gte: BigInt(from), lt: BigInt(to) } };
  for await (const { length, columns } of table.scan({
    columns: ["close"],
    filter,
    onPlan: (found) => (plan = found),
  })) {
    rows += length;
    for (const value of columns.close.data) sum += value;
  }
  await table.close();
  return { ms: performance.now() - start, rows, sum, ...plan };
}

/** The same question for DuckDB, in one process. */
const QUESTION = `
import sys, time, duckdb
path, low, high, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
for _ in range(rounds):
    start = time.perf_counter()
    found = duckdb.connect().execute("select close from read_parquet(?) where t >= ? and t < ?", [path, low, high]).fetchnumpy()["close"]
    print((time.perf_counter() - start) * 1000, len(found), found.sum())
`;

const python = process.env.DUCKDB_PYTHON ?? findPython("parquet");
if (python === undefined) throw new Error("npm run test:interop makes the Python parquet");
// Alternating, so that other load affects both alike.
const [own, peers] = [[], []];
for (let half = 0; half < 3; half++) {
  for (let round = 0; round < ROUNDS; round++) own.push(await ask());
  const { status, stdout, stderr } = spawnSync(
    python,
    ["-c", QUESTION, parquet, String(from), String(to), String(ROUNDS)],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  peers.push(
    ...stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" ").map(Number)),
  );
}
const [{ rows, sum, chunks, skipped }] = own;
const [, found, total] = peers[0];
if (rows !== found || Math.abs(sum - total) > 1e-6 * Math.abs(total))
  throw new Error(`${rows} rows and ${sum}; DuckDB has ${found} and ${total}`);
const [ms, duckdb] = [median(own.map((each) => each.ms)), median(peers.map(([each]) => each))];
printTable(
  `a filter that takes ${rows} of ${ROWS} rows, ${chunks - skipped} of ${chunks} chunks; milliseconds`,
  ["", "median", "x DuckDB"],
  [
    ["DuckDB over Parquet", duckdb, 1],
    ["scan of the bcolz table, with its index", ms, ms / duckdb],
  ],
);
saveResults("filter", { rows: ROWS, taken: rows, chunks, skipped, ms, duckdb, ratio: ms / duckdb });
