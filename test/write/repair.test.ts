/** Arrays that another program broke. */
import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { VolatileStore } from "../../src/store/wrappers/volatile.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { repairArray } from "../../src/write/repair/repair.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";

const ramp = (count: number): Int32Array => Int32Array.from({ length: count }, (_, i) => i);

/** 100 rows: chunks of 8, superchunks of 4: four files, the last of one short chunk. */
async function whole(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: "<i4",
    chunklen: 8,
    superchunklen: 4,
    attrs: { a: 1 },
  });
  await array.append(ramp(100));
  await array.close();
  return store;
}

async function change(
  store: MemoryStore,
  key: string,
  edit: (bytes: Uint8Array) => Uint8Array | undefined,
): Promise<void> {
  const bytes = (await store.get(key)) ?? new Uint8Array(0);
  const changed = edit(bytes) ?? bytes;
  await store.put(key, changed);
}

async function expectRows(store: MemoryStore, path: string, count: number): Promise<void> {
  const array = (await open(store, path)) as ArrayArchive;
  const bytes = await array.getBytes();
  expect([...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)]).toEqual([...ramp(count)]);
  expect(array.attrs).toEqual({ a: 1 });
  expect((await array.verify()).findings).toEqual([]);
  const names: string[] = [];
  for await (const { name } of store.list(path === "" ? "data" : `${path}/data`)) names.push(name);
  const files = Math.ceil(count / 32);
  expect(names.sort()).toEqual(Array.from({ length: files }, (_, i) => `__${i + 1}__.bin`));
}

const BROKEN: readonly [string, number, RegExp, (store: MemoryStore) => Promise<void>][] = [
  ["nothing", 100, /^$/, async () => undefined],
  [
    "the last file cut short",
    96,
    /__4__\.bin: what is at byte \d+ is no whole chunk/,
    (store) => change(store, "data/__4__.bin", (bytes) => bytes.slice(0, -5)),
  ],
  [
    "offsets that are all -1, as an aborted write leaves them",
    100,
    /^$/,
    (store) => change(store, "data/__2__.bin", (bytes) => bytes.fill(0xff, 32, 64)),
  ],
  [
    "offsets that lead nowhere",
    100,
    /^$/,
    (store) => change(store, "data/__1__.bin", (bytes) => bytes.fill(0x7e, 32, 64)),
  ],
  [
    "a count of chunks that is unknown",
    100,
    /__1__\.bin: the header counts -1 chunks, 4 are whole/,
    (store) => change(store, "data/__1__.bin", (bytes) => bytes.fill(0xff, 16, 24)),
  ],
  [
    "a chunk whose digest is wrong: the rows end in front of it",
    40,
    /__2__\.bin: what is at byte \d+ is no whole chunk/,
    (store) =>
      change(store, "data/__2__.bin", (bytes) => {
        const at = Number(new DataView(bytes.buffer).getBigInt64(40, true)) + 20;
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        return bytes;
      }),
  ],
  [
    "a file that is gone: the rows end in front of it",
    64,
    /__3__\.bin is missing/,
    (store) => store.delete("data/__3__.bin"),
  ],
  ["meta/sizes that is gone", 100, /meta\/sizes is missing/, (store) => store.delete("meta/sizes")],
  [
    "meta/sizes that is no JSON",
    100,
    /meta\/sizes: not JSON/,
    (store) => change(store, "meta/sizes", () => new TextEncoder().encode("{")),
  ],
];

describe.each(BROKEN)("%s", (_name, rows, problem, damage) => {
  test("is repaired into a copy, and the source is left as it is", async () => {
    const store = await whole();
    await damage(store);
    const before = await imageOf(store);
    const copy = new MemoryStore();
    const report = await repairArray(store, "", { into: { store: copy, path: "mended" } });
    expect(report.rows).toBe(rows);
    expect(report.problems.join("\n")).toMatch(problem);
    expect(report.lost.some((text) => text.startsWith(`rows ${rows} to 99`))).toBe(rows < 100);
    expect(await imageOf(store)).toEqual(before);
    await expectRows(copy, "mended", rows);
  });

  test("is repaired in place, also where the power goes on the way", async () => {
    const damaged = await whole();
    await damage(damaged);
    const image = await imageOf(damaged);
    let cuts = 0;
    for (let failAt = 1, isDone = false; !isDone; failAt++) {
      const dying = new VolatileStore(image, { failAt, random: randomFrom(failAt) });
      try {
        await repairArray(dying, "");
        isDone = true;
      } catch (error) {
        if (!dying.isDead) throw error;
        cuts++;
      }
      const store = new MemoryStore(dying.image());
      // What was removed last may be back; the next writer removes it again.
      if (isDone) await (await openWritable(store, "")).abandon();
      else await repairArray(store, "");
      await expectRows(store, "", rows);
      const writer = await openWritable(store, "");
      await writer.resize(rows + 1);
      await writer.close();
    }
    expect(cuts).toBeGreaterThan(3);
  });
});

test("attributes that cannot be read are lost, said to be, and kept beside new ones", async () => {
  const store = await whole();
  const cut = new TextEncoder().encode('{"a": 1, "b');
  await store.put("meta/attributes", cut);
  const before = await imageOf(store);
  const planned = await repairArray(store, "", { dryRun: true });
  expect(await imageOf(store)).toEqual(before);
  const copy = new MemoryStore();
  const copied = await repairArray(store, "", { into: { store: copy, path: "" } });
  expect(copied.lost).toEqual(["the attributes"]);
  const { rows, problems, lost } = await repairArray(store, "");
  expect(planned).toMatchObject({ rows, problems, lost });
  expect(problems.join()).toMatch(/meta\/attributes: not JSON at byte 11/);
  expect(lost).toEqual(["the attributes; what is there of them is kept as meta/attributes.damaged"]);
  expect(await store.get("meta/attributes.damaged")).toEqual(cut);
  for (const mended of [store, copy]) {
    const array = await openWritable(mended, "");
    expect(array.attrs).toEqual({});
    expect(array.length).toBe(100);
    await array.close();
  }
});

test("where nothing tells the order, superchunks behind a gap are named as lost", async () => {
  const store = await whole();
  await store.delete("meta/sizes");
  await store.delete("data/__2__.bin");
  const { rows, rowsBefore, lost } = await repairArray(store, "", { dryRun: true });
  expect({ rows, rowsBefore }).toEqual({ rows: 32, rowsBefore: undefined });
  expect(lost).toEqual([
    "superchunks that nothing gives a place: memory:data/__3__.bin, memory:data/__4__.bin",
  ]);
});

test("without meta/storage nothing tells what the chunks hold", async () => {
  const store = await whole();
  await store.delete("meta/storage");
  await expect(repairArray(store, "")).rejects.toMatchObject({ code: "INCOMPLETE" });
  await expect(repairArray(new MemoryStore(), "")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

const fixtures = fileURLToPath(new URL("../../fixtures", import.meta.url));

test("folders of other writers, without a layout, are repaired with the values that they had", async () => {
  const roots = fs
    .readdirSync(fixtures, { recursive: true, withFileTypes: true })
    .filter(({ name, parentPath }) => name === "__1__.bin" && !parentPath.includes(".git"))
    .map(({ parentPath }) =>
      fs.existsSync(join(parentPath, "..", "meta")) ? join(parentPath, "..") : join(parentPath, "..", ".."),
    );
  let repaired = 0;
  for (const root of new Set(roots)) {
    const source = new FileStore(root);
    const original = (await open(source)) as ArrayArchive;
    const copy = new MemoryStore();
    const { rows, lost } = await repairArray(source, "", { into: { store: copy, path: "" } });
    const mended = (await open(copy)) as ArrayArchive;
    expect(rows, root).toBe(original.shape[0]);
    expect(lost, root).toEqual([]);
    expect(mended.shape, root).toEqual(original.shape);
    expect(mended.columnNames, root).toEqual(original.columnNames);
    repaired++;
    expect(
      (await mended.verify()).findings.filter(({ code }) => code !== "TYPESIZE"),
      root,
    ).toEqual([]);
    // One was never finished: its chunks are whole, its offsets were not written.
    if (root.includes("aborted")) continue;
    const [found, expected] = [await mended.getBytes(), await original.getBytes()];
    expect(Buffer.from(found).equals(Buffer.from(expected)), root).toBe(true);
  }
  expect(repaired).toBeGreaterThan(3);
});
