/**
 * Frames that this library writes have every value of the source, keep its streams if the cuts allow it, and report
 * what was encoded.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { readFrame } from "../../src/blosc2/frame.ts";
import { encode } from "../../src/codec/index.ts";
import { convert } from "../../src/convert/run/convert.ts";
import { create } from "../../src/edit/edit.ts";
import type { JsonObject } from "../../src/index.ts";
import { findReadables } from "../../src/open/find-readables.ts";
import { open, openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { ZarrArray } from "../../src/zarr/read/array.ts";
import { putBloscpack } from "../convert/to-zarr/make-archive.ts";

const root = fileURLToPath(new URL("../../fixtures", import.meta.url));

function imagesOf(folder: string): Map<string, Uint8Array> {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => statSync(join(root, folder, name)).isFile());
  return new Map(
    files.map((name) => [name.replaceAll("\\", "/"), new Uint8Array(readFileSync(join(root, folder, name)))]),
  );
}

const frames = new MemoryStore(imagesOf("blosc2"));
const values = JSON.parse(readFileSync(join(root, "blosc2/values.json"), "utf8")) as Readonly<
  Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
>;

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

test.each(Object.keys(values))("%s goes to Zarr and comes back with its values", async (name) => {
  const zarr = new MemoryStore();
  await convert(await open(frames, name), { store: zarr, path: "" }, { to: "zarr" });
  const back = new MemoryStore();
  const report = await convert(
    { store: zarr, path: "" },
    { store: back, path: "x.b2nd" },
    { to: "b2nd", verify: true },
  );
  const array = await openArray(back, "x.b2nd");
  expect(array.dialect).toBe("blosc2");
  expect(array.shape).toEqual(values[name]?.shape);
  expect(sha256(await array.getBytes())).toBe(values[name]?.sha256);
  expect(report).toMatchObject({ converted: 1, verified: true });
});

test("names of dimensions come back from a frame as such, and not as an attribute", async () => {
  const [store, back] = [new MemoryStore(), new MemoryStore()];
  await putBloscpack(store, "a.blp", new Uint8Array(240), 120, { dtype: "<f8", shape: [6, 5] });
  const names = { dimensionNames: ["time", "x"] };
  await convert(await open(store, "a.blp"), { store, path: "a.zarr" }, { to: "zarr", ...names });
  await convert({ store, path: "a.zarr" }, { store, path: "a.b2nd" }, { to: "b2nd" });
  await convert(await open(store, "a.b2nd"), { store: back, path: "" }, { to: "zarr" });
  expect(await open(back, "")).toMatchObject({ ...names, attrs: {} });
});

test("attributes come back from a frame whatever their names", async () => {
  const store = new MemoryStore();
  const attrs = JSON.parse(
    '{"constructor": 1, "__proto__": {"constructor": [2, {"constructor": 3}]}, "toString": null, "é": "中"}',
  ) as JsonObject;
  await (await create(store, "a.zarr", { format: "zarr", dtype: "<f8", shape: [3], attrs })).close();
  await convert({ store, path: "a.zarr" }, { store, path: "a.b2nd" }, { to: "b2nd", verify: true });
  expect(JSON.stringify((await openArray(store, "a.b2nd")).attrs)).toBe(JSON.stringify(attrs));
});

test.each(["[('a', '>i4')]", "[('a', '>i4'), ('b', '>f8')]", "[('a', '>i4'), ('b', '<f8')]"])(
  "structs of %s pass verify, with their dtype",
  async (dtype) => {
    const bytes = Uint8Array.from({ length: 240 }, (_, i) => i);
    const itemSize = dtype.includes("f8") ? 12 : 4;
    const store = new MemoryStore();
    await putBloscpack(store, "a.blp", bytes, 120, { dtype, shape: [240 / itemSize] });
    const source = await open(store, "a.blp");
    const report = await convert(source, { store, path: "a.b2nd" }, { to: "b2nd", verify: true });
    expect(report).toMatchObject({ converted: 1, verified: true });
    const frame = Buffer.from((await store.get("a.b2nd")) ?? []);
    expect(frame.includes(dtype)).toBe(true);
  },
);

test.each(["blosclz.b2nd", "lz4.b2nd", "lz4hc.b2nd", "zlib.b2nd", "zstd.b2nd", "nofilter.b2nd"])(
  "%s comes back with the same streams, chunk and block shapes, and attributes",
  async (name) => {
    const zarr = new MemoryStore();
    await convert(await open(frames, name), { store: zarr, path: "" }, { to: "zarr" });
    const back = new MemoryStore();
    const report = await convert({ store: zarr, path: "" }, { store: back, path: "x.b2nd" }, { to: "b2nd" });
    // bits of blocks whose item count is not a multiple of eight were encoded on the way to Zarr, and are again on the
    // way back
    const frame = await readFrame(frames, name);
    const again = await readFrame(back, "x.b2nd");
    expect(report).toMatchObject({ chunksRecoded: 0, chunksRestreamed: frame?.chunks.length });
    expect(again?.metalayers).toEqual(frame?.metalayers);
    expect(again).toMatchObject({ chunkBytes: frame?.chunkBytes, blockBytes: frame?.blockBytes });
    expect(again?.attrs).toMatchObject(frame?.attrs ?? {});
  },
);

test.each(["bloscpack-1", "bloscpack-2", "bloscpack-3", "carray", "ctable", "blz-superchunk"])(
  "archives of %s become frames with the same values",
  async (folder) => {
    const store = new MemoryStore(imagesOf(`corpus/${folder}`));
    const target = new MemoryStore();
    const npy = new MemoryStore();
    const source = { store, path: "" };
    const report = await convert(
      source,
      { store: target, path: "out" },
      { to: "b2nd", verify: true, skipFailed: true },
    );
    await convert(source, { store: npy, path: "out" }, { to: "npy", skipFailed: true });
    expect(report.converted).toBeGreaterThan(0);
    let compared = 0;
    for await (const { path, array } of findReadables(target)) {
      const image = await npy.get(path.replace(/b2nd$/, "npy"));
      const bytes = await array?.getBytes();
      // Read as Zarr, items are little-endian.
      if (/bigendian/.test(path))
        for (let i = 0; i < (bytes?.length ?? 0); i += 2) bytes?.subarray(i, i + 2).reverse();
      expect({ path, same: sha256(bytes ?? new Uint8Array()) }).toEqual({
        path,
        same: sha256(image?.subarray(image.length - (bytes?.length ?? 0)) ?? new Uint8Array(1)),
      });
      compared++;
    }
    expect(compared).toBe(report.arrays);
  },
);

test("blocks that are not boxes, other codecs and Fortran order are encoded again, and the plan says so", async () => {
  for (const [settings, reason] of [
    [{ chunks: [1000, 70], codec: "lz4" }, /blocks of the chunks are not boxes/],
    [{ chunks: [100, 70], codec: "gzip" }, /encoded with gzip/],
  ] as const) {
    const store = new MemoryStore();
    const array = Float64Array.from({ length: 70_000 }, (_, i) => i);
    const bytes = new Uint8Array(array.buffer);
    const document = {
      zarr_format: 2,
      shape: [1000, 70],
      chunks: settings.chunks,
      dtype: "<f8",
      order: "C",
      fill_value: 0,
      filters: null,
      compressor:
        settings.codec === "gzip"
          ? { id: "gzip", level: 1 }
          : { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1 },
    };
    await store.put(".zarray", new TextEncoder().encode(JSON.stringify(document)));
    const rows = settings.chunks[0];
    for (let i = 0; i < 1000 / rows; i++) {
      const part = bytes.slice(i * rows * 560, (i + 1) * rows * 560);
      const packed =
        settings.codec === "gzip"
          ? new Uint8Array(
              await new Response(
                new Blob([part]).stream().pipeThrough(new CompressionStream("gzip")),
              ).arrayBuffer(),
            )
          : await encode(part, { typesize: 8, blocksize: 4096 });
      await store.put(`${i}.0`, packed);
    }
    const target = new MemoryStore();
    const report = await convert(
      { store, path: "" },
      { store: target, path: "x.b2nd" },
      { to: "b2nd", verify: true },
    );
    expect(report.notes.join()).toMatch(reason);
    expect(report.chunksRecoded).toBeGreaterThan(0);
    expect(await (await openArray(target, "x.b2nd")).getBytes()).toEqual(bytes);
    await expect(
      convert({ store, path: "" }, { store: target, path: "y.b2nd" }, { to: "b2nd", recode: false }),
    ).rejects.toMatchObject({ code: "UNSUPPORTED" });
  }
});

test.each([
  { rows: 3, what: "one block" },
  { rows: 100_000, what: "several blocks" },
])("an array of one short chunk becomes a frame of its rows alone: $what", async ({ rows }) => {
  const store = new MemoryStore();
  const array = await create(store, "a", {
    dtype: "float64",
    chunkLength: 131_072,
    compressor: { clevel: 1 },
  });
  const given = Float64Array.from({ length: rows }, (_, i) => i / 4);
  await array.append(given);
  await array.close();
  const report = await convert(
    await open(store, "a"),
    { store, path: "a.b2nd" },
    { to: "b2nd", verify: true },
  );
  expect(report).toMatchObject({ verified: true, chunksRecoded: 0 });
  const frame = await openArray(store, "a.b2nd");
  expect((await store.get("a.b2nd"))?.length).toBeLessThan(400 + 8 * rows);
  expect((await frame.get()).data).toEqual(given);
});

test("a chunk of zeros that Zarr does not store becomes an entry of the index, as c-blosc2 expects", async () => {
  const [zarr, back] = [new MemoryStore(), new MemoryStore()];
  await convert(await open(frames, "nofilter.b2nd"), { store: zarr, path: "x.zarr" }, { to: "zarr" });
  await convert(await open(zarr, "x.zarr"), { store: back, path: "x.b2nd" }, { to: "b2nd" });
  const frame = await readFrame(back, "x.b2nd");
  expect(frame?.chunks.at(0)).toEqual({ special: "zeros" });
  const array = await openArray(back, "x.b2nd");
  expect(sha256(await array.getBytes())).toBe(values["nofilter.b2nd"]?.sha256);
});

test.each(["blz", "bcolz", "bloscpack"] as const)(
  "chunks that do not compress become chunks that readers take, from b2nd to %s",
  async (to) => {
    const store = new MemoryStore();
    const values = Int32Array.of(1, -70_000, 300_000_000);
    await (await create(store, "a", { dtype: "<i4", shape: [0, 3], data: values })).close();
    await convert(await open(store, "a"), { store, path: "a.b2nd" }, { to: "b2nd" });
    await convert(await open(store, "a.b2nd"), { store, path: "back" }, { to, verify: true });
    expect((await (await openArray(store, "back")).get()).data).toEqual(values);
  },
);

test.each([
  ["one block", 256, { chunks: [6, 32], blocks: [2, 16] }],
  ["several blocks", 128, { chunks: [2, 16], blocks: [1, 16] }],
])(
  "inner chunks of %s are listed as they are written, a row of shards ahead at most",
  async (_, blocksize, cut) => {
    const [store, back] = [new MemoryStore(), new MemoryStore()];
    const configuration = { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8, blocksize };
    const codecs = [
      { name: "bytes", configuration: { endian: "little" } },
      { name: "blosc", configuration },
    ];
    const shape = [240, 70];
    const grid = { shape, chunkShape: [2, 16], shardShape: [6, 32], codecs };
    const made = await create(store, "x", { format: "zarr", dtype: "<f8", ...grid });
    await made.set(
      [{ start: 7, stop: 231, step: 1 }],
      Float64Array.from({ length: 224 * 70 }, (_, i) => i),
    );
    await made.close();
    const list = ZarrArray.prototype.listChunks;
    let [listed, ahead] = [0, 0];
    const watched = vi.spyOn(ZarrArray.prototype, "listChunks").mockImplementation(async function* (
      this: ZarrArray,
      options,
    ) {
      for await (const chunk of list.call(this, options)) {
        listed++;
        yield chunk;
      }
    });
    const source = { store, path: "x" };
    try {
      await convert(
        source,
        { store: back, path: "x.b2nd" },
        {
          to: "b2nd",
          onProgress: ({ done, total }) => {
            ahead = Math.max(ahead, listed - (600 * done) / total);
          },
        },
      );
    } finally {
      watched.mockRestore();
    }
    expect(listed).toBeGreaterThan(500);
    expect(ahead).toBeLessThan(40);
    const frame = await openArray(back, "x.b2nd");
    expect(frame).toMatchObject({ shardShape: cut.chunks, chunkShape: cut.blocks });
    expect(await frame.getBytes()).toEqual(await (await openArray(store, "x")).getBytes());
  },
);

test("whole floats in attributes stay floats, and integers of more than 64 bits are left out with a note", async () => {
  const store = new MemoryStore();
  const attributes =
    '{"scale": 1.0, "n": 1, "deep": {"x": [2.0, 2]}, "long": 18446744073709551615, "big": 1180591620717411303424, "in": [-9223372036854775809]}';
  const array = await create(store, "a.zarr", { format: "zarr", dtype: "int8", shape: [2] });
  await array.close();
  const document = new TextDecoder().decode(await store.get("a.zarr/zarr.json"));
  await store.put(
    "a.zarr/zarr.json",
    new TextEncoder().encode(document.replace(/"attributes":\s*\{\}/, `"attributes": ${attributes}`)),
  );
  const to = { store, path: "a.b2nd" };
  const { notes } = await convert({ store, path: "a.zarr" }, to, { to: "b2nd" });
  expect(notes).toContainEqual(expect.stringMatching(/because integers in them have 64 bits: big, in$/));
  await convert(await open(store, "a.b2nd"), { store, path: "b.zarr" }, { to: "zarr" });
  const back = new TextDecoder().decode(await store.get("b.zarr/zarr.json"));
  expect(back.replace(/\s/g, "")).toContain(
    '"attributes":{"scale":1.0,"n":1,"deep":{"x":[2.0,2]},"long":18446744073709551615}',
  );
});
