/**
 * What is converted into a Zarr group becomes a member of it: groups in between are created, and the metadata of
 * those above list it.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonObject } from "../../src/format/types.ts";
import { consolidate, convert } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const table = join(corpusFolder, "ctable/bcolz-mixed");
const array = join(corpusFolder, "carray/bcolz-f8-chunks");

function documentAt(path: string): JsonObject {
  return JSON.parse(readFileSync(join(path, "zarr.json"), "utf8")) as JsonObject;
}

function listed(path: string): Record<string, JsonObject> {
  const { consolidated_metadata: all } = documentAt(path) as {
    consolidated_metadata: { metadata: Record<string, JsonObject> };
  };
  return all.metadata;
}

test("groups above list what is converted into them, and missing ones are created", async () => {
  const root = join(temporaryFolder(), "all.zarr");
  await convert([table, array], root);
  const before = Object.keys(listed(root));
  const { notes } = await convert(table, join(root, "more", "deep", "t"));
  expect(notes.filter((note) => /created the missing Zarr group/.test(note))).toHaveLength(2);
  expect(Object.keys(listed(root))).toEqual(
    [
      ...before,
      "more",
      "more/deep",
      "more/deep/t",
      ...["id", "name", "price"].map((c) => `more/deep/t/${c}`),
    ].sort(),
  );
  for (const [node, document] of Object.entries(listed(root))) {
    const { consolidated_metadata: _, ...own } = documentAt(join(root, node));
    expect(document).toMatchObject(own);
  }
  // A replaced node leaves nothing behind.
  await convert(array, join(root, "more", "deep", "t"), { overwrite: true });
  expect(Object.keys(listed(root))).toEqual([...before, "more", "more/deep", "more/deep/t"].sort());
});

test("without a hierarchy, the nearest folder above whose name ends in .zarr becomes its root", async () => {
  const folder = temporaryFolder();
  const root = join(folder, "outer.zarr", "fresh.zarr");
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, ".DS_Store"), "");
  writeFileSync(join(root, ".superchunk-metadata.lock.lock"), ""); // not that of the writer, which would wait for it
  const first = await convert(array, join(root, "a", "b"));
  expect(first.notes.filter((note) => /created the missing Zarr group/.test(note))).toHaveLength(2);
  expect(Object.keys(listed(root))).toEqual(["a", "a/b"]);
  await Promise.all(["c", "d/e"].map((name) => convert(array, join(root, name), { threads: 0 })));
  expect(Object.keys(listed(root))).toEqual(["a", "a/b", "c", "d", "d/e"]);
  expect(existsSync(join(folder, "outer.zarr", "zarr.json"))).toBe(false);
  // A folder with other files, and one without such a name, are left alone.
  mkdirSync(join(folder, "notes.zarr"));
  writeFileSync(join(folder, "notes.zarr", "notes.txt"), "");
  for (const name of ["notes.zarr", "plain"]) {
    expect((await convert(array, join(folder, name, "b"))).notes).toEqual([]);
    expect(existsSync(join(folder, name, "zarr.json"))).toBe(false);
  }
});

test("concurrent conversions into a hierarchy that none of them has made yet are all listed", async () => {
  const root = join(temporaryFolder(), "all.zarr");
  const parts = Array.from({ length: 8 }, (_, i) => `parts/${i}`);
  await Promise.all(parts.map((part) => convert(array, join(root, part), { threads: 0 })));
  expect(Object.keys(listed(root))).toEqual(["parts", ...parts]);
  expect(await consolidate(root)).toMatchObject({ changed: [] });
});

test("concurrent conversions into one hierarchy are all listed", async () => {
  const root = join(temporaryFolder(), "all.zarr");
  await convert([table, array], root);
  const parts = Array.from({ length: 8 }, (_, i) => `parts/${i}`);
  await Promise.all(parts.map((part) => convert(array, join(root, part), { threads: 0 })));
  expect(Object.keys(listed(root))).toEqual(expect.arrayContaining(["parts", ...parts]));
  expect(await consolidate(root)).toMatchObject({ changed: [] });
});

test("consolidate lists all nodes of a group, and says what it changed", async () => {
  const root = join(temporaryFolder(), "all.zarr");
  await convert([table, array], root);
  const { consolidated_metadata: _, ...own } = documentAt(root);
  const right = readFileSync(join(root, "zarr.json"));
  writeFileSync(join(root, "zarr.json"), JSON.stringify(own));
  const { code, out } = await runCli(["consolidate", root, "--json"]);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toEqual({ path: root, nodes: 5, changed: [""], made: [] });
  expect(readFileSync(join(root, "zarr.json"))).toEqual(right);
});

test("a destination inside an array is refused, and so are an array's metadata", async () => {
  const root = join(temporaryFolder(), "a.zarr");
  await convert(array, root);
  await expect(convert(table, join(root, "t"))).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(consolidate(root)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  mkdirSync(join(root, "..", "empty"));
  await expect(consolidate(join(root, "..", "empty"))).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("arrays in folders without a zarr.json are found, also beside files for people", async () => {
  const folder = temporaryFolder();
  const root = join(folder, "all.zarr");
  await convert(array, join(folder, "x.zarr"));
  for (const place of ["plain/deep/x", "v2/x", "chunks/x"])
    cpSync(join(folder, "x.zarr"), join(root, place), { recursive: true });
  writeFileSync(join(root, "zarr.json"), '{"zarr_format":3,"node_type":"group"}');
  writeFileSync(join(root, "plain/README.md"), "about x");
  writeFileSync(join(root, "plain/deep/notes"), "about x");
  // What another format marks as its own is not searched for groups.
  writeFileSync(join(root, "v2/.zgroup"), '{"zarr_format":2}');
  writeFileSync(join(root, "chunks/0.0"), "");
  const { code, out } = await runCli(["ls", root, "--json"]);
  const paths = (JSON.parse(out) as { readonly path: string }[]).map(({ path }) => path.slice(root.length));
  expect([code, paths]).toEqual([0, ["", "/plain", "/plain/deep", "/plain/deep/x"]]);
  const verified = await runCli(["verify", root]);
  expect([verified.code, verified.out]).toEqual([1, expect.stringMatching(/^ok +\S+plain\/deep\/x /m)]);
  expect(verified.out).toContain("plain has no zarr.json, and 1 more");
  const { notes } = await convert(root, join(folder, "copy.zarr"));
  expect(Object.keys(listed(join(folder, "copy.zarr")))).toEqual(["plain", "plain/deep", "plain/deep/x"]);
  expect(notes).toEqual([]);
  expect((await runCli(["consolidate", root])).code).toBe(0);
  expect(Object.keys(listed(root))).toEqual(["plain", "plain/deep", "plain/deep/x"]);
});
