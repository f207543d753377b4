/** `resize` and `attrs`, on arrays and tables of every kind. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import type { ArrayArchive, TableArchive } from "../../src/archive/kinds/types.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { open } from "../../src/node/index.ts";
import { findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { lockFromAfar } from "./foreign-lock.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(async () => {
  folder = temporaryFolder();
  cpSync(findFixture("carray/bcolz-dflt-resized").file, at("carray"), { recursive: true });
  cpSync(findFixture("ctable/bcolz-mixed").file, at("table"), { recursive: true });
  const root = await createArray(at("root"), { dtype: "<f8", fillValue: -1.5 });
  await root.append(Float64Array.from({ length: 150 }, (_, i) => i));
  await root.close();
});
describe("resize", () => {
  it.each(["carray", "root"])("cuts rows off and fills new rows with the default value: %s", async (name) => {
    const { code, out, err } = await runCli(["resize", at(name), "20"]);
    expect([code, out, err]).toEqual([0, "", `superchunk: ${at(name)}: 20 rows now, 150 rows before\n`]);
    expect((await runCli(["resize", at(name), "23"])).code).toBe(0);
    const array = (await open(at(name))) as ArrayArchive;
    expect([array.shape, await array.get([20]), await array.get([22])]).toEqual([[23], -1.5, -1.5]);
    expect((await runCli(["verify", at(name)])).code).toBe(0);
  });

  it("a dry run reports what would change, and changes nothing", async () => {
    const { code, err } = await runCli(["resize", at("root"), "20", "--dry-run"]);
    const told = `superchunk: ${at("root")}: 130 rows would be cut off, 20 rows then\n`;
    expect([code, err]).toEqual([0, told]);
    expect((await runCli(["resize", at("root"), "151", "--dry-run"])).err).toContain(
      "1 row would be appended with default values (8 bytes uncompressed), 151 rows then",
    );
    expect(((await open(at("root"))) as ArrayArchive).shape).toEqual([150]);
    cpSync(findFixture("bloscpack-3/array-f8.blp").file, at("f.blp"));
    expect((await runCli(["resize", at("f.blp"), "2", "--dry-run"])).code).toBe(0);
    expect(readFileSync(at("f.blp")).equals(readFileSync(findFixture("bloscpack-3/array-f8.blp").file))).toBe(
      true,
    );
  });

  it("resizes all columns of a table", async () => {
    expect((await runCli(["resize", at("table"), "7"])).code).toBe(0);
    const table = (await open(at("table"))) as TableArchive;
    expect([table.length, table.column("price").shape]).toEqual([7, [7]]);
    expect((await runCli(["verify", at("table")])).code).toBe(0);
  });

  it("a Bloscpack file keeps its first rows; wrong numbers are refused with 2", async () => {
    cpSync(findFixture("bloscpack-3/array-f8.blp").file, at("f.blp"));
    const rows = async (): Promise<unknown[]> =>
      JSON.parse((await runCli(["cat", at("f.blp"), "--format", "json"])).out) as unknown[];
    const before = await rows();
    expect((await runCli(["resize", at("f.blp"), "2"])).code).toBe(0);
    expect(await rows()).toEqual(before.slice(0, 2));
    expect((await runCli(["resize", at("f.blp"), "2,2"])).code).toBe(2);
    for (const rows of ["-1", "1.5", "x"])
      expect((await runCli(["resize", at("carray"), rows])).code).toBe(2);
  });

  it("is refused while another writer holds the lock, until the lock is broken", async () => {
    const host = lockFromAfar(at("carray/meta/lock"));
    const refused = await runCli(["resize", at("carray"), "5"]);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain(host);
    expect((await runCli(["resize", at("carray"), "5", "--break-lock"])).code).toBe(0);
    expect(existsSync(at("carray/meta/lock"))).toBe(false);
  });
});

describe("attrs", () => {
  it("of a group are printed although an array in it cannot be read, which cat names", async () => {
    const group = at("group");
    mkdirSync(join(group, "x"), { recursive: true });
    writeFileSync(join(group, ".zgroup"), '{"zarr_format": 2}');
    writeFileSync(join(group, "x/.zarray"), '{"zarr_format": 2}');
    expect((await runCli(["attrs", group])).out).toBe("{}\n");
    expect(JSON.parse((await runCli(["attrs", join(repositoryRoot, "fixtures/hdf5/text.h5")])).out)).toEqual(
      {},
    );
    for (const argv of [["set", "--slice", "0", "--value", "1"], ["index"]]) {
      const [verb = "", ...rest] = argv;
      const path = join(repositoryRoot, "fixtures/hdf5/pytables.h5/prices");
      const { code, err } = await runCli([verb, path, ...rest]);
      expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/only read/) });
    }
    const text = await runCli(["cat", join(repositoryRoot, "fixtures/hdf5/text.h5")]);
    expect(text).toMatchObject({
      code: 1,
      err: expect.stringMatching(/text\.h5\/lists: .*; --column chooses/),
    });
  });

  it.each(["carray", "table", "root"])("prints, sets and removes: %s", async (name) => {
    const argv = [
      "attrs",
      at(name),
      "--set",
      'a={"x": [1, null]}',
      "--set",
      "b=plain text",
      "--set",
      "c=1e300",
    ];
    expect(await runCli(argv)).toMatchObject({ code: 0, out: "", err: "" });
    expect((await runCli(["attrs", at(name), "--remove", "b"])).code).toBe(0);
    const { out } = await runCli(["attrs", at(name)]);
    expect(JSON.parse(out)).toMatchObject({ a: { x: [1, null] }, c: 1e300 });
    expect(JSON.parse(out)).not.toHaveProperty("b");
    expect((await runCli(["attrs", at(name), "--remove", "b"])).code).toBe(1);
    expect((await runCli(["attrs", at(name), "--set", "b"])).code).toBe(2);
    expect(existsSync(join(at(name), "__attrs__"))).toBe(name !== "root");
  });

  it.each([
    ["carray", "__attrs__"],
    ["table", "__attrs__"],
    ["root", "meta/attributes"],
  ])("keep as floats what Python reads as floats: %s", async (name, file) => {
    const argv = ["attrs", at(name), "--set", "whole=1.0", "--set", 'list=[2, 3.0, {"x": 1e2}]'];
    expect((await runCli(argv)).code).toBe(0);
    expect((await runCli(["attrs", at(name), "--set", "other=2"])).code).toBe(0);
    const text = readFileSync(at(`${name}/${file}`), "utf8");
    expect(text).toContain('"whole": 1.0');
    expect(text).toContain('"list": [2, 3.0, {"x": 100.0}]');
  });

  it.each(["carray", "table", "root"])(
    "[FJ-10] are printed with their floats and all digits: %s",
    async (name) => {
      const typed = ["whole=1.0", 'list=[2, 3.0, {"x": -0.0}]', "big=9007199254740993", "large=1e16", "n=7"];
      expect((await runCli(["attrs", at(name), ...typed.flatMap((text) => ["--set", text])])).code).toBe(0);
      const { out } = await runCli(["attrs", at(name)]);
      expect(out).toMatch(/"whole": 1\.0,/);
      expect(out.replaceAll(/\s/g, "")).toContain('"list":[2,3.0,{"x":-0.0}],"big":9007199254740993');
      expect(out).toMatch(/"large": 10000000000000000\.0,\s+"n": 7\s/);
      const info = (await runCli(["info", at(name)])).out;
      expect(info).toMatch(/attribute +whole = 1\.0\n/);
      expect(info).toMatch(/attribute +n = 7\n/);
      expect((await runCli(["info", at(name), "--json"])).out).toContain('"whole": 1.0,');
    },
  );

  it("a float that overflows is refused and nothing is stored; Infinity is accepted as a word", async () => {
    const refused = await runCli(["attrs", at("root"), "--set", "ok=1", "--set", "f=[1, 1e400]"]);
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringContaining("1e400 is beyond the largest float"),
    ]);
    expect(JSON.parse((await runCli(["attrs", at("root")])).out)).toEqual({});
    for (const argv of [
      ["set", at("root"), "--slice", "0", "--value", "-1e400"],
      ["create", at("new"), "--dtype", "<f8", "--dflt", "1e400"],
    ])
      expect((await runCli(argv)).code).toBe(2);
    expect((await runCli(["attrs", at("root"), "--set", "f=-Infinity", "--set", "t=1e400 text"])).code).toBe(
      0,
    );
    expect(readFileSync(at("root/meta/attributes"), "utf8")).toBe('{"f": -Infinity, "t": "1e400 text"}\n');
  });

  it("[FJ-10] keep their floats on the way into Zarr and back", async () => {
    const stored = '{"whole": 1.0, "list": [2.0, 2], "n": 3}';
    writeFileSync(at("carray/__attrs__"), stored);
    expect((await runCli(["convert", at("carray"), at("z")])).code).toBe(0);
    const document = readFileSync(at("z/zarr.json"), "utf8").replaceAll(/\s/g, "");
    expect(document).toContain('"attributes":{"whole":1.0,"list":[2.0,2],"n":3}');
    expect((await runCli(["attrs", at("z")])).out.replaceAll(/\s/g, "")).toBe(
      '{"whole":1.0,"list":[2.0,2],"n":3}',
    );
    // Unchanged attributes keep their floats.
    expect((await runCli(["attrs", at("z"), "--set", "n=4"])).code).toBe(0);
    expect((await runCli(["attrs", at("z"), "--set", "n=3"])).code).toBe(0);
    expect(readFileSync(at("z/zarr.json"), "utf8").replaceAll(/\s/g, "")).toBe(document);
    expect((await runCli(["convert", at("z"), at("back"), "--to", "bcolz"])).code).toBe(0);
    expect(readFileSync(at("back/__attrs__"), "utf8").trim()).toBe(stored);
  });

  it("of a Bloscpack file are its metadata", async () => {
    const { file, attrs } = findFixture("bloscpack-3/cli-meta.blp");
    cpSync(file, at("f.blp"));
    expect(JSON.parse((await runCli(["attrs", at("f.blp")])).out)).toEqual(attrs);
    expect((await runCli(["attrs", at("f.blp"), "--set", "a=1"])).code).toBe(0);
    expect(JSON.parse((await runCli(["attrs", at("f.blp")])).out)).toEqual({ ...attrs, a: 1 });
    expect((await runCli(["verify", at("f.blp")])).code).toBe(0);
  });
});
