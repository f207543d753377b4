/** Damaged Zarr arrays of every version, read past the damage and repaired: no readable chunk is lost. */
import * as fs from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import type { DamageReport } from "../../src/archive/kinds/types.ts";
import { convert } from "../../src/convert/run/convert.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { open } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import { nested } from "./arrays.ts";

type Image = Map<string, Uint8Array>;

function imageOf(folder: string): Image {
  const image: Image = new Map();
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) image.set(relative(folder, path), new Uint8Array(fs.readFileSync(path)));
  }
  return image;
}

async function imageIn(store: MemoryStore, folder = ""): Promise<Image> {
  const image: Image = new Map();
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") for (const each of await imageIn(store, key)) image.set(...each);
    else image.set(key, (await store.get(key)) ?? new Uint8Array(0));
  }
  return image;
}

const LZ4 = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
};
const LITTLE = { name: "bytes", configuration: { endian: "little" } };

/** An array of 12 × 10 items, each its own number plus one, and its location in its store. */
async function made(extra: object): Promise<{ image: Image; key: string }> {
  const store = new MemoryStore();
  const base = {
    shape: [12, 10],
    dataType: "int32",
    chunkShape: [2, 5],
    fillValue: -1,
    codecs: [LITTLE, LZ4],
  } as const;
  const array = await createZarr(store, "a", { ...base, ...extra });
  await array.set(
    null,
    Int32Array.from({ length: 120 }, (_, i) => i + 1),
  );
  await array.flush();
  return { image: await imageIn(store), key: "a" };
}

/** The same values as Zarr v2, uncompressed or with zlib, as zarr-python lays them out. */
async function version2(): Promise<{ image: Image; key: string }> {
  const { image } = await made({});
  const document = {
    ...{
      zarr_format: 2,
      shape: [12, 10],
      chunks: [2, 5],
      dtype: "<i4",
      fill_value: -1,
      order: "C",
      filters: null,
    },
    compressor: { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 },
  };
  const v2: Image = new Map([["a/.zarray", new TextEncoder().encode(JSON.stringify(document))]]);
  for (const [key, bytes] of image) {
    const [, row, column] = /c\/(\d+)\/(\d+)$/.exec(key) ?? [];
    if (row !== undefined) v2.set(`a/${row}.${column}`, bytes);
  }
  return { image: v2, key: "a" };
}

const ofCorpus = (path: string): (() => Promise<{ image: Image; key: string }>) => {
  const fixture = loadFixtures().find((each) => each.path === path);
  if (fixture === undefined) throw new Error(`no fixture ${path}`);
  return async () => ({ image: imageOf(fixture.file), key: fixture.arrayPath });
};

const CASES: readonly (readonly [string, () => Promise<{ image: Image; key: string }>])[] = [
  ["version 3, an object a chunk", () => made({})],
  ["version 3, shards", () => made({ shardShape: [4, 10] })],
  [
    "version 3, shards with the index at the start",
    () => made({ shardShape: [6, 10], indexLocation: "start" }),
  ],
  [
    "version 3, shards in shards",
    () =>
      made({
        chunkShape: [4, 10],
        shardShape: [12, 10],
        codecs: [nested([LITTLE, LZ4], "end", undefined, [2, 5])],
      }),
  ],
  ["version 2", version2],
  ...loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").map(
    ({ path }) => [path, ofCorpus(path)] as const,
  ),
];

/** The rows `[from, to)` of values in C order. */
function rowsOf(bytes: Uint8Array, { shape }: ZarrArray, from: number, to: number): Uint8Array {
  const row = bytes.length / Math.max(1, shape[0] ?? 1);
  return bytes.subarray(from * row, to * row);
}

test.each(CASES)(
  "%s: a damaged chunk is skipped or filled, and every other value is read",
  async (_, make) => {
    const { image, key } = await make();
    const whole = await openZarrArray(new MemoryStore(new Map(image)), key);
    const values = await whole.getBytes();
    const chunks = [];
    for await (const chunk of whole.listChunks()) chunks.push(chunk);
    const victim = chunks[chunks.length >> 1];
    if (victim === undefined) throw new Error("the array has no chunk");
    const bytes = (image.get(victim.key) ?? new Uint8Array(0)).slice();
    // Not a chunk of any codec; no byte of uncompressed chunks is wrong, so these lose their end.
    bytes.fill(0xee, victim.offset, victim.offset + Math.min(40, victim.ctbytes));
    image.set(victim.key, bytes);
    const damaged = new MemoryStore(image);
    if ((await (await openZarrArray(damaged, key)).verify()).ok) {
      // Without a checksum and a compressor nothing shows what a byte of a shard was.
      if (victim.slot !== undefined) return expect(victim.checksum).toBe("None");
      image.set(victim.key, bytes.subarray(0, bytes.length - 1));
    }
    const isBad = (index: number): boolean => index === victim.index;

    for (const how of ["fill", "skip"] as const) {
      const reports: DamageReport[] = [];
      const opened = await open(damaged, key, {
        damaged: how,
        onDamage: (report) => void reports.push(report),
      });
      if (opened.kind !== "array") throw new Error("not an array");
      const found = await opened.getBytes();
      expect(reports).toHaveLength(1);
      const { holes } = reports[0] as DamageReport;
      expect(holes.map(({ chunk }) => chunk)).toEqual([victim.index]);
      expect(holes[0]?.path).toContain(victim.key);
      const { from, to } = holes[0] ?? { from: 0, to: 0 };
      expect(from).toBe(victim.start[0] ?? 0);
      if (how === "skip" && whole.shape.length > 0) {
        expect(opened.shape).toEqual([(whole.shape[0] ?? 0) - (to - from), ...whole.shape.slice(1)]);
        const left = [rowsOf(values, whole, 0, from), rowsOf(values, whole, to, whole.shape[0] ?? 0)];
        expect(Buffer.compare(Buffer.from(found), Buffer.concat(left)), how).toBe(0);
      }
      if (how === "fill") {
        expect(opened.shape).toEqual(whole.shape);
        for (const { index, start, shape } of chunks) {
          const region = start.map((first, d) => ({
            start: first,
            stop: Math.min(whole.shape[d] ?? 0, first + (shape[d] ?? 1)),
            step: 1,
          }));
          const piece = await opened.getBytes(region);
          if (!isBad(index)) expect(piece, `chunk ${index}`).toEqual(await whole.getBytes(region));
        }
      }
      // The result of a conversion is what is read.
      const target = new MemoryStore();
      await convert(opened, { store: target, path: "out" }, { to: "zarr", verify: true });
      const copy = await openZarrArray(target, "out");
      expect(copy.shape).toEqual(opened.shape);
      expect(
        Buffer.compare(Buffer.from(await copy.getBytes()), Buffer.from(found)),
        `converted, ${how}`,
      ).toBe(0);
    }

    const target = new MemoryStore();
    // The older transformer's hierarchies are repaired as a whole.
    const place = image.has("zarr.json") ? "" : key;
    const into = { store: target, path: place };
    await expect(repairArray(damaged, place, { into })).rejects.toMatchObject({
      details: { field: "holes" },
    });
    const report = await repairArray(damaged, place, { into, holes: "fill" });
    expect(report.holes.map(({ chunk }) => chunk)).toEqual([victim.index]);
    const copy = await openZarrArray(target, key);
    expect((await copy.verify()).findings).toEqual([]);
    const filled = await open(damaged, key, { damaged: "fill" });
    expect(await copy.getBytes()).toEqual(filled.kind === "array" ? await filled.getBytes() : undefined);
  },
);

test("a damaged index gives what an earlier one names, and what was written since is reported as lost", async () => {
  const store = new MemoryStore();
  const spec = { shape: [4], dataType: "int32", chunkShape: [1], shardShape: [4], fillValue: 0 } as const;
  const array = await createZarr(store, "a", spec, { strategy: "append" });
  await array.set([0], 7);
  await array.flush();
  await array.set([1], 8);
  await array.flush();
  const image = await imageIn(store);
  const shard = (image.get("a/c/0") ?? new Uint8Array(0)).slice();
  shard.fill(0x5a, shard.length - 4);
  image.set("a/c/0", shard);
  const reports: DamageReport[] = [];
  const opened = await open(new MemoryStore(image), "a", {
    damaged: "fill",
    onDamage: (report) => void reports.push(report),
  });
  if (opened.kind !== "array") throw new Error("not an array");
  expect((await opened.get()).data).toEqual(Int32Array.of(7, 0, 0, 0));
  expect(reports).toHaveLength(1);
  expect(reports[0]?.lost).toEqual([
    expect.stringMatching(/written into .*c\/0 after its index at byte \d+/),
  ]);
});

test("each array of a group is read and repaired on its own, and a damaged document is named", async () => {
  const first = await made({});
  const image: Image = new Map([
    ["zarr.json", new TextEncoder().encode('{"zarr_format":3,"node_type":"group"}')],
  ]);
  for (const name of ["x", "y"])
    for (const [key, bytes] of first.image) image.set(key.replace(/^a\//, `${name}/`), bytes.slice());
  image.get("y/c/0/0")?.fill(0, 0, 16);
  const reports: DamageReport[] = [];
  const group = await open(new MemoryStore(image), "", {
    damaged: "fill",
    onDamage: (report) => void reports.push(report),
  });
  if (group.kind !== "group") throw new Error("not a group");
  const arrays = await group.arrays();
  await group.arrays(); // examines each array once
  expect(reports.map(({ holes }) => holes.length)).toEqual([1]);
  expect(await arrays.column("x").getBytes()).toEqual(
    await (await openZarrArray(new MemoryStore(image), "x")).getBytes(),
  );
  const target = new MemoryStore();
  const { holes } = await repairArray(new MemoryStore(image), "", {
    into: { store: target, path: "out" },
    holes: "fill",
  });
  expect(holes).toMatchObject([{ column: "y", chunk: 0, from: 0, to: 2 }]);
  expect(await (await openZarrArray(target, "out/y")).getBytes()).toEqual(
    await arrays.column("y").getBytes(),
  );

  image.set("y/zarr.json", new TextEncoder().encode("{"));
  await expect(repairArray(new MemoryStore(image), "", { dryRun: true })).rejects.toMatchObject({
    code: "TRUNCATED",
    details: { path: expect.stringContaining("y/zarr.json") },
  });
});

test("bytes after a Blosc chunk in its object cost no values, and are named", async () => {
  const { image } = await made({});
  const whole = await (await openZarrArray(new MemoryStore(image), "a")).getBytes();
  const key = "a/c/1/0";
  image.set(key, Uint8Array.from([...(image.get(key) ?? []), 1, 2, 3, 4]));
  const store = new MemoryStore(image);
  const target = new MemoryStore();
  const report = await repairArray(store, "a", { into: { store: target, path: "out" }, holes: "fill" });
  expect([report.holes, report.lost]).toEqual([[], []]);
  expect(report.problems).toEqual([expect.stringMatching(/c\/1\/0: .* without the bytes after it/)]);
  expect(await (await openZarrArray(target, "out")).getBytes()).toEqual(whole);
  const reports: DamageReport[] = [];
  const onDamage = (each: DamageReport): void => void reports.push(each);
  const opened = await open(store, "a", { damaged: "skip", onDamage });
  if (opened.kind !== "array") throw new Error("not an array");
  expect(await opened.getBytes()).toEqual(whole);
  expect(reports.map(({ problems }) => problems.length)).toEqual([1]);
});

test("what is damaged is looked for again after a failure of the store", async () => {
  const { image, key } = await made({});
  class FailingStore extends MemoryStore {
    failures = 1;
    override async get(key: string): Promise<Uint8Array | undefined> {
      if (key.includes("/c/") && this.failures-- > 0) throw new Error("the network is down");
      return super.get(key);
    }
  }
  const store = new FailingStore(image);
  const options = { damaged: "fill" } as const;
  await expect(openZarrArray(store, key, options)).rejects.toThrow("the network is down");
  expect((await openZarrArray(store, key, options)).shape).toEqual([12, 10]);
});
