/** [FY-08] A plain array becomes one that keeps itself a Zarr array. */
import * as fs from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { beginLive } from "../../../src/dual/live.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { link, open, planLinkAt, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { openWritable as openIn } from "../../../src/write/array/create.ts";
import { runCli } from "../../cli/harness.ts";
import { makeNoise } from "../../codec/encode-data.ts";
import { readForeign } from "./foreign-reader.ts";
import { closeStores, ramp, temporaryFolder, watchedFolder } from "./support.ts";

const OPTIONS = { dtype: "<i4", chunkLength: 4, superchunkLength: 3, threads: 0 } as const;
const VALUES = [...ramp(0, 2), 7, 7, ...ramp(4, 27)];

/** Two full superchunks, one of them changed, and a remainder; 31 rows. */
async function makePlain(): Promise<string> {
  const root = join(temporaryFolder(), "array");
  const array = await createArray(root, OPTIONS);
  await array.append(ramp(0, 31));
  await array.set([{ start: 2, stop: 4, step: 1 }], 7);
  await array.close();
  return root;
}

async function valuesOf(root: string): Promise<number[]> {
  const array = await open(root);
  if (array.kind !== "array") throw new TypeError(array.kind);
  const bytes = await array.getBytes();
  await array.close();
  return [...new Int32Array(bytes.slice().buffer)];
}

const inode = (path: string): number => fs.statSync(path).ino;

test("the full superchunks become shards at once, and every later change is shown", async () => {
  const root = await makePlain();
  await link(root, undefined, { live: true });
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(await readForeign(root)).toEqual(VALUES);
  for (const n of [0, 1])
    expect(inode(join(root, "c", `${n}`))).toBe(inode(join(root, "data", `__${n + 1}__.bin`)));
  const array = await openWritable(root, { threads: 0 });
  await array.append(ramp(31, 9));
  await array.set([0], -1);
  await array.close();
  expect(await readForeign(root)).toEqual([-1, ...VALUES.slice(1), ...ramp(31, 9)]);
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("an array is recognized as one that keeps itself a Zarr array also if its metadata escape the keyword", async () => {
  const root = await makePlain();
  await link(root, undefined, { live: true });
  const storage = join(root, "meta", "storage");
  const text = fs.readFileSync(storage, "utf8");
  expect(text).toContain('"zarr"');
  fs.writeFileSync(storage, text.replace('"zarr"', '"\\u007aarr"'));
  expect((await planLinkAt(root)).notes).toContain("the array keeps itself a Zarr array");
  fs.writeFileSync(storage, text.replace('"zarr"', '"other"'));
  await expect(planLinkAt(root)).rejects.toMatchObject({ code: "CONFLICT" }); // it has the shards of another
});

test("unlinked, compacted with other settings and linked live again, the data are on the disk only once", async () => {
  const root = await makePlain();
  await link(root, undefined, { live: true });
  const changed = await openWritable(root, { threads: 0 });
  await changed.set([{ start: 0, stop: 31, step: 2 }], 5);
  await changed.close();
  expect(inode(join(root, "c", "0"))).not.toBe(inode(join(root, "data", "__1__.bin")));
  await unlink(root);
  const plain = await openWritable(root, { threads: 0 });
  await plain.compact({ chunkLength: 5, superchunkLength: 2, compressor: { cname: "zstd" } });
  await plain.close();
  await link(root, undefined, { live: true });
  const values = await valuesOf(root);
  expect(values.filter((_, i) => i % 2 === 0).every((value) => value === 5)).toBe(true);
  expect(await readForeign(root)).toEqual(values);
  for (const n of [0, 1, 2])
    expect(inode(join(root, "c", `${n}`))).toBe(inode(join(root, "data", `__${n + 1}__.bin`)));
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("a power cut before any step leaves a plain array, or one that the next writer shows, with the same values", async () => {
  class Outage extends Error {}
  const source = await makePlain();
  const outcomes = new Set<string>();
  for (let left = 0, done = false; !done; left++) {
    const root = join(temporaryFolder(), "copy");
    fs.cpSync(source, root, { recursive: true });
    let steps = left;
    const { store, files } = watchedFolder(root, async () => {
      if (steps-- <= 0) throw new Outage();
    });
    try {
      const array = await openIn(store, "");
      await array.fill((writer) => beginLive(writer, files));
      done = true;
    } catch (error) {
      if (!(error instanceof Outage)) throw error;
    }
    await closeStores();
    expect(await valuesOf(root)).toEqual(VALUES);
    const next = await openWritable(root, { threads: 0 });
    await next.append(ramp(50, 2));
    await next.close();
    const findings = await verifyLinkAt(root);
    outcomes.add(findings === undefined ? "plain" : "live");
    expect(findings ?? []).toEqual([]);
    await link(root, undefined, { live: true });
    expect(await readForeign(root)).toEqual([...VALUES, ...ramp(50, 2)]);
  }
  expect([...outcomes].sort()).toEqual(["live", "plain"]);
});

test("an array that is already linked, has a reserve, or cannot be Zarr is refused and left unchanged", async () => {
  const linked = await makePlain();
  const compact = await openWritable(linked, { threads: 0 });
  await compact.compact();
  await compact.close();
  await link(linked);
  await expect(link(linked, undefined, { live: true })).rejects.toMatchObject({ code: "CONFLICT" });
  const make = async (change: object): Promise<string> => {
    const root = join(temporaryFolder(), "array");
    await (await createArray(root, { ...OPTIONS, ...change })).close();
    return root;
  };
  for (const change of [{ reserve: 16 }, { dtype: ">c16" }]) {
    const root = await make(change);
    await expect(link(root, undefined, { live: true })).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(await verifyLinkAt(root)).toBeUndefined();
    await (await openWritable(root, { threads: 0 })).close();
  }
  const plain = await make({});
  for (const options of [{ kind: "copy" }, { shape: [3] }] as const)
    await expect(link(plain, undefined, { live: true, ...options })).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
    });
});

test("the command link --live does the same, and reports it", async () => {
  const root = await makePlain();
  const planned = await runCli(["link", root, "--live", "--dry-run"]);
  expect(planned.code).toBe(0);
  expect(planned.out).toMatch(
    /^document {2}zarr\.json\n.* would keep itself a Zarr array: about .* written\n$/,
  );
  expect(planned.err).toMatch(/full superchunks would become shards by hard links/);
  const linked = await runCli(["link", root, "--live"]);
  expect(linked.code).toBe(0);
  expect(linked.out).toContain("keeps itself a Zarr array");
  expect((await runCli(["info", root])).out).toMatch(/also +zarr3/);
  expect((await runCli(["verify", root])).code).toBe(0);
});

test.each([false, true])(
  "a plan writes nothing, and gives documents, superchunks and bytes as they will be (with columns: %s)",
  async (columns) => {
    const root = join(temporaryFolder(), "array");
    const dtype = columns ? "[('a', '<f8'), ('b', '<i4')]" : "<f8";
    const array = await createArray(root, { ...OPTIONS, dtype, columns, chunkLength: 4096 });
    const bytes = makeNoise(43_000 * (columns ? 12 : 8), 1);
    await array.append(bytes);
    await array.close();
    const before = snapshot(root);
    const plan = await planLinkAt(root, undefined, { live: true });
    expect(snapshot(root)).toEqual(before);
    await link(root, undefined, { live: true });
    const after = snapshot(root);
    for (const key of plan.documents) expect(after).toHaveProperty([key]);
    expect(plan.documents).toHaveLength(columns ? 3 : 1);
    const superchunks = Object.keys(after).filter((key) => /__\d+__\.bin$/.test(key));
    const made = superchunks.filter((key) => before[key] === undefined || before[key] !== after[key]);
    const places = made.length / (columns ? 2 : 1);
    expect(plan.notes.join()).toContain(`${places} superchunks would be rewritten`);
    expect(plan).toMatchObject({ files: [], done: false, kind: "hard" });
    const size = made.concat(Object.keys(after).filter((key) => /(^|\/)c\/3$/.test(key)));
    // Holes take no disk space.
    const written = size.reduce((sum, key) => sum + fs.statSync(join(root, key)).blocks * 512, 0);
    expect(plan.added / written).toBeGreaterThan(0.75);
    expect(plan.added / written).toBeLessThan(1.25);
    const reserved = join(temporaryFolder(), "reserved");
    await (await createArray(reserved, { ...OPTIONS, reserve: 16 })).close();
    await expect(planLinkAt(reserved, undefined, { live: true })).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
  },
);

/** Every file with its bytes. */
function snapshot(root: string): Record<string, string> {
  const files = fs
    .readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      return [relative(root, path), fs.readFileSync(path).toString("base64")];
    }),
  );
}
