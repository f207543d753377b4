/** `create`, `set`, `delete`, `compact` and `repair`, on arrays of superchunks. */
import {
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { Interruption } from "../../cli/failure.ts";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { lockFromAfar } from "./foreign-lock.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(() => {
  folder = temporaryFolder();
});
const doubles = (count: number): Uint8Array =>
  new Uint8Array(Float64Array.from({ length: count }, (_, i) => i).buffer);

/** A `.npy` file, version 1.0, as numpy writes it. */
function npy(descr: string, shape: readonly number[], values: Uint8Array, order = "False"): Uint8Array {
  const dims = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const dict = `{'descr': ${descr}, 'fortran_order': ${order}, 'shape': ${dims}, }`;
  const header = `${dict.padEnd(128 - 10 - 1)}\n`;
  const bytes = new Uint8Array(128 + values.length);
  bytes.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, header.length, 0]);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(values, 128);
  return bytes;
}

async function ok(argv: readonly string[], stdin?: Uint8Array): Promise<string> {
  const { code, out, err } = await runCli(argv, stdin === undefined ? {} : { stdin });
  expect([code, argv[0], code === 0 ? "" : err]).toEqual([0, argv[0], ""]);
  return argv.includes("--json") || argv[0] === "cat" || argv[0] === "attrs" ? out : err;
}

/** The array's values, all of it verified. */
async function valuesOf(name: string): Promise<number[]> {
  await ok(["verify", at(name)]);
  const array = (await open(at(name))) as ArrayArchive;
  const bytes = await array.getBytes();
  await array.close();
  return [...new Float64Array(bytes.slice().buffer)];
}

const countTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** Every file below a folder with its bytes. */
function snapshot(name: string): Record<string, string> {
  const files = readdirSync(at(name), { recursive: true, withFileTypes: true }).filter((e) => e.isFile());
  return Object.fromEntries(
    files.map((e) => [join(e.parentPath, e.name), readFileSync(join(e.parentPath, e.name)).toString("hex")]),
  );
}

describe("create", () => {
  it("takes dtype, shape and rows from a .npy file, given as a file or on stdin", async () => {
    const bytes = npy("'<f8'", [50, 2], doubles(100));
    writeFileSync(at("x.npy"), bytes);
    const err = await ok(["create", at("file"), "--from", at("x.npy"), "--chunklen", "7"]);
    expect(err).toMatch(/file: <f8, shape 50 x 2, 800 bytes to .*, ratio [\d.]+\n$/);
    await ok(["create", at("stdin"), "--from", "-"], bytes);
    for (const name of ["file", "stdin"]) {
      expect(await valuesOf(name)).toEqual(countTo(100));
      expect(((await open(at(name))) as ArrayArchive).shape).toEqual([50, 2]);
    }
  });

  it("honours every option", async () => {
    const out = await ok([
      "create",
      at("a"),
      "--dtype",
      "<i4",
      "--shape",
      "5,3",
      "--dflt",
      "-7",
      "--chunklen",
      "2",
      "--superchunklen",
      "2",
      "--checksum",
      "sha256",
      "--codec",
      "zlib",
      "--clevel",
      "9",
      "--shuffle",
      "noshuffle",
      "--attr",
      'unit={"of": [1, null]}',
      "--attr",
      "name=plain text",
      "--json",
    ]);
    expect(JSON.parse(out)).toMatchObject({
      path: at("a"),
      dtype: "<i4",
      shape: [5, 3],
      chunkLength: 2,
      superchunkLength: 2,
      nbytes: 60,
      attrs: { unit: { of: [1, null] }, name: "plain text" },
    });
    expect(await ok(["cat", at("a"), "--format", "csv", "--slice", "4"])).toContain("-7");
    expect(JSON.parse((await runCli(["info", at("a"), "--json"])).out)).toMatchObject({
      checksum: "sha256",
      chunks: { cname: "zlib", clevel: 9, shuffle: "noshuffle", typesize: 4, chunkLength: 2 },
      attrs: { name: "plain text" },
    });
  });

  it("takes raw bytes of a given dtype, with a given number of rows or as many as arrive", async () => {
    writeFileSync(at("raw"), doubles(12));
    await ok(["create", at("a"), "--from", at("raw"), "--dtype", "<f8", "--shape", "-1,3"]);
    expect(((await open(at("a"))) as ArrayArchive).shape).toEqual([4, 3]);
    await ok(["create", at("b"), "--from", "-", "--dtype", "float64", "--shape", "12"], doubles(12));
    expect(await valuesOf("b")).toEqual(countTo(12));
  });

  it("does not take a .npy file for raw bytes of a given dtype, or an empty name for a folder", async () => {
    const bytes = npy("'<f8'", [3], doubles(3));
    writeFileSync(at("a.npy"), bytes);
    for (const [from, stdin] of [
      [at("a.npy"), undefined],
      ["-", bytes],
    ] as const) {
      const options = stdin === undefined ? {} : { stdin };
      const { code, err } = await runCli(["create", at("x"), "--from", from, "--dtype", "<i4"], options);
      expect([code, err]).toEqual([2, expect.stringContaining("leave --dtype out")]);
    }
    expect((await runCli(["create", "", "--from", at("a.npy")])).code).toBe(2);
    const named = await runCli(["create", at("out.parquet"), "--dtype", "<i4"]);
    expect([named.code, named.err]).toEqual([
      2,
      expect.stringContaining("create makes archives, which are folders, not .parquet files") as string,
    ]);
    for (const [name, options, why] of [
      ["a.zarr", [], "add --zarr"],
      ["a.zarr/", ["--as", "carray"], "add --zarr"],
      ["a.blp", [], "superchunk compress"],
      ["A.B2ND", [], "not .b2nd"],
      ["a.h5", [], "not .h5"],
    ] as const) {
      const { code, err } = await runCli(["create", at(name), "--dtype", "<i4", ...options]);
      expect([name, code, err]).toEqual([name, 2, expect.stringContaining(why)]);
      expect(existsSync(at(name))).toBe(false);
    }
    expect(existsSync(at("x"))).toBe(false);
  });

  it("refuses a .npy file under another name as rows, and an invalid slice, naming each", async () => {
    writeFileSync(at("x.npy"), npy("'<f8'", [3], doubles(3)));
    copyFileSync(at("x.npy"), at("x.raw"));
    await ok(["create", at("a"), "--from", at("x.npy")]);
    const appended = await runCli(["append", at("a"), at("x.raw")]);
    expect([appended.code, appended.err]).toEqual([2, expect.stringContaining("rename it, or give --bytes")]);
    const set = await runCli(["set", at("a"), "--slice", "1;2", "--value", "0"]);
    expect([set.code, set.err]).toEqual([2, expect.stringContaining('--slice: "1;2" is neither an index')]);
    expect(await valuesOf("a")).toEqual(countTo(3));
  });

  it("refuses a table under another name or from stdin as rows, and takes its bytes if told to", async () => {
    writeFileSync(at("x.npy"), npy("'|u1'", [3], Uint8Array.of(0, 1, 2)));
    await ok(["create", at("a"), "--from", at("x.npy")]);
    for (const magic of ["PAR1", "ARROW1"]) {
      const table = Buffer.from(`${magic}****`);
      writeFileSync(at("x.pq"), table);
      const runs = [
        await runCli(["append", at("a"), at("x.pq")]),
        await runCli(["append", at("a"), "-"], { stdin: table }),
        await runCli(["create", at("b"), "--from", "-"], { stdin: table }),
      ];
      for (const { code, err } of runs)
        expect([code, err]).toEqual([2, expect.stringContaining("it is a table in ") as string]);
      await ok(["append", at("a"), at("x.pq"), "--bytes"]);
    }
    expect(((await open(at("a"))) as ArrayArchive).shape).toEqual([3 + 8 + 10]);
  });

  it("makes an empty array that rows can be appended to", async () => {
    await ok(["create", at("a"), "--dtype", "<f8"]);
    await ok(["append", at("a"), "-"], doubles(9));
    expect(await valuesOf("a")).toEqual(countTo(9));
  });

  it("counts only its own rows if another writer is faster", async () => {
    await ok(["create", at("a"), "--dtype", "<f8"]);
    async function* late(): AsyncGenerator<Uint8Array> {
      await ok(["append", at("a"), "-"], doubles(4));
      yield doubles(5);
    }
    const { code, err } = await runCli(["append", at("a"), "-"], { stdin: late() });
    expect([code, err]).toEqual([0, expect.stringContaining("5 rows appended, 9 rows now")]);
  });

  it("keeps rows that have no bytes, and appends more of them", async () => {
    writeFileSync(at("x.npy"), npy("'<f8'", [3, 0, 2], new Uint8Array(0)));
    await ok(["create", at("a"), "--from", at("x.npy")]);
    expect(await ok(["append", at("a"), at("x.npy"), "--dry-run"])).toContain("3 rows would be appended, 6");
    expect(await ok(["append", at("a"), at("x.npy")])).toContain("3 rows appended, 6 rows now");
    expect(JSON.parse(await ok(["info", at("a"), "--json"]))).toMatchObject({ shape: [6, 0, 2], nbytes: 0 });
    await ok(["verify", at("a")]);
    await ok(["create", at("raw"), "--from", "-", "--dtype", "<f8", "--shape", "4,0"], new Uint8Array(0));
    expect(JSON.parse(await ok(["info", at("raw"), "--json"]))).toMatchObject({ shape: [4, 0] });
  });

  it.each(["superchunk", "carray"])("names the file that is in the way of the folder: %s", async (kind) => {
    writeFileSync(at("file"), "x");
    for (const name of ["file", "file/below/it"]) {
      const argv = ["create", at(name), "--as", kind, "--dtype", "<f8", "--shape", "3"];
      const { code, err } = await runCli(argv);
      expect([code, err]).toEqual([
        1,
        `superchunk: ${at("file")}: this is a file, but a folder is needed; choose another path, or move the file away\n`,
      ]);
    }
    expect(readFileSync(at("file"), "utf8")).toBe("x");
  });

  it("names a link to where nothing is, as to a disk that is not mounted, in the place of a folder", async () => {
    symlinkSync(at("unmounted"), at("link"));
    await ok(["create", at("array"), "--dtype", "<f8", "--shape", "3"]);
    for (const argv of [
      ["create", at("link"), "--dtype", "<f8"],
      ["create", at("link/below"), "--dtype", "<f8"],
      ["convert", at("array"), at("link")],
    ]) {
      const { code, err } = await runCli(argv);
      expect([code, err]).toEqual([
        1,
        `superchunk: ${at("link")}: a symbolic link to ${at("unmounted")}, where nothing is; bring that folder back, or choose another path\n`,
      ]);
    }
    expect(readlinkSync(at("link"))).toBe(at("unmounted"));
  });

  it("leaves nothing when making an array of default values is interrupted", async () => {
    const control = new AbortController();
    const running = runCli(["create", at("a"), "--dtype", "<f8", "--shape", "1000000000000"], {
      signal: control.signal,
    });
    await expect.poll(() => existsSync(at("a/data/__3__.bin"))).toBe(true);
    control.abort(new Interruption("SIGINT"));
    expect((await running).code).toBe(130);
    expect(readdirSync(folder)).toEqual([]);
  });

  it("gives each field of a structured dtype its own folder, unless an option says otherwise", async () => {
    const items = new Uint8Array(12 * 3);
    for (let i = 0; i < 3; i++) new DataView(items.buffer).setFloat64(12 * i + 4, i / 2, true);
    writeFileSync(at("s.npy"), npy("[('id', '<i4'), ('v', '<f8')]", [3], items));
    await ok(["create", at("columns"), "--from", at("s.npy")]);
    await ok(["create", at("rows"), "--from", at("s.npy"), "--no-columns"]);
    expect([existsSync(at("columns/data/v")), existsSync(at("rows/data/v"))]).toEqual([true, false]);
    const [a, b] = [
      await ok(["cat", at("columns"), "--format", "csv"]),
      await ok(["cat", at("rows"), "--format", "csv"]),
    ];
    expect([a, a.split("\n")[3]]).toEqual([b, "0,1"]);
  });

  it.each([
    [
      "a truncated .npy file on stdin",
      ["--from", "-"],
      npy("'<f8'", [50], doubles(49)),
      3,
      "header promises 400 bytes",
    ],
    ["more than the header counts", ["--from", "-"], npy("'<f8'", [50], doubles(51)), 3, "there are more"],
    ["no .npy file on stdin", ["--from", "-"], doubles(50), 3, "stdin"],
    ["nothing on stdin", ["--from", "-"], new Uint8Array(0), 3, "stdin"],
    [
      "bytes that end inside a row",
      ["--from", "-", "--dtype", "<f8"],
      new Uint8Array(12),
      2,
      "4 are left over, but a row has 8; nothing was made",
    ],
    [
      "a row count other than the given one",
      ["--from", "-", "--dtype", "<f8", "--shape", "9"],
      doubles(8),
      2,
      "there are 8 rows, but --shape says 9",
    ],
    ["Python objects", ["--from", "-"], npy("'|O'", [5], doubles(5)), 1, "pickles"],
    ["no dtype", [], undefined, 2, "--dtype"],
    ["a wrong dtype", ["--dtype", "<q9"], undefined, 2, "<q9"],
    ["fields that are not JSON", ["--dtype", "[[1"], undefined, 2, "[[1"],
    ["fields that are not JSON", ["--dtype", "[[1"], undefined, 2, "[[1"],
    ["a wrong shape", ["--dtype", "<f8", "--shape", "3,-1"], undefined, 2, "--shape"],
    ["rows to count without input", ["--dtype", "<f8", "--shape", "-1"], undefined, 2, "--from"],
    ["a chunk beyond 2 GiB", ["--dtype", "<f8", "--chunklen", "300000000"], undefined, 1, "fewer rows"],
  ])("leaves nothing behind: %s", async (_, argv, stdin, code, text) => {
    const result = await runCli(["create", at("a"), ...argv], stdin === undefined ? {} : { stdin });
    expect([result.code, result.err]).toEqual([code, expect.stringContaining(text)]);
    expect(result.err.trim()).not.toContain("\n");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("changes nothing that exists: an array, or a folder of other files", async () => {
    await ok(["create", at("a"), "--dtype", "<f8", "--shape", "3"]);
    const before = snapshot("a");
    const again = await runCli(["create", at("a"), "--dtype", "<f8", "--json"]);
    expect([again.code, JSON.parse(again.out).error.code]).toEqual([1, "CONFLICT"]);
    expect(snapshot("a")).toEqual(before);
    mkdirSync(at("mine/meta"), { recursive: true });
    writeFileSync(at("mine/meta/notes.txt"), "mine");
    const broken = ["create", at("mine"), "--from", "-", "--dtype", "<f8"];
    expect((await runCli(broken, { stdin: new Uint8Array(3) })).code).toBe(2);
    expect(readdirSync(at("mine"))).toEqual(["meta"]);
    writeFileSync(at("mine/notes.txt"), "mine");
    expect((await runCli(broken, { stdin: new Uint8Array(8) })).code).toBe(1);
    expect(readdirSync(at("mine")).sort()).toEqual(["meta", "notes.txt"]);
    expect(readdirSync(at("mine/meta"))).toEqual(["notes.txt"]);
  });
});

describe("set", () => {
  beforeEach(async () => {
    await ok(["create", at("a"), "--from", "-", "--dtype", "<f8", "--chunklen", "4"], doubles(20));
    await ok(
      ["create", at("m"), "--from", "-", "--dtype", "<f8", "--shape", "-1,4", "--chunklen", "2"],
      doubles(20),
    );
  });

  it("sets a slice to the values of a .npy file, of raw bytes or of stdin", async () => {
    writeFileSync(at("x.npy"), npy("'<f8'", [3], new Uint8Array(Float64Array.of(-1, -2, -3).buffer)));
    const err = await ok(["set", at("a"), "--slice", "2:8:2", at("x.npy")]);
    expect(err).toMatch(/a: 3 values set, .* written\n$/);
    await ok(
      ["set", at("a"), "--slice", "-2:", "--bytes", "-"],
      new Uint8Array(Float64Array.of(8, 9).buffer),
    );
    await ok(
      ["set", at("a"), "--slice", "0:1", "-"],
      npy("'<f8'", [1], new Uint8Array(Float64Array.of(0.5).buffer)),
    );
    const expected = countTo(20);
    for (const [i, value] of [
      [2, -1],
      [4, -2],
      [6, -3],
      [18, 8],
      [19, 9],
      [0, 0.5],
    ] as const)
      expected[i] = value;
    expect(await valuesOf("a")).toEqual(expected);
  });

  it("sets parts of rows, to many values or to one", async () => {
    writeFileSync(at("x.npy"), npy("'<f8'", [2, 2], new Uint8Array(Float64Array.of(-1, -2, -3, -4).buffer)));
    await ok(["set", at("m"), "--slice", "1:3,1:3", at("x.npy")]);
    expect(
      JSON.parse(await ok(["set", at("m"), "--slice", ":,0", "--value", "NaN", "--json"])),
    ).toMatchObject({ valuesSet: 5 });
    await ok(
      ["set", at("m"), "--slice", "4,3", "--bytes", "-"],
      new Uint8Array(Float64Array.of(0.25).buffer),
    );
    const expected = countTo(20);
    for (const [i, value] of [
      [5, -1],
      [6, -2],
      [9, -3],
      [10, -4],
      [19, 0.25],
    ] as const)
      expected[i] = value;
    for (let row = 0; row < 5; row++) expected[row * 4] = Number.NaN;
    expect(await valuesOf("m")).toEqual(expected);
  });

  it("sets more values than are held in memory at once", async () => {
    const count = 1_200_000; // 9.6 MB
    await ok(["create", at("big"), "--dtype", "<f8", "--shape", String(count)]);
    const values = Float64Array.from({ length: count / 2 }, (_, i) => i + 0.5);
    await ok(["set", at("big"), "--slice", "::2", "--bytes", "-"], new Uint8Array(values.buffer));
    const found = await valuesOf("big");
    expect(found.every((value, i) => value === (i % 2 === 0 ? i / 2 + 0.5 : 0))).toBe(true);
  });

  it("a dry run reports what would be rewritten, refuses what set would refuse, and changes nothing", async () => {
    await ok(["compact", at("a"), "--superchunklen", "2"]);
    const before = snapshot("a");
    const dry = ["set", at("a"), "--slice", "3:17:8", "--value", "-1", "--dry-run"];
    expect(await ok(dry)).toBe(
      `superchunk: ${at("a")}: 2 values would be set, and 2 chunks of 2 superchunks (64 bytes uncompressed) rewritten\n`,
    );
    expect(await ok([...dry, "--in-place"])).toContain("(64 bytes uncompressed) changed in place");
    const plan = { valuesSet: 2, chunksRewritten: 2, nbytesRewritten: 64, superchunks: 2 };
    expect(JSON.parse(await ok([...dry, "--json"]))).toEqual({
      path: at("a"),
      dryRun: true,
      ...plan,
      bytesWritten: 0,
    });
    for (const [slice, text] of [
      ["20", "outside of dimension 0"],
      ["0:1,2", "has 2 entries, the values have 1 dimension\n"],
    ])
      expect(
        await runCli(["set", at("a"), "--slice", slice ?? "", "--value", "1", "--dry-run"]),
      ).toMatchObject({
        code: 2,
        err: expect.stringContaining(text ?? ""),
      });
    const short = ["set", at("a"), "--slice", "0:9", "--bytes", "-", "--dry-run"];
    expect((await runCli(short, { stdin: doubles(8) })).err).toContain("expected 9 values");
    expect((await runCli(["set", at("a"), "--slice", "0", "--value", "x", "--dry-run"])).code).toBe(2);
    const list = await runCli(["set", at("a"), "--slice", "0:2", "--value", "[1,2]"]);
    expect([list.code, list.err]).toEqual([2, expect.stringContaining("give different ones as a .npy file")]);
    expect(snapshot("a")).toEqual(before);

    linkSync(at("a/data/__1__.bin"), at("other-name"));
    expect(await runCli([...dry, "--in-place"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("2 names"),
    });
    rmSync(at("other-name"));
    const done = JSON.parse(await ok(dry.map((word) => (word === "--dry-run" ? "--json" : word))));
    expect(done).toMatchObject({ dryRun: false, ...plan });
    expect(done.bytesWritten).toBeGreaterThan(0);
  });

  it("sets all selected items to the one value of a file", async () => {
    await ok(["set", at("a"), "--slice", "1:", "--bytes", "-"], new Uint8Array(Float64Array.of(3).buffer));
    expect(await valuesOf("a")).toEqual([0, ...Array(19).fill(3)]);
  });

  it("text needs no quotes if the dtype is text, and numbers are checked", async () => {
    await ok(["create", at("t"), "--dtype", "<U4", "--shape", "2"]);
    await ok(["set", at("t"), "--slice", "0", "--value", "123"]);
    await ok(["set", at("t"), "--slice", "1", "--value", "äö"]);
    expect(await ok(["cat", at("t"), "--format", "csv"])).toBe("value\n123\näö\n");
    await ok(["create", at("i"), "--dtype", "|u1", "--shape", "2"]);
    expect((await runCli(["set", at("i"), "--slice", "0", "--value", "256"])).code).toBe(2);
  });

  it("text in S is UTF-8, which text and CSV print and --where and append take; JSON has a character for each byte", async () => {
    await ok(["create", at("s"), "--dtype", '[["name","|S6"]]', "--shape", "2"]);
    const bytes = Uint8Array.of(0xc3, 0xa9, 0, 0, 0, 0, 0xe9, 0x78, 0, 0, 0, 0);
    await ok(["set", at("s"), "--slice", ":", "--bytes", "-"], bytes);
    writeFileSync(at("more.csv"), "name\n日本\n");
    await ok(["append", at("s"), at("more.csv")]);
    const formats = { csv: "name\né\néx\n日本\n", ndjson: '["Ã©"]\n["éx"]\n["æ\u0097¥æ\u009c¬"]\n' };
    for (const [format, text] of Object.entries(formats))
      expect(await ok(["cat", at("s"), "--format", format])).toBe(text);
    expect(await ok(["cat", at("s")])).toBe("name\né\néx\n日本\n");
    expect(await ok(["cat", at("s"), "--where", "name = 日本", "--format", "csv"])).toBe("name\n日本\n");
    const raw = await ok(["cat", at("s"), "--slice", "2", "--column", "name", "--format", "raw"]);
    expect(raw).toBe("日本");
    writeFileSync(at("more.csv"), "name\na\n日本語\n");
    const { code, err } = await runCli(["append", at("s"), at("more.csv")]);
    expect([code, err]).toEqual([
      2,
      expect.stringContaining('line 3, column "name": the text takes 9 bytes of UTF-8, and a string'),
    ]);
    await ok(["create", at("one"), "--dtype", "|S2", "--shape", "1"]);
    await ok(["set", at("one"), "--slice", "0", "--value", "é"]);
    expect(await ok(["cat", at("one"), "--format", "raw"])).toBe("é");
  });

  it("takes dates as cat prints them, if the unit can express them", async () => {
    await ok(["create", at("d"), "--dtype", "<M8[ns]", "--shape", "3", "--dflt", "2020-02-29"]);
    await ok(["set", at("d"), "--slice", "0", "--value", "1969-12-31T23:59:59.999999999"]);
    await ok(["set", at("d"), "--slice", "1", "--value", "NaT"]);
    const printed = await ok(["cat", at("d"), "--format", "csv"]);
    expect(printed).toBe("value\n1969-12-31T23:59:59.999999999\nNaT\n2020-02-29T00:00:00.000000000\n");
    const { code, err } = await runCli(["set", at("d"), "--slice", "0", "--value", "2021-02-29"]);
    expect([code, err]).toEqual([
      2,
      expect.stringContaining(`${at("d")}: "2021-02-29" is not a date in units of ns`),
    ]);
  });

  it("names the array if a value or an index does not fit, and does not turn a large number into infinity", async () => {
    await ok(["create", at("s"), "--dtype", "<f4", "--shape", "2"]);
    for (const [slice, value, text] of [
      ["0", "1e39", "the value 1e+39 does not fit the dtype: expected a number that a float of 4 bytes has"],
      ["0", "x", 'the value "x" does not fit'],
      ["7", "1", "index 7 is outside of dimension 0"],
    ]) {
      const { code, err } = await runCli(["set", at("s"), "--slice", slice ?? "", "--value", value ?? ""]);
      expect([code, err]).toEqual([2, expect.stringContaining(`${at("s")}: ${text}`)]);
    }
    await ok(["set", at("s"), "--slice", "0", "--value", "3.4028235e38"]);
    await ok(["set", at("s"), "--slice", "1", "--value", "Infinity"]);
    expect(await ok(["cat", at("s"), "--format", "csv"])).toBe("value\n3.4028235e+38\ninf\n");
    await ok(["set", at("a"), "--slice", "0", "--value", "36893488147419103232"]);
    expect((await valuesOf("a"))[0]).toBe(2 ** 65);
  });

  it.each([
    ["too few values", ["--slice", "0:9", "--bytes", "-"], doubles(8), "expected 9 values"],
    ["too many values", ["--slice", "0:2", "--bytes", "-"], doubles(30), "expected 2 values"],
    ["half a value", ["--slice", "0:2", "--bytes", "-"], new Uint8Array(12), "expected 2 values"],
    ["nothing", ["--slice", "0:2", "--bytes", "-"], new Uint8Array(0), "expected 2 values"],
    ["another shape", ["--slice", "0:4", "-"], npy("'<f8'", [2, 2], doubles(4)), "[2, 2], but [4]"],
    ["another dtype", ["--slice", "0:4", "-"], npy("'<i8'", [4], doubles(4)), "<i8"],
    ["an index outside", ["--slice", "20", "--value", "1"], undefined, "20"],
    ["values twice", ["--slice", "0", "--value", "1", "-"], doubles(1), "either as INPUT or with --value"],
    ["no values", ["--slice", "0"], undefined, "either as INPUT or with --value"],
    ["an invalid slice", ["--value", "1"], undefined, "--slice"],
  ])("changes nothing and ends with 2: %s", async (_, argv, stdin, text) => {
    const before = snapshot("a");
    const result = await runCli(["set", at("a"), ...argv], stdin === undefined ? {} : { stdin });
    expect([result.code, result.err]).toEqual([2, expect.stringContaining(text)]);
    expect(await valuesOf("a")).toEqual(countTo(20));
    expect(snapshot("a")).toEqual(before);
  });
});

describe("delete", () => {
  beforeEach(() => ok(["create", at("a"), "--from", "-", "--dtype", "<f8", "--chunklen", "4"], doubles(20)));

  it("removes rows, and reports how much was rewritten", async () => {
    const before = snapshot("a");
    const plan = JSON.parse(await ok(["delete", at("a"), "--rows", "3:9", "--dry-run", "--json"]));
    expect(plan).toEqual({
      path: at("a"),
      dryRun: true,
      start: 3,
      end: 9,
      rowsBefore: 20,
      rows: 14,
      rowsDeleted: 6,
      rowsRewritten: 11,
      nbytesRewritten: 88,
      bytesWritten: 0,
    });
    expect(await ok(["delete", at("a"), "--rows", "3:9", "--dry-run"])).toContain(
      "6 rows (3 to 8) would be deleted, and 11 rows after them (88 bytes uncompressed) rewritten",
    );
    expect(snapshot("a")).toEqual(before);
    expect(await ok(["delete", at("a"), "--rows", "3:9"])).toMatch(
      /6 rows \(3 to 8\) were deleted.*14 rows now\n$/,
    );
    expect(await valuesOf("a")).toEqual(countTo(20).filter((i) => i < 3 || i > 8));
  });

  it.each([
    ["-5:", countTo(15), 0],
    ["7", countTo(20).filter((i) => i !== 7), 12],
    ["-1", countTo(19), 0],
    [":", [], 0],
    ["4:4", countTo(20), 0],
    [":-2", [18, 19], 2],
  ])("rows %s", async (rows, left, rewritten) => {
    const report = JSON.parse(await ok(["delete", at("a"), "--rows", rows, "--json"]));
    expect([report.rows, report.rowsRewritten]).toEqual([left.length, rewritten]);
    expect(await valuesOf("a")).toEqual(left);
  });

  it("uses the singular for one row", async () => {
    const dry = await ok(["delete", at("a"), "--rows", "4", "--dry-run"]);
    expect(dry).toContain("a: 1 row (4) would be deleted, and 15 rows after it");
    expect(await ok(["delete", at("a"), "--rows", "4"])).toContain("a: 1 row (4) was deleted, and 15 rows");
  });

  it.each(["15:21", "9:3", "-21:", "::2", "x", "1,2"])(
    "refuses rows %s with 2, with and without --dry-run",
    async (rows) => {
      for (const argv of [["--dry-run"], []])
        expect((await runCli(["delete", at("a"), "--rows", rows, ...argv])).code).toBe(2);
      expect(await valuesOf("a")).toEqual(countTo(20));
    },
  );
});

describe("compact", () => {
  it("leaves full superchunks and one partial last one, and says before how much it will write", async () => {
    await ok(["create", at("a"), "--dtype", "<f8", "--chunklen", "2", "--superchunklen", "2"]);
    await ok(["append", at("a"), "-"], doubles(20));
    await ok(["set", at("a"), "--slice", "5", "--value", "-1"]);
    const before = snapshot("a");
    const plan = JSON.parse(await ok(["compact", at("a"), "--dry-run", "--json"]));
    expect(plan).toMatchObject({ isRecoded: false, superchunks: 5, superchunksWritten: 1 });
    expect(snapshot("a")).toEqual(before);
    expect(await ok(["compact", at("a"), "--dry-run"])).toContain("1 of 5 superchunks would be rewritten");
    await ok(["compact", at("a")]);
    expect(await ok(["compact", at("a"), "--dry-run"])).toContain("nothing to do");
    expect(readdirSync(at("a/data")).length).toBe(5);
    expect(await valuesOf("a")).toEqual(countTo(20).map((i) => (i === 5 ? -1 : i)));
  });

  it("encodes everything again with other settings", async () => {
    await ok(["create", at("a"), "--from", "-", "--dtype", "<f8", "--chunklen", "4"], doubles(1000));
    expect(await ok(["compact", at("a"), "--codec", "zstd", "--dry-run"])).toContain(
      "all of its 1 superchunk",
    );
    const argv = [
      "--codec",
      "zstd",
      "--clevel",
      "9",
      "--shuffle",
      "bitshuffle",
      "--chunklen",
      "256",
      "--checksum",
      "adler32",
    ];
    const report = JSON.parse(await ok(["compact", at("a"), ...argv, "--json"]));
    expect(report.cbytes).toBeLessThan(report.cbytesBefore);
    expect(JSON.parse((await runCli(["info", at("a"), "--json"])).out)).toMatchObject({
      checksum: "adler32",
      chunks: { cname: "zstd", clevel: 9, shuffle: "bitshuffle", chunkLength: 256 },
    });
    expect(await valuesOf("a")).toEqual(countTo(1000));
    expect((await runCli(["compact", at("a"), "--chunklen", "999999999", "--dry-run"])).code).toBe(1);
  });
});

describe("repair", () => {
  beforeEach(() =>
    ok(
      [
        "create",
        at("a"),
        "--from",
        "-",
        "--dtype",
        "<f8",
        "--chunklen",
        "4",
        "--superchunklen",
        "2",
        "--attr",
        "k=1",
      ],
      doubles(20),
    ),
  );

  it("counts whole chunks again, into a copy, and ends with 3 if rows are lost", async () => {
    const files = readdirSync(at("a/data")).sort();
    truncateSync(at(`a/data/${files.at(-1)}`), 30);
    const before = snapshot("a");
    const dry = await runCli(["repair", at("a"), "--dry-run", "--holes", "cut", "--json"]);
    expect([dry.code, JSON.parse(dry.out)]).toEqual([
      3,
      expect.objectContaining({ destination: null, dryRun: true, rows: 16, rowsBefore: 20 }),
    ]);
    expect((await runCli(["repair", at("a"), "--dry-run", "--holes", "cut"])).err).toContain(
      "16 rows would be there, 20 rows now",
    );
    for (const argv of [["--dry-run"], ["--in-place"], [at("b")]]) {
      const { code, err } = await runCli(["repair", at("a"), ...argv]);
      expect([code, err]).toEqual([
        3,
        expect.stringMatching(/rows 16 to 19.*\n.*1 chunk is missing or damaged/),
      ]);
    }
    expect([snapshot("a"), existsSync(at("b"))]).toEqual([before, false]);
    expect(snapshot("a")).toEqual(before);
    const { code, err } = await runCli(["repair", at("a"), at("b"), "--holes", "cut"]);
    expect([code, err]).toEqual([3, expect.stringContaining("lost: rows 16 to 19")]);
    expect(err).toContain(`${at("b")}: 16 rows now, 20 rows before`);
    expect(snapshot("a")).toEqual(before);
    expect(await valuesOf("b")).toEqual(countTo(16));
    expect(JSON.parse(await ok(["attrs", at("b")]))).toEqual({ k: 1 });
  });

  it("repairs in place on request, and recovers rows that are only miscounted", async () => {
    rmSync(at("a/meta/sizes"));
    const { code, out } = await runCli(["repair", at("a"), "--in-place", "--json"]);
    const report = JSON.parse(out);
    expect([code, report.rows, report.rowsBefore, report.lost]).toEqual([0, 20, null, []]);
    expect(report.problems).toEqual([expect.stringContaining("sizes is missing")]);
    expect(await valuesOf("a")).toEqual(countTo(20));
    expect(await ok(["repair", at("a"), "--in-place"])).toContain("nothing was wrong");
  });

  it("requires exactly one destination, a free one, and an array", async () => {
    for (const argv of [[], [at("b"), "--in-place"]])
      expect((await runCli(["repair", at("a"), ...argv])).code).toBe(2);
    await ok(["create", at("c"), "--dtype", "<f8"]);
    expect((await runCli(["repair", at("a"), at("c")])).code).toBe(1);
    expect((await runCli(["repair", at("none"), at("d")])).code).toBe(1);
    expect([existsSync(at("none")), existsSync(at("d"))]).toEqual([false, false]);
  });

  it("repairs only arrays of superchunks in place, and takes nothing else for an archive", async () => {
    writeFileSync(at("file"), "no archive");
    await ok(["create", at("carray"), "--as", "carray", "--dtype", "<f8", "--shape", "1000"]);
    await ok(["create", at("table"), "--as", "ctable", "--dtype", '[["x","<f8"]]', "--shape", "1000"]);
    await ok(["create", at("empty"), "--as", "carray", "--dtype", "<f8"]);
    const before = [snapshot("carray"), snapshot("table")];
    for (const argv of [["--dry-run"], ["--in-place"], [at("d")]]) {
      const { code, err } = await runCli(["repair", at("file"), ...argv]);
      expect([code, err]).toEqual([1, expect.stringContaining("it is not an archive")]);
    }
    for (const name of ["carray", "table", "empty"]) {
      const { code, err } = await runCli(["repair", at(name), "--in-place"]);
      expect([code, err]).toEqual([1, expect.stringContaining("only arrays of superchunks are repaired")]);
      expect((await runCli(["repair", at(name), "--dry-run"])).code).toBe(0);
      expect((await runCli(["repair", at(name), at(`${name}-2`)])).code).toBe(0);
    }
    expect([snapshot("carray"), snapshot("table")]).toEqual(before);
    expect(existsSync(at("d"))).toBe(false);
  });
});

describe("every command that changes an array", () => {
  const COMMANDS: readonly (readonly string[])[] = [
    ["set", "--slice", "0", "--value", "1"],
    ["delete", "--rows", "0"],
    ["compact"],
    ["repair", "--in-place"],
    ["append", "-"],
    ["resize", "3"],
  ];

  it.each(COMMANDS)(
    "%s does not wait for another writer, but refuses unless told to break the lock",
    async (name, ...rest) => {
      await ok(["create", at("a"), "--dtype", "<f8", "--shape", "5"]);
      const host = lockFromAfar(at("a/meta/lock"));
      const argv =
        name === "resize" || name === "append" ? [name, at("a"), ...rest] : [name ?? "", at("a"), ...rest];
      const refused = await runCli(argv);
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining(host)]);
      expect((await runCli([...argv, "--break-lock"])).code).toBe(0);
      expect(existsSync(at("a/meta/lock"))).toBe(false);
    },
  );

  it.each(COMMANDS.slice(0, 3))("%s makes nothing where nothing exists", async (name, ...rest) => {
    expect((await runCli([name ?? "", at("none"), ...rest])).code).toBe(1);
    expect(existsSync(at("none"))).toBe(false);
  });

  it("compact says what to do instead with archives of other programs", async () => {
    cpSync(findFixture("carray/bcolz-dflt-resized").file, at("carray"), { recursive: true });
    const { code, err } = await runCli(["compact", at("carray")]);
    expect([code, err]).toEqual([1, expect.stringContaining("superchunk convert PATH DST --to blz")]);
  });

  it("set and delete change a carray of bcolz, and say with --dry-run what they would do", async () => {
    cpSync(findFixture("carray/bcolz-dflt-resized").file, at("carray"), { recursive: true });
    const json = async (...argv: string[]) => JSON.parse(await ok([...argv, "--json"]));
    const cat = async (): Promise<number[]> =>
      JSON.parse(await ok(["cat", at("carray"), "--format", "json"]));
    const before = await cat();
    const set = ["set", at("carray"), "--slice", "1", "--value", "7"];
    expect(await json(...set, "--dry-run")).toMatchObject({
      valuesSet: 1,
      chunksRewritten: 1,
      bytesWritten: 0,
    });
    expect(await cat()).toEqual(before);
    expect(await json(...set)).toMatchObject({ valuesSet: 1, bytesWritten: expect.any(Number) });
    expect(await json("delete", at("carray"), "--rows", "0:1")).toMatchObject({ rowsDeleted: 1 });
    expect(await cat()).toEqual([7, ...before.slice(2)]);
    expect((await runCli(["verify", at("carray")])).code).toBe(0);
  });

  it("set and delete of a Zarr array do not say that nothing was written", async () => {
    cpSync(findFixture("carray/bcolz-dflt-resized").file, at("source"), { recursive: true });
    await ok(["convert", at("source"), at("a.zarr")]);
    const set = ["set", at("a.zarr"), "--slice", "1", "--value", "7"];
    expect((await runCli(set)).err).toBe(`superchunk: ${at("a.zarr")}: 1 value set\n`);
    expect(JSON.parse(await ok([...set, "--json"]))).not.toHaveProperty("bytesWritten");
    const cut = await runCli(["delete", at("a.zarr"), "--rows", "-1:"]);
    expect(cut.err).toMatch(/ rewritten; \d+ rows now\n$/);
  });

  it.each(["create", "set", "delete", "compact", "repair"])("%s --help has examples", async (name) => {
    expect(await runCli([name, "--help"])).toMatchObject({
      code: 0,
      out: expect.stringContaining(`superchunk ${name} `),
    });
  });
});
