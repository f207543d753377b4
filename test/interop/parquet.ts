/** Tables and arrays that became Parquet or Arrow are read by readers of these formats, with their producers' values. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { CompressorName, Shuffle } from "../../src/codec/types.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { convert, FileStore, open, serveView } from "../../src/node/index.ts";
import { createCarray } from "../../src/write/bcolz/bcolz-create.ts";
import { compressArray } from "../../src/write/bloscpack/bloscpack-write.ts";
import { corpusFolder, type FixtureDType, loadArchives } from "../fixtures/manifest.ts";
import type { PeerName } from "./peers.ts";
import type { Suite } from "./suite.ts";

const READERS = [
  "pyarrow",
  "duckdb",
  "polars",
  "datafusion",
  "fastparquet",
  "spark",
] as const satisfies readonly PeerName[];

/** Those that read Arrow too. */
const ARROW_READERS: readonly PeerName[] = ["pyarrow", "polars"];
const ENDINGS = ["parquet", "arrow", "compatible.parquet"] as const;
/** The archives that also become files for older readers, and those that Spark reads, which is slow. */
const COMPATIBLE = /^(?:lz4-|table-|ctable)/;

/** A column of a file, and what its values are. */
interface ParquetJob {
  readonly path: string;
  readonly column: string;
  readonly dtype: FixtureDType;
  readonly shape: readonly number[];
  readonly sha256: string;
}

const DTYPES = [
  ...["<i8", "<u8", "<f8", "<i4", "<u4", "<f4", "<f2", "<i2", "<u2", "|i1", "|u1", "|b1", "<c16"],
  ...[
    ">i8",
    ">u4",
    ">f8",
    ">f4",
    "<M8[us]",
    "<M8[ms]",
    "<M8[s]",
    "<M8[D]",
    ">M8[us]",
    "<m8[us]",
    "|S6",
    "<U2",
  ],
] as const;
const SETTINGS: readonly (readonly [cname: CompressorName, shuffle: Shuffle])[] = [
  ["lz4", "shuffle"],
  ["lz4hc", "noshuffle"],
  ["zstd", "shuffle"],
  ["snappy", "shuffle"],
  ["blosclz", "shuffle"],
  ["zlib", "bitshuffle"],
];
const ROWS = 9000;

/** Values that compress, of which dates have a NaT and strings some that are empty. */
function makeValues(dtype: string, rows: number): Uint8Array {
  const size = Number(/\d+/.exec(dtype)?.[0]) * (dtype.includes("U") ? 4 : 1);
  const bytes = new Uint8Array(rows * size);
  const view = new DataView(bytes.buffer);
  for (let row = 0; row < rows; row++) {
    const value = (Math.imul(row, 2_654_435_761) >>> 8) % 20_011;
    if (/[mM]/.test(dtype))
      view.setBigInt64(
        row * 8,
        row % 3001 === 5 ? -(2n ** 63n) : BigInt(value - 9000),
        !dtype.startsWith(">"),
      );
    else if (dtype.includes("S")) for (let i = 0; i < value % 6; i++) bytes[row * size + i] = 97 + i;
    else if (dtype.includes("U")) view.setUint32(row * size, value % 5 === 0 ? 0 : 0x4e00 + value, true);
    else if (dtype.includes("b")) bytes[row] = value & 1;
    else
      for (let i = 0; i < size; i++)
        bytes[row * size + i] = i < 2 ? value >> (8 * i) : i === size - 1 ? 63 : 0;
  }
  return bytes;
}

/** Converts an archive to all formats. Days of zipline stay what they were: the hashes are of numbers. */
async function convertAll(source: string, folder: string, name: string): Promise<string[]> {
  const paths: string[] = [];
  for (const ending of ENDINGS) {
    const compatible = ending === "compatible.parquet";
    if (compatible && !COMPATIBLE.test(name)) continue;
    const path = join(folder, `${name}.${ending}`);
    const to = ending === "arrow" ? "arrow" : "parquet";
    await convert(source, path, { to, verify: true, threads: 0, parquet: { zipline: false, compatible } });
    paths.push(path);
  }
  return paths;
}

/** Archives of every dtype and setting; arrays of one row and of many, with chunks that do not end together. */
async function makeJobs(folder: string): Promise<ParquetJob[]> {
  const store = new FileStore(folder);
  const jobs: ParquetJob[] = [];
  const toJob = async (name: string, job: Omit<ParquetJob, "path" | "column">): Promise<void> => {
    for (const path of await convertAll(join(folder, name), folder, name))
      jobs.push({ path, column: "value", ...job });
  };
  for (const dtype of DTYPES)
    for (const [cname, shuffle] of SETTINGS) {
      const data = makeValues(dtype, ROWS);
      const name = `${cname}-${dtype.replace(/\W/g, "")}${dtype.startsWith(">") ? "-big" : ""}.blp`;
      const chunkSize = (data.length / ROWS) * 2048;
      const options = { cname, shuffle, chunkSize, typesize: data.length / ROWS };
      await compressArray({ dtype: parseDType(dtype, "made"), shape: [ROWS], data }, store, name, options);
      await toJob(name, { dtype, shape: [ROWS], sha256: createHash("sha256").update(data).digest("hex") });
    }
  for (const rowShape of [[], [3], [2, 2]])
    for (const rows of [0, 1, 1000]) {
      const data = makeValues("<f8", rows * rowShape.reduce((product, n) => product * n, 1));
      const name = `rows-${rows}-${rowShape.join("x")}`;
      await createCarray(
        store,
        name,
        { dtype: parseDType("<f8", "made"), rowShape, data },
        { chunkLength: 96 },
      );
      const sha256 = createHash("sha256").update(data).digest("hex");
      await toJob(name, { dtype: "<f8", shape: [rows, ...rowShape], sha256 });
    }
  jobs.push(...(await tableJobs(store, folder)));
  await store.close();
  return jobs;
}

/** Columns of one table, with the lengths of their chunks: no two end together. */
const COLUMNS = [
  { name: "a", dtype: "<f8", rowShape: [], chunklen: 96 },
  { name: "b", dtype: ">u4", rowShape: [], chunklen: 1000 },
  { name: "day", dtype: "<M8[D]", rowShape: [], chunklen: 37 },
  { name: "span", dtype: "<m8[ns]", rowShape: [], chunklen: 500 },
  { name: "text", dtype: "|S6", rowShape: [], chunklen: 64 },
  { name: "pair", dtype: "<i4", rowShape: [2], chunklen: 77 },
  { name: "grid", dtype: ">f4", rowShape: [2, 3], chunklen: 250 },
] as const;

/** Tables without rows, with one, and with many. */
async function tableJobs(store: FileStore, folder: string): Promise<ParquetJob[]> {
  const jobs: ParquetJob[] = [];
  for (const rows of [0, 1, 1000]) {
    const name = `table-${rows}`;
    const made: Omit<ParquetJob, "path">[] = [];
    for (const { name: column, dtype, rowShape, chunklen } of COLUMNS) {
      const data = makeValues(dtype, rows * rowShape.reduce<number>((product, n) => product * n, 1));
      const type = parseDType(dtype, "made");
      await createCarray(
        store,
        `${name}/${column}`,
        { dtype: type, rowShape, data },
        { chunkLength: chunklen },
      );
      const sha256 = createHash("sha256").update(data).digest("hex");
      made.push({ column, dtype, shape: [rows, ...rowShape], sha256 });
    }
    const names = JSON.stringify({ names: COLUMNS.map((column) => column.name) });
    await store.put(`${name}/__rootdirs__`, new TextEncoder().encode(names));
    for (const path of await convertAll(join(folder, name), folder, name))
      jobs.push(...made.map((job) => ({ path, ...job })));
  }
  return jobs;
}

/** The arrays and tables of the corpus that other programs wrote. */
async function corpusJobs(folder: string): Promise<ParquetJob[]> {
  const jobs: ParquetJob[] = [];
  for (const row of loadArchives()) {
    if (row.refuse || row.kind === "bytes" || row.shape.length === 0) continue;
    const source = await open(row.file);
    const isTable = source.kind === "table" || (source.kind === "array" && source.columnNames.length > 0);
    await source.close();
    for (const path of await convertAll(row.file, folder, row.path.replaceAll("/", "-"))) {
      if (row.kind === "table")
        for (const [column, { dtype, shape, sha256 }] of Object.entries(row.columns))
          jobs.push({ path, column, dtype, shape, sha256 });
      else if (row.sha256 !== null && !isTable)
        jobs.push({
          path,
          // The fields of structs are columns.
          column: typeof row.dtype === "string" ? "value" : "",
          dtype: row.dtype,
          shape: row.shape,
          sha256: row.sha256,
        });
    }
  }
  return jobs;
}

/** The tables of the corpus as a server shows them as files. Days of zipline are dates there, and are left out. */
function servedJobs(url: string): ParquetJob[] {
  return loadArchives().flatMap((row) => {
    if (row.refuse || row.kind !== "table") return [];
    const name = row.path.replace(/^ctable\//, "").replace(/\.(?:bcolz|blz)$/, "");
    const path = `${url}${name.split("/").map(encodeURIComponent).join("/")}.parquet`;
    return Object.entries(row.columns).flatMap(([column, { dtype, shape, sha256 }]) =>
      column === "day" ? [] : [{ path, column, dtype, shape, sha256 }],
    );
  });
}

/** Whether a reader is asked for a column. Spark knows floats of 2 bytes neither in Parquet nor by itself. */
function isRead({ path, dtype }: ParquetJob, reader: PeerName, folder: string): boolean {
  if (path.endsWith(".arrow")) return ARROW_READERS.includes(reader);
  if (reader !== "spark") return true;
  const isHalf = dtype === "<f2" && !path.endsWith("compatible.parquet");
  return !isHalf && COMPATIBLE.test(path.slice(folder.length + 1));
}

/** Those that read from a server: with their own requests, or through fsspec. */
const SERVED_READERS: readonly PeerName[] = ["pyarrow", "duckdb", "polars"];

export const parquet: Suite = {
  name: "parquet",
  peers: READERS,
  async run({ checks, folder, peer }) {
    const made = [...(await corpusJobs(folder)), ...(await makeJobs(folder))];
    const served = await serveView(join(corpusFolder, "ctable"));
    for (const name of SERVED_READERS) {
      const jobs = servedJobs(served.url);
      for (const [i, answer] of ((await peer(name)?.read(jobs)) ?? []).entries()) {
        const job = jobs[i];
        if (job !== undefined) checks.values(`${name} reads ${job.path} ${job.column}`, answer, job);
      }
    }
    await served.close();
    for (const name of READERS) {
      const reader = peer(name);
      if (reader === undefined) continue;
      const jobs = made.filter((job) => isRead(job, name, folder));
      let refused = 0;
      for (const [i, answer] of (await reader.read(jobs)).entries()) {
        const job = jobs[i];
        if (job === undefined) continue;
        const { shape, sha256 } = job;
        // fastparquet reads only plain pages, and turns types into others: what it accepts must still be right.
        if (name === "fastparquet" && answer.kind === "error") refused++;
        else
          checks.values(`${name} reads ${job.path.slice(folder.length + 1)} ${job.column}`, answer, {
            shape,
            sha256,
          });
      }
      if (refused > 0) console.log(`${name} refuses ${refused} of ${jobs.length} columns`);
    }
  },
};
