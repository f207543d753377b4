/** Frames by python-blosc2: every value as written, streams copied unchanged, and only errors of this library on damage. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readFrame } from "../../src/blosc2/frame.ts";
import { frameAsBlosc1 } from "../../src/blosc2/hdf5-chunk.ts";
import { at } from "../../src/bytes/arrays.ts";
import { decode } from "../../src/codec/index.ts";
import { blocksAsBlosc1 } from "../../src/codec2/restream.ts";
import { convert, planConversion } from "../../src/convert/run/convert.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { findReadables } from "../../src/open/find-readables.ts";
import { open, openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { sweep } from "../scope.ts";

const folder = fileURLToPath(new URL("../../fixtures/blosc2", import.meta.url));
const images = new Map<string, Uint8Array>();
for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
  const path = join(folder, name);
  if (/b2nd|b2frame/.test(name) && statSync(path).isFile())
    images.set(name.replaceAll("\\", "/"), new Uint8Array(readFileSync(path)));
}
const store = new MemoryStore(images);
const values = JSON.parse(readFileSync(join(folder, "values.json"), "utf8")) as Readonly<
  Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
>;
const names = Object.keys(values);
const LONG_DOUBLE = "long-double.b2nd";

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

test.each(names)("%s has the values that were written", async (name) => {
  const array = await openArray(store, name);
  expect(array.dialect).toBe("blosc2");
  expect(array.shape).toEqual(values[name]?.shape);
  expect(sha256(await array.getBytes())).toBe(values[name]?.sha256);
});

test("metalayers become attributes, and variable-length ones take precedence", async () => {
  expect((await open(store, "lz4.b2nd")).attrs).toEqual({ units: "USD", more: { a: 1 } });
  const { attrs } = await open(store, "layers.b2nd");
  expect(new Map(Object.entries(attrs))).toEqual(
    new Map<string, unknown>([
      ["1", "one"],
      ["7", "seven"],
      ["spacing", [0.5, 2]],
      ["units", "mm"],
      ["most", 2n ** 64n - 1n],
      ["least", -(2n ** 63n)],
      ["pair", [1, [2, "x"]]],
      ["__proto__", [1]],
    ]),
  );
  const report = await convert(
    await open(store, "layers.b2nd"),
    { store: new MemoryStore(), path: "" },
    { to: "zarr" },
  );
  expect(report.notes).toEqual(["attributes that JSON cannot hold are left out: raw, numbers"]);
});

test.each([
  ["expression.b2nd", "an expression or a reference"],
  ["function.b2nd", "an expression or a function"],
  ["proxy.b2nd", "a proxy"],
  ["objects.b2frame", "a list of Python objects"],
  ["batches.b2frame", "a list of Python objects"],
  ["lengths.b2frame", "a frame whose chunks have different lengths"],
])("%s is refused: its chunks are not the values of an array", async (name, what) => {
  await expect(open(store, name)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining(what) as unknown,
  });
});

test.each([
  ["delta.b2nd", "Blosc in Zarr cannot hold its blocks: delta, items of 8 bytes, blocks of 1200"],
  [
    "shuffle-bytedelta.b2nd",
    "Blosc in Zarr cannot hold its blocks: bytedelta and shuffle, items of 8 bytes, blocks of 1200",
  ],
  ["uneven.b2nd", "blocks of 8 x 7 do not divide chunks of 21 x 31"],
])("%s is recoded on the way to Zarr, and the plan says why", async (name, reason) => {
  const to = (): { store: MemoryStore; path: string } => ({ store: new MemoryStore(), path: "" });
  for await (const { plan } of planConversion(await open(store, name)))
    expect(plan?.arrays).toMatchObject([{ action: "recode", reason }]);
  const report = await convert(await open(store, name), to(), { to: "zarr", verify: true });
  expect(report).toMatchObject({ chunksCopied: 0, chunksRecoded: report.shards, verified: true });
  await expect(convert(await open(store, name), to(), { to: "zarr", recode: false })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining(reason),
  });
});

test("a chunk whose header is zeros is filled, and the others keep their values", async () => {
  const image = (images.get("lz4.b2nd") as Uint8Array).slice();
  const place = (await readFrame(store, "lz4.b2nd"))?.chunks.at(-1);
  if (place === undefined || !("key" in place)) throw new Error("no chunk");
  image.fill(0, place.offset, place.offset + 32);
  const damaged = new MemoryStore(new Map([["x.b2nd", image]]));
  const intact = await (await openArray(store, "lz4.b2nd")).getBytes();
  await expect((await openArray(damaged, "x.b2nd")).getBytes()).rejects.toMatchObject({ code: "BAD_FIELD" });
  const filled = await (await openArray(damaged, "x.b2nd", { damaged: "fill" })).getBytes();
  // The last chunk has rows from 60 on, and columns from 30 on, of 80 x 60 doubles.
  for (let row = 0; row < 80; row++) {
    const columns = row < 60 ? 60 : 30;
    const part = (bytes: Uint8Array): Uint8Array => bytes.subarray(row * 480, row * 480 + columns * 8);
    expect(part(filled)).toEqual(part(intact));
  }
  expect(filled.subarray(-240)).toEqual(new Uint8Array(240));
});

test("long doubles, which JavaScript and Zarr lack, go to .npy and b2nd as bytes", async () => {
  for (const to of ["npy", "b2nd"] as const) {
    const target = new MemoryStore();
    const report = await convert(
      await open(store, LONG_DOUBLE),
      { store: target, path: "x" },
      { to, verify: true },
    );
    expect(report.verified).toBe(true);
    const bytes = await (await openArray(store, LONG_DOUBLE)).getBytes();
    if (to === "npy") expect((await target.get("x"))?.subarray(-bytes.length)).toEqual(bytes);
  }
  await expect((await openArray(store, LONG_DOUBLE)).get()).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("no number for a float of 16 bytes (long double)") as unknown,
  });
});

test("a walk of a folder finds frames, sparse ones too", async () => {
  const found = new Set<string>();
  for await (const { path, array } of findReadables(store)) if (array !== undefined) found.add(path);
  expect([...found].sort()).toEqual([...Object.keys(values), LONG_DOUBLE].sort());
});

test.each([
  "blosclz.b2nd",
  "lz4.b2nd",
  "lz4hc.b2nd",
  "zlib.b2nd",
  "zstd.b2nd",
  "nofilter.b2nd",
  "padded.b2nd",
  "spanning.b2nd",
])("%s becomes Zarr shards with unchanged streams, and chunks of zeros are left out", async (name) => {
  const frame = await readFrame(store, name);
  let [copied, all] = [0, 0];
  for (const chunk of frame?.chunks ?? []) {
    if ("special" in chunk) continue;
    const bytes = (await store.get(chunk.key))?.subarray(chunk.offset, chunk.end) ?? new Uint8Array(0);
    for (const block of await blocksAsBlosc1(bytes)) {
      all++;
      if (block?.isCopied === true) copied++;
    }
  }
  expect(all).toBeGreaterThan(0);
  expect(copied).toBe(all);
  const target = new MemoryStore();
  const report = await convert(
    await open(store, name),
    { store: target, path: "" },
    { to: "zarr", verify: true },
  );
  expect(report).toMatchObject({ chunksRecoded: 0, verified: true });
  const zarr = await openZarrArray(target, "");
  expect(sha256(await zarr.getBytes())).toBe(values[name]?.sha256);
  expect(report.shards).toBe([...(frame?.chunks ?? [])].filter((chunk) => !("special" in chunk)).length);
});

test("a frame that is cut short or changed gives an error of this library or values, and uses no more memory than its size warrants", async () => {
  let random = 11;
  const next = (limit: number): number => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor(random / 65_536) % limit;
  };
  let told = 0;
  for (const name of [
    "lz4.b2nd",
    "zstd.b2nd",
    "shuffle-bytedelta.b2nd",
    "plain.b2frame",
    "full.b2nd",
    "uneven.b2nd",
  ]) {
    const image = images.get(name) ?? new Uint8Array(0);
    for (let i = 0; i < sweep(600, 14); i++) {
      const copy = i % 4 === 0 ? image.slice(0, next(image.length)) : image.slice();
      for (let changes = 0; changes < 3 && copy.length > 0; changes++)
        copy[next(i % 2 === 0 ? Math.min(200, copy.length) : copy.length)] = next(256);
      try {
        const array = await openArray(new MemoryStore(new Map([[name, copy]])), name);
        if (array.nbytes < 1 << 22) await array.getBytes();
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        told++;
      }
    }
  }
  expect(told).toBeGreaterThan(50);
});

test("a frame with fewer rows than its HDF5 chunk is damage, and is not filled with zeros", async () => {
  const frame = images.get("lz4.b2nd") ?? new Uint8Array();
  const array = await openArray(store, "lz4.b2nd");
  const { nbytes } = array;
  await expect(
    frameAsBlosc1(frame, { nbytes: nbytes * 2, sums: 0, least: nbytes + 1, typesize: 8 }),
  ).rejects.toMatchObject({ code: "BAD_FIELD", details: { expected: nbytes * 2, found: nbytes } });
  const short = { nbytes: nbytes * 2, sums: 0, least: nbytes, typesize: 8 };
  const whole = await decode((await frameAsBlosc1(frame, short)).chunk);
  expect(whole.subarray(0, nbytes)).toEqual(await array.getBytes());
  expect(whole.subarray(nbytes).every((byte) => byte === 0)).toBe(true);
});

test("the bytes of a frame are those of its files, and no checksum is reported as compared", async () => {
  for (const name of ["lz4.b2nd", "zeros.b2nd"]) {
    const array = await openArray(store, name);
    expect(await array.storedBytes()).toBe(images.get(name)?.length);
    expect(await array.verify()).toMatchObject({ ok: true, digests: 0 });
  }
});

test("a frame with a plugin codec is refused on opening, naming the codec", async () => {
  const image = images.get("lz4.b2nd")?.slice() ?? new Uint8Array();
  image[27] = 0x56;
  image[77] = 35;
  await expect(openArray(new MemoryStore(new Map([["x.b2nd", image]])), "x.b2nd")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("zfp (fixed rate)") as string,
  });
});

test("repair explains how to save the whole parts of a damaged frame, and that way works", async () => {
  const image = images.get("zstd.b2nd")?.slice() ?? new Uint8Array();
  const frame = await readFrame(store, "zstd.b2nd");
  const last = frame?.chunks.at(-1);
  if (last === undefined || "special" in last) throw new Error("the last chunk has bytes");
  // The first stream of one of its blocks.
  image.fill(0xff, last.offset + 60, last.offset + 90);
  const damaged = new MemoryStore(new Map([["x.b2nd", image]]));
  const target = new MemoryStore();
  await expect(
    repairArray(damaged, "x.b2nd", { into: { store: target, path: "y.b2nd" }, holes: "fill" }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining('convert them with {damaged: "fill"}') as string,
  });
  const to = { store: target, path: "y.b2nd" };
  await convert(await open(damaged, "x.b2nd", { damaged: "fill" }), to, { to: "b2nd" });
  const [whole, saved] = [await openArray(store, "zstd.b2nd"), await openArray(target, "y.b2nd")];
  const [before, after] = [await whole.getBytes(), await saved.getBytes()];
  const changed = before.reduce((sum, byte, i) => sum + (byte === after[i] ? 0 : 1), 0);
  expect(changed).toBeGreaterThan(0);
  // One block of 10 x 15 items at most, of 4,800 items.
  expect(changed).toBeLessThanOrEqual(1200);
});

test("frames of save_array have the data type and the shape of the array, and a frame whose rows were removed opens", async () => {
  for (const [name, copied, recoded] of [
    ["packed.b2frame", 1, 0],
    ["packed-rows.b2frame", 5, 0],
    ["packed-odd.b2frame", 0, 1],
    ["packed-uneven.b2frame", 0, 1],
    ["packed-short.b2frame", 0, 1],
  ] as const) {
    const array = await openArray(store, name);
    expect(array).toMatchObject({ shape: values[name]?.shape });
    const report = await convert(array, { store: new MemoryStore(), path: "" }, { to: "zarr", verify: true });
    expect(report, name).toMatchObject({ shards: copied + recoded, chunksRecoded: recoded, verified: true });
  }
  expect(await openArray(store, "removed.b2nd")).toMatchObject({ shape: [0, 50], dtype: { kind: "float" } });
});

test("a sparse frame without its index is read in the order of its files, if none is missing", async () => {
  const folder = new URL("../../fixtures/blosc2/sparse-whole.b2nd/", import.meta.url);
  const files = new Map<string, Uint8Array>();
  for (const name of readdirSync(folder)) {
    const bytes = new Uint8Array(readFileSync(new URL(name, folder)));
    files.set(`x/${name}`, name === "chunks.b2frame" ? bytes.slice(0, -9) : bytes);
  }
  await expect(openArray(new MemoryStore(files), "x")).rejects.toMatchObject({ code: "TRUNCATED" });
  const lost: string[] = [];
  const onDamage = (report: { readonly lost: readonly string[] }) => lost.push(...report.lost);
  const array = await openArray(new MemoryStore(files), "x", { damaged: "fill", onDamage });
  expect(sha256(await array.getBytes())).toBe(values["sparse-whole.b2nd"]?.sha256);
  expect(lost).toEqual([
    "attributes of variable length and the index: chunks are in the order of their files",
  ]);
  files.delete("x/00000001.chunk");
  const less = openArray(new MemoryStore(files), "x", { damaged: "fill" });
  await expect(less).rejects.toMatchObject({ code: "TRUNCATED" });
});

test("a truncated frame whose header counts more chunks than any index has is not filled with as many", async () => {
  const image = (images.get("plain.b2frame") ?? new Uint8Array(0)).slice();
  new DataView(image.buffer).setBigUint64(30, 1n << 50n);
  const [first] = (await readFrame(store, "plain.b2frame"))?.chunks ?? [];
  const cut = first !== undefined && "key" in first ? Number(first.end) + 3 : 0;
  const damaged = new MemoryStore(new Map([["x.b2frame", image.slice(0, cut)]]));
  const refused = { code: expect.stringMatching(/TRUNCATED|BAD_FIELD/) as string };
  await expect(openArray(damaged, "x.b2frame", { damaged: "fill" })).rejects.toMatchObject(refused);
});

test("a read of a frame's end that failed is not taken for damage", async () => {
  class Failing extends MemoryStore {
    failures = 1;
    override async getRange(
      ...args: Parameters<MemoryStore["getRange"]>
    ): ReturnType<MemoryStore["getRange"]> {
      const [key, range] = args;
      if ("offset" in range && range.offset > 0 && this.failures-- > 0)
        throw new SuperchunkError("IO", "the network failed", { path: key });
      return super.getRange(...args);
    }
  }
  const failing = new Failing(images);
  await expect(openArray(failing, "lz4.b2nd", { damaged: "fill" })).rejects.toMatchObject({ code: "IO" });
});

test("of a truncated frame, the chunks before the cut are saved, at their places", async () => {
  const saved = { index: 0, walk: 0, part: 0, refused: 0 };
  for (const name of names) {
    const image = images.get(name);
    const frame = await readFrame(store, name);
    const places = [...(frame?.chunks ?? [])].map((chunk) => ("key" in chunk ? chunk.end : undefined));
    const ends = places.filter((end) => end !== undefined);
    const end = Math.max(...ends);
    // The byte order of save_tensor is lost with the end.
    const isLost = name === LONG_DOUBLE || name === "packed-odd.b2frame";
    if (image === undefined || ends.length === 0 || isLost) continue;
    const whole = await openArray(store, name);
    const before = await whole.getBytes();
    for (const cut of [image.length - 5, end + 40, at(ends, 0) + 3]) {
      const damaged = new MemoryStore(new Map([["x.b2nd", image.slice(0, cut)]]));
      const refused = {
        code: "TRUNCATED",
        message: expect.stringContaining("convert its first chunks") as string,
      };
      await expect(openArray(damaged, "x.b2nd")).rejects.toMatchObject(refused);
      const lost: string[] = [];
      const options = {
        damaged: "fill",
        onDamage: (report: { lost: readonly string[] }) => lost.push(...report.lost),
      } as const;
      const array = await openArray(damaged, "x.b2nd", options).catch(() => undefined);
      if (array === undefined) {
        // Chunks that are not stored are somewhere among the others.
        expect(places.length).toBeGreaterThan(ends.length);
        saved.refused++;
        continue;
      }
      // The shape and the dtype of save_array are lost with the end: big-endian numbers become plain bytes.
      expect(array.nbytes).toBe(whole.nbytes);
      if (!name.startsWith("packed")) expect(array.shape).toEqual(whole.shape);
      if (cut > end) {
        const isWalk = /order of the file$/.test(at(lost, 0));
        saved[isWalk ? "walk" : "index"]++;
        expect(sha256(await array.getBytes()), name).toBe(sha256(before));
        continue;
      }
      saved.part++;
      expect(at(lost, 0)).toMatch(/after the first 1 of \d+ are lost; if chunks of zeros/);
      // The first chunk is whole: it starts with the first item.
      if (places[0] !== undefined)
        expect((await array.getBytes()).subarray(0, array.dtype.itemSize)).toEqual(
          before.subarray(0, array.dtype.itemSize),
        );
    }
  }
  for (const [way, count] of Object.entries(saved)) expect(count, way).toBeGreaterThan(0);
});
