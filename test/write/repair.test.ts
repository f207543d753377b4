/** Arrays that another program damaged. */
import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";

const ramp = (count: number): Int32Array => Int32Array.from({ length: count }, (_, i) => i);

/** 100 rows: chunks of 8, superchunks of 4: four files, the last of one short chunk. */
async function whole(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: "<i4",
    chunkLength: 8,
    superchunkLength: 4,
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

async function expectRows(store: MemoryStore, path: string, count: number, isPlain = true): Promise<void> {
  const array = (await open(store, path)) as ArrayArchive;
  const bytes = await array.getBytes();
  expect([...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)]).toEqual([...ramp(count)]);
  expect(array.attrs).toEqual({ a: 1 });
  expect((await array.verify()).findings).toEqual([]);
  const names: string[] = [];
  for await (const { name } of store.list(path === "" ? "data" : `${path}/data`)) names.push(name);
  const files = Math.ceil(count / 32);
  if (isPlain) expect(names.sort()).toEqual(Array.from({ length: files }, (_, i) => `__${i + 1}__.bin`));
  else expect(names.length).toBe(files);
}

const BROKEN: readonly [string, number, RegExp, (store: MemoryStore) => Promise<void>][] = [
  ["nothing", 100, /^$/, async () => undefined],
  [
    "the last file cut short",
    96,
    /^$/,
    (store) => change(store, "data/__4__.bin", (bytes) => bytes.slice(0, -5)),
  ],
  [
    "offsets that are all -1, as an aborted write leaves them",
    100,
    /__2__\.bin: no offset leads to a chunk/,
    (store) => change(store, "data/__2__.bin", (bytes) => bytes.fill(0xff, 32, 64)),
  ],
  [
    "offsets that lead nowhere",
    100,
    /__1__\.bin: no offset leads to a chunk/,
    (store) => change(store, "data/__1__.bin", (bytes) => bytes.fill(0x7e, 32, 64)),
  ],
  [
    "an unknown number of chunks",
    100,
    /__1__\.bin: the header does not count its chunks/,
    (store) => change(store, "data/__1__.bin", (bytes) => bytes.fill(0xff, 16, 24)),
  ],
  [
    "a chunk with a wrong digest: the rows end before it",
    40,
    /^$/,
    (store) =>
      change(store, "data/__2__.bin", (bytes) => {
        const at = Number(new DataView(bytes.buffer).getBigInt64(40, true)) + 20;
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        return bytes;
      }),
  ],
  ["a missing file: the rows end before it", 64, /^$/, (store) => store.delete("data/__3__.bin")],
  ["a missing meta/sizes", 100, /meta\/sizes is missing/, (store) => store.delete("meta/sizes")],
  [
    "meta/sizes that is not JSON",
    100,
    /meta\/sizes: not JSON/,
    (store) => change(store, "meta/sizes", () => new TextEncoder().encode("{")),
  ],
];

describe.each(BROKEN)("%s", (name, rows, problem, damage) => {
  test("is repaired into a copy, and the source is left unchanged", async () => {
    const store = await whole();
    await damage(store);
    const before = await imageOf(store);
    const copy = new MemoryStore();
    const into = { store: copy, path: "mended" };
    const report = await repairArray(store, "", { into, holes: "cut" });
    expect(report.rows).toBe(rows);
    expect(report.problems.join("\n")).toMatch(problem);
    expect(report.holes.map(({ from }) => from)[0] ?? 100).toBe(rows);
    expect(report.lost.includes(`rows ${rows} to 99, all from the first hole on`)).toBe(rows < 100);
    expect(await imageOf(store)).toEqual(before);
    await expectRows(copy, "mended", rows);
  });

  test("is repaired in place, also if power fails on the way", async () => {
    const damaged = await whole();
    await damage(damaged);
    const image = await imageOf(damaged);
    let cuts = 0;
    for (let failAt = 1, isDone = false; !isDone; failAt += sweep(1, 9)) {
      const dying = new VolatileStore(image, { failAt, random: randomFrom(failAt) });
      try {
        await repairArray(dying, "", { holes: "cut" });
        isDone = true;
      } catch (error) {
        if (!dying.isDead) throw error;
        cuts++;
      }
      const store = new MemoryStore(dying.image());
      // What was removed last may reappear; the next writer removes it again.
      if (!isDone) await repairArray(store, "", { holes: "cut" });
      await (await openWritable(store, "")).close();
      await expectRows(store, "", rows, isDone);
      const writer = await openWritable(store, "");
      await writer.resize(rows + 1);
      await writer.close();
    }
    expect(cuts > 3).toBe(name !== "nothing");
  });
});

test("unreadable attributes are lost, reported, and kept next to new ones", async () => {
  const store = await whole();
  const cut = new TextEncoder().encode('{"a": 1, "b');
  await store.put("meta/attributes", cut);
  const before = await imageOf(store);
  const planned = await repairArray(store, "", { dryRun: true });
  expect(await imageOf(store)).toEqual(before);
  const copy = new MemoryStore();
  const copied = await repairArray(store, "", { into: { store: copy, path: "" } });
  expect(copied.lost).toEqual(["the attributes"]);
  const { rows, problems, lost, setAside } = await repairArray(store, "");
  expect(planned).toMatchObject({ rows, problems, lost });
  expect(problems.join()).toMatch(/meta\/attributes: not JSON at byte 11/);
  expect(lost).toEqual(["the attributes"]);
  expect(await store.get(`${setAside?.slice("memory:".length)}/meta/attributes`)).toEqual(cut);
  for (const mended of [store, copy]) {
    const array = await openWritable(mended, "");
    expect(array.attrs).toEqual({});
    expect(array.length).toBe(100);
    await array.close();
  }
});

test("if nothing gives the order, superchunks after a gap are reported as lost", async () => {
  const store = await whole();
  await change(store, "meta/storage", (bytes) => {
    const { superchunk: _, ...foreign } = JSON.parse(new TextDecoder().decode(bytes));
    return new TextEncoder().encode(JSON.stringify(foreign));
  });
  await store.delete("meta/sizes");
  await store.delete("data/__2__.bin");
  const { rows, rowsBefore, lost } = await repairArray(store, "", { dryRun: true });
  expect({ rows, rowsBefore }).toEqual({ rows: 32, rowsBefore: undefined });
  expect(lost).toEqual([
    "superchunks whose position is unknown, so that their rows are missing or have old values: memory:data/__3__.bin, memory:data/__4__.bin",
  ]);
});

test("if the array gives the chunks per superchunk, those after a gap keep their positions", async () => {
  const store = await whole();
  await store.delete("meta/sizes");
  await store.delete("data/__2__.bin");
  const { rows, holes } = await repairArray(store, "", { dryRun: true });
  expect(rows).toBe(100);
  expect(holes.map(({ from, to }) => [from, to])).toEqual([32, 40, 48, 56].map((row) => [row, row + 8]));
});

test("a repair does not replace what a killed one left, and advises to remove it", async () => {
  const store = await whole();
  const to = new MemoryStore();
  await to.put("data/__1__.bin", new Uint8Array(9));
  const error = { code: "CONFLICT", message: expect.stringMatching(/exists here; .*, or remove it first$/) };
  await expect(repairArray(store, "", { into: { store: to, path: "" } })).rejects.toMatchObject(error);
});

test("without meta/storage the dtype of the chunks is unknown", async () => {
  const store = await whole();
  await store.delete("meta/storage");
  await expect(repairArray(store, "")).rejects.toMatchObject({ code: "INCOMPLETE" });
  await expect(repairArray(new MemoryStore(), "")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

const fixtures = fileURLToPath(new URL("../../fixtures", import.meta.url));

test("other writers' folders, without a layout, are repaired with the values that they had", async () => {
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
    expect((await mended.verify()).findings, root).toEqual([]);
    // One was never finished: its chunks are whole, but its offsets were not written.
    if (root.includes("aborted")) continue;
    const [found, expected] = [await mended.getBytes(), await original.getBytes()];
    expect(Buffer.from(found).equals(Buffer.from(expected)), root).toBe(true);
  }
  expect(repaired).toBeGreaterThan(3);
});

/** The values of all rows. */
async function valuesIn(store: MemoryStore): Promise<number[]> {
  const array = (await open(store)) as ArrayArchive;
  const bytes = await array.getBytes();
  return [...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)];
}

/** The array with a byte of the payload of chunk 5 changed (rows 40 to 47). */
async function withBadChunk(): Promise<MemoryStore> {
  const store = await whole();
  await change(store, "data/__2__.bin", (bytes) => {
    const at = Number(new DataView(bytes.buffer).getBigInt64(40, true)) + 20;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    return bytes;
  });
  return store;
}

test("without the holes option, a repair that would lose rows refuses, lists them, and changes nothing", async () => {
  const store = await withBadChunk();
  const before = await imageOf(store);
  for (const into of [undefined, { store: new MemoryStore(), path: "" }]) {
    const error = await repairArray(store, "", { into }).catch((reason) => reason);
    expect(error).toMatchObject({
      code: "INCOMPLETE",
      details: {
        field: "holes",
        found: [
          {
            chunk: 5,
            from: 40,
            to: 48,
            path: "memory:data/__2__.bin",
            offset: expect.any(Number),
            code: "CHECKSUM_MISMATCH",
            reason: expect.stringContaining("crc32"),
          },
        ],
      },
    });
    expect(await imageOf(store)).toEqual(before);
  }
});

test.each([
  ["fill", undefined, ramp(100).map((value) => (value >= 40 && value < 48 ? 0 : value))],
  ["fill", -7, ramp(100).map((value) => (value >= 40 && value < 48 ? -7 : value))],
  ["drop", undefined, ramp(100).filter((value) => value < 40 || value >= 48)],
  ["cut", undefined, ramp(40)],
] as const)(
  "in place with holes %s (fill %s) every whole row stays, and everything replaced is set aside",
  async (holes, fill, expected) => {
    const store = await withBadChunk();
    const before = await imageOf(store);
    const report = await repairArray(store, "", { holes, fill });
    expect(await valuesIn(store)).toEqual([...expected]);
    const folder = report.setAside?.slice("memory:".length) ?? "";
    expect(folder).toMatch(/^lost\+found\/\d{4}-\d\d-\d\dT\d{6}Z$/);
    const after = await imageOf(store);
    for (const [key, bytes] of before) {
      if (key === "meta/attributes") continue;
      expect(after.get(`${folder}/${key}`), key).toEqual(bytes);
    }
    const { warnings, filled = [] } = (await open(store)) as ArrayArchive;
    expect(filled).toEqual(holes === "fill" ? [{ from: 40, to: 48 }] : []);
    expect(warnings.join().includes("rows 40 to 47")).toBe(holes === "fill");
  },
);

test("with discard, replaced files are removed once the result was read back", async () => {
  const store = await withBadChunk();
  const { setAside } = await repairArray(store, "", { holes: "fill", discard: true });
  expect(setAside).toBeUndefined();
  expect([...(await imageOf(store)).keys()].filter((key) => key.startsWith("lost+found"))).toEqual([]);
});

test("filled rows are named until they are set, move with the rows before them, and go when they are cut off", async () => {
  const store = await withBadChunk();
  await repairArray(store, "", { holes: "fill" });
  const filled = async (): Promise<unknown> => ((await open(store)) as ArrayArchive).filled ?? [];
  const findings = async (): Promise<string[]> =>
    (await (await open(store)).verify()).findings.map(({ code, severity }) => `${severity} ${code}`);
  expect(await findings()).toEqual(["warning FILLED"]);
  const array = await openWritable(store, "");
  await array.set([{ start: 42, stop: 44, step: 1 }], 1);
  await array.flush();
  expect(await filled()).toEqual([
    { from: 40, to: 42 },
    { from: 44, to: 48 },
  ]);
  await array.append(ramp(10));
  await array.deleteRows(0, 10);
  expect(await filled()).toEqual([
    { from: 30, to: 32 },
    { from: 34, to: 38 },
  ]);
  await array.compact();
  await array.resize(36);
  expect(await filled()).toEqual([
    { from: 30, to: 32 },
    { from: 34, to: 36 },
  ]);
  await array.set([{ start: 30, stop: 36, step: 1 }], 1);
  await array.close();
  expect(await filled()).toEqual([]);
  expect(await findings()).toEqual([]);
});

test("[FG-15] spans that are empty or out of order are refused", async () => {
  for (const filled of [
    [[5, 5]],
    [
      [8, 9],
      [3, 4],
    ],
    [
      [1, 3],
      [2, 4],
    ],
    [[-1, 2]],
    [3],
    {},
  ]) {
    const store = await whole();
    await change(store, "meta/sizes", (bytes) => {
      const sizes = JSON.parse(new TextDecoder().decode(bytes));
      return new TextEncoder().encode(JSON.stringify({ ...sizes, filled }));
    });
    await expect(open(store), JSON.stringify(filled)).rejects.toMatchObject({ code: "BAD_FIELD" });
  }
});

test("[FZ-10] the contents of lost+found are not part of the array, and stay", async () => {
  const store = await whole();
  await store.put("lost+found/x/data/__9__.bin", Uint8Array.of(1));
  expect((await (await open(store)).verify()).findings).toEqual([]);
  const array = await openWritable(store, "");
  await array.resize(10);
  await array.compact();
  await array.close();
  expect(await store.get("lost+found/x/data/__9__.bin")).toEqual(Uint8Array.of(1));
});
