/** Tables of pyarrow, pandas, Polars and CSV become archives, and are appended to them. @see fixtures/tables/make.py */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Column,
  columnFromArray,
  largeUtf8,
  list,
  nullType,
  tableFromColumns,
  tableToIPC,
  utf8,
} from "@uwdata/flechette";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, test } from "vitest";
import { SuperchunkError } from "../../src/errors.ts";
import { formatDType, parseDType } from "../../src/format/dtype.ts";
import { JsonFloat } from "../../src/format/json-float.ts";
import { create, edit, open, openArray, openNpy, openTableFile } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openCsv } from "../../src/tables/csv.ts";
import { openParquetTable } from "../../src/tables/parquet.ts";
import { type StructArray, swapBytes, toValues } from "../../src/values/values.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { sample } from "../scope.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "fixtures", "tables");
const expected = JSON.parse(readFileSync(join(FOLDER, "expected.json"), "utf8")) as Record<
  string,
  readonly unknown[]
>;
const DTYPES: Readonly<Record<string, string>> = {
  ...{ i8: "|i1", u2: "<u2", u8: "<u8", f8: "<f8", f4: "<f4", flag: "|b1", text: "<U2", raw: "|S3" },
  ...{ day: "<M8[D]", time: "<M8[us]", nano: "<M8[ns]", word: "<U2", long: "<U3", three: "<i4" },
};
const FILES = [
  ...["snappy", "zstd", "gzip", "lz4", "brotli", "none", "polars"].map((name) => `${name}.parquet`),
  ...["lz4.feather", "zstd.feather", "uncompressed.feather", "stream.arrows", "polars.arrow"],
];

/** The archive's value for a value of the file. */
function stored(name: string, value: unknown): unknown {
  if (value === null) return name === "f8" ? Number.NaN : name === "nano" ? -(2n ** 63n) : "";
  const isTime = name === "day" || name === "time" || name === "nano" || name === "u8";
  return isTime ? BigInt(value as number) : value;
}

async function columnOf(path: string, column: string, dtype?: string): Promise<unknown[]> {
  const array = await openArray(path, { column, ...(dtype === undefined ? {} : { dtype }) });
  const { data, shape } = (await array.get()) as { data: ArrayLike<unknown>; shape: readonly number[] };
  await array.close();
  const flat =
    "get" in data
      ? Array.from({ length: data.length }, (_, i) => (data as never as { get(i: number): unknown }).get(i))
      : Array.from(data);
  const [rows = 0, width] = shape;
  return width === undefined
    ? flat
    : Array.from({ length: rows }, (_, i) => flat.slice(i * width, (i + 1) * width));
}

describe.each(FILES)("%s", (file) => {
  test("becomes an array with its types and values, and is appended to a table", async () => {
    const folder = temporaryFolder();
    const [made, table] = [join(folder, "made"), join(folder, "table.bcolz")];
    const created = await runCli(["create", made, "--from", join(FOLDER, file)]);
    expect([created.code, created.err.split("\n")[0]]).toEqual([
      0,
      expect.stringContaining("300 rows of i8 |i1") as string,
    ]);
    const archive = await open(made);
    if (archive.kind !== "array") throw new TypeError(archive.kind);
    const names = archive.columnNames;
    expect(names.length).toBe(file.startsWith("polars") ? 12 : 14);
    await archive.close();
    const isAppended = sample(["snappy.parquet", "lz4.feather", "stream.arrows"], 2).includes(file);
    if (isAppended)
      expect((await runCli(["create", table, "--as", "ctable", "--from", join(FOLDER, file)])).code).toBe(0);
    if (isAppended) expect((await runCli(["append", table, join(FOLDER, file)])).code).toBe(0);
    for (const name of names) {
      const values = (expected[name] ?? []).map((value) => stored(name, value));
      expect(await columnOf(made, name, DTYPES[name] as string), name).toEqual(values);
      if (isAppended) expect(await columnOf(table, name), name).toEqual([...values, ...values]);
    }
  });

  test("that is truncated, or another kind of file, is an error that names it", async () => {
    const folder = temporaryFolder();
    const path = join(folder, file);
    const bytes = readFileSync(join(FOLDER, file));
    for (const cut of [0, 5, 100, bytes.length >> 1]) {
      writeFileSync(path, bytes.subarray(0, cut));
      const { code, err } = await runCli(["create", join(folder, `out${cut}`), "--from", path]);
      expect([cut, code === 0, err.startsWith("superchunk: "), err.includes(path)]).toEqual([
        cut,
        false,
        true,
        true,
      ]);
      expect(err).not.toContain("INTERNAL");
    }
  });
});

test("the delimiter of CSV is found although early lines are empty", async () => {
  const path = join(temporaryFolder(), "a.csv");
  writeFileSync(path, "\r\n\nid;price\n\n1;0.5\n2;1.5\n");
  const { dtype, shape } = await openTableFile(path);
  expect(shape).toEqual([2]);
  expect(formatDType(dtype)).toEqual([
    ["id", "<i8"],
    ["price", "<f8"],
  ]);
});

test("a CSV column gets the type that all its values share", async () => {
  const folder = temporaryFolder();
  const { dtype, shape } = await openTableFile(join(FOLDER, "plain.csv"));
  expect(shape).toEqual([300]);
  expect(
    dtype.kind === "struct" &&
      dtype.fields.map((field) => [field.name, field.dtype.kind, field.dtype.itemSize]),
  ).toEqual([
    ["id", "int", 8],
    ["price", "float", 8],
    ["day", "datetime", 8],
    ["when", "datetime", 8],
    ["name", "unicode", 28],
    ["ok", "bool", 1],
  ]);
  const path = join(folder, "a");
  expect((await runCli(["create", path, "--from", join(FOLDER, "plain.csv")])).code).toBe(0);
  expect((await columnOf(path, "id")).slice(0, 3)).toEqual([-5n, -4n, -3n]);
  expect((await columnOf(path, "price")).slice(0, 3)).toEqual([Number.NaN, 0.25, 0.5]);
  expect((await columnOf(path, "name")).slice(0, 3)).toEqual(['a,"q"\n0', 'a,"q"\n1', 'a,"q"\n2']);
  expect((await columnOf(path, "day"))[1]).toBe(18263n);
  expect((await columnOf(path, "when"))[1]).toBe(1_577_836_801_500_000_000n);
});

describe("a value that does not fit is refused with its row and column, and nothing is appended", () => {
  const make = async (): Promise<string> => {
    const path = join(temporaryFolder(), "t.bcolz");
    const from = join(temporaryFolder(), "a.csv");
    writeFileSync(from, "id,price,day,name\n1,0.5,2020-01-01,ab\n");
    expect((await runCli(["create", path, "--as", "ctable", "--from", from])).code).toBe(0);
    return path;
  };
  test.each([
    ["a longer string", "id,price,day,name\n2,1,2020-01-02,abc\n", 'line 2, column "name"'],
    ["text for a number", "id,price,day,name\n2,1,2020-01-02,a\nx,1,2020-01-02,a\n", 'line 3, column "id"'],
    ["a number with a fraction", "id,price,day,name\n2.5,1,2020-01-02,a\n", 'line 2, column "id"'],
    [
      "a missing value for an integer",
      "id,price,day,name\n,1,2020-01-02,a\n",
      "the value is missing, and int has no value for that",
    ],
    ["an impossible day", "id,price,day,name\n2,1,2020-02-31,a\n", "is not a date"],
    ["a time for a day", "id,price,day,name\n2,1,2020-02-03T01:00:00,a\n", "is not a date in units of D"],
    ["a missing column", "id,price,day\n2,1,2020-02-03\n", 'no column "name" in the file'],
    ["a truncated record", "id,price,day,name\n2,1\n", "line 2 has 2 values, and the first line has 4"],
    [
      "an unterminated quote",
      'id,price,day,name\n2,1,2020-02-03,"a\n',
      "line 2 has a quoted value that does not end",
    ],
    ["a missing header", "", "the file is empty"],
    [
      "a record that is too long",
      "id,price,day,name\n\n2,1,3,4,5\n",
      "line 3 has 5 values, and the first line has 4; quote values",
    ],
    ["a name twice", "id,id,day,name\n", 'column 2 is "id" again'],
    ["a number beyond float64", "id,price,day,name\n\n2,1e400,2020-02-03,a\n", 'line 3, column "price"'],
    ["text that is not UTF-8", "id,price,day,name\n2,1,2020-02-03,\xfc\n", "line 2 is not UTF-8"],
  ])("%s", async (_, text, message) => {
    const path = await make();
    const from = join(temporaryFolder(), "b.csv");
    writeFileSync(from, Buffer.from(text, "latin1"));
    const { code, err } = await runCli(["append", path, from]);
    expect([code === 0, err]).toEqual([false, expect.stringContaining(message) as string]);
    expect(await columnOf(path, "id")).toEqual([1n]);
  });
});

test("integers of CSV keep all digits: beyond int64 they are uint64, and where a double would lose digits they are strings", async () => {
  const from = join(temporaryFolder(), "a.csv");
  const long = "18446744073709551615";
  writeFileSync(
    from,
    `big,gap,huge,small,endless\n${long},9007199254740993,${long}0,1,1\n1,,1,,${"1".repeat(400)}\n`,
  );
  const { dtype } = await openTableFile(from);
  expect(dtype.kind === "struct" && dtype.fields.map(({ dtype: own }) => [own.kind, own.itemSize])).toEqual([
    ["uint", 8],
    ["unicode", 64],
    ["unicode", 84],
    ["float", 8],
    ["unicode", 1600],
  ]);
  const path = join(temporaryFolder(), "t.bcolz");
  expect((await runCli(["create", path, "--as", "ctable", "--from", from])).code).toBe(0);
  expect(await columnOf(path, "big")).toEqual([BigInt(long), 1n]);
  expect(await columnOf(path, "gap")).toEqual(["9007199254740993", ""]);
});

test.each([
  ["leading zeros", "007", 'line 2 has "007", whose leading zeros a number would lose'],
  ["too large a number", "-1e400", 'line 2 has "-1e400", which is too large for float64'],
  ["too small a number", "1e-400", 'line 2 has "1e-400", which is too small for float64'],
  ["a word", "n/a", 'line 2 has "n/a", which is not a number'],
])("a column of CSV numbers with %s is text, and the command says why", async (_, text, why) => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, `code,word\n${text},a\n5,7\n6,b\n`);
  const { err } = await runCli(["create", path, "--from", from]);
  expect(err).toContain(`column "code" is text: ${why}`);
  expect(err).not.toContain('"word" is text');
  expect(await columnOf(path, "code")).toEqual([text, "5", "6"]);
});

test("text keeps a mark of byte order, and text that is not UTF-8 is refused unless it becomes bytes", async () => {
  const folder = temporaryFolder();
  const words = ["\ufeffab", "\ufeff", "c\ufeffd"];
  const write = (data: string[]): readonly (readonly [string, Uint8Array])[] => [
    ["a.parquet", new Uint8Array(parquetWriteBuffer({ columnData: [{ name: "word", data }] }))],
    ...[utf8(), largeUtf8()].map((type, i): readonly [string, Uint8Array] => {
      const table = tableFromColumns({ word: columnFromArray(data, type) });
      return [`${i}.arrow`, tableToIPC(table, {}) as Uint8Array];
    }),
  ];
  for (const [name, bytes] of write(words)) {
    const [from, path] = [join(folder, name), join(folder, `${name}.made`)];
    writeFileSync(from, bytes);
    expect((await runCli(["create", path, "--from", from])).code).toBe(0);
    expect(await columnOf(path, "word"), name).toEqual(words);
  }
  for (const [name, bytes] of write(["é-é"])) {
    const [from, path] = [join(folder, name), join(folder, `${name}.bytes`)];
    const file = Buffer.from(bytes);
    // The first byte of a letter of two, without the second. Statistics hold the text too.
    for (let at = file.indexOf("é-é"); at >= 0; at = file.indexOf("é-é")) file.write("-", at + 1);
    writeFileSync(from, file);
    const { code, err } = await runCli(["create", path, "--from", from]);
    expect([code, err]).toEqual([1, expect.stringContaining('column "word" has a text that is not UTF-8')]);
    const given = /--dtype '(.*)'/.exec(err)?.[1] ?? "";
    expect((await runCli(["create", path, "--from", from, "--dtype", given])).code).toBe(0);
    expect(await columnOf(path, "word"), name).toEqual(["\xc3--\xc3\xa9"]);
  }
});

test("text and bytes of views are whole", async () => {
  const [path, from] = [join(temporaryFolder(), "a"), join(FOLDER, "views.arrows")];
  const words = ["\ufeffab", "\ufeff and a long one", "c\ufeffd"];
  expect((await runCli(["create", path, "--from", from])).code).toBe(0);
  expect(await columnOf(path, "word")).toEqual(words);
  const bytes = words.map((word) => Buffer.from(word).toString("latin1"));
  expect(await columnOf(path, "raw")).toEqual(bytes);
});

test("columns of fastparquet that do not say that they are required are read", async () => {
  const [path, from] = [join(temporaryFolder(), "a"), join(FOLDER, "fastparquet.parquet")];
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([0, expect.stringContaining("3 rows of id <u4, close <f8") as string]);
  expect(await columnOf(path, "id")).toEqual([4_000_000_000, 4_000_000_007, 4_000_000_014]);
  expect(await columnOf(path, "close")).toEqual([0.5, -1, 2.25]);
});

test("decimals become the nearest double, whichever of the two ways their type is written", async () => {
  const folder = temporaryFolder();
  const digits = [1_234_567_890_123_456_789n, -999_999_999_999_999_999n, 350n, -1n];
  const numbers = ["1234567890123456.789", "-999999999999999.999", "0.35", "-0.001"].map(Number);
  const own = { name: "price", type: "INT64", repetition_type: "REQUIRED", scale: 3, precision: 19 } as const;
  for (const element of [
    { ...own, converted_type: "DECIMAL" },
    { ...own, logical_type: { type: "DECIMAL", scale: 3, precision: 19 } },
  ] as const) {
    const path = join(folder, "converted_type" in element ? "old" : "new");
    const schema = [{ name: "root", num_children: 1 }, element];
    // The writer takes numbers for its own decimals.
    const data = "converted_type" in element ? numbers : digits;
    const columnData = [{ name: "price", data }];
    writeFileSync(`${path}.parquet`, new Uint8Array(parquetWriteBuffer({ schema, columnData })));
    const { err } = await runCli(["create", path, "--from", `${path}.parquet`]);
    expect(err).toContain('column "price": decimals of 19 digits; float64 keeps 15');
    expect((await columnOf(path, "price")).slice(2)).toEqual([0.35, -0.001]);
    if (data === digits) expect(await columnOf(path, "price")).toEqual(numbers);
  }
});

test("a note counts the missing texts that become empty, and lists of nothing are refused", async () => {
  const folder = temporaryFolder();
  const words = ["a", null, "", null];
  const files: readonly (readonly [string, Uint8Array])[] = [
    ["a.parquet", new Uint8Array(parquetWriteBuffer({ columnData: [{ name: "word", data: words }] }))],
    ["a.arrow", tableToIPC(tableFromColumns({ word: columnFromArray(words, utf8()) }), {}) as Uint8Array],
  ];
  for (const [name, bytes] of files) {
    const [from, path] = [join(folder, name), join(folder, `${name}.made`)];
    writeFileSync(from, bytes);
    const { err } = await runCli(["create", path, "--from", from]);
    expect(err.match(/column "word": 2 missing values become the empty string/g)).toHaveLength(1);
    expect(await columnOf(path, "word"), name).toEqual(["a", "", "", ""]);
    const table = join(folder, `${name}.bcolz`);
    const dtype = ["--dtype", '[["word","|S2"]]'];
    for (const [archive, ...argv] of [
      [path, "append", path, from],
      [table, "create", table, "--as", "ctable", "--from", from, ...dtype],
      [table, "append", table, from],
      [`${path}2`, "create", `${path}2`, "--from", from, ...dtype],
    ] as const) {
      const told = (await runCli(argv)).err.match(/column "word": \d missing values? .*/g);
      expect(told, argv.join(" ")).toEqual(['column "word": 2 missing values become the empty string']);
      expect((await columnOf(archive, "word")).slice(-4).map(String)).toEqual(["a", "", "", ""]);
    }
  }
  const csv = join(folder, "empty.csv");
  writeFileSync(csv, "id,word\n1,a\n2,\n");
  expect((await runCli(["create", join(folder, "csv"), "--from", csv])).err).not.toContain("missing");
  const from = join(folder, "lists.arrow");
  const lists = tableFromColumns({ none: columnFromArray([[], []], list(utf8())) });
  writeFileSync(from, tableToIPC(lists, {}) as Uint8Array);
  const { code, err } = await runCli(["create", join(folder, "lists"), "--from", from]);
  expect([code, err]).toEqual([1, expect.stringContaining('column "none" is of empty lists') as string]);
});

test("a time of twelve bytes beyond the years of ns is refused with the unit that holds it", async () => {
  const [path, from] = [join(temporaryFolder(), "a"), join(FOLDER, "int96.parquet")];
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([2, expect.stringContaining('row 1, column "when"') as string]);
  expect(err).toContain("ns count from 1677 to 2262, and create can give the column the unit us (--dtype)");
  expect((await runCli(["create", path, "--from", from, "--dtype", '[["when","<M8[us]"]]'])).code).toBe(0);
  expect(await columnOf(path, "when")).toEqual([0n, 253_402_300_799_000_000n]);
});

test("lines of CSV end in two ways, and quoted values keep theirs", async () => {
  const folder = temporaryFolder();
  for (const [name, first, second] of [
    ["a", "\n", "\r\n"],
    ["b", "\r\n", "\n"],
  ] as const) {
    const [from, path] = [join(folder, `${name}.csv`), join(folder, name)];
    writeFileSync(from, `n,word${first}1,a${second}2,"b\r\n,""\nc"${second}3,"d\r"${first}4,"e\n"${second}`);
    const { code, err } = await runCli(["create", path, "--from", from]);
    expect([code, err.split("\n")[0]]).toEqual([0, expect.stringContaining("4 rows of n <i8") as string]);
    expect(await columnOf(path, "word")).toEqual(["a", 'b\r\n,"\nc', "d\r", "e\n"]);
  }
});

test("a quote inside a value of CSV is a character, and one that begins a value must end", async () => {
  async function* inPieces(text: string): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < text.length; at += 1 << 17) yield Buffer.from(text.slice(at, at + (1 << 17)));
  }
  const lines = Array.from({ length: 20_001 }, (_, i) => `${i},${i === 0 ? '19"' : "19in"} rack ${i}`).join(
    "\n",
  );
  const table = await openCsv(() => inPieces(`n,word\n0,"a ""b"", c"\n${lines}\n`), "a.csv", {});
  const found: unknown[] = [];
  let longest = 0;
  for await (const { length, columns } of table.read(["word"], undefined)) {
    longest = Math.max(longest, length);
    found.push(...Array.from(columns[0] ?? []));
  }
  // One quote must not keep the rest of the file in memory.
  expect(longest).toBeLessThan(10_000);
  expect([found.length, ...found.slice(0, 2), found.at(-1)]).toEqual([
    20_002,
    'a "b", c',
    '19" rack 0',
    "19in rack 20000",
  ]);
  const endless = `n,word\n1,a\n2,"${"b\n".repeat(9 << 20)}`;
  const opened = openCsv(
    async function* () {
      yield Buffer.from(endless);
    },
    "a.csv",
    {},
  );
  await expect(opened).rejects.toThrow(
    "line 3 has a quoted value that does not end within 16777216 characters",
  );
});

test("text of CSV that ends in a zero is refused, unless a dtype drops it", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, "word,n\nab,1\nc\0,2\n");
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([1, expect.stringContaining('column "word": line 3 has "c\\u0000"') as string]);
  const dtype = '[["word","<U2"],["n","<i8"]]';
  expect((await runCli(["create", path, "--from", from, "--dtype", dtype])).code).toBe(0);
  expect(await columnOf(path, "word")).toEqual(["ab", "c"]);
});

test("a wide table is told in a few lines, and --json has all notes", async () => {
  const folder = temporaryFolder();
  const from = join(folder, "wide.csv");
  const names = Array.from({ length: 30 }, (_, i) => `c${i}`);
  writeFileSync(from, `${names.join()}\n${names.map((_, i) => `00${i}`).join()}\n`);
  const { code, out, err } = await runCli(["create", join(folder, "a"), "--from", from, "--json"]);
  const lines = err.trimEnd().split("\n");
  expect([code, lines.length]).toEqual([0, 22]);
  expect(lines[0]).toMatch(/ 1 row of c0 <U3, c1 <U3, .*, c19 <U4 and 10 more columns$/);
  expect(lines[21]).toBe(`superchunk: ${from}: 10 more notes; create --json lists all`);
  expect(JSON.parse(out).notes).toHaveLength(30);
});

test("leading zeros of CSV become numbers if a dtype asks for them", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, "code,price\n007,-0\n-12,inf\n");
  const dtype = '[["code","<i4"],["price","<f8"]]';
  expect((await runCli(["create", path, "--from", from, "--dtype", dtype])).err).not.toContain("is text");
  expect([await columnOf(path, "code"), await columnOf(path, "price")]).toEqual([
    [7, -12],
    [-0, Infinity],
  ]);
});

test("dates of CSV keep NaT, days that do not exist are text, and years that nanoseconds do not reach are microseconds", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, "day,not,far\nNaT,2020-02-28,9999-12-31T23:59:59.5\n2020-02-29,2020-02-30,NaT\n");
  const { err } = await runCli(["create", path, "--from", from]);
  expect(err).toContain("day <M8[D], not <U10, far <M8[us]");
  expect((await runCli(["cat", path, "--format", "csv"])).out).toBe(
    "day,not,far\nNaT,2020-02-28,9999-12-31T23:59:59.500000\n2020-02-29,2020-02-30,NaT\n",
  );
});

test("infinities, all of int64 and times with an offset from UTC keep their values", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(
    from,
    [
      "low,big,zone,day",
      `inf,${2n ** 63n - 1n},2020-01-01T01:00:00.25+02:00,0001-02-28`,
      `-Infinity,-${2n ** 63n},2020-01-01 00:00-0930,2000-02-29`,
      "1.5,0,2020-01-01T00:00:00Z,9999-12-31\n",
    ].join("\n"),
  );
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([
    0,
    expect.stringContaining('column "zone": times with a time zone; they are stored in UTC') as string,
  ]);
  expect(await columnOf(path, "low")).toEqual([Infinity, -Infinity, 1.5]);
  expect(await columnOf(path, "big")).toEqual([2n ** 63n - 1n, -(2n ** 63n), 0n]);
  const times = ["2019-12-31T23:00:00.250Z", "2020-01-01T09:30:00Z", "2020-01-01T00:00:00Z"];
  expect(await columnOf(path, "zone")).toEqual(times.map((time) => BigInt(Date.parse(time)) * 1_000_000n));
  const days = ["0001-02-28", "2000-02-29", "9999-12-31"];
  expect(await columnOf(path, "day")).toEqual(days.map((day) => BigInt(Date.parse(day) / 86_400_000)));
});

test("values of CSV that the pieces of a large file cut are whole, and every day is the right one", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  const count = 40_000;
  const dayOf = (row: number): string => new Date(row * 80 * 86_400_000 - 4e13).toISOString().slice(0, 10);
  const rows = Array.from({ length: count }, (_, i) => `${dayOf(i)},"a ""${i}""\r\n\n${"é".repeat(i % 9)}"`);
  writeFileSync(from, `day,word\r\n${rows.join("\r\n")}\r\n\r\n`);
  expect((await runCli(["create", path, "--from", from, "--clevel", "1"])).code).toBe(0);
  expect(await columnOf(path, "word")).toEqual(rows.map((_, i) => `a "${i}"\r\n\n${"é".repeat(i % 9)}`));
  expect(await columnOf(path, "day")).toEqual(rows.map((_, i) => BigInt(Date.parse(dayOf(i)) / 86_400_000)));
});

test("one column of text comes back from its CSV with its empty values, of which a file ends in none", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, 'word\n\n\n"a\n\nb"\n""\n\n\n');
  expect((await runCli(["create", path, "--from", from])).code).toBe(0);
  const { out } = await runCli(["cat", path, "--format", "csv"]);
  expect(out).toBe('word\n""\n""\n"a\n\nb"\n""\n');
});

test.each([[], ["--strings", "fixed"]])(
  "strings and durations come back from a Parquet file of this library %j",
  async (...options) => {
    const folder = temporaryFolder();
    const [from, file, back] = ["a.bcolz", "a.parquet", "b.bcolz"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const dtype = '[["bytes","|S6"],["text","<U3"],["two","<U2",[2]],["hours","<m8[h]"]]';
    expect(await runCli(["create", from, "--as", "ctable", "--dtype", dtype])).toMatchObject({ code: 0 });
    const table = await edit(from);
    await table.append([
      [new TextEncoder().encode("né日"), "é日", ["a", ""], 3],
      ["", "", ["b", "日x"], "NaT"],
    ]);
    await table.close();
    expect(await runCli(["convert", from, file, ...options])).toMatchObject({ code: 0 });
    expect(await runCli(["create", back, "--from", file])).toMatchObject({ code: 0 });
    expect(await columnOf(back, "bytes")).toEqual(await columnOf(from, "bytes"));
    for (const name of ["text", "two"])
      expect(await columnOf(back, name)).toEqual(await columnOf(from, name));
    expect(await columnOf(back, "hours")).toEqual([10_800n, -(2n ** 63n)]);
    const { dtype: found } = await openArray(back, { column: "hours" });
    expect(formatDType(found)).toBe("<m8[s]");
  },
);

test("columns of the file that the table does not have are left out, and named", async () => {
  const [from, path] = [join(temporaryFolder(), "a.csv"), join(temporaryFolder(), "a")];
  writeFileSync(from, "id,more,other\n1,2,3\n");
  expect((await runCli(["create", path, "--as", "ctable", "--dtype", '[["id","<i4"]]'])).code).toBe(0);
  const { code, err } = await runCli(["append", path, from]);
  expect([code, err]).toEqual([
    0,
    expect.stringContaining("left out, as the rows have no such column: more, other") as string,
  ]);
});

test("times are converted to the archive's unit if that is exact", async () => {
  const path = join(temporaryFolder(), "t.bcolz");
  const dtype = '[["day","<M8[ns]"],["time","<M8[ms]"]]';
  expect((await runCli(["create", path, "--as", "ctable", "--dtype", dtype])).code).toBe(0);
  const { code, err } = await runCli(["append", path, join(FOLDER, "snappy.parquet")]);
  expect([code === 0, err]).toEqual([
    false,
    expect.stringContaining(
      'row 1, column "time" has a time that is more exact than the archive\'s ms',
    ) as string,
  ]);
  const days = join(temporaryFolder(), "d.bcolz");
  expect((await runCli(["create", days, "--as", "ctable", "--dtype", '[["day","<M8[s]"]]'])).code).toBe(0);
  expect((await runCli(["append", days, join(FOLDER, "zstd.feather")])).code).toBe(0);
  expect(await columnOf(days, "day")).toEqual(expected["day"]?.map((day) => BigInt(day as number) * 86_400n));
  const numbers = join(temporaryFolder(), "n.bcolz");
  expect((await runCli(["create", numbers, "--as", "ctable", "--dtype", '[["day","<i8"]]'])).code).toBe(0);
  const refused = await runCli(["append", numbers, join(FOLDER, "zstd.feather")]);
  expect([refused.code === 0, refused.err]).toEqual([
    false,
    expect.stringContaining("is datetime in the file") as string,
  ]);
});

test.each([
  ["wide.parquet", "of integers of 128 bits", "span", [0n, 1_000_000n, 2_000_000n]],
  ["wide.arrow", "of integers of 128 bits", "span", [0n, 1_000_000n, 2_000_000n]],
  ["raised.feather", "of decimals with a negative scale", "span", [0n, 1n]],
  ["named.parquet", 'a struct with a field "__proto__"', "__proto__", [0n]],
])(
  "%s: a column %s is refused by name, and the others keep their types",
  async (file, what, other, values) => {
    const [path, from] = [join(temporaryFolder(), "a"), join(FOLDER, file)];
    const { code, err } = await runCli(["create", path, "--from", from]);
    expect(code).toBe(1);
    expect(err).toMatch(
      new RegExp(`column "wide" is .*${what}.*, which no column.*; name the others with --column`),
    );
    expect((await runCli(["create", path, "--from", from, "--column", other])).code).toBe(0);
    const array = await openArray(path, { column: other });
    expect(formatDType(array.dtype)).toBe("<m8[us]");
    expect(await columnOf(path, other)).toEqual(values);
  },
);

test("a struct's field named __proto__ is read from Arrow", async () => {
  const path = join(temporaryFolder(), "a");
  expect((await runCli(["create", path, "--from", join(FOLDER, "named.feather")])).code).toBe(0);
  expect((await runCli(["cat", path, "--format", "ndjson"])).out.trim()).toBe(`[[1,2],"0"]`);
});

test("numbers of DuckDB that hyparquet reads wrong are refused", async () => {
  const [path, from] = [join(temporaryFolder(), "a"), join(FOLDER, "duckdb-packed.parquet")];
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([1, expect.stringContaining('column "wide" has unsigned numbers') as string]);
  expect((await runCli(["create", path, "--from", from, "--column", "id"])).code).toBe(0);
  expect(await columnOf(path, "id")).toEqual([0n, 1n, 2n]);
});

test.each(["odd.parquet", "odd.feather"])(
  "values of %s that numpy does not hold are not changed silently",
  async (file) => {
    const [from, path] = [join(FOLDER, file), join(temporaryFolder(), "a")];
    const refused = await runCli(["create", path, "--from", from]);
    expect([refused.code === 0, refused.err]).toEqual([
      false,
      expect.stringContaining('column "zeros" has a value that ends in a zero byte') as string,
    ]);
    const dtype = '[["zeros","|V2"],["money","<f8"]]';
    expect((await runCli(["create", path, "--from", from, "--dtype", dtype])).code).toBe(0);
    expect(await columnOf(path, "zeros")).toEqual([Uint8Array.of(97, 0), Uint8Array.of(98, 0)]);
    const { notes } = await openTableFile(from, { as: parseDType('[("money", "<f8")]', "test") });
    expect(notes).toEqual(['column "money": decimals of 38 digits; float64 keeps 15']);
  },
);

test("durations of CSV as cat prints them are appended, in other units if these are exact", async () => {
  const folder = temporaryFolder();
  const [path, csv] = [join(folder, "a"), join(folder, "a.csv")];
  const units = { ms: "<m8[ms]", s3: "<m8[3s]", y: "<m8[Y]", any: "<m8" };
  const dtype = JSON.stringify(Object.entries(units));
  writeFileSync(
    csv,
    "ms,s3,y,any\n-5 milliseconds,6 seconds,1 years,3 generic time units\n2 minutes,1 hour,NaT,NaT\n,,,\n",
  );
  expect((await runCli(["create", path, "--from", csv, "--dtype", dtype])).code).toBe(0);
  writeFileSync(csv, (await runCli(["cat", path, "--format", "csv"])).out);
  expect((await runCli(["append", path, csv])).code).toBe(0);
  const nat = -(2n ** 63n);
  const rows = { ms: [-5n, 120_000n, nat], s3: [2n, 1200n, nat], y: [1n, nat, nat], any: [3n, nat, nat] };
  for (const [name, counts] of Object.entries(rows))
    expect(await columnOf(path, name), name).toEqual([...counts, ...counts]);
  for (const [wrong, why] of [
    ["5 seconds,NaT", 2],
    ["5 lightyears,NaT", 2],
  ] as const) {
    writeFileSync(csv, `s3,y\n${wrong}\n`);
    const narrow = JSON.stringify([
      ["s3", "<m8[3s]"],
      ["y", "<m8[Y]"],
    ]);
    const { code, err } = await runCli(["create", `${path}2`, "--from", csv, "--dtype", narrow]);
    expect([wrong, code], err).toEqual([wrong, why]);
  }
});

test("a file named .tsv has tabs between values, which may have commas", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.tsv"), join(folder, "a")];
  writeFileSync(from, "name,first\tsize\nx,y\t1,5\n");
  expect((await runCli(["create", path, "--from", from])).code).toBe(0);
  expect(await columnOf(path, "name,first")).toEqual(["x,y"]);
  expect(await columnOf(path, "size")).toEqual(["1,5"]);
});

test("times of CSV are nanoseconds as long as these count them, and other text is not a time", async () => {
  const from = join(temporaryFolder(), "a.csv");
  writeFileSync(
    from,
    "last,beyond,first,hour,leap\n2262-04-11T23:47:16.8,2262-04-11T23:47:17,1677-09-21T00:12:44,2020-01-01T24:00,2020-02-29\n2020-01-01 10:00Z,NaT,NaT,NaT,NaT\n",
  );
  const { dtype } = await openTableFile(from);
  expect(dtype.kind === "struct" && dtype.fields.map(({ dtype: own }) => formatDType(own))).toEqual([
    ...["<M8[ns]", "<M8[us]", "<M8[ns]", "<U16", "<M8[D]"],
  ]);
});

test("a column of CSV that cannot be a folder is named, also for bcolz, and stays in one folder with --no-columns", async () => {
  const folder = temporaryFolder();
  const [from, path] = [join(folder, "a.csv"), join(folder, "a")];
  writeFileSync(from, "P/E,x\n1,2\n");
  const { code, err } = await runCli(["create", path, "--from", from]);
  expect([code, err]).toEqual([
    2,
    expect.stringContaining('the name of column "P/E" has a path separator') as string,
  ]);
  for (const name of ["..", "P/E"]) {
    writeFileSync(from, `${name},x\n1,2\n`);
    const table = await runCli(["create", `${path}.bcolz`, "--as", "ctable", "--from", from]);
    const message = expect.stringContaining(`"${name}" cannot name a column: bcolz takes letters`) as string;
    expect([table.code, table.err]).toEqual([2, message]);
  }
  expect((await runCli(["create", path, "--from", from, "--no-columns"])).code).toBe(0);
});

test("a dictionary in an Arrow file of Polars, whose schema is only at its end, becomes strings", async () => {
  // pl.DataFrame({"c": pl.Series(["x"], dtype=pl.Enum(["x"]))}).write_ipc(...), with polars 2.1
  const path = join(temporaryFolder(), "a");
  const { code, err } = await runCli(["create", path, "--from", join(FOLDER, "polars-enum.arrow")]);
  expect([code, err]).toEqual([0, expect.stringContaining("1 row of c <U1") as string]);
  expect(await columnOf(path, "c")).toEqual(["x"]);
});

/** The values of `nested.parquet` and `nested.feather`, which pyarrow wrote. */
const NESTED: Readonly<Record<string, readonly [dtype: unknown, values: readonly unknown[]]>> = {
  point: [
    [
      ["x", "<i8"],
      [
        "at",
        [
          ["y", "<f8"],
          ["tag", "<U3"],
        ],
      ],
    ],
    [
      [1, [0.5, "é"]],
      [-2, ["NaN", "abc"]],
      [3, ["NaN", ""]],
    ],
  ],
  pairs: [
    [
      ["a", "<i8"],
      ["b", "<f8"],
    ],
    [0, 1, 2].map((k) => [
      [k, k / 2],
      [0 - k, "NaN"],
    ]),
  ],
  grid: [
    "<i2",
    [0, 1, 2].map((k) => [
      [k, 1],
      [2, k],
    ]),
  ],
  holes: [
    "<f8",
    [
      [1.5, "NaN"],
      ["NaN", "NaN"],
      ["NaN", 2.5],
    ],
  ],
  z: [
    [
      ["real", "<f8"],
      ["imag", "<f8"],
    ],
    [0, 1, 2].map((k) => [k / 4, k === 0 ? -0 : -k]),
  ],
  uuid: ["|V16", [0, 1, 2].map((k) => Array.from({ length: 16 }, (_, i) => k + i))],
  json: ["<U7", ['{"a":1}', "[]", "2"]],
  price: ["<f8", [0.35, -8.2, "NaN"]],
  clock: ["<m8[us]", ["0", "1", "86399999999"]],
  zoned: ["<M8[us]", ["0", "1", "NaT"]],
  kind: ["<i4", [700, 5, 700]],
};

test.each(["nested.parquet", "nested.feather"])(
  "groups, lists and other types of %s become structs, sub-arrays and times",
  async (file) => {
    const path = join(temporaryFolder(), "a");
    const { code, err } = await runCli(["create", path, "--from", join(FOLDER, file)]);
    expect([code, err]).toEqual([
      0,
      expect.stringContaining('column "zoned": times with a time zone') as string,
    ]);
    for (const [name, [dtype, values]] of Object.entries(NESTED)) {
      const array = await openArray(path, { column: name });
      expect(formatDType(array.dtype), name).toEqual(dtype);
      await array.close();
      const { out } = await runCli(["cat", path, "--column", name, "--format", "json"]);
      expect(JSON.parse(out), name).toEqual(values);
    }
    const complex = join(temporaryFolder(), "c");
    const given = ["--dtype", '[["z","<c16"]]'];
    expect(
      (await runCli(["create", complex, "--as", "ctable", "--from", join(FOLDER, file), ...given])).code,
    ).toBe(0);
    expect(JSON.parse((await runCli(["cat", complex, "--column", "z", "--format", "json"])).out)).toEqual(
      NESTED["z"]?.[1],
    );
  },
);

test("metadata that another program added to a file of this library are attributes, also if they are not JSON", async () => {
  const folder = temporaryFolder();
  const file = join(folder, "t.parquet");
  const own = { key: "superchunk", value: '{"columns":[]}' };
  const added = [
    ["version", "3.5.1"],
    ["", "{"],
    ["__proto__", "7"],
  ];
  const buffer = parquetWriteBuffer({
    columnData: [{ name: "a", data: new Int32Array(3) }],
    kvMetadata: [own, ...added.map(([key = "", value = ""]) => ({ key, value }))],
  });
  writeFileSync(file, new Uint8Array(buffer));
  const { attrs } = await openTableFile(file);
  expect(Object.entries(attrs)).toEqual([
    ["version", "3.5.1"],
    ["", "{"],
    ["__proto__", 7],
  ]);
});

test.each(["parquet", "arrow"])(
  "structs, complex numbers, big-endian values and attributes come back from a .%s file of this library",
  async (format) => {
    const folder = temporaryFolder();
    const [from, file, back] = ["a", `a.${format}`, "b"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const fields =
      '["p",[["x",">i4"],["t","<M8[us]"],["s","|S4"],["z","<c8"],["in",[["u","<U2"],["l","<f2",[2]]]]]],["c",">c16"],["far","<M8[ps]"]';
    expect(
      await runCli([
        "create",
        from,
        "--dtype",
        `[${fields}]`,
        "--attr",
        'note={"a":[1.5,"é"]}',
        "--attr",
        "whole=1.0",
      ]),
    ).toMatchObject({ code: 0 });
    const array = await edit(from);
    await array.append([
      [[-5, 7, new TextEncoder().encode("é"), [1, -2], ["日x", [0.5, -1]]], [0.25, 3], 9],
      [[2 ** 31 - 1, "NaT", "", [0, 0], ["", [1, 2]]], [-1, 1e300], "NaT"],
    ]);
    await array.close();
    expect(await runCli(["convert", from, file])).toMatchObject({ code: 0 });
    expect(await runCli(["create", back, "--from", file, "--attr", "more=1"])).toMatchObject({ code: 0 });
    const [before, after] = [await openArray(from), await openArray(back)];
    expect(formatDType(after.dtype)).toEqual(formatDType(before.dtype));
    expect(after.attrs).toEqual({ ...before.attrs, more: 1 });
    expect(JsonFloat.memberOf(after.attrs, "whole")).toEqual(new JsonFloat(1));
    await Promise.all([before.close(), after.close()]);
    const [one, two] = await Promise.all(
      [from, back].map((path) => runCli(["cat", path, "--format", "json"])),
    );
    expect(two?.out).toBe(one?.out);
    // A field with another name is not guessed.
    const other = join(folder, "c");
    expect(await runCli(["create", other, "--dtype", `[${fields.replace('"x"', '"y"')}]`])).toMatchObject({
      code: 0,
    });
    const refused = await runCli(["append", other, file]);
    expect([refused.code === 0, refused.err]).toEqual([
      false,
      expect.stringContaining("with other fields than in the archive") as string,
    ]);
  },
);

test("zipline's bars come back from Parquet as zipline stores them", async () => {
  const folder = temporaryFolder();
  const [from, file, back] = ["a.bcolz", "a.parquet", "b.bcolz"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const csv = join(folder, "a.csv");
  writeFileSync(
    csv,
    "open,high,low,close,volume,day,id\n1,2,3,4,5,1388707200,24\n6,7,8,9,10,1388966400,24\n",
  );
  const dtype = JSON.stringify(
    ["open", "high", "low", "close", "volume", "day", "id"].map((name) => [name, "<u4"]),
  );
  const attrs = ["first_row", "last_row", "calendar_offset"].flatMap((name) => [
    "--attr",
    `${name}={"24":0}`,
  ]);
  expect(
    await runCli(["create", from, "--as", "ctable", "--from", csv, "--dtype", dtype, ...attrs]),
  ).toMatchObject({ code: 0 });
  expect(await runCli(["convert", from, file])).toMatchObject({ code: 0 });
  expect(await runCli(["create", back, "--as", "ctable", "--from", file])).toMatchObject({ code: 0 });
  expect(await columnOf(back, "day")).toEqual([1_388_707_200, 1_388_966_400]);
  for (const command of [["cat", "--where", "day > 2014-01-04"], ["attrs"]])
    expect(await runCli([...command, back])).toEqual(await runCli([...command, from]));
});

test("months and years come back from dates, if they are the first day; a missing column names those of the file", async () => {
  const folder = temporaryFolder();
  const [csv, made, file] = ["a.csv", "made", "a.parquet"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(csv, "m,y,d\n2020-02,1969,2020-02-29\nNaT,9999,1969-12-31\n1969-12,NaT,NaT\n");
  const dtype = (d: string): string =>
    JSON.stringify([
      ["m", "<M8[M]"],
      ["y", ">M8[Y]"],
      ["d", d],
    ]);
  expect(await runCli(["create", made, "--from", csv, "--dtype", dtype("<M8[D]")])).toMatchObject({
    code: 0,
  });
  expect(await runCli(["convert", made, file])).toMatchObject({ code: 0 });
  const back = join(folder, "back");
  expect(await runCli(["create", back, "--from", file, "--dtype", dtype("<M8[D]")])).toMatchObject({
    code: 0,
  });
  for (const column of ["m", "y", "d"])
    expect(await columnOf(back, column)).toEqual(await columnOf(made, column));
  const odd = await runCli(["create", join(folder, "odd"), "--from", file, "--dtype", dtype("<M8[M]")]);
  expect([odd.code, odd.err]).toEqual([2, expect.stringContaining("not a date in units of M") as string]);
  const missing = await runCli(["create", join(folder, "odd"), "--from", file, "--dtype", '[["x","<f8"]]']);
  expect(missing.err).toContain('no column "x" in the file; expected one of m, y, d');
});

test("rows become Parquet whatever their columns are called", async () => {
  const folder = temporaryFolder();
  const [made, file, back] = ["made", "a.parquet", "back"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const names = ["a\\b", "a/b", "..", "a.b", 'q"', "é", " ", "A", "a"];
  const array = await create(made, {
    dtype: parseDType(
      names.map((name) => [name, "<i4"]),
      "names",
    ),
    shape: [2],
    columns: false,
  });
  await array.set(
    null,
    [0, 10].map((first) => names.map((_, i) => first + i)),
  );
  await array.close();
  const { code, bytes, err } = await runCli(["cat", made, "--format", "parquet"]);
  expect([code, err]).toEqual([0, ""]);
  writeFileSync(file, bytes);
  expect(await runCli(["create", back, "--from", file, "--no-columns"])).toMatchObject({ code: 0 });
  const printed = await runCli(["cat", made, "--format", "ndjson"]);
  expect(printed.out.split("\n")).toHaveLength(3);
  expect(await runCli(["cat", back, "--format", "ndjson"])).toEqual(printed);
});

test("columns of CSV are the same in any order, read together or alone, and again", async () => {
  const from = join(temporaryFolder(), "a.csv");
  const lines = Array.from({ length: 30_000 }, (_, i) => `${i},${i / 8},2020-01-0${1 + (i % 9)},t${i % 7}`);
  writeFileSync(from, `i,x,day,word\n${lines.join("\n")}\n`);
  const table = await openTableFile(from);
  const bytesOf = async (pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> => {
    const all: Uint8Array[] = [];
    for await (const piece of pieces) all.push(piece);
    return Uint8Array.from(Buffer.concat(all));
  };
  const whole = toValues(await bytesOf(table.rows()), table.dtype) as StructArray;
  for (const name of ["day", "word", "i", "x", "x", "day", "word", "i"]) {
    const field = table.field(name);
    const values = toValues(await bytesOf(field.rows()), field.dtype);
    expect([...values], name).toEqual([...whole.field(name)]);
  }
});

test("a file of Parquet in a codec that cannot be read is refused with the codecs that can, and damage is damage", async () => {
  const folder = temporaryFolder();
  const bytes = readFileSync(join(FOLDER, "none.parquet"));
  const path = join(folder, "a.parquet");
  // The first page's header.
  writeFileSync(path, bytes.fill(0xff, 4, 40));
  const damaged = await runCli(["create", join(folder, "a"), "--from", path]);
  expect([damaged.code, damaged.err]).toEqual([
    3,
    expect.stringContaining('column "i8" is damaged') as string,
  ]);
  // The footer says lzo in place of brotli.
  const brotli = readFileSync(join(FOLDER, "brotli.parquet")).toString("latin1");
  writeFileSync(path, Buffer.from(brotli.replaceAll("\x15\x08\x16", "\x15\x06\x16"), "latin1"));
  const lzo = await runCli(["create", join(folder, "a"), "--from", path]);
  expect([lzo.code, lzo.err]).toEqual([1, expect.stringContaining("LZO; write it with a codec of snappy")]);
});

test("a damaged page of a Parquet file is refused at once, whatever its counts say", async () => {
  const open = async (name: string, byte: number): Promise<string> => {
    const bytes = Uint8Array.from(readFileSync(join(FOLDER, name)));
    bytes[byte] = 0xff - (bytes[byte] ?? 0);
    const store = new MemoryStore();
    await store.put("a.parquet", bytes);
    try {
      const table = await openParquetTable(async () => ({ store, path: "a.parquet" }), {});
      const columns = table.columns.map(({ name: column }) => column);
      await table.openChunks?.(columns);
      for await (const _ of table.read(columns, undefined));
      return "read";
    } catch (error) {
      return error instanceof SuperchunkError ? error.code : `${error}`;
    }
  };
  // A header, levels and runs of a page that is not compressed: 20,645 made an array that the engine ends the process for.
  for (let byte = 20_626; byte < 20_690; byte++)
    expect(await open("none.parquet", byte), `byte ${byte}`).toMatch(/^(read|[A-Z_]+)$/);
  // The same in a compressed page: a run of a hundred million levels.
  expect(await open("snappy.parquet", 820)).toBe("BAD_FIELD");
  // The footer, whose parts are then of other types.
  for (const byte of [8467, 5182, 2667])
    expect(await open("polars.parquet", byte), `byte ${byte}`).toMatch(/^(read|[A-Z_]+)$/);
});

test("lz4 as Hadoop and Spark write it, in blocks with two lengths, and times of twelve bytes are read", async () => {
  const path = join(temporaryFolder(), "a");
  expect((await runCli(["create", path, "--from", join(FOLDER, "spark-lz4.parquet")])).code).toBe(0);
  const rows = Array.from({ length: 20_000 }, (_, i) => i);
  expect(await columnOf(path, "word")).toEqual(rows.map((i) => `t${i % 7}`.repeat(20)));
  expect(await columnOf(path, "time")).toEqual(rows.map((i) => BigInt(i % 100) * 1_000_000_000n));
  expect(await columnOf(path, "eighth")).toEqual(rows.map((i) => (i % 5 === 0 ? Number.NaN : (i % 40) / 8)));
});

test("--column takes some columns of a file, in the given order, past those that no archive holds", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "a");
  const from = ["--from", join(FOLDER, "nested.parquet")];
  const taken = await runCli(["create", path, ...from, "--column", "price", "--column", "uuid"]);
  expect([taken.code, taken.err]).toEqual([0, expect.stringContaining("3 rows of price <f8, uuid |V16\n")]);
  const csv = join(folder, "a.csv");
  writeFileSync(csv, "a,b,c\n1,2,3\n");
  const table = ["create", join(folder, "t"), "--as", "ctable", "--from", csv];
  expect((await runCli([...table, "--column", "c", "--column", "a"])).code).toBe(0);
  expect((await runCli(["cat", join(folder, "t"), "--format", "csv"])).out).toBe("c,a\n3,1\n");
  const unknown = await runCli(["create", join(folder, "b"), ...from, "--column", "prize"]);
  expect([unknown.code, unknown.err]).toEqual([
    expect.any(Number),
    expect.stringContaining('no column "prize" in the file; expected one of point, pairs'),
  ]);
});

test("integers become floats if these hold all their digits", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "a");
  const create = (from: string, column: string, dtype: string) =>
    runCli(["create", path, "--overwrite", "--from", from, "--dtype", `[["${column}","${dtype}"]]`]);
  expect((await create(join(FOLDER, "none.parquet"), "u2", "<f4")).code).toBe(0);
  expect(await columnOf(path, "u2")).toEqual(expected["u2"]);
  for (const [column, dtype, row, value] of [
    ["u2", "<f2", 11, "2321"],
    ["u8", "<f4", 1, "36028797018963969"],
    ["u8", "<f8", 1, "36028797018963969"],
  ] as const) {
    const { code, err } = await create(join(FOLDER, "zstd.feather"), column, dtype);
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(`row ${row}, .* has the integer ${value}, of which a float of .* loses digits`),
    ]);
  }
});

test("booleans become floats, which have a value for nulls, if the caller says so", async () => {
  const path = join(temporaryFolder(), "a");
  const dtype = '[["flag","<f4"]]';
  const from = join(FOLDER, "none.parquet");
  expect((await runCli(["create", path, "--from", from, "--dtype", dtype])).code).toBe(0);
  expect(await columnOf(path, "flag")).toEqual((expected["flag"] ?? []).map(Number));
});

test("columns of nulls alone get the type of the archive, and create asks for one", async () => {
  const folder = temporaryFolder();
  const [file, arrow, made] = ["n.parquet", "n.arrow", "made"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const names = ["f", "s", "t", "i"];
  const parts = names.map((name) => ({
    ...({ name, type: "INT32", repetition_type: "OPTIONAL" } as const),
    logical_type: { type: "NULL" } as const,
  }));
  const rows = (own: readonly string[]): void => {
    const schema = [{ name: "schema", num_children: own.length }, ...parts.slice(0, own.length)];
    const columnData = own.map((name) => ({ name, data: [null, null] }));
    writeFileSync(file, new Uint8Array(parquetWriteBuffer({ columnData, schema })));
    const columns = own.map((name): [string, Column<unknown>] => [
      name,
      columnFromArray([null, null], nullType()),
    ]);
    writeFileSync(arrow, tableToIPC(tableFromColumns(columns), {}) as Uint8Array);
  };
  const dtype = '[["f","<f4",[2]],["s","<U3"],["t","<M8[D]"]]';
  expect(await runCli(["create", made, "--dtype", dtype, "--shape", "0"])).toMatchObject({ code: 0 });
  rows(names.slice(0, 3));
  for (const each of [file, arrow]) {
    const { err } = await runCli(["create", join(folder, "no"), "--from", each]);
    expect(err).toContain('column "f" is of nulls alone (give it a type: --dtype)');
    expect(await runCli(["append", made, each])).toMatchObject({ code: 0 });
  }
  const { out } = await runCli(["cat", made, "--format", "ndjson"]);
  expect(out).toBe('[["NaN","NaN"],"","NaT"]\n'.repeat(4));
  const whole = ["create", join(folder, "i"), "--dtype", '[["f","<i4"]]', "--shape", "0"];
  expect((await runCli(whole)).code).toBe(0);
  rows(["f"]);
  for (const each of [file, arrow])
    expect((await runCli(["append", join(folder, "i"), each])).err).toContain("int has no value for that");
});

test("a folder and a missing file are reported as such, whatever the name says", async () => {
  const folder = temporaryFolder();
  for (const name of ["a.parquet", "a.arrow", "a.csv", "a.npy"]) {
    const path = join(folder, name);
    const opening = name === "a.npy" ? openNpy : openTableFile;
    await expect(opening(path)).rejects.toMatchObject({ code: "NOT_FOUND", details: { path } });
    mkdirSync(path);
    const failure = { code: "UNSUPPORTED", details: { path, expected: "a file", found: "a folder" } };
    await expect(opening(path)).rejects.toMatchObject(failure);
  }
});

test("floats of Arrow keep the bits of every NaN, also in lists, and in another order of bytes", async () => {
  const folder = temporaryFolder();
  const [first, file, made] = ["first", "a.arrow", "made"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const doubles = [0x7ff0_0000_0000_0001n, 0xfff8_0000_0000_0123n, 0x7ff7_ffff_ffff_ffffn];
  const rows = new Uint8Array(3 * 30);
  const view = new DataView(rows.buffer);
  for (const [row, bits] of doubles.entries()) {
    for (const at of [0, 8, 16]) view.setBigUint64(30 * row + at, bits + BigInt(at), true);
    view.setUint32(30 * row + 24, [0x7f80_0001, 0xffc0_0123, 0x7fbf_ffff][row] as number, true);
    view.setUint16(30 * row + 28, [0x7c01, 0xfe12, 0x7dff][row] as number, true);
  }
  const dtype = (order: string) => [
    ["d", `${order}f8`],
    ["l", `${order}f8`, [2]],
    ["s", `${order}f4`],
    ["h", `${order}f2`],
  ];
  await (await create(first, { dtype: dtype("<"), data: rows })).close();
  expect(await runCli(["convert", first, file])).toMatchObject({ code: 0 });
  expect(await runCli(["create", made, "--from", file])).toMatchObject({ code: 0 });
  const big = `${made}-big`;
  const turned = ["create", big, "--from", file, "--dtype", JSON.stringify(dtype(">"))];
  expect(await runCli(turned)).toMatchObject({ code: 0 });
  for (const path of [made, big])
    for (const [name, width] of [
      ["d", 8],
      ["l", 8],
      ["s", 4],
      ["h", 2],
    ] as const) {
      await using wanted = await openArray(first, { column: name });
      await using got = await openArray(path, { column: name });
      const bytes = await got.getBytes();
      if (path === big) swapBytes(bytes, width);
      expect(bytes, name).toEqual(await wanted.getBytes());
    }
});
