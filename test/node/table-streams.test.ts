/** Compressed streams of Parquet files become chunks of Blosc again, without being compressed. [PR] */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { convert, openArray, openTableFile } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { sample } from "../scope.ts";

const ROWS = 9000;
const NAMES = ["t", "close", "volume", "noise", "day"] as const;

/** A table of five columns, of which one does not compress and one is nullable in Parquet, as a `.npy` file. */
function writeTable(folder: string): string {
  const header = `{'descr': [('t','<i8'),('close','<f8'),('volume','<u4'),('noise','<f4'),('day','<M8[ms]')], 'fortran_order': False, 'shape': (${ROWS},), }`;
  const length = 64 * Math.ceil((11 + header.length) / 64) - 10;
  const bytes = Buffer.alloc(10 + length + 32 * ROWS, " ");
  bytes.write("\x93NUMPY\x01\x00", "latin1");
  bytes.writeUInt16LE(length, 8);
  bytes.write(`${header.padEnd(length - 1)}\n`, 10);
  let noise = 1;
  for (let row = 0, at = 10 + length; row < ROWS; row++, at += 32) {
    bytes.writeBigInt64LE(BigInt(row) * 60n, at);
    bytes.writeDoubleLE(100 + ((row * 7919) % 977) / 100, at + 8);
    bytes.writeUInt32LE((row * 31) % 5003, at + 16);
    noise ^= noise << 13;
    noise ^= noise >>> 17;
    noise ^= noise << 5;
    // No NaN, whose bits JavaScript does not preserve.
    bytes.writeUInt32LE(noise & 0x3fff_ffff, at + 20);
    bytes.writeBigInt64LE(BigInt(row) * 86_400_000n, at + 24);
  }
  const path = join(folder, "t.npy");
  writeFileSync(path, bytes);
  return path;
}

async function valuesOf(path: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const column of NAMES) {
    const array = await openArray(path, { column });
    found.push((await array.get()).data);
    await array.close();
  }
  return found;
}

test.each([
  ["lz4", "shuffle"],
  ["lz4hc", "noshuffle"],
  ["zstd", "shuffle"],
  ["snappy", "shuffle"],
])("every chunk of %s with %s comes back stream for stream", async (codec, shuffle) => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const table = writeTable(folder);
  const how = ["--codec", codec, "--shuffle", shuffle, "--chunklen", "2048"];
  expect((await runCli(["create", at("a.bcolz"), "--as", "ctable", "--from", table, ...how])).code).toBe(0);
  await convert(at("a.bcolz"), at("t.parquet"), { to: "parquet" });
  const wanted = await valuesOf(at("a.bcolz"));
  // Incompressible blocks of snappy are stored differently, and are compressed again.
  const said =
    codec === "snappy" ? /[4-9] chunks made .* \d+ compressed/ : /[5-9] chunks made .* 0 compressed/;
  for (const as of codec === "zstd" ? [[], ["--as", "ctable"]] : [["--as", "ctable"]]) {
    const made = await runCli(["create", at("b"), ...as, "--overwrite", "--from", at("t.parquet")]);
    expect([made.code, made.err]).toEqual([0, expect.stringMatching(said) as string]);
    expect(await valuesOf(at("b"))).toEqual(wanted);
    expect((await runCli(["verify", at("b")])).code).toBe(0);
  }
});

test("a caller that sets how chunks are made gets such chunks, and other files offer no streams", async () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const table = writeTable(folder);
  await runCli(["create", at("a.bcolz"), "--as", "ctable", "--from", table, "--chunklen", "2048"]);
  await convert(at("a.bcolz"), at("t.parquet"), { to: "parquet" });
  const file = await openTableFile(at("t.parquet"));
  expect((await file.carry())?.chunkLength).toBe(65_536);
  const made = await runCli(["create", at("b.bcolz"), "--from", at("t.parquet"), "--codec", "zstd"]);
  expect([made.code, made.err]).toEqual([0, expect.not.stringContaining("compressed streams") as string]);
  const fixtures = join(import.meta.dirname, "..", "..", "fixtures", "tables");
  for (const name of ["snappy.parquet", "gzip.parquet", "lz4.feather", "plain.csv"])
    expect(await (await openTableFile(join(fixtures, name))).carry()).toBeUndefined();
});

/** Rows of `fixtures/tables/pages-*.parquet`, which pyarrow wrote. */
const FOREIGN = 98_304;

async function expectForeign(path: string): Promise<void> {
  const [t, close, day] = await Promise.all(
    ["t", "close", "day"].map(async (column) => {
      const array = await openArray(path, { column });
      const { data } = await array.get();
      await array.close();
      return data;
    }),
  );
  expect(t).toEqual(BigInt64Array.from({ length: FOREIGN }, (_, k) => BigInt(k) * 60n));
  const isNull = (k: number): boolean => k >= 90_000 && k % 2 === 1;
  const prices = Float64Array.from({ length: FOREIGN }, (_, k) => (isNull(k) ? Number.NaN : (k % 977) / 8));
  expect(close).toEqual(prices);
  expect(day).toEqual(BigInt64Array.from({ length: FOREIGN }, (_, k) => BigInt(Math.floor(k / 400))));
}

// Three chunks of 32,768 rows each: the last of `close` has nulls. In the zstd file (version 2) levels are outside the
// streams; in the others a stream of `day` begins with a match into them, so its chunk is compressed again.
test.each([
  ["lz4", 7],
  ["snappy", 7],
  ["zstd", 8],
])("nullable columns of pyarrow with %s are copied if no value is null", async (codec, carried) => {
  const folder = temporaryFolder();
  const file = join(import.meta.dirname, "..", "..", "fixtures", "tables", `pages-${codec}.parquet`);
  const at = join(folder, "a.bcolz");
  const made = await runCli(["create", at, "--as", "ctable", "--from", file]);
  expect([made.code, made.err]).toEqual([0, expect.stringContaining(`${carried} chunks made of`) as string]);
  await expectForeign(at);
  expect((await runCli(["verify", at])).code).toBe(0);
});

const CUTS = [
  ["lz4", "--as", "ctable"],
  ["zstd", "--as", "superchunk"],
] as const;

test.each(sample(CUTS, 1))(
  "appended pages of %s are copied if chunks are cut alike, after those that fill the last chunk",
  async (codec, ...as) => {
    const folder = temporaryFolder();
    const at = (name: string): string => join(folder, name);
    const table = writeTable(folder);
    const how = ["--codec", codec, "--chunklen", "2048"];
    await runCli(["create", at("a.bcolz"), "--as", "ctable", "--from", table, ...how]);
    await convert(at("a.bcolz"), at("t.parquet"), { to: "parquet" });
    const wanted = await valuesOf(at("a.bcolz"));
    // 9000 rows are four chunks and 808 rows: 1240 rows fill the fifth chunk, and no page ends there.
    await runCli(["create", at("b"), ...as, "--from", table, ...how]);
    const uneven = await runCli(["append", at("b"), at("t.parquet")]);
    expect([uneven.code, uneven.err]).toEqual([
      0,
      expect.not.stringContaining("compressed streams") as string,
    ]);
    // After 2048 rows every page fits: five columns of four chunks and a short one.
    await runCli(["create", at("c"), ...as, "--from", table, ...how]);
    await runCli(["resize", at("c"), "2048"]);
    const even = await runCli(["append", at("c"), at("t.parquet")]);
    expect([even.code, even.err]).toEqual([
      0,
      expect.stringMatching(/25 chunks made of .* 0 compressed/) as string,
    ]);
    // Pages of 1024 rows fit after 1024 too: the first ones fill the last chunk, and then two make a chunk.
    await runCli([
      "create",
      at("small.bcolz"),
      "--as",
      "ctable",
      "--from",
      table,
      ...how,
      "--chunklen",
      "1024",
    ]);
    await convert(at("small.bcolz"), at("small.parquet"), { to: "parquet" });
    await runCli(["create", at("e"), ...as, "--from", table, ...how]);
    await runCli(["resize", at("e"), "1024"]);
    const filled = await runCli(["append", at("e"), at("small.parquet")]);
    expect([filled.code, filled.err]).toEqual([
      0,
      expect.stringMatching(/20 chunks made of .* 5 compressed/) as string,
    ]);
    for (const [name, rows] of [
      ["b", 9000],
      ["c", 2048],
    ] as const) {
      const found = await valuesOf(at(name));
      for (const [i, values] of wanted.entries()) {
        const both = found[i] as BigInt64Array;
        expect(both.subarray(rows)).toEqual(values);
        expect(both.subarray(0, rows)).toEqual((values as BigInt64Array).subarray(0, rows));
      }
      expect((await runCli(["verify", at(name)])).code).toBe(0);
    }
    // Streams of a codec other than the archive's are not copied.
    const other = codec === "lz4" ? "zstd" : "lz4";
    await runCli(["create", at("d"), ...as, "--from", table, "--chunklen", "2048", "--codec", other]);
    await runCli(["resize", at("d"), "0"]);
    const foreign = await runCli(["append", at("d"), at("t.parquet")]);
    expect([foreign.code, foreign.err]).toEqual([
      0,
      expect.not.stringContaining("compressed streams") as string,
    ]);
    expect(await valuesOf(at("d"))).toEqual(wanted);
  },
);
