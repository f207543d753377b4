/** Inputs and paths of the wrong kind: each is one error that says what to do. */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { recordKey } from "../../src/format/naming.ts";
import { create } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(async () => {
  folder = temporaryFolder();
  expect((await runCli(["create", at("array"), "--dtype", "<f8", "--shape", "100"])).code).toBe(0);
});
it.skipIf(process.platform === "win32")(
  "a named pipe is not taken for a file, and the error points to stdin",
  async () => {
    execFileSync("mkfifo", [at("pipe")]);
    for (const argv of [
      ["append", at("array"), at("pipe")],
      ["compress", at("pipe"), at("out.blp")],
      ["create", at("other"), "--from", at("pipe"), "--dtype", "<f8"],
    ]) {
      const { code, err } = await runCli(argv);
      expect([argv[0], code, err]).toEqual([argv[0], 2, expect.stringContaining("give - instead")]);
    }
    expect(readdirSync(folder).sort()).toEqual(["array", "pipe"]);
  },
);

it.skipIf(process.platform === "win32")("a name with a backslash is wrong usage, not damage", async () => {
  writeFileSync(at("a\\b.blp"), "");
  for (const argv of [
    ["info", at("a\\b.blp")],
    ["compress", at("a\\b.blp"), at("c\\d.blp")],
    ["convert", at("array"), at("e\\f.npy"), "--to", "npy"],
  ]) {
    const { code, err } = await runCli(argv);
    expect([argv[0], code, err]).toEqual([argv[0], 2, expect.stringContaining("backslash")]);
  }
});

it("Zarr is neither served nor virtualized as an archive, and is distinguished from an empty folder", async () => {
  expect((await runCli(["convert", at("array"), at("copies/array.zarr")])).code).toBe(0);
  for (const path of [at("copies/array.zarr"), at("copies")]) {
    for (const argv of [
      ["serve", path, "--port", "0"],
      ["virtualize", path, at("k.json"), "--to", "kerchunk"],
    ]) {
      const { code, err } = await runCli(argv);
      expect([argv[0], code, err]).toEqual([argv[0], 1, expect.stringContaining("this is Zarr already")]);
      expect(err).toContain('"superchunk view" shows it');
    }
  }
});

it("what a newcomer types first is answered with what to type instead", async () => {
  const array = at("array");
  writeFileSync(at("a.parquet"), `PAR1${"\0".repeat(50)}PAR1`);
  writeFileSync(at("0.parquet"), "");
  writeFileSync(at("3.nc"), `CDF\x02${"\0".repeat(50)}`);
  for (const [argv, code, text] of [
    [[array], 2, `"${array}" is not a command. To see what is there: superchunk info ${array}`],
    [["info", "-"], 1, "write it to a file first"],
    [["convert", array, "-"], 2, '"superchunk cat" prints to stdout'],
    [["convert", array, at("b.zarr"), "--column", "close"], 2, "it has no columns; leave out --column"],
    [["convert", array, at("b.zarr"), "--column", "close", "--dry-run"], 2, "it has no columns; leave out"],
    [["virtualize", array, at("b.json"), "--column", "close"], 2, "it has no columns; leave out --column"],
    [["convert", at("a.parquet"), at("b")], 1, `superchunk create DST --from ${at("a.parquet")} makes one`],
    [["info", at("3.nc")], 1, "it is NetCDF 3 (43 44 46; read it with xarray)"],
    [["create", at("b"), "--from", at("a.parquet")], 3, "not a whole Parquet file; look for another copy"],
    [["create", at("b"), "--from", at("0.parquet")], 3, "not a whole Parquet file; look for another copy"],
  ] as const) {
    const failed = await runCli(argv);
    expect([argv[0], failed.code, failed.err]).toEqual([argv[0], code, expect.stringContaining(text)]);
  }
  expect((await runCli(["cat", array, "--json", "--head", "2"])).out).toBe("[\n0,\n0\n]\n");
  expect(readdirSync(folder).sort()).toEqual(["0.parquet", "3.nc", "a.parquet", "array"]);
});

it("an error names the path also where the library does not know it", async () => {
  const bcolz = await runCli(["create", at("b"), "--as", "carray", "--dtype", "<f8", "--shape", "2,0"]);
  expect([bcolz.code, bcolz.err]).toEqual([
    1,
    `superchunk: ${at("b")}: bcolz does not support rows of zero bytes\n`,
  ]);
  for (const [name, field] of [
    ["rows", '"<f8",[2,0]'],
    ["pairs", '[["a","<f8"]]'],
  ]) {
    const dtype = `[["day","<i4"],["${name}",${field}]]`;
    const table = ["create", at("t"), "--dtype", dtype, "--shape", "2"];
    expect((await runCli([...table, "--as", "ctable"])).err).toContain(`${at("t")}/${name}: bcolz `);
    expect((await runCli([...table, "--no-columns"])).code).toBe(0);
    const { code, err } = await runCli(["convert", at("t"), at("t.parquet")]);
    if (name === "rows")
      expect([code, err]).toEqual([1, expect.stringContaining(`column "rows": rows have`)]);
    rmSync(at("t"), { recursive: true });
  }
  await runCli(["create", at("c"), "--dtype", "<f16", "--shape", "1"]);
  const { code, out } = await runCli(["cat", at("c"), "--json"]);
  expect([code, JSON.parse(out).error]).toMatchObject([1, { code: "UNSUPPORTED", path: at("c") }]);
});

it("a dtype of very many fields, and the names of very many columns, are shown short", async () => {
  const dtype = JSON.stringify(Array.from({ length: 90 }, (_, i) => [`c${i}`, "<i4"]));
  const array = await runCli(["create", at("wide"), "--dtype", dtype]);
  expect(array.err).toMatch(/wide: struct\(90\), shape 0, no values\n$/);
  const table = await runCli(["create", at("table"), "--as", "ctable", "--dtype", dtype]);
  expect(table.err).toMatch(/table: 90 columns; 0 rows, no values\n$/);
  const { out } = await runCli(["info", at("wide")]);
  expect(out).toMatch(/^dtype .{160,180}… \([\d,]+ characters\)$/m);
});

it("a folder of other files is never overwritten by Zarr, and no message says that it could be", async () => {
  mkdirSync(at("mine"));
  writeFileSync(at("mine/keep.txt"), "");
  for (const flags of [[], ["--overwrite"]]) {
    const { code, err } = await runCli(["convert", at("array"), at("mine"), ...flags]);
    expect([code, err]).toEqual([1, expect.stringMatching(/never overwritten; choose another\n$/)]);
  }
  expect(readdirSync(at("mine"))).toEqual(["keep.txt"]);
});

it("options that do not belong together, and inputs that do not fit, say what to do, and change nothing", async () => {
  const array = at("array");
  const { bytes } = await runCli(["cat", array, "--head", "2", "--format", "npy"]);
  writeFileSync(at("two.npy"), bytes);
  writeFileSync(at("raw"), "123");
  expect((await runCli(["compress", at("raw"), at("raw.blp")])).code).toBe(0);
  const table = ["create", at("table"), "--as", "ctable", "--dtype", '[["a", "<f8"], ["b", "<i4"]]'];
  expect((await runCli([...table, "--shape", "2"])).code).toBe(0);
  const before = readdirSync(folder).sort();
  for (const [argv, code, text] of [
    [["append", array, at("two.npy"), at("two.npy")], 2, "one input is appended at a time"],
    [["append", "https://example.org/a.blp", at("raw")], 1, "nothing can be written to http(s):// addresses"],
    [["append", at("table"), at("two.npy")], 2, "or from NAME=FILE for each column"],
    [["append", at("table"), `a=${at("raw")}`, "b"], 2, "is not NAME=FILE"],
    [["cat", array, "--format", "arrow", "--slice", "0:2"], 2, "choose rows with --where and --head"],
    [["cat", at("raw.blp"), "--format", "csv", "--where", "a > 1"], 2, "these are plain bytes"],
    [["compact", array, "--to", "cold"], 2, "--to is for --move-older-than"],
    [["compress", at("array"), at("out.blp")], 2, "the input is a folder; give a file"],
    [["convert", array, array, at("t.zr3"), "--to", "zarr3-transformer"], 2, "takes one archive at a time"],
    [
      ["convert", array, at("b.npy"), "--shard-size", "1M"],
      2,
      "--shard-size is for --to zarr, not for --to npy",
    ],
    [["create", at("b"), "--from", at("raw")], 2, "raw bytes need --dtype"],
    [["create", at("b"), "--from", at("two.npy"), "--shape", "2"], 2, "a .npy file has its own shape"],
    [["plan", array, at("b.zarr"), "-o", at("p.json"), "--holes", "fill"], 2, "--holes is for --for repair"],
    [["plan", array, "-o", at("p.json"), "--for", "verify"], 2, "and where the result goes"],
    [["repair", array, at("b"), "--discard"], 2, "--discard belongs to --in-place"],
    [["resize", array, "-5"], 2, "Expected a whole number of rows, 0 or more"],
    [["resize", array, "2,-1"], 2, "or a shape such as 1000,3"],
    [
      ["set", array, "--slice", "0:3", at("raw"), "--bytes"],
      2,
      "expected 3 values, as many as are selected, or one for all",
    ],
    [["verify", array, "--resume"], 2, "give --report too"],
    [["virtualize", array], 2, "superchunk virtualize SRC... DST"],
  ] as const) {
    const failed = await runCli(argv);
    expect([argv[0], failed.code, failed.err]).toEqual([argv[0], code, expect.stringContaining(text)]);
  }
  expect(readdirSync(folder).sort()).toEqual(before);
});

it("one value has no rows for --head and --tail, and the error names the option", async () => {
  await (await create(at("value.zarr"), { format: "zarr", dtype: "<f8", shape: [] })).close();
  for (const option of ["--head", "--tail", "--slice"]) {
    const { code, err } = await runCli(["cat", at("value.zarr"), option, "2"]);
    expect([code, err]).toEqual([2, expect.stringContaining(`${at("value.zarr")}: ${option}`)]);
  }
});

it.each([
  ["text", "7\n"],
  ["csv", "value\n7\n"],
  ["json", "7\n"],
  ["ndjson", "7\n"],
])("cat --format %s prints one value without dimensions", async (format, out) => {
  await (await create(at("value.zarr"), { format: "zarr", dtype: "<i4", shape: [], fillValue: 7 })).close();
  expect(await runCli(["cat", at("value.zarr"), "--format", format])).toMatchObject({ code: 0, out });
});

it.each([[["--format", "arrow"]], [["--format", "parquet"]], [["--where", "value > 1"]]])(
  "one value has no rows for %j, and the error says how it is printed",
  async (more) => {
    await (await create(at("value.zarr"), { format: "zarr", dtype: "<f8", shape: [] })).close();
    const { code, err } = await runCli(["cat", at("value.zarr"), ...more]);
    expect([code, err]).toEqual([2, expect.stringContaining("--format text, json and npy, without --where")]);
  },
);

it("a file with chunks of an array is not changed alone, which would damage the array", async () => {
  writeFileSync(at("raw"), new Uint8Array(800));
  expect((await runCli(["append", at("array"), at("raw")])).code).toBe(0);
  expect(
    (await runCli(["create", at("carray"), "--as", "carray", "--dtype", "<f8", "--from", at("raw")])).code,
  ).toBe(0);
  const rows = ["--dtype", '[["a","<i4"],["b","<f8"]]', "--shape", "10"];
  expect((await runCli(["create", at("columns"), ...rows])).code).toBe(0);
  const parts = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    /\.(?:bin|blp)$/.test(name),
  );
  expect(parts.length).toBe(4);
  for (const part of parts) {
    const before = readFileSync(at(part));
    for (const options of [[], ["--dry-run"], ["--in-place"]]) {
      const { code, err } = await runCli(["append", at(part), at("raw"), ...options]);
      expect([part, code, err]).toEqual([
        part,
        1,
        expect.stringContaining("is not changed alone; change the array"),
      ]);
    }
    expect(readFileSync(at(part))).toEqual(before);
  }
  const elsewhere = at("copy.blp");
  copyFileSync(at(parts[0] ?? ""), elsewhere);
  expect((await runCli(["append", elsewhere, at("raw")])).code).toBe(0);
});

it("each wrong option is refused with what was expected, and nothing is made", async () => {
  writeFileSync(at("raw"), new Uint8Array(80));
  const [array, raw, made, named] = [at("array"), at("raw"), at("made"), at("made.zarr")];
  const rows = ["--dtype", '[["a","<i4"],["b","<f8"]]', "--shape", "10"];
  expect((await runCli(["create", at("columns"), ...rows])).code).toBe(0);
  expect((await runCli(["create", at("broken"), "--dtype", "<f8", "--shape", "10"])).code).toBe(0);
  rmSync(at("broken/meta/storage"));
  rmSync(at("broken/meta/sizes"));
  const before = readdirSync(folder, { recursive: true }).sort();
  for (const [argv, text] of [
    [["append", array, raw, "--grow"], "the option for grow is for Bloscpack files"],
    [["attrs", array, "--remove", "x"], 'no attribute "x", so nothing was changed; "superchunk attrs"'],
    [["columns", at("columns"), "--add", "=x"], "Expected NAME=FILE, or NAME with --dtype."],
    [["columns", at("columns"), "--rename", "a"], "Expected OLD=NEW"],
    [
      ["columns", at("columns"), "--add", `c=${raw}`, "--dtype", "u1"],
      "the column has 80 rows, but the other",
    ],
    [["create", named, "--dtype", "<f8"], "with this name, readers expect a Zarr array: add --zarr"],
    [["create", made, "--dtype", "<f8", "--column", "a"], "--column is for tables"],
    [["create", made], "give --from FILE or --dtype"],
    [["create", made, "--dtype", "<f8", "--shape", "a,b"], "Expected whole numbers with commas between"],
    [["create", made, "--dtype", "<f8", "--attr", "x"], "Expected NAME=JSON"],
    [["place", array, "--move", "all"], "--move and --to go together"],
    [["place", array, "--move", "7..3", "--to", "data"], "Expected superchunks such as 3..7"],
    [["containers", at("x.json"), "--set", "a", "--delete", "b"], "give --delete or --set, not both"],
    [["delete", array, "--rows", "::2"], 'Expected rows such as "10:20"'],
    [["compress", raw, made, "--max-app-chunks", "x"], "Expected a count such as 100"],
    [["cat", array, "--slice", ""], "the slice is empty"],
    [["cat", array, "--where", ""], "the condition is empty"],
    [["cat", array, "--where", "value is 3"], 'after "is" comes null, or not null'],
    [["cat", at("columns"), "--plot", "--column", "a", "--slice", "0:1,0"], "the values have 1 dimension"],
    [["convert", array, named, "--shard-size", "0"], "Expected a size such as 128MiB"],
    [["convert", array, named, "--shape", "1,-1"], "Expected whole numbers with commas between"],
    [["convert", array, named, "--dimension-names", "a,,b"], "Expected names with commas between."],
    [["convert", raw, named, "--dtype", "x"], 'give for example "<f8"'],
    [
      ["convert", at("columns"), named, "--to", "zarr3-transformer"],
      "no structured data types; convert it to Zarr v3",
    ],
    [["virtualize", array, at("r.icechunk"), "--to", "icechunk", "--one-file"], "is for kerchunk JSON"],
    [["repair", at("broken"), at("r"), "--dtype", "x"], 'dtype: the dtype "x"'],
  ] as const) {
    const { code, err } = await runCli(argv);
    expect([argv, code > 0, err]).toEqual([argv, true, expect.stringContaining(text)]);
  }
  expect(readdirSync(folder, { recursive: true }).sort()).toEqual(before);
});

it("a file larger than the free room of its disk is refused at once, with its size; a pipe takes any", async () => {
  const sparse = await create(at("sparse"), {
    format: "zarr",
    shape: [1e13],
    chunkShape: [1e6],
    dtype: "float64",
  });
  await sparse.close();
  for (const argv of [
    ["convert", at("sparse"), at("out.npy")],
    ["decompress", at("sparse"), at("out.raw")],
  ]) {
    const { code, err } = await runCli(argv);
    const text =
      /out\.\w+: this file would have 80000000000\d+ bytes \(72\.8 TiB\), but the disk has .* free/;
    expect([argv, code, err]).toEqual([argv, 1, expect.stringMatching(text)]);
  }
  expect(readdirSync(folder).sort()).toEqual(["array", "sparse"]);
  const { code } = await runCli(["cat", at("sparse"), "--format", "npy", "--slice", "0:3"]);
  expect(code).toBe(0);
});

it("the name of a file that holds one array is refused for several archives, and is that file for the only one", async () => {
  cpSync(at("array"), at("many/a"), { recursive: true });
  for (const [ending, format] of [
    ["npy", "npy"],
    ["blp", "bloscpack"],
    ["b2nd", "b2nd"],
  ]) {
    const only = await runCli(["convert", at("many"), at(`only.${ending}`)]);
    expect([only.code, statSync(at(`only.${ending}`)).isFile()]).toEqual([0, true]);
    const { code, err } = await runCli(["convert", at("many"), at("array"), at(`x.${ending}`)]);
    expect([code, err]).toEqual([
      2,
      expect.stringContaining(
        `there are 2 archives, and a file .${ending} holds one array: convert one of them, or name a folder, without .${ending}, and the format, --to ${format}`,
      ),
    ]);
    expect(existsSync(at(`x.${ending}`))).toBe(false);
  }
});

it("a file of one of many sources that exists is named, and stays until --overwrite is given", async () => {
  cpSync(at("array"), at("many/a"), { recursive: true });
  cpSync(at("array"), at("many/b"), { recursive: true });
  mkdirSync(at("rows"));
  writeFileSync(at("rows/a.parquet"), "other");
  const convert = ["convert", at("many"), at("rows"), "--to", "parquet"];
  const { code, err } = await runCli(convert);
  expect([code, err]).toEqual([
    1,
    expect.stringContaining(
      `superchunk: not converted: ${at("many/a")}: ${at("rows/a.parquet")}: the destination exists; --resume keeps it and converts what is missing, --overwrite replaces it; or choose another (CONFLICT)`,
    ),
  ]);
  expect(readFileSync(at("rows/a.parquet"), "utf8")).toBe("other");
  expect((await runCli([...convert, "--overwrite"])).code).toBe(0);
  expect(readFileSync(at("rows/a.parquet"), "utf8").slice(0, 4)).toBe("PAR1");
});

it("--resume is named where it continues what is at the destination, and only there", async () => {
  cpSync(at("array"), at("many/a"), { recursive: true });
  expect((await runCli(["convert", at("many"), at("many.zarr")])).code).toBe(0);
  cpSync(at("array"), at("many/b"), { recursive: true });
  const again = await runCli(["convert", at("many"), at("many.zarr")]);
  expect([again.code, again.err]).toEqual([
    1,
    expect.stringContaining("--resume keeps it and converts what"),
  ]);
  expect((await runCli(["convert", at("many"), at("many.zarr"), "--resume"])).code).toBe(0);
  const one = ["convert", at("array"), at("one.npy")];
  expect((await runCli(one)).code).toBe(0);
  expect((await runCli(one)).err).not.toContain("--resume");
  // As an interrupted conversion with --overwrite leaves it: the old file is there, and the record.
  writeFileSync(at(recordKey("one.npy", false)), "{}");
  expect((await runCli(one)).err).toContain("an unfinished conversion is there; --resume continues it");
});

it("create refuses a folder of other files, names one, and leaves it as it is", async () => {
  mkdirSync(at("other/.hidden"), { recursive: true });
  writeFileSync(at("other/notes.txt"), "other");
  for (const options of [[], ["--overwrite"], ["--zarr"], ["--as", "carray"]]) {
    const { code, err } = await runCli(["create", at("other"), "--dtype", "<f8", ...options]);
    expect([options, code, err]).toEqual([
      options,
      1,
      expect.stringContaining('the folder is not empty: it has "notes.txt", which is not of an array'),
    ]);
  }
  expect(readdirSync(at("other")).sort()).toEqual([".hidden", "notes.txt"]);
  rmSync(at("other/notes.txt"));
  expect((await runCli(["create", at("other"), "--dtype", "<f8"])).code).toBe(0);
});

it("what only arrays of superchunks can do names the command that makes one, also of a table", async () => {
  writeFileSync(at("rows.csv"), "id,price\n1,2.5\n2,3.5\n");
  expect((await runCli(["create", at("t.bcolz"), "--as", "ctable", "--from", at("rows.csv")])).code).toBe(0);
  const { code, err } = await runCli(["compact", at("t.bcolz")]);
  expect([code, err]).toEqual([1, expect.stringContaining('"superchunk convert PATH DST --to blz"')]);
  expect((await runCli(["convert", at("t.bcolz"), at("made"), "--to", "blz"])).code).toBe(0);
  expect((await runCli(["compact", at("made")])).code).toBe(0);
});

it("a condition on plain bytes is refused because they have no columns, and not for a format that was not asked for", async () => {
  writeFileSync(at("text"), "some text");
  expect((await runCli(["compress", at("text")])).code).toBe(0);
  for (const more of [[], ["--format", "csv"], ["--format", "raw"]]) {
    const { code, err } = await runCli(["cat", at("text.blp"), "--where", "x > 1", ...more]);
    expect([code, err]).toEqual([
      2,
      expect.stringContaining("these are plain bytes, without columns to filter"),
    ]);
  }
});

it("notes that say the same of several columns are one note, with their number; names may have line breaks", async () => {
  writeFileSync(
    at("dates.csv"),
    'a,b,"c\nd"\n2020-01-01T10:00:00+02:00,2020-01-01T10:00:00+02:00,2020-01-01T10:00:00+02:00\n',
  );
  const { code, err } = await runCli(["create", at("dates"), "--from", at("dates.csv")]);
  expect([code, err]).toEqual([0, expect.stringContaining("; the same for 2 more")]);
});

it.each([
  ["text", ""],
  ["csv", "\n"],
  ["json", "[]\n"],
  ["ndjson", ""],
])("cat --format %s of a table without columns prints no rows", async (format, expected) => {
  mkdirSync(at("table"));
  writeFileSync(at("table/__rootdirs__"), '{"names": []}');
  writeFileSync(at("table/__attrs__"), "{}");
  expect(await runCli(["cat", at("table"), "--format", format])).toMatchObject({ code: 0, out: expected });
});

it("CSV on stdin is refused, and the error says where a table is read", async () => {
  const { code, err } = await runCli(["create", at("t"), "--from", "-"], {
    stdin: Buffer.from("a,b\n1,2\n"),
  });
  expect([code, err]).toEqual([3, expect.stringContaining("a table such as CSV is read from a file")]);
  expect(readdirSync(folder)).toEqual(["array"]);
});

it.each(["__proto__", "constructor", "toString"])(
  "a condition of a column called %s finds its rows",
  async (name) => {
    await create(at("odd"), { dtype: [[name, "<i4"]], data: [[1], [2], [3]] } as never).then((array) =>
      array.close(),
    );
    const argv = ["cat", at("odd"), "--where", `${name} > 1`, "--where", `${name} < 3`, "--format", "csv"];
    expect(await runCli(argv)).toMatchObject({ code: 0, out: `${name}\n2\n` });
  },
);
