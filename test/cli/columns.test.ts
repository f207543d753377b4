/** `columns`, and `create` of what bcolz opens. */
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { FileStore } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { seeCarray } from "../write/bcolz/bcolz-rules.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);
const doubles = (count: number): Buffer =>
  Buffer.from(Float64Array.from({ length: count }, (_, i) => i / 2).buffer);

function npy(name: string, dtype: string, shape: readonly number[], values: Uint8Array): string {
  const parsed = parseDType(dtype.startsWith("[") ? JSON.parse(dtype) : dtype, "");
  writeFileSync(at(name), Buffer.concat([encodeNpyHeader(parsed, shape), values]));
  return at(name);
}

async function json(argv: readonly string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await runCli([...argv, "--json"]);
  expect([code, err]).toEqual([0, ""]);
  return JSON.parse(out) as Record<string, unknown>;
}

/** The bytes of float64 rows as bcolz finds them. */
async function bcolzRows(name: string): Promise<Buffer> {
  const store = new FileStore(at(name));
  try {
    return Buffer.from((await seeCarray(store, "", 8)).hex, "hex");
  } finally {
    await store.close();
  }
}

async function rowsOf(name: string, slice = ":"): Promise<unknown> {
  expect((await runCli(["verify", at(name)])).code).toBe(0);
  const { out } = await runCli(["cat", at(name), "--format", "json", "--slice", slice]);
  return JSON.parse(out);
}

beforeEach(() => {
  folder = temporaryFolder();
});
describe("columns", () => {
  beforeEach(async () => {
    cpSync(findFixture("ctable/bcolz-mixed").file, at("table"), { recursive: true });
    const dtype = '[["id","<i4"],["name","|S5"],["price","<f8"]]';
    const argv = ["create", at("root"), "--dtype", dtype, "--shape", "90", "--dflt", '[1,"x",2.5]'];
    expect((await runCli(argv)).code).toBe(0);
  });

  it.each(["table", "root"])("are listed: %s", async (name) => {
    const { out } = await runCli(["columns", at(name)]);
    expect(out).toBe("id     <i4  90\nname   |S5  90\nprice  <f8  90\n");
    expect(await json(["columns", at(name)])).toEqual({
      path: at(name),
      changes: [],
      columns: [
        { name: "id", dtype: "<i4", shape: [90] },
        { name: "name", dtype: "|S5", shape: [90] },
        { name: "price", dtype: "<f8", shape: [90] },
      ],
    });
  });

  it.each(["table", "root"])("are changed in the order of the arguments: %s", async (name) => {
    const pairs = npy("pairs.npy", "<f8", [90, 2], doubles(180));
    const typed = [
      "--rename",
      "id=key",
      "--delete",
      "name",
      "--add",
      `id=${pairs}`,
      "--add",
      "flag",
      "--rename",
      "key=k",
    ];
    const done = await json(["columns", at(name), ...typed, "--dtype", "<i2", "--dflt", "7"]).catch(
      () => undefined,
    );
    expect(done).toBeUndefined(); // with a dtype files are raw bytes, and these have other lengths
    expect((await runCli(["columns", at(name), "--rename", "key=id"])).code).toBe(0);
    const { changes, columns } = await json([
      "columns",
      at(name),
      "--add",
      `pair=${pairs}`,
      "--rename",
      "id=k",
    ]);
    expect(changes).toEqual([
      { kind: "add", name: "pair", file: pairs },
      { kind: "rename", name: "id", to: "k" },
    ]);
    expect(columns).toEqual([
      { name: "k", dtype: "<i4", shape: [90] },
      { name: "price", dtype: "<f8", shape: [90] },
      { name: "pair", dtype: "<f8", shape: [90, 2] },
    ]);
    await json(["columns", at(name), "--add", "flag", "--dtype", "<i2", "--dflt", "7"]);
    // A row of a table is an object, one of an array a list.
    expect(JSON.stringify(await rowsOf(name, "89"))).toMatch(/\[89,89\.5\].*7/);
  });

  it.each(["table", "root"])(
    "what does not fit is refused, and what was done before is reported: %s",
    async (name) => {
      const short = npy("short.npy", "<f8", [89], doubles(89));
      const refused = await runCli(["columns", at(name), "--add", `x=${short}`]);
      expect([refused.code, refused.err]).toEqual([
        2,
        expect.stringContaining("89 rows, but the other columns have 90"),
      ]);
      const half = await runCli(["columns", at(name), "--delete", "name", "--delete", "none"]);
      expect([half.code, half.err]).toEqual([
        1,
        expect.stringMatching(/done before: delete "name"\n.*"none"/),
      ]);
      expect((await runCli(["columns", at(name), "--add", "x"])).code).toBe(2);
      expect((await runCli(["columns", at(name), "--add", "id", "--dtype", "<f8"])).code).toBe(1);
      expect((await runCli(["columns", at(name), "--rename", "id"])).code).toBe(2);
      const { columns } = await json(["columns", at(name)]);
      expect((columns as { name: string }[]).map((column) => column.name)).toEqual(["id", "price"]);
    },
  );

  it("do not exist for a single array or a file", async () => {
    const { file } = findFixture("bloscpack-3/array-f8.blp");
    for (const argv of [[file], [file, "--delete", "a"]]) {
      const { code, err } = await runCli(["columns", ...argv]);
      expect([code, err]).toEqual([1, expect.stringContaining("only tables")]);
    }
  });
});

describe("create --as", () => {
  it("makes a carray that cuts the rows by bcolz's own rules", async () => {
    const from = npy("p.npy", "<f8", [1000], doubles(1000));
    const argv = [
      "create",
      at("a"),
      "--as",
      "carray",
      "--from",
      from,
      "--chunklen",
      "300",
      "--attr",
      "x=1.0",
    ];
    expect(await json(argv)).toMatchObject({
      dialect: "carray",
      dtype: "<f8",
      shape: [1000],
      chunkLength: 300,
    });
    expect((await bcolzRows("a")).equals(doubles(1000))).toBe(true);
    expect(readFileSync(at("a/__attrs__"), "utf8")).toBe('{"x": 1.0}\n');
    await json(["create", at("b"), "--as", "carray", "--dtype", "<i2", "--shape", "5,2", "--dflt", "3"]);
    expect(await rowsOf("b")).toEqual(Array.from({ length: 5 }, () => [3, 3]));
    await json(["create", at("c"), "--as", "carray", "--dtype", "<f8"]);
    expect(await rowsOf("c")).toEqual([]);
  });

  it("makes a ctable from a structured .npy, from one file per column, or from default values", async () => {
    const fields = '[["id","<i4"],["price","<f8"]]';
    const items = Buffer.alloc(12 * 50);
    for (let i = 0; i < 50; i++) {
      items.writeInt32LE(i, 12 * i);
      items.writeDoubleLE(i / 2, 12 * i + 4);
    }
    const rows = npy("rows.npy", fields, [50], items);
    const made = await json(["create", at("a"), "--as", "ctable", "--from", rows, "--attr", "k=1"]);
    expect(made).toMatchObject({ dialect: "ctable", columns: ["id", "price"], rows: 50, attrs: { k: 1 } });
    expect(await rowsOf("a", "49")).toEqual([{ id: 49, price: 24.5 }]);
    expect((await bcolzRows("a/price")).equals(doubles(50))).toBe(true);

    const price = npy("price.npy", "<f8", [50], doubles(50));
    const pair = npy("pair.npy", "<f8", [50, 2], doubles(100));
    await json(["create", at("b"), "--as", "ctable", "--column", `p=${price}`, "--column", `q=${pair}`]);
    expect(await rowsOf("b", "49")).toEqual([{ p: 24.5, q: [49, 49.5] }]);
    await json([
      "create",
      at("c"),
      "--as",
      "ctable",
      "--dtype",
      fields,
      "--shape",
      "3",
      "--dflt",
      "[4, 0.5]",
    ]);
    expect(await rowsOf("c", "2")).toEqual([{ id: 4, price: 0.5 }]);
    await json(["append", at("c"), rows]);
    expect(await rowsOf("c", "2:4")).toEqual([
      { id: 4, price: 0.5 },
      { id: 0, price: 0 },
    ]);
  });

  it("leaves nothing if it fails", async () => {
    const good = npy("good.npy", "<f8", [5], doubles(5));
    const other = npy("other.npy", "<f8", [6], doubles(6));
    const structs = npy("structs.npy", '[["a","<f8"]]', [5], doubles(5));
    writeFileSync(at("odd"), Buffer.alloc(12));
    const before = readdirSync(folder);
    for (const [code, ...argv] of [
      [2, "--as", "carray", "--from", at("odd"), "--dtype", "<f8"],
      [2, "--as", "carray", "--from", good, "--checksum", "md5"],
      [1, "--as", "carray", "--from", structs],
      [2, "--as", "ctable", "--from", good],
      [2, "--as", "ctable", "--column", `a=${good}`, "--column", `b=${other}`],
      [2, "--as", "ctable", "--column", `_a=${good}`],
      [2, "--as", "ctable", "--column", good],
      [2, "--column", `a=${good}`],
    ] as const) {
      const result = await runCli(["create", at("a"), ...argv.map(String)]);
      expect([argv, result.code]).toEqual([argv, code]);
      expect(readdirSync(folder)).toEqual(before);
    }
  });

  it("--overwrite replaces an existing archive, a table with its columns, and nothing else", async () => {
    const good = npy("good.npy", "<f8", [5], doubles(5));
    const kinds = [
      ["--as", "ctable", "--column", `a=${good}`],
      ["--from", good],
      ["--as", "carray", "--from", good],
      ["--as", "ctable", "--column", `b=${good}`],
      ["--from", good, "--as", "superchunk"],
    ];
    let dialect = "";
    for (const kind of kinds) {
      if (dialect !== "") {
        writeFileSync(at("a/notes.txt"), "mine");
        expect((await runCli(["create", at("a"), ...kind])).code).toBe(1);
      }
      dialect = String((await json(["create", at("a"), ...kind, "--overwrite"]))["dialect"]);
      expect((await runCli(["verify", at("a")])).code).toBe(0);
    }
    expect([dialect, readdirSync(at("a")).sort()]).toEqual(["blz-superchunk", ["data", "meta", "notes.txt"]]);
    expect(existsSync(at("a/b"))).toBe(false);
  });
});
