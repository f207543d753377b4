/** [FL-04] [FY-06] Arrays that version 0.1 linked or kept live are read, verified, completed, changed and unlinked. */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { edit as openWritable } from "../../src/node/edit.ts";
import { FileStore, link, unlink, verifyLinkAt } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { temporaryFolder } from "../folder.ts";

interface Entry {
  readonly folder?: string;
  readonly mode?: string;
  readonly base64?: string;
  readonly same?: string;
  readonly leadsTo?: string;
}
type Tree = Readonly<Record<string, Entry>>;

const fixtures = join(import.meta.dirname, "../../fixtures/dual");

function treesOf(name: string): { readonly before?: Tree; readonly after: Tree } {
  return JSON.parse(fs.readFileSync(join(fixtures, `${name}.json`), "utf8"));
}

/** Creates the files of a tree, in a folder that is removed after the test. */
function layOut(tree: Tree): string {
  const root = temporaryFolder();
  for (const [name, { folder, mode, base64, same, leadsTo }] of Object.entries(tree)) {
    const path = join(root, name);
    fs.mkdirSync(dirname(path), { recursive: true });
    if (folder !== undefined) fs.mkdirSync(path, { recursive: true });
    else if (leadsTo !== undefined) fs.symlinkSync(leadsTo, path);
    else if (same !== undefined) fs.linkSync(join(root, same), path);
    else {
      fs.writeFileSync(path, Buffer.from(base64 ?? "", "base64"));
      fs.chmodSync(path, Number.parseInt(mode ?? "", 8));
    }
  }
  return root;
}

/** Every file and folder: mode and bytes, or its target. */
function contents(root: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of fs.readdirSync(root, { recursive: true, encoding: "utf8" })) {
    const path = join(root, name);
    const info = fs.lstatSync(path);
    const mode = (info.mode & 0o7777).toString(8);
    if (info.isDirectory()) found[name] = "folder";
    else if (info.isSymbolicLink()) found[name] = `leads to ${fs.readlinkSync(path)}`;
    else found[name] = `${mode} ${fs.readFileSync(path).toString("base64")}`;
  }
  return found;
}

function contentsOf(tree: Tree): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tree).map(([name, { folder, mode, base64, same }]) => {
      const file = same === undefined ? { mode, base64 } : tree[same];
      return [name, folder === undefined ? `${file?.mode} ${file?.base64}` : "folder"];
    }),
  );
}

const ramp = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i);
const quarters = Array.from({ length: 14 }, (_, i) => i / 4);
const viewTypes = { int16: Int16Array, int32: Int32Array, float64: Float64Array } as const;

/** Values of the Zarr array at a node. */
async function zarrValues(
  root: string,
  type: keyof typeof viewTypes = "int32",
  node = "",
): Promise<number[]> {
  const store = new FileStore(root);
  const pieces: Uint8Array[] = [];
  for await (const piece of (await openZarrArray(store, node)).streamBytes()) pieces.push(piece.slice());
  await store.close();
  return Array.from(new viewTypes[type](new Uint8Array(Buffer.concat(pieces)).buffer));
}

/** Of the bytes that bloscpack was given, as in the corpus. */
const ORIGINAL = "cb3e95b7c6ad2f972ee70ae62c6e6c7672193f248e2dc8a6f99c4414d012f086";

function sha256Of(values: readonly number[]): string {
  return createHash("sha256").update(Int16Array.from(values)).digest("hex");
}

const codes = (findings: Awaited<ReturnType<typeof verifyLinkAt>>): string[] =>
  (findings ?? []).map(({ code }) => code);

test.each([
  ["linked", "int32", "", ramp(0, 30)],
  ["linked-columns", "float64", "v", quarters],
] as const)(
  "an array linked by version 0.1 is right, stays right, and is unlinked to the last byte: %s",
  async (name, type, node, values) => {
    const { before = {}, after } = treesOf(name);
    const root = join(layOut(after), "a");
    expect(await verifyLinkAt(root)).toEqual([]);
    expect(await zarrValues(root, type, node)).toEqual(values);
    await link(root); // names the dimensions, which 0.1 did not
    expect((await link(root)).done).toBe(true);
    await unlink(root);
    expect(contents(dirname(root))).toEqual(contentsOf(before));
  },
);

test.each(["hard", "symbolic", "copy"] as const)(
  "a file linked by version 0.1 is right, and is unlinked to the last byte: %s",
  async (kind) => {
    const { before = {}, after } = treesOf(`linked-file-${kind}`);
    const root = layOut(after);
    const target = join(root, "a.zarr");
    expect(await verifyLinkAt(target)).toEqual([]);
    // The record has the requested kind, so linking again uses the same one.
    expect((await link(join(root, "a.blp"), target, { kind })).done).toBe(true);
    // A symbolic link points out of the folder, which this library's stores do not follow.
    if (kind !== "symbolic") expect(sha256Of(await zarrValues(target, "int16"))).toBe(ORIGINAL);
    await unlink(target);
    expect(contents(root)).toEqual(contentsOf(before));
  },
);

test("an array that grew since version 0.1 linked it is behind, and linking brings it up to date", async () => {
  const root = join(layOut(treesOf("linked-behind").after), "a");
  expect(codes(await verifyLinkAt(root))).toEqual(["BEHIND"]);
  expect(await zarrValues(root)).toEqual(ramp(0, 30));
  await link(root);
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(await zarrValues(root)).toEqual(ramp(0, 37));
});

test("a record without checksums, as in early versions, proves no earlier view: a difference is an error", async () => {
  const root = join(layOut(treesOf("linked-behind").after), "a");
  const path = join(root, "superchunk-link.json");
  const { sums: _, ...record } = JSON.parse(fs.readFileSync(path, "utf8")) as Record<string, unknown>;
  fs.writeFileSync(path, JSON.stringify(record));
  expect(codes(await verifyLinkAt(root))).not.toContain("BEHIND");
  await link(root);
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("a link that version 0.1 left unfinished is completed, or undone to the last byte", async () => {
  const { before = {}, after } = treesOf("linked-killed");
  const completed = join(layOut(after), "a");
  expect(codes(await verifyLinkAt(completed))).toEqual(["BEHIND"]);
  await link(completed);
  expect(await verifyLinkAt(completed)).toEqual([]);
  expect(await zarrValues(completed)).toEqual(ramp(0, 30));
  const undone = join(layOut(after), "a");
  await unlink(undone);
  expect(contents(dirname(undone))).toEqual(contentsOf(before));
});

test.each([
  ["live", "int32", "", ramp(0, 30)],
  ["live-columns", "float64", "v", quarters],
  ["live-recut", "int32", "", ramp(0, 30)],
] as const)(
  "an array that version 0.1 kept live is right, and can be made plain: %s",
  async (name, type, node, values) => {
    const root = join(layOut(treesOf(name).after), "a");
    expect(await verifyLinkAt(root)).toEqual([]);
    expect(await zarrValues(root, type, node)).toEqual(values);
    expect((await link(root)).done).toBe(true);
    await unlink(root);
    expect(await verifyLinkAt(root)).toBeUndefined();
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
    expect(fs.readdirSync(join(root, "meta")).sort()).toEqual(["attributes", "sizes", "storage"]);
  },
);

test.each([
  ["live", 30],
  ["live-recut", 30],
] as const)("an array that version 0.1 kept live stays live: %s", async (name, rows) => {
  const root = join(layOut(treesOf(name).after), "a");
  const array = await openWritable(root);
  await array.append(Int32Array.from(ramp(rows, 9)));
  await array.close();
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(await zarrValues(root)).toEqual(ramp(0, rows + 9));
});

test("forms recorded by version 0.1 are not reused for other chunks under the same keys", async () => {
  const root = join(layOut(treesOf("live-recut").after), "a");
  const array = await openWritable(root);
  const recut = array.compact({ chunkLength: 7, superchunkLength: 3 });
  await expect(recut).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await array.close();
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("the next writer repairs the view of a live array whose version 0.1 writer was killed", async () => {
  const root = join(layOut(treesOf("live-killed").after), "a");
  expect(await verifyLinkAt(root)).not.toEqual([]);
  await link(root);
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(await zarrValues(root)).toEqual([0, 1, ...ramp(1002, 28)]);
});
