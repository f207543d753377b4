/**
 * Chunks by python-blosc2: decoded as it decodes them, converted to Blosc1 and back, and only errors of this library
 * on damage.
 */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test, vi } from "vitest";
import {
  decode,
  decodeRange,
  decodeRangeSync,
  decodeSync,
  encode,
  encodeSync,
  info,
  isSuperchunkError,
  prepare,
  toBlosc1,
  toBlosc2,
} from "../../src/blosc.ts";
import { chunkOf as chunkOfBlocks, head2Length, placesOfBlocks } from "../../src/blosc2/some-blocks.ts";
import { decode as decode1 } from "../../src/codec/index.ts";
import { blocksAsBlosc1 } from "../../src/codec2/restream.ts";
import { loadDictionaryDecoder } from "../../src/codec2/zstd-dictionary.ts";
import { sweep } from "../scope.ts";

const folder = fileURLToPath(new URL("../../fixtures/blosc2/", import.meta.url));
const image = new Uint8Array(readFileSync(`${folder}chunks.bin`));
type Row = readonly [label: string, offset: number, length: number, nbytes: number, sha256: string];
const rows = JSON.parse(readFileSync(`${folder}chunks.json`, "utf8")) as readonly Row[];

function chunkOf([, offset, length]: Row): Uint8Array {
  return image.slice(offset, offset + length);
}

function labelled(start: string): Uint8Array {
  const row = rows.find(([label]) => label.startsWith(start));
  if (row === undefined) throw new Error(`no chunk ${start}`);
  return chunkOf(row);
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

beforeAll(() => prepare("blosc2"));

test("zstd that was not compiled for dictionaries is compiled by the next call", async () => {
  const compile = vi.spyOn(WebAssembly, "compile").mockRejectedValueOnce(new Error("refused"));
  await expect(loadDictionaryDecoder()).rejects.toMatchObject({ code: "UNSUPPORTED" });
  compile.mockRestore();
  expect(await loadDictionaryDecoder()).toBeTypeOf("function");
});

test.each(rows.map((row) => [row[0], row] as const))(
  "%s decodes to what python-blosc2 reads",
  async (_, row) => {
    const chunk = chunkOf(row);
    const [, , length, nbytes, digest] = row;
    expect(info(chunk)).toMatchObject({ format: 2, nbytes, ctbytes: length });
    const all = await decode(chunk, { out: new Uint8Array(nbytes).fill(99) });
    expect(sha256(all)).toBe(digest);
    expect(decodeSync(chunk)).toEqual(all);
    for (const [start, count] of [
      [0, 0],
      [Math.floor(nbytes / 3), Math.floor(nbytes / 2)],
      [Math.max(0, nbytes - 5), Math.min(5, nbytes)],
    ] as const)
      expect(await decodeRange(chunk, start, count)).toEqual(all.subarray(start, start + count));
  },
);

test.each(rows.map((row) => [row[0], row] as const))(
  "%s becomes a Blosc1 chunk, and a Blosc2 chunk again",
  async (_, row) => {
    const one = await toBlosc1(chunkOf(row));
    expect(info(one)).toMatchObject({ version: 2, nbytes: row[3] });
    expect(sha256(await decode1(one))).toBe(row[4]);
    expect(await toBlosc1(one)).toBe(one);
    const two = await toBlosc2(one);
    expect(info(two)).toMatchObject({ format: 2, nbytes: row[3], ctbytes: two.length });
    expect(sha256(await decode(two))).toBe(row[4]);
    expect(await toBlosc2(two)).toBe(two);
  },
);

test("blocks with a single filter that Blosc1 knows keep their streams", async () => {
  const copied = rows.filter(([label]) => /<i4 .*(nofilter| shuffle) auto$/.test(label));
  expect(copied.length).toBe(10);
  for (const row of copied) {
    const chunk = chunkOf(row);
    const blocks = await blocksAsBlosc1(chunk);
    expect(blocks.every((block) => block?.isCopied)).toBe(true);
    const one = await toBlosc1(chunk);
    // Runs of one byte, which Blosc1 does not have, take a few bytes more.
    expect((await toBlosc2(one)).length).toBeLessThan(chunk.length + 100);
  }
});

const repetitive = [16, 31, 32, 33, 279, 280, 281, 5000, 131_072, 131_073, 400_000].map((count) =>
  Uint8Array.from({ length: 8 * count }, (_, i) =>
    i % 8 === 0 ? (i >> 3) * 37 : i % 8 < 4 ? 0 : 200 + (i % 8),
  ),
);

test.each(["blosclz", "lz4", "lz4hc", "zlib", "zstd"] as const)(
  "streams of one value become streams of %s that decode to it, of any length",
  async (cname) => {
    for (const data of repetitive) {
      const settings = { cname, shuffle: "shuffle", typesize: 8, blocksize: data.length } as const;
      const chunk = await encode(data, { ...settings, format: 2 });
      // Comparing buffers is much faster than comparing typed arrays.
      expect(Buffer.compare(await decode1(await toBlosc1(chunk)), data)).toBe(0);
      const blocks = await blocksAsBlosc1(chunk);
      const parts = await Promise.all(blocks.map((block) => decode1(Buffer.concat(block?.pieces ?? []))));
      expect(Buffer.compare(Buffer.concat(parts), data)).toBe(0);
    }
  },
);

test.each(["blosclz", "lz4", "lz4hc", "zlib", "zstd"] as const)(
  "encode with format 2 makes chunks of %s that decode to the data, with every filter",
  async (cname) => {
    for (const shuffle of ["noshuffle", "shuffle", "bitshuffle"] as const)
      for (const typesize of [1, 3, 8])
        for (const length of [0, 5, 200, 4099 * typesize]) {
          const data = Uint8Array.from({ length }, (_, i) =>
            i % typesize === 0 ? (i / typesize) & 63 : i % typesize,
          );
          const settings = { cname, shuffle, typesize, format: 2 } as const;
          const chunk = await encode(data, settings);
          expect(info(chunk)).toMatchObject({ format: 2, shuffle, typesize, nbytes: length });
          expect(await decode(chunk)).toEqual(data);
          expect(encodeSync(data, settings)).toEqual(chunk);
        }
    const zeros = await encode(new Uint8Array(80_000), { cname, typesize: 8, format: 2 });
    expect(zeros).toHaveLength(32);
    const value = await encode(new Uint8Array(80_000).fill(7), { cname, typesize: 8, format: 2 });
    expect(value).toHaveLength(40);
    expect((await decode(value)).every((byte) => byte === 7)).toBe(true);
  },
);

test("a snappy chunk becomes lz4, and snappy is never written", async () => {
  const data = Uint8Array.from({ length: 5000 }, (_, i) => i % 50);
  const two = await toBlosc2(await encode(data, { cname: "snappy", typesize: 2 }));
  expect(info(two)).toMatchObject({ format: 2, compressor: "lz4" });
  expect(await decode(two)).toEqual(data);
  await expect(encode(data, { cname: "snappy", format: 2 })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("errors name the codecs and filters of plugins", async () => {
  const zfp = labelled("zstd <i4 walk 1501 shuffle auto");
  zfp[2] = 0xc5;
  zfp[22] = 33;
  await expect(decode(zfp)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("the codec zfp (fixed accuracy) after the filters shuffle"),
  });
  expect(() => info(zfp)).toThrow(/codec 33 of a plugin/);
  const cells = labelled("zstd <i4 walk 1501 shuffle auto");
  cells[16] = 32;
  await expect(decode(cells)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("the filter ndcell"),
  });
});

test("the caller's expectations are compared with the header before memory is allocated", async () => {
  const chunk = labelled("special 0");
  await expect(decode(chunk, { maxNbytes: 7999 })).rejects.toMatchObject({ code: "LIMIT" });
  await expect(decode(chunk, { expectedNbytes: 7999 })).rejects.toMatchObject({ code: "BAD_FIELD" });
  await expect(decode(chunk, { out: new Uint8Array(7999) })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(toBlosc1(chunk, { maxNbytes: 7999 })).rejects.toMatchObject({ code: "LIMIT" });
  expect(() => decodeRangeSync(chunk, 7999, 2)).toThrow(/7999 to 8001/);
});

test("damage gives an error of this library, or as many bytes as the header gives", async () => {
  let random = 5;
  const next = (limit: number): number => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor(random / 65_536) % limit;
  };
  let told = 0;
  for (const row of rows)
    for (let i = 0; i < sweep(400, 8); i++) {
      const whole = chunkOf(row);
      const chunk = i % 4 === 0 ? whole.slice(0, next(whole.length)) : whole;
      for (let changes = 0; changes < 3 && chunk.length > 0; changes++)
        chunk[next(i % 2 === 0 ? Math.min(60, chunk.length) : chunk.length)] = next(256);
      try {
        const decoded = await decode(chunk, { maxNbytes: 1 << 22 });
        expect(decoded.length).toBe(info(chunk).nbytes);
        await toBlosc1(chunk, { maxNbytes: 1 << 22 });
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        told++;
      }
    }
  expect(told).toBeGreaterThan(rows.length);
});

test("part of a chunk, made from the block starts and the bytes of some blocks, has their values", async () => {
  let several = 0;
  for (const row of rows) {
    const chunk = chunkOf(row);
    const { nblocks, blocksize, memcpyed, nbytes } = info(chunk);
    const places = placesOfBlocks(
      chunk.subarray(0, memcpyed ? 32 : head2Length(nblocks)),
      Number.POSITIVE_INFINITY,
    );
    if (places === undefined) {
      expect(row[0]).toMatch(/zeros|nan|repeat|value|special|uninit|dict|delta|variable|vl/i);
      continue;
    }
    const all = await decode(chunk);
    const whole = [...Array(Math.floor(nbytes / blocksize)).keys()].reverse();
    const blocks = whole.map((i) => chunk.subarray(places.starts[i], places.ends[i]));
    const some = await decode(chunkOfBlocks(places, blocks));
    if (whole.length > 1) several++;
    for (const [at, i] of whole.entries())
      expect(some.subarray(at * blocksize, (at + 1) * blocksize)).toEqual(
        all.subarray(i * blocksize, (i + 1) * blocksize),
      );
  }
  expect(several).toBeGreaterThan(5);
});

test.each([1, 2] as const)(
  "an unknown option, and what is not bytes, is refused by name: format %i",
  async (format) => {
    const data = new Uint8Array(100);
    await expect(encode(data, { format, codec: "zstd" } as never)).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      message: expect.stringMatching(
        /unknown option "codec"; expected one of cname clevel shuffle typesize blocksize/,
      ),
    });
    const chunk = await encode(data, { format });
    for (const [given, found] of [
      [chunk.buffer, /of ArrayBuffer, expected a Uint8Array, such as new Uint8Array\(buffer\)/],
      [undefined, /of undefined, expected a Uint8Array/],
    ] as const)
      for (const call of [decode(given as never), encode(given as never, { format })])
        await expect(call).rejects.toMatchObject({
          code: "BAD_ARGUMENT",
          message: expect.stringMatching(found),
        });
    await expect(decode(chunk, { into: data } as never)).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      message: expect.stringMatching(/unknown option "into"; expected one of expectedNbytes maxNbytes out/),
    });
  },
);
