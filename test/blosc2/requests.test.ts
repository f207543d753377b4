/** How many requests it takes over HTTP to open Blosc2 or HDF5 data, and to read an element. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encode, info } from "../../src/blosc.ts";
import { frameAround } from "../../src/blosc2/frame-writer.ts";
import { openArray } from "../../src/node/open.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

const fixtures = join(repositoryRoot, "fixtures");
const SPARSE = readdirSync(join(fixtures, "blosc2/sparse.b2nd")).map((name) => `blosc2/sparse.b2nd/${name}`);
const FILES = [
  ...SPARSE,
  "blosc2/zstd.b2nd",
  "blosc2-stores/tree.b2z",
  "hdf5/pytables.h5",
  "blosc2-tables/table.b2z",
];
let server: TestServer;

beforeAll(async () => {
  server = await serveObjects(
    FILES.map(
      (name) =>
        [name.slice(name.indexOf("/") + 1), new Uint8Array(readFileSync(join(fixtures, name)))] as const,
    ),
  );
});
afterAll(() => server.close());

test.each([
  { path: "zstd.b2nd", open: 2, element: 2 },
  { path: "sparse.b2nd", open: 3, element: 2 },
  { path: "tree.b2z/a/b/y", open: 3, element: 2 },
  { path: "pytables.h5/prices", open: 1, element: 0 },
])("$path takes $open requests to open, and $element to read an element", async ({ path, open, element }) => {
  server.log.length = 0;
  const array = await openArray(`${server.url}/${path}`);
  expect(server.log.length, server.log.join("\n")).toBeLessThanOrEqual(open);
  server.log.length = 0;
  await array.storedBytes();
  if (array.dialect === "blosc2") expect(server.log, "what it takes is known without its chunks").toEqual([]);
  server.log.length = 0;
  await array.get(array.shape.map(() => 0));
  expect(server.log.length, server.log.join("\n")).toBeLessThanOrEqual(element);
  await array.close();
});

/** A frame of one chunk of 4 MB that only its runs shorten, cut into 16 x 4 blocks of 64 x 256 items of 4 bytes. */
async function largeFrame(): Promise<{ readonly image: Uint8Array; readonly values: Uint32Array }> {
  const blocks = Uint32Array.from({ length: 1 << 20 }, (_, i) => Math.imul(i, 2_654_435_761) ^ (i >>> 3));
  blocks.fill(7, 0, 16_384);
  const chunk = await encode(new Uint8Array(blocks.buffer), { format: 2, typesize: 4, blocksize: 1 << 14 });
  expect(info(chunk).blocksize).toBe(1 << 16);
  const facts = { typesize: 4, blockBytes: 1 << 16, chunkBytes: 4 << 20, cname: "lz4", clevel: 5 } as const;
  const cut = { shape: [1024, 1024], chunks: [1024, 1024], blocks: [64, 256], dtype: "<u4" };
  const around = frameAround({ ...facts, ...cut, shuffle: "shuffle", attrs: {} }, [chunk.length]);
  const values = Uint32Array.from(blocks, (_, i) => {
    const [row, column] = [i >> 10, i & 1023];
    return blocks[((row >> 6) * 4 + (column >> 8)) * 16_384 + (row & 63) * 256 + (column & 255)] ?? 0;
  });
  return { image: new Uint8Array(Buffer.concat([around.head, chunk, around.tail])), values };
}

test("only the needed blocks of a large chunk are read, each once", async () => {
  const { image, values } = await largeFrame();
  server.objects.set("large.b2nd", image);
  const array = await openArray(`${server.url}/large.b2nd`);
  const bytesOf = (log: readonly string[]): number =>
    log.reduce((sum, line) => {
      const [, from = 0, to = 0] = /bytes=(\d+)-(\d+)/.exec(line) ?? [];
      return sum + Number(to) - Number(from) + 1;
    }, 0);
  const asked = async (row: number, column: number, requests: number): Promise<number> => {
    server.log.length = 0;
    expect(await array.get([row, column])).toBe(values[row * 1024 + column]);
    expect(server.log.length, server.log.join("\n")).toBe(requests);
    return bytesOf(server.log);
  };
  // The starts of 64 blocks, and a block.
  expect(await asked(700, 300, 2)).toBeLessThan(70_000);
  expect(await asked(701, 299, 0)).toBe(0);
  expect(await asked(17, 1023, 1)).toBeLessThan(70_000);
  expect(await asked(0, 0, 1)).toBeLessThan(5000);
  server.log.length = 0;
  const row = new Uint32Array((await array.getBytes([{ start: 100, stop: 101, step: 1 }])).slice().buffer);
  expect(row).toEqual(values.subarray(100 * 1024, 101 * 1024));
  expect(server.log.length).toBe(1);
  expect(bytesOf(server.log)).toBeLessThan(280_000);
  // A large part: read as a whole, and nothing again after that.
  server.log.length = 0;
  const half = new Uint32Array((await array.getBytes([{ start: 0, stop: 512, step: 1 }])).slice().buffer);
  expect(half).toEqual(values.subarray(0, 512 * 1024));
  expect(server.log.length).toBe(1);
  await asked(1000, 1000, 0);
  await array.close();
});

test("an error in a block that is read alone names its chunk, and other blocks can still be read", async () => {
  const { image, values } = await largeFrame();
  const broken = image.slice();
  // The stream of the last block.
  broken.fill(0xff, broken.length - 12_000, broken.length - 9000);
  server.objects.set("broken.b2nd", broken);
  server.objects.set("starts.b2nd", image.slice().fill(0xff, 300, 400));
  const array = await openArray(`${server.url}/broken.b2nd`);
  await expect(array.get([1023, 1023])).rejects.toMatchObject({
    code: "BAD_CHUNK",
    details: { path: `${server.url}/broken.b2nd/c/0/0`, chunk: 63 },
  });
  expect(await array.get([500, 500])).toBe(values[500 * 1024 + 500]);
  const starts = await openArray(`${server.url}/starts.b2nd`);
  await expect(starts.get([1, 1])).rejects.toMatchObject({
    code: "BAD_CHUNK",
    summary: expect.stringMatching(/block \d+ at byte -?\d+ of the Blosc2 chunk begins outside/) as string,
  });
});
