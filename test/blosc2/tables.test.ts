/** C2 tables of python-blosc2: groups of columns, with the values that were written; and which of them are refused. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../src/node/open.ts";
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

test("refuses a table with deleted rows, and columns of variable length, and reads the others", async () => {
  await expect(open(join(folder, "deleted.b2z"))).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/2 of 60 rows.*deleted/) as unknown,
  });
  const mixed = await open(join(folder, "mixed.b2z"));
  if (mixed.kind !== "group") throw new Error(mixed.kind);
  await expect(mixed.open("text")).rejects.toMatchObject({ code: "UNSUPPORTED", details: { field: "text" } });
  expect((await runCli(["cat", join(folder, "mixed.b2z/id")])).out).toMatch(/0\s+1\s+2\s+3\s+4/);
  // A selection of columns avoids the unsupported ones.
  expect((await runCli(["cat", join(folder, "mixed.b2z"), "--column", "id"])).out).toMatch(
    /0\s+1\s+2\s+3\s+4/,
  );
  expect((await runCli(["chunks", join(folder, "mixed.b2z"), "--column", "id"])).out).toContain("column id");
  const refused = await runCli(["cat", join(folder, "mixed.b2z"), "--column", "text"]);
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining("values of variable length") as unknown,
  });
});
