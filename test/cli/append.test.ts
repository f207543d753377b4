/** What the commands that change arrays print, and where their rows come from. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { Interruption } from "../../cli/failure.ts";
import type { Archive, ArrayArchive } from "../../src/archive/kinds/types.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { openArchive } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);
const doubles = (first: number, count: number): Buffer =>
  Buffer.from(Float64Array.from({ length: count }, (_, i) => first + i).buffer);

function npy(shape: readonly number[], values: Uint8Array, order: "C" | "F" = "C", dtype = "<f8"): Buffer {
  const header = Buffer.from(encodeNpyHeader(parseDType(dtype, ""), shape)).toString("latin1");
  const turned = order === "F" ? header.replace("False", "True ") : header;
  return Buffer.concat([Buffer.from(turned, "latin1"), values]);
}

async function json(argv: readonly string[], stdin?: Uint8Array): Promise<unknown> {
  const { code, out, err } = await runCli([...argv, "--json"], stdin === undefined ? {} : { stdin });
  expect([code, err]).toEqual([0, ""]);
  return JSON.parse(out);
}

async function tailOf(name: string, count: number): Promise<unknown[]> {
  const { code, out } = await runCli(["cat", at(name), "--format", "json", "--slice", `-${count}:`]);
  expect(code).toBe(0);
  return JSON.parse(out) as unknown[];
}

const close = async (archive: Archive): Promise<void> => archive.close();

beforeEach(async () => {
  folder = temporaryFolder();
  cpSync(findFixture("carray/bcolz-dflt-resized").file, at("carray"), { recursive: true });
  cpSync(findFixture("ctable/bcolz-mixed").file, at("table"), { recursive: true });
  cpSync(findFixture("blz-superchunk/f8-default").file, at("foreign"), { recursive: true });
  const root = await createArray(at("root"), { dtype: "<f8", attrs: { kept: 1 } });
  await root.append(new Float64Array(150));
  await root.close();
  writeFileSync(at("more.npy"), npy([5], doubles(0, 5)));
  writeFileSync(at("text"), "0123456789".repeat(1000));
  await runCli(["compress", at("text"), at("text.blp"), "-z", "1500"]);
});
describe("append", () => {
  it.each(["carray", "root", "foreign"])(
    "prints what it did, and with --dry-run what it would do: %s",
    async (name) => {
      const archive = (await openArchive(at(name))) as ArrayArchive;
      const [rowsBefore = 0] = archive.shape;
      await close(archive);
      const done = { path: at(name), rowsBefore, rowsAppended: 5, rows: rowsBefore + 5 };
      expect(await json(["append", at(name), at("more.npy"), "--dry-run"])).toEqual({
        ...done,
        dryRun: true,
      });
      expect(await json(["append", at(name), at("more.npy")])).toEqual({ ...done, dryRun: false });
      expect(await tailOf(name, 5)).toEqual([0, 1, 2, 3, 4]);
      const { err } = await runCli(["append", at(name), at("more.npy"), "--dry-run"]);
      expect(err).toBe(
        `superchunk: ${at(name)}: 5 rows would be appended, ${(rowsBefore + 10).toLocaleString("en")} rows then\n`,
      );
      expect((await runCli(["append", at(name), "-", "--dry-run"], { stdin: doubles(0, 2) })).code).toBe(2);
      expect(await tailOf(name, 1)).toEqual([4]);
    },
  );

  it("prints what it did to a table, and with --dry-run what it would do", async () => {
    const id = `id=${at("id.npy")}`;
    const name = `name=${at("name.npy")}`;
    const price = `price=${at("more.npy")}`;
    writeFileSync(at("id.npy"), npy([5], Buffer.from(Int32Array.of(1, 2, 3, 4, 5).buffer), "C", "<i4"));
    writeFileSync(at("name.npy"), npy([5], Buffer.from("a\0\0\0\0".repeat(5)), "C", "|S5"));
    const done = { path: at("table"), rowsBefore: 90, rowsAppended: 5, rows: 95 };
    expect(await json(["append", at("table"), id, name, price, "--dry-run"])).toEqual({
      ...done,
      dryRun: true,
    });
    expect(await json(["append", at("table"), id, name, price])).toEqual({ ...done, dryRun: false });
    expect((await runCli(["append", at("table"), id, name, "--dry-run"])).code).toBe(2);
    writeFileSync(at("id.npy"), npy([4], Buffer.from(Int32Array.of(1, 2, 3, 4).buffer), "C", "<i4"));
    const uneven = await runCli(["append", at("table"), id, name, price, "--dry-run"]);
    expect([uneven.code, uneven.err]).toEqual([2, expect.stringContaining('"id" 4 rows, "name" 5')]);
  });

  it.each([
    ["a table", "--as=ctable", "t.csv"],
    ["an array with columns", "--as=superchunk", "t.csv"],
    ["an array of structs", "--no-columns", "t.csv"],
  ])("--dry-run to %s (%s) refuses a value that does not fit, as the append does", async (_, kind, file) => {
    expect(
      (await runCli(["create", at("t"), kind, "--dtype", '[["a","<i2"],["s","<U1"]]', "--shape", "1"])).code,
    ).toBe(0);
    writeFileSync(at(file), "s,a\nx,1\nlong,2\n");
    const [dry, real] = [
      await runCli(["append", at("t"), at(file), "--dry-run"]),
      await runCli(["append", at("t"), at(file)]),
    ];
    expect([dry.code, dry.err]).toEqual([2, expect.stringContaining('line 3, column "s": the value "long"')]);
    expect([real.code, real.err]).toEqual([
      2,
      expect.stringContaining('line 3, column "s": the value "long"'),
    ]);
    writeFileSync(at(file), "s,a\nx,1\n");
    expect(await json(["append", at("t"), at(file), "--dry-run"])).toMatchObject({
      rowsAppended: 1,
      rows: 2,
    });
  });

  it.each([[[]], [["--in-place"]]])("reports what is copied in a Bloscpack file %j", async (how) => {
    const argv = ["append", at("text.blp"), at("text"), ...how];
    const bytes = readFileSync(at("text.blp"));
    const dry = (await json([...argv, "--dry-run"])) as object;
    expect(readFileSync(at("text.blp")).equals(bytes)).toBe(true);
    expect(dry).toEqual({
      path: at("text.blp"),
      dryRun: true,
      nchunks: 14,
      nbytes: 20_000,
      bytesAppended: 10_000,
      chunksAdded: 7,
      chunksCopied: how.length === 0 ? 6 : 0,
      bytesCopied: how.length === 0 ? expect.any(Number) : 0,
    });
    expect(await json(argv)).toEqual({ ...dry, dryRun: false });
    const { err } = await runCli([...argv, "--dry-run"]);
    expect(err).toMatch(
      /9\.77 KiB would be appended, \d+ new chunks, 29\.3 KiB then; \d+ chunks? \(.*\) would be copied/,
    );
  });

  it("a dry run refuses whatever the append would refuse", async () => {
    await runCli(["compress", at("text"), at("full.blp"), "-z", "1500", "--max-app-chunks", "2"]);
    const dry = await runCli(["append", at("full.blp"), at("text"), "--dry-run"]);
    expect([dry.code, dry.err]).toEqual([1, expect.stringContaining("room for 2 more chunks, but 7")]);
    expect((await runCli(["append", at("full.blp"), at("text"), "--dry-run", "--grow"])).code).toBe(0);
    const inPlace = await runCli(["append", at("full.blp"), at("text"), "--dry-run", "--grow", "--in-place"]);
    expect([inPlace.code, inPlace.err]).toEqual([1, expect.stringContaining("Append without --in-place")]);
    expect((await runCli(["append", at("root"), at("text"), "--dry-run"])).code).toBe(0);
    writeFileSync(at("odd"), Buffer.alloc(12));
    expect((await runCli(["append", at("root"), at("odd"), "--dry-run"])).code).toBe(2);
  });

  it.each(["carray", "root"])("takes a .npy file or raw rows from stdin: %s", async (name) => {
    await json(["append", at(name), "-"], doubles(7, 2));
    expect(await tailOf(name, 2)).toEqual([7, 8]);
    await json(["append", at(name), "-"], npy([3], doubles(10, 3)));
    expect(await tailOf(name, 3)).toEqual([10, 11, 12]);
    const short = await runCli(["append", at(name), "-"], { stdin: npy([9], doubles(10, 3)) });
    expect([short.code, short.err]).toEqual([3, expect.stringContaining("send it again")]);
    const odd = await runCli(["append", at(name), "-"], { stdin: Buffer.alloc(20) });
    expect([odd.code, odd.err]).toEqual([
      2,
      "superchunk: stdin: the bytes end inside a row: 4 are left over, but a row has 8; nothing was appended\n",
    ]);
    expect(await tailOf(name, 3)).toEqual([10, 11, 12]);
    expect((await runCli(["verify", at(name)])).code).toBe(0);
  });
});

describe("values in Fortran order", () => {
  const columns = Buffer.concat([doubles(0, 4), doubles(10, 4), doubles(20, 4)]);
  const rows = [0, 1, 2, 3].map((i) => [i, 10 + i, 20 + i]);

  it("are created, appended and set in C order, from a file and from stdin", async () => {
    writeFileSync(at("f.npy"), npy([4, 3], columns, "F"));
    await json(["create", at("a"), "--from", at("f.npy")]);
    expect(await tailOf("a", 4)).toEqual(rows);
    await json(["create", at("b"), "--from", "-"], readFileSync(at("f.npy")));
    expect(await tailOf("b", 4)).toEqual(rows);
    await json(["append", at("b"), at("f.npy")]);
    await json(["append", at("b"), "-"], readFileSync(at("f.npy")));
    expect(await tailOf("b", 12)).toEqual([...rows, ...rows, ...rows]);
    await json(["set", at("b"), "--slice", "2:6", at("f.npy")]);
    expect(await tailOf("b", 12)).toEqual([...rows.slice(0, 2), ...rows, ...rows.slice(2), ...rows]);
    await runCli(["compress", at("f.npy"), at("c.blp")]);
    const kept = (await openArchive(at("c.blp"))) as ArrayArchive;
    expect([kept.order, kept.shape]).toEqual(["F", [4, 3]]);
    await close(kept);
  });
});

describe("resize, attrs", () => {
  it.each(["carray", "root", "table"])("print what they did: %s", async (name) => {
    const archive = await openArchive(at(name));
    const rowsBefore = archive.kind === "table" ? archive.length : ((archive as ArrayArchive).shape[0] ?? 0);
    const { attrs } = archive;
    await close(archive);
    const done = { path: at(name), dryRun: false };
    expect(await json(["resize", at(name), "200"])).toEqual({ ...done, rowsBefore, rows: 200 });
    expect(await json(["resize", at(name), "20"])).toEqual({ ...done, rowsBefore: 200, rows: 20 });
    const changed = await json(["attrs", at(name), "--set", "a=1.0", "--set", "b=x"]);
    const now = { ...attrs, a: 1, b: "x" };
    expect(changed).toEqual({ path: at(name), set: { a: 1, b: "x" }, removed: [], attrs: now });
    const { b: _, ...left } = now;
    expect(await json(["attrs", at(name), "--remove", "b"])).toEqual({
      path: at(name),
      set: {},
      removed: ["b"],
      attrs: left,
    });
    expect(await json(["attrs", at(name)])).toEqual(left);
  });

  it("on a terminal, a deletion is announced before it starts", async () => {
    const { err } = await runCli(["delete", at("root"), "--rows", "10:20"], { terminal: true });
    expect(err).toMatch(/10 rows \(10 to 19\) are to be deleted, and 130 rows after them .*rewritten\n/);
  });
});

describe("append --shared", () => {
  it("reports what this process appended, declares the array shared, and accepts only arrays of superchunks", async () => {
    await (await createArray(at("many"), { dtype: "<f8", chunkLength: 8 })).close();
    for (const first of [0, 5])
      expect(await json(["append", at("many"), "-", "--shared", "--lease", "60"], doubles(first, 5))).toEqual(
        {
          path: at("many"),
          dryRun: false,
          rowsBefore: first,
          rowsAppended: 5,
          rows: first + 5,
        },
      );
    expect(await tailOf("many", 6)).toEqual([4, 5, 6, 7, 8, 9]);
    const storage = JSON.parse(readFileSync(join(at("many"), "meta/storage"), "utf8"));
    expect(storage.superchunk.writeFeatures).toEqual(["shared"]);
    const wrong = await runCli(["append", at("many"), "-", "--lease", "60"], { stdin: doubles(0, 1) });
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("--lease is for --shared")]);
  });
});

it("an interruption after the rows are appended is not an exit code that makes a caller append them again", async () => {
  await createArray(at("indexed"), { dtype: "<f8", chunkLength: 10 }).then((array) => array.close());
  writeFileSync(at("rows.bin"), doubles(0, 100));
  expect((await runCli(["append", at("indexed"), at("rows.bin")])).code).toBe(0);
  expect((await runCli(["index", at("indexed")])).code).toBe(0);
  const controller = new AbortController();
  const onErr = (): void => controller.abort(new Interruption("SIGTERM"));
  const { code, err } = await runCli(["append", at("indexed"), at("rows.bin")], {
    signal: controller.signal,
    onErr,
  });
  expect([code, err]).toEqual([
    0,
    expect.stringMatching(/100 rows appended[\s\S]*the rows are appended, but the index .*: interrupted\n$/),
  ]);
  expect(await json(["info", at("indexed")])).toMatchObject({ shape: [200] });
});
