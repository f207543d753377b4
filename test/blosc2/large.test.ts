/** Frames and HDF5 files of more than 4 GiB: those of python-blosc2 and h5py with a hole in them, which takes no room on the disk. */
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { encode } from "../../src/blosc.ts";
import { readFrame } from "../../src/blosc2/frame.ts";
import { at } from "../../src/bytes/arrays.ts";
import { Hdf5Store } from "../../src/hdf5/zarr-view.ts";
import { openArray } from "../../src/node/open.ts";
import { openArray as openIn } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const FAR = 5 * 2 ** 30 + 8;

function fixture(name: string): { readonly image: Uint8Array; readonly store: MemoryStore } {
  const image = new Uint8Array(readFileSync(join(repositoryRoot, "fixtures", name)));
  return {
    image,
    store: new MemoryStore(
      new Map([
        ["x", image],
        ["x.h5", image],
      ]),
    ),
  };
}

/** Writes parts at their offsets, with holes between them. */
function writeParts(path: string, parts: readonly (readonly [number, Uint8Array])[]): void {
  const file = openSync(path, "w");
  for (const [offset, bytes] of parts) writeSync(file, bytes, 0, bytes.length, offset);
  const [offset, bytes] = parts.at(-1) ?? [0, new Uint8Array(0)];
  ftruncateSync(file, offset + bytes.length);
  closeSync(file);
}

test("a frame whose last chunk and index are after 4 GiB", async () => {
  const { image, store } = fixture("blosc2/plain.b2frame");
  const places = [...((await readFrame(store, "x"))?.chunks ?? [])].map((chunk) => {
    if (!("key" in chunk) || chunk.end === undefined) throw new Error("a chunk without a place");
    return { offset: chunk.offset, end: chunk.end };
  });
  const header = image.slice(0, new DataView(image.buffer).getInt32(11));
  const last = at(places, places.length - 1);
  const offsets = new DataView(new ArrayBuffer(8 * places.length));
  for (const [i, { offset }] of places.entries())
    offsets.setBigInt64(8 * i, BigInt((offset === last.offset ? FAR : offset) - header.length), true);
  const index = await encode(new Uint8Array(offsets.buffer), { format: 2, typesize: 8 });
  const trailer = image.slice(image.length - new DataView(image.buffer).getUint32(image.length - 22));
  const indexAt = FAR + last.end - last.offset;
  const fields = new DataView(header.buffer);
  fields.setBigInt64(16, BigInt(indexAt + index.length + trailer.length));
  fields.setBigInt64(39, BigInt(indexAt - header.length));
  const path = join(temporaryFolder(), "far.b2frame");
  const chunks = image.subarray(header.length, last.offset);
  const end = new Uint8Array([...image.subarray(last.offset, last.end), ...index, ...trailer]);
  writeParts(path, [
    [0, header],
    [header.length, chunks],
    [FAR, end],
  ]);
  const array = await openArray(path);
  expect(await array.getBytes()).toEqual(await (await openIn(store, "x")).getBytes());
  expect((await array.verify()).ok).toBe(true);
  await array.close();
});

/** A frame with many chunks: all of them the first chunk of another, or in a folder its file. */
async function manyChunks(count: number, isSparse: boolean): Promise<MemoryStore> {
  const { image, store } = fixture("blosc2/plain.b2frame");
  const frame = await readFrame(store, "x");
  const first = frame?.chunks.at(0);
  if (frame === undefined || first === undefined || !("key" in first)) throw new Error("no stored chunk");
  const chunk = image.subarray(first.offset, first.end);
  const header = image.slice(0, new DataView(image.buffer).getInt32(11));
  const trailer = image.slice(image.length - new DataView(image.buffer).getUint32(image.length - 22));
  const index = await encode(new Uint8Array(8 * count), { format: 2, typesize: 8 });
  const stored = isSparse ? [] : [...chunk];
  const fields = new DataView(header.buffer);
  fields.setBigInt64(16, BigInt(header.length + stored.length + index.length + trailer.length));
  fields.setBigInt64(30, BigInt(count * frame.chunkBytes));
  fields.setBigInt64(39, BigInt(chunk.length));
  if (isSparse) header[26] = 1;
  const whole = new Uint8Array([...header, ...stored, ...index, ...trailer]);
  return new MemoryStore(
    new Map(
      isSparse
        ? [
            ["x/chunks.b2frame", whole],
            ["x/00000000.chunk", chunk],
          ]
        : [["x", whole]],
    ),
  );
}

test.each([false, true])(
  "a frame of a million chunks takes 8 to 16 bytes for each (sparse: %s)",
  async (isSparse) => {
    const count = 1_000_000;
    const store = await manyChunks(count, isSparse);
    const before = process.memoryUsage();
    const array = await openIn(store, "x");
    const chunks = array.listChunks();
    const found = (await chunks[Symbol.asyncIterator]().next()).value;
    const after = process.memoryUsage();
    expect(found).toMatchObject({ index: 0, start: [0] });
    expect(array.nchunks).toBeGreaterThanOrEqual(count);
    // An object for each chunk, or a list of all positions, is some 100 MB.
    expect(after.heapUsed - before.heapUsed).toBeLessThan(40 << 20);
    expect(array.shape[0]).toBeGreaterThan(count);
    const rows = (await array.getBytes([{ start: -1, stop: null, step: 1 }])).length;
    expect(rows).toBe(array.dtype.itemSize);
  },
);

test("a dataset whose values are after 4 GiB", async () => {
  const { image, store } = fixture("hdf5/small/contiguous-earliest.h5");
  const known = await openIn(store, "x.h5/x");
  const found = known.store instanceof Hdf5Store ? await known.store.objectAt("x") : undefined;
  const address = found?.kind === "dataset" && found.layout.kind === "contiguous" ? found.layout.address : 0;
  const stored = new DataView(new ArrayBuffer(8));
  stored.setBigUint64(0, BigInt(address ?? 0), true);
  const place = Buffer.from(image).indexOf(Buffer.from([3, 1, ...new Uint8Array(stored.buffer)])) + 2;
  expect(place).toBeGreaterThan(2);
  const moved = image.slice(0, address);
  new DataView(moved.buffer).setBigUint64(place, BigInt(FAR), true);
  const path = join(temporaryFolder(), "far.h5");
  writeParts(path, [
    [0, moved],
    [FAR, image.subarray(address)],
  ]);
  const array = await openArray(`${path}/x`);
  expect(await array.getBytes()).toEqual(await known.getBytes());
  await array.close();
});
