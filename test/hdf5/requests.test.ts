/** How many requests, and how many bytes, it takes over HTTP to open HDF5 files whose metadata are spread, and to read an element. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SuperchunkError } from "../../src/errors.ts";
import { Hdf5File } from "../../src/hdf5/file.ts";
import { Hdf5Store } from "../../src/hdf5/zarr-view.ts";
import { S3Store } from "../../src/node/index.ts";
import { openArray, open as openAt } from "../../src/node/open.ts";
import { open, openArray as openArrayIn } from "../../src/open/open.ts";
import { HttpStore } from "../../src/store/http.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { CREDENTIALS, startS3 } from "../node/s3/server.ts";
import { sweep } from "../scope.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const NAMES = [
  "many-earliest.h5",
  "many-latest.h5",
  "many-user-block.h5",
  "many-pytables.h5",
  "chunks-earliest.h5",
  "chunks-latest.h5",
  "many-texts.h5",
];
const images = new Map(
  NAMES.map((name) => {
    const packed = readFileSync(join(repositoryRoot, "fixtures/hdf5", `${name}.gz`));
    return [name, new Uint8Array(gunzipSync(packed))] as const;
  }),
);
let server: TestServer;

beforeAll(async () => {
  server = await serveObjects(images);
});
afterAll(() => server.close());

/** The requests since the last call, and the bytes that they asked for. */
function takeCosts(): { readonly log: string; readonly requests: number; readonly kib: number } {
  const bytes = server.log.reduce((sum, line) => {
    const [, from = 0, to = -1] = /bytes=(\d+)-(\d+)/.exec(line) ?? [];
    return sum + Number(to) - Number(from) + 1;
  }, 0);
  const costs = { log: server.log.join("\n"), requests: server.log.length, kib: Math.ceil(bytes / 1024) };
  server.log.length = 0;
  return costs;
}

const COSTS = [
  { path: "many-earliest.h5/d0700", at: [999], value: 700, open: 5, element: 1 },
  { path: "many-earliest.h5/group/prices", at: [999], value: -1, open: 6, element: 1 },
  { path: "many-latest.h5/d0700", at: [999], value: 700, open: 6, element: 1 },
  { path: "many-latest.h5/group/prices", at: [999], value: -1, open: 5, element: 1 },
  { path: "many-user-block.h5/d0007", at: [999], value: 7, open: 4, element: 1 },
  { path: "many-pytables.h5/g3/d0333", at: [999], value: 333, open: 4, element: 1 },
  { path: "chunks-earliest.h5/line", at: [345_678], value: 345, open: 2, element: 2 },
  { path: "chunks-earliest.h5/plane", at: [345, 678], value: 345, open: 2, element: 3 },
  { path: "chunks-latest.h5/line", at: [345_678], value: 345, open: 2, element: 2 },
  { path: "chunks-latest.h5/plane", at: [345, 678], value: 345, open: 2, element: 3 },
];

test.each(COSTS)(
  "$path takes $open requests to open, and $element to read an element",
  async ({ path, at, value, open: most, element }) => {
    takeCosts();
    const array = await openArray(`${server.url}/${path}`);
    const opened = takeCosts();
    expect(opened.requests, opened.log).toBeLessThanOrEqual(most);
    expect(opened.kib, opened.log).toBeLessThanOrEqual(1152);
    expect(await array.get(at)).toBe(value);
    const read = takeCosts();
    expect(read.requests, read.log).toBeLessThanOrEqual(element);
    expect(read.kib, read.log).toBeLessThanOrEqual(512);
    await array.close();
  },
);

test.each([
  ["many-earliest.h5", 25],
  ["many-latest.h5", 20],
  ["many-pytables.h5", 25],
])("a file opens with one request, and all of its datasets with few: %s", async (name, most) => {
  takeCosts();
  const root = await openAt(`${server.url}/${name}`);
  const opened = takeCosts();
  expect(opened.requests, opened.log).toBe(1);
  if (!("arrays" in root)) throw new Error("the root is not a group");
  const arrays = await root.arrays();
  expect(arrays.names.length).toBeGreaterThanOrEqual(500);
  expect(await arrays.storedBytes()).toBeGreaterThan(0);
  const all = takeCosts();
  expect(all.requests, all.log).toBeLessThanOrEqual(most);
  await root.close();
});

test.each(NAMES.slice(0, 4))("each name of %s leads to its dataset, alone and among all", async (name) => {
  const store = new MemoryStore(images);
  const isNested = name === "many-pytables.h5";
  for (let i = 0; i < (isNested ? 500 : 1000); i += sweep(13, 41)) {
    const own = `d${String(i).padStart(4, "0")}`;
    const array = await open(store, `${name}/${isNested ? `g${i % 10}/` : ""}${own}`);
    expect("get" in array && (await array.get([0]))).toBe(i);
  }
  for (const absent of ["", "d", "d0500x", "zz", "d%31", "group/price", "g1/zz"])
    await expect(open(store, `${name}/${absent || "0"}`)).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test.each([
  ["line", 3, 6],
  ["chunks", 6, 4],
])(
  "text of variable length, wherever its heaps lie, is measured and read with few requests: %s",
  async (name, most, more) => {
    takeCosts();
    const array = await openArray(`${server.url}/many-texts.h5/${name}`);
    const opened = takeCosts();
    expect(opened.requests, opened.log).toBeLessThanOrEqual(most);
    const { data } = await array.get();
    const read = takeCosts();
    expect(read.requests, read.log).toBeLessThanOrEqual(more);
    const text = (i: number): string =>
      String(i % 1000)
        .padStart(3, "0")
        .repeat(i % 16);
    expect(Array.from(data as Iterable<string>)).toEqual(Array.from({ length: 12_000 }, (_, i) => text(i)));
    await array.close();
  },
);

test("over S3 it takes no more requests than over HTTP", async () => {
  const s3 = await startS3();
  const bucket = new S3Store({ bucket: s3.bucket, endpoint: s3.endpoint, credentials: CREDENTIALS });
  for (const [name, image] of images) s3.fill(name, image);
  for (const { path, at, value, open: most, element } of COSTS) {
    s3.log.length = 0;
    const array = await openArrayIn(bucket, path);
    expect(s3.log.length, s3.log.join("\n")).toBeLessThanOrEqual(most);
    s3.log.length = 0;
    expect(await array.get(at)).toBe(value);
    expect(s3.log.length, s3.log.join("\n")).toBeLessThanOrEqual(element);
  }
  await bucket.close();
  await s3.close();
});

test("bytes that came with metadata are not requested again, except of chunks that are read together, whose requests are joined", async () => {
  const name = "chunks-latest.h5";
  const image = images.get(name) as Uint8Array;
  const file = (await Hdf5File.open(new HttpStore(server.url), name)) as Hdf5File;
  takeCosts();
  expect(await file.read(1000, 100)).toEqual(image.slice(1000, 1100));
  expect(takeCosts().log).toBe("");
  // Once for each request: what follows is more than an element.
  expect(await file.read(2000, 100)).toEqual(image.slice(2000, 2100));
  expect(takeCosts().requests).toBe(1);
  const again = (await Hdf5File.open(new HttpStore(server.url), name)) as Hdf5File;
  takeCosts();
  const parts = [2_000_000, 1000, 3000].map((position) => again.read(position, 100));
  expect(await Promise.all(parts)).toEqual(
    [2_000_000, 1000, 3000].map((position) => image.slice(position, position + 100)),
  );
  expect(takeCosts().requests).toBe(3);
});

test("of a chunk that a truncated file ends in, the bytes that came with metadata are no more than there are", async () => {
  const image = (images.get("chunks-latest.h5") as Uint8Array).slice(0, 60_000);
  server.objects.set("short.h5", image);
  const file = (await Hdf5File.open(new HttpStore(server.url), "short.h5")) as Hdf5File;
  expect(await file.read(30_000, 30_001)).toEqual(image.slice(30_000));
});

test("text whose heaps could not be read is read by the next call", async () => {
  class Failing extends MemoryStore {
    isFailing = false;
    override getRange(...args: Parameters<MemoryStore["getRange"]>): ReturnType<MemoryStore["getRange"]> {
      if (this.isFailing) throw new SuperchunkError("IO", "the network failed", { path: args[0] });
      return super.getRange(...args);
    }
  }
  const failing = new Failing(images);
  const shown = new Hdf5Store((await Hdf5File.open(failing, "many-texts.h5")) as Hdf5File);
  await shown.get("line/.zattrs");
  failing.isFailing = true;
  await expect(shown.get("line/.zarray")).rejects.toThrow("the network failed");
  failing.isFailing = false;
  expect(new TextDecoder().decode(await shown.get("line/.zarray"))).toContain('"dtype"');
});

test("what is read ahead is never read over the end of a file, and no part twice", async () => {
  const [name = ""] = NAMES;
  const size = images.get(name)?.length ?? 0;
  takeCosts();
  const array = await openArray(`${server.url}/${name}/d0999`);
  const ranges = [...server.log].map((line) => (/bytes=(\d+)-(\d+)/.exec(line) ?? []).slice(1).map(Number));
  const sorted = ranges.sort(([a = 0], [b = 0]) => a - b);
  expect(sorted.length).toBeGreaterThan(1);
  for (const [i, [, to = 0]] of sorted.entries()) expect(to).toBeLessThan(sorted[i + 1]?.[0] ?? size);
  await array.close();
});
