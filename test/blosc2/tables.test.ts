/** C2 tables of python-blosc2: groups of columns, with the values that were written; and which columns are refused. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { textRowsOf } from "../../src/blosc2/text-rows.ts";
import { open } from "../../src/node/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const folder = join(repositoryRoot, "fixtures/blosc2-tables");
const values = JSON.parse(readFileSync(join(folder, "values.json"), "utf8")) as Readonly<
  Record<string, string>
>;
const NAMES = ["id", "price", "when", "flag", "name"];

test.each(["table.b2z", "table.b2d", "tables.b2z/a/rows"])(
  "%s has the columns that were written",
  async (name) => {
    const table = await open(join(folder, name));
    if (table.kind !== "group") throw new Error(table.kind);
    expect(await table.members()).toEqual([...NAMES].sort());
    expect(table.attrs["column_order"]).toEqual(NAMES);
    if (name !== "tables.b2z/a/rows") expect(table.attrs["author"]).toBe("a person");
    for (const column of NAMES) {
      const array = await table.open(column);
      if (array.kind !== "array") throw new Error(column);
      const digest = createHash("sha256")
        .update(await array.getBytes())
        .digest("hex");
      expect({ column, shape: array.shape, digest }).toEqual({
        column,
        shape: [60],
        digest: values[`${name}/${column}`],
      });
    }
    await table.close();
  },
);

test("offsets of text that are not 8 bytes long are damage", async () => {
  const image = new Uint8Array(readFileSync(join(repositoryRoot, "fixtures/blosc2/removed.b2nd")));
  const main = { store: new MemoryStore(new Map([["x", image]])), key: "x" };
  const parts = { name: "text", textKind: "utf8", main, extra: main, rows: { count: 1 }, path: "t" } as const;
  await expect(textRowsOf(parts)).rejects.toMatchObject({
    code: "INCOMPLETE",
    message: expect.stringContaining("should have offsets of 8 bytes, not ") as string,
  });
});

test("a path can lead into a folder of Blosc2 data, and to a table in it", async () => {
  const copy = join(temporaryFolder(), "deep.b2d");
  cpSync(join(folder, "table.b2d"), join(copy, "a/rows"), { recursive: true });
  cpSync(join(folder, "table.b2d/embed.b2e"), join(copy, "embed.b2e"));
  const { out } = await runCli(["cat", join(copy, "a/rows"), "--slice", ":1", "--format", "csv"]);
  expect(out).toContain("id,price,when,flag,name");
});

test("rows and columns are printed, filtered and converted", async () => {
  const path = join(folder, "table.b2z");
  const rows = await runCli(["cat", path, "--where", "id > 57", "--format", "csv"]);
  expect(rows.out.trim().split("\n")).toEqual([
    "id,price,when,flag,name",
    expect.stringMatching(/^58,8\.28571428571428\d*,2024-01-01T00:00:58\.000000,(false|False),n58$/),
    expect.stringMatching(/^59,.*,n59$/),
  ]);
  const column = await runCli(["cat", path, "--column", "name", "--slice", ":2"]);
  expect(column.out).toMatch(/n0\s+n1/);
  for (const target of ["t.zarr", "t.parquet"]) {
    const destination = join(temporaryFolder(), target);
    const { code, err } = await runCli(["convert", path, destination, "--verify"]);
    expect({ code, err, there: existsSync(destination) }).toMatchObject({ code: 0, there: true });
  }
});

test("text, nulls and the rest of deleted rows are read; a second column says which values are not null", async () => {
  const table = await open(join(folder, "text.b2z"));
  if (table.kind !== "group") throw new Error(table.kind);
  const columns = Object.keys(values).filter((name) => name.startsWith("text.b2z/"));
  for (const name of columns) {
    const array = await table.open(name.slice("text.b2z/".length));
    if (array.kind !== "array") throw new Error(name);
    const sum = createHash("sha256")
      .update(await array.getBytes())
      .digest("hex");
    expect({ name, rows: array.shape[0], sum }).toEqual({ name, rows: 1570, sum: values[name] });
  }
  expect(table.attrs["column_order"]).toEqual([
    ...["id", "id.notnull", "utf8", "utf8.notnull", "vl", "vl.notnull", "dictionary", "dictionary.notnull"],
    ...["raw", "box", "any"],
  ]);
  await expect(table.open("any")).rejects.toMatchObject({ code: "UNSUPPORTED", details: { field: "any" } });
  const part = await runCli(["cat", join(folder, "text.b2z/vl"), "--slice", "1000:1003", "--format", "json"]);
  expect(JSON.parse(part.out)).toEqual(["", "\u{1f600}2384", "\u{1f600}2385"]);
});

test("deleted rows and room for more are not rows, and convert says why it encodes", async () => {
  const deleted = await open(join(folder, "deleted.b2z"));
  if (deleted.kind !== "group") throw new Error(deleted.kind);
  const id = await deleted.open("id");
  if (id.kind !== "array") throw new Error(id.kind);
  expect(id.shape).toEqual([58]);
  const first = await runCli(["cat", join(folder, "deleted.b2z/id"), "--slice", ":6", "--format", "json"]);
  expect(JSON.parse(first.out)).toEqual([0, 1, 2, 5, 6, 7]);
  const destination = join(temporaryFolder(), "d.zarr");
  const refused = await runCli(["convert", join(folder, "deleted.b2z"), destination, "--no-recode"]);
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining("rows of the table were deleted in place") as unknown,
  });
  expect((await runCli(["cat", join(folder, "empty.b2z"), "--format", "csv"])).out.trim()).toBe(
    "id,price,when,flag,name",
  );
  for (const target of ["m.zarr", "m.parquet"]) {
    const to = join(temporaryFolder(), target);
    expect(await runCli(["convert", join(folder, "mixed.b2z"), to, "--verify"])).toMatchObject({ code: 0 });
    if (target === "m.zarr")
      expect((await runCli(["cat", to, "--column", "text"])).out.trim().split(/\s+/)).toEqual([
        "a",
        "aa",
        "aaa",
        "aaaa",
      ]);
  }
});

test("a table without the frame that names its columns is damaged, and shows no deleted rows", async () => {
  const damaged = join(temporaryFolder(), "table.b2d");
  cpSync(join(folder, "table.b2d"), damaged, { recursive: true });
  rmSync(join(damaged, "_meta.b2f"));
  await expect(open(damaged)).rejects.toMatchObject({ code: "INCOMPLETE", details: { field: "_meta" } });
});

test("a selection of columns avoids the unsupported ones", async () => {
  const path = join(folder, "text.b2z");
  expect((await runCli(["cat", path, "--column", "id", "--slice", ":3"])).out).toMatch(/1\s+2\s+0/);
  expect((await runCli(["chunks", path, "--column", "id"])).out).toContain("column id");
  const refused = await runCli(["cat", path, "--column", "any"]);
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining("values that are not items of one length") as unknown,
  });
});
