/** Another program's arrays of superchunks, opened for writing. */
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { openShared } from "../../src/write/array/open-shared.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { checkImage, contentsOf, type Image, imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { findFixture, loadArchives } from "../fixtures/manifest.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";
import { rejectionOf } from "./foreign-support.ts";

const ROWS = 7;
const ROOTS = loadArchives().filter(({ dialect, refuse }) => dialect === "blz-superchunk" && !refuse);
const load = async (path: string): Promise<MemoryStore> => (await loadFolder(findFixture(path).file)).store;
const bytesOf = async (array: { getBytes(): Promise<Uint8Array> }): Promise<Buffer> =>
  Buffer.from(await array.getBytes());

test("there are arrays of the format document's reference writer to adopt", () => {
  expect(ROOTS.length).toBeGreaterThan(8);
});

test.each(ROOTS.map(({ path }) => path))(
  "[FG-11] %s is adopted by one commit, and grows, shrinks and changes",
  async (path) => {
    const store = await load(path);
    const original = (await open(store)) as ArrayArchive;
    const before = await bytesOf(original);
    const files = await imageOf(store);
    const [rows = 0, ...rowShape] = original.shape;
    const rowBytes = rowShape.reduce((product, n) => product * n, original.dtype.itemSize);
    const more = before.length > 0 ? before.subarray(0, ROWS * rowBytes) : Buffer.alloc(ROWS * rowBytes, 1);

    const writer = await openWritable(store, "");
    expect([writer.shape, writer.generation > 0]).toEqual([original.shape, true]);
    for (const [key, bytes] of files)
      if (key.startsWith("data/")) expect(await store.get(key), key).toEqual(bytes);
    const adopted = (await open(new MemoryStore(await imageOf(store)))) as ArrayArchive;
    expect(await bytesOf(adopted)).toEqual(before);
    expect([adopted.attrs, adopted.columnNames, adopted.fillValue]).toEqual([
      original.attrs,
      original.columnNames,
      original.fillValue,
    ]);

    await writer.append(new Uint8Array(more));
    await writer.flush();
    expect(await bytesOf(writer)).toEqual(Buffer.concat([before, more]));
    await writer.deleteRows(2, 5);
    const changed = Buffer.concat([before, more]);
    const expected = Buffer.concat([changed.subarray(0, 2 * rowBytes), changed.subarray(5 * rowBytes)]);
    expect(await bytesOf(writer)).toEqual(expected);
    await writer.resize(rows + 20);
    await writer.resize(rows + ROWS - 3);
    await writer.compact();
    await writer.close();

    const again = (await open(store)) as ArrayArchive;
    expect(await bytesOf(again)).toEqual(expected);
    expect((await again.verify()).findings).toEqual([]);
    expect(again.attrs).toEqual(original.attrs);
  },
);

const OPERATIONS: readonly [string, (array: WritableArray) => Promise<void>][] = [
  ["opening alone", async () => undefined],
  [
    "an append",
    async (array) => {
      const columns = array.columnNames.length > 0;
      await array.append(columns ? [[1, 2]] : new Uint8Array(array.dtype.itemSize * 7));
      await array.flush();
    },
  ],
  ["shrinking", (array) => array.resize(33)],
  ["compacting", (array) => array.compact()],
];

describe.each(["i8-2d-crc32", "nested", "u4-spare-offsets"])("a power cut while %s is adopted", (name) => {
  test.each(OPERATIONS)("[FG-11] leaves the old or the new rows: %s", async (_name, operation) => {
    const base = await imageOf(await load(`blz-superchunk/${name}`));
    const read = async (image: Image) => contentsOf((await open(new MemoryStore(image))) as ArrayArchive);
    const whole = new MemoryStore(base);
    const writer = await openWritable(whole, "");
    await operation(writer);
    await writer.abandon();
    const allowed = [await read(base), await read(await imageOf(whole))];
    let cuts = 0;
    for (let failAt = 1, isDone = false; !isDone; failAt += sweep(1, 5)) {
      for (let seed = 0; seed < sweep(2, 1); seed++) {
        const store = new VolatileStore(base, { failAt, random: randomFrom(failAt * 100 + seed) });
        try {
          const array = await openWritable(store, "");
          await operation(array);
          await array.abandon();
        } catch (error) {
          if (!store.isDead) throw error;
        }
        isDone = !store.isDead;
        cuts++;
        await checkImage(store.image(), allowed, `power cut before step ${failAt}, seed ${seed}`);
      }
    }
    expect(cuts).toBeGreaterThan(sweep(4, 1));
  });
});

test("an array that cannot be adopted unchanged is refused with what to do instead, and nothing is written", async () => {
  const refusalOf = async (store: MemoryStore): Promise<unknown> => {
    const files = await imageOf(store);
    const error = await openWritable(store, "").catch((reason: unknown) => reason);
    expect(await imageOf(store)).toEqual(files);
    return error;
  };
  const stray = await load("blz-superchunk/f8-default");
  await stray.put("data/__5__.bin", (await stray.get("data/__4__.bin")) ?? new Uint8Array(0));
  expect(await refusalOf(stray)).toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/__5__.*repair --in-place/),
  });

  const short = await load("blz-superchunk/i8-2d-crc32");
  const sizes = JSON.parse(new TextDecoder().decode(await short.get("meta/sizes"))) as { shape: number[] };
  await short.put("meta/sizes", new TextEncoder().encode(JSON.stringify({ ...sizes, shape: [80, 7] })));
  expect(await refusalOf(short)).toMatchObject({ code: "BAD_FIELD" });

  expect(await refusalOf(await load("blz-superchunk/aborted"))).toMatchObject({ code: "INCOMPLETE" });

  const lost = new MemoryStore();
  await (await createArray(lost, "", { dtype: "<i4", shape: 5 })).close();
  await lost.put("meta/sizes", new TextEncoder().encode('{"shape": [5], "nbytes": 20, "cbytes": 90}'));
  expect(await refusalOf(lost)).toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/lost its layout.*repair/),
  });
});

test.each(["carray", "ctable"])("a %s is refused, and the message says what changes it", async (dialect) => {
  const found = loadArchives().find((archive) => archive.dialect === dialect && !archive.refuse);
  const { store } = await loadFolder(found?.file ?? "");
  await expect(openWritable(store, "")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { found: dialect },
    message: expect.stringMatching(/superchunk append.*convert --to blz/),
  });
});

test.each([
  ["different numbers of chunks", [20, 30], ["crc32", "crc32"]],
  ["different checksums", [20, 20, 10], ["crc32", "crc32", "adler32"]],
] as const)(
  "superchunks with %s are not adopted, and nothing is changed",
  async (reason, rows, checksums) => {
    const store = new MemoryStore();
    for (const [i, count] of rows.entries()) {
      const pieces = async function* () {
        yield new Uint8Array(8 * count).fill(i + 1);
      };
      const options = { chunkSize: 80, checksum: checksums[i], typesize: 8 };
      await compressBytes(pieces(), store, `data/__${i + 1}__.bin`, options);
    }
    const put = (key: string, value: object) => store.put(key, Buffer.from(JSON.stringify(value)));
    const cparams = { shuffle: true, clevel: 5, cname: "lz4" };
    await put("meta/storage", { dtype: "<f8", cparams, chunklen: 10, expectedlen: 50, dflt: 0 });
    await put("meta/sizes", { shape: [50], nbytes: 400, cbytes: 400 });
    expect((await open(store)).nbytes).toBe(400);
    const before = await imageOf(store);
    const error = await rejectionOf(openWritable(store, ""));
    expect([error.code, error.message]).toEqual([
      "UNSUPPORTED",
      expect.stringMatching(`${reason}. "superchunk repair --in-place" copies its chunks`),
    ]);
    expect(await imageOf(store)).toEqual(before);
  },
);

test("what writers cannot share is refused, with what to do", async () => {
  const store = new MemoryStore();
  await (await createArray(store, "", { dtype: "<f8", shape: [2, 0] })).close();
  const empty = await rejectionOf(openShared(store, ""));
  expect([empty.code, empty.message]).toEqual([
    "UNSUPPORTED",
    expect.stringContaining("its rows have no bytes; open it without sharing"),
  ]);
  const lease = await rejectionOf(openShared(store, "", { lease: 0 }));
  expect([lease.code, lease.message]).toEqual(["BAD_ARGUMENT", expect.stringContaining("seconds")]);
});
