/** The Zarr archives of the corpus, against the values that their producers put in. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { formatDType } from "../../src/format/dtype.ts";
import { FileStore } from "../../src/node/index.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { type ArrayFixture, loadFixtures } from "../fixtures/manifest.ts";
import { toJsonValues } from "../values/json-values.ts";

const rows = loadFixtures().filter((row): row is ArrayFixture => row.dialect.startsWith("zarr3-"));

function openRow(row: ArrayFixture): Promise<ZarrArray> {
  return openZarrArray(new FileStore(row.file), row.arrayPath);
}

test("the corpus has 11 archives of Zarr", () => {
  expect(rows).toHaveLength(11);
});

describe.each(rows)("$path", (row) => {
  test("dialect, dtype, shape and attributes match the manifest", async () => {
    const array = await openRow(row);
    expect(array.dialect).toBe(row.dialect === "zarr3-transformer" ? "zarr3-transformer" : "zarr3");
    expect(formatDType(array.dtype)).toEqual(row.dtype);
    expect(array.shape).toEqual(row.shape);
    expect(array.attrs).toEqual(row.attrs);
  });

  test("[FH-05] [FH-06] [FK-02] [FK-04] all values have the hash of the original data, at once and in pieces", async () => {
    const array = await openRow(row);
    const hash = createHash("sha256");
    for await (const piece of array.streamBytes()) hash.update(piece);
    expect(hash.digest("hex")).toBe(row.sha256);
    expect(
      createHash("sha256")
        .update(await array.getBytes())
        .digest("hex"),
    ).toBe(row.sha256);
  });

  test("the first and last values match the manifest", async () => {
    const array = await openRow(row);
    const { data } = (await array.get()) as ArraySlice;
    const values = toJsonValues(data, array.dtype);
    expect(values.slice(0, row.head.length)).toEqual(row.head);
    expect(values.slice(-row.tail.length)).toEqual(row.tail);
  });

  test("stored chunks are listed, and all of them verify", async () => {
    const array = await openRow(row);
    const keys = new Set<string>();
    let count = 0;
    for await (const chunk of array.listChunks()) {
      keys.add(chunk.key);
      count++;
    }
    const stored = row.chunks["shards_stored"];
    if (typeof stored === "number") expect(keys.size).toBe(stored);
    expect(await array.verify()).toMatchObject({ ok: true, chunks: count, findings: [] });
  });
});

test("[FK-01] [FK-02] the groups of a zarr 2.18 hierarchy list their members, also those without a document", async () => {
  const row = rows.find(({ path }) => path.endsWith("u2-dot-group"));
  const root = await openZarr(new FileStore(row?.file ?? ""));
  if (root.kind !== "group") throw new Error("the root is no group");
  expect(await root.members()).toEqual(["grp"]);
  const group = await root.open("grp");
  expect(group.attrs).toEqual({ title: "g" });
  if (group.kind !== "group") throw new Error("grp is no group");
  expect(await group.members()).toEqual(["sub"]);
  const sub = await group.open("sub");
  expect(sub.kind).toBe("group");
  await expect(group.open("none")).rejects.toMatchObject({ code: "NOT_FOUND" });
});
