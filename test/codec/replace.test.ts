import { beforeAll, describe, expect, test } from "vitest";
import {
  type ByteEdit,
  decodeSync,
  encodeSync,
  info,
  prepare,
  prepareEncode,
  replaceBytes,
} from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";
import { DATA, makeNoise } from "./encode-data.ts";
import { listProducers, readFixtureChunks } from "./fixture-chunks.ts";
import { COMPRESSORS, makeTexture, options, textures } from "./textures.ts";

beforeAll(async () => {
  for (const cname of COMPRESSORS) {
    await prepareEncode(cname);
    await prepare(cname);
  }
});

/** The data after the edits, computed byte by byte. */
function edited(data: Uint8Array, edits: readonly ByteEdit[]): Uint8Array {
  const out = data.slice();
  for (const { at, bytes, length = bytes.length } of edits)
    for (let i = 0; i < length; i++) out[at + i] = bytes[i % bytes.length] ?? 0;
  return out;
}

/** A random edit of data of `nbytes` bytes: mostly short, sometimes a pattern repeated, sometimes everything. */
const drafts = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.oneof(fc.integer({ min: 0, max: 16 }), fc.integer({ min: 0, max: 150_000 })),
  period: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 20 })),
  seed: fc.nat(),
  values: fc.constantFrom(1, 3, 256),
});

function makeEdits(
  list: readonly (typeof drafts extends fc.Arbitrary<infer T> ? T : never)[],
  nbytes: number,
) {
  return list.map(({ at, length, period, seed, values }): ByteEdit => {
    const start = Math.floor(at * nbytes);
    const count = Math.min(length, nbytes - start);
    const bytes = makeNoise(period === 0 ? count : period, seed).map((byte) => byte % values);
    return period === 0 ? { at: start, bytes } : { at: start, bytes, length: count };
  });
}

describe("for any chunk, settings and edits", () => {
  test("the chunk decodes to the data with the edits applied in order, and is at most 16 bytes longer than the data", () => {
    fc.assert(
      fc.property(
        textures,
        options,
        options,
        fc.array(drafts, { maxLength: 5 }),
        fc.boolean(),
        (...given) => {
          const [texture, settings, others, list, isSame] = given;
          const data = makeTexture(texture);
          const chunk = encodeSync(data, settings);
          const before = chunk.slice();
          const edits = makeEdits(list, data.length);
          const { cname = "lz4", clevel = 5 } = settings;
          const changed = replaceBytes(chunk, edits, isSame ? { cname, clevel } : others);
          expect(Buffer.compare(decodeSync(changed), edited(data, edits))).toBe(0);
          expect(changed.length).toBeLessThanOrEqual(data.length + 16);
          expect(info(changed).ctbytes).toBe(changed.length);
          expect(Buffer.compare(chunk, before)).toBe(0);
        },
      ),
      { numRuns: sweep(1500, 45) },
    );
  });

  test("chunks of every c-blosc since 1.5 decode to their data with the edits applied", () => {
    let count = 0;
    for (const producer of listProducers()) {
      for (const { name, chunk, nbytes } of readFixtureChunks(producer)) {
        if (nbytes === 0) continue;
        const data = decodeSync(chunk);
        const edits = [
          { at: nbytes >> 1, bytes: Uint8Array.of(1) },
          { at: 0, bytes: makeNoise(Math.min(nbytes, 16), count) },
          { at: nbytes - 1, bytes: Uint8Array.of(255) },
        ];
        const changed = replaceBytes(chunk, edits);
        if (Buffer.compare(decodeSync(changed), edited(data, edits)) !== 0) throw new Error(name);
        count++;
      }
    }
    expect(count).toBeGreaterThan(100);
  });
});

const settings = { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8 } as const;
const prices = DATA.prices?.(4 << 20) ?? new Uint8Array(0);

/** Compressed bytes of a block of a chunk whose blocks are in order. */
function blockOf(chunk: Uint8Array, block: number): Uint8Array {
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  const { nblocks } = info(chunk);
  const start = view.getUint32(16 + 4 * block, true);
  return chunk.slice(start, block + 1 < nblocks ? view.getUint32(20 + 4 * block, true) : chunk.length);
}

describe("what stays as it is", () => {
  test("blocks without an edit keep their bytes, in order", () => {
    const chunk = encodeSync(prices, settings);
    const { nblocks, blocksize } = info(chunk);
    expect(nblocks).toBeGreaterThan(3);
    const changed = replaceBytes(chunk, [{ at: blocksize + 24, bytes: new Uint8Array(8) }], settings);
    expect(info(changed)).toMatchObject({ nblocks, blocksize, split: true, memcpyed: false });
    for (let block = 0; block < nblocks; block++) {
      const isSame = Buffer.compare(blockOf(changed, block), blockOf(chunk, block)) === 0;
      expect(isSame).toBe(block !== 1);
    }
  });

  test("blocks that another writer left in any order come out right", () => {
    const stream = (value: number) => Uint8Array.of(0x1f, value, 1, 0, 255, 255, 225, 0x50, 1, 2, 3, 4, 5);
    const parts = { flags: FLAGS.lz4 | FLAGS.notSplit, nbytes: 3 * 760, blocksize: 760 };
    const chunk = makeChunk({ ...parts, blocks: [[stream(7)], [stream(8)], [stream(9)]], order: [2, 0, 1] });
    const data = decodeSync(chunk);
    const edits = [{ at: 800, bytes: Uint8Array.of(1, 2, 3) }];
    expect(Buffer.compare(decodeSync(replaceBytes(chunk, edits)), edited(data, edits))).toBe(0);
    expect(data[0]).toBe(7);
  });

  test("damage in a block without an edit is carried along unexamined", () => {
    const chunk = encodeSync(prices, settings);
    const { blocksize } = info(chunk);
    const view = new DataView(chunk.buffer);
    chunk[view.getUint32(16 + 8, true) + 2] = 0x7f; // the length of block 2's first stream
    const changed = replaceBytes(chunk, [{ at: 5, bytes: Uint8Array.of(1) }], settings);
    expect(Buffer.compare(blockOf(changed, 2), blockOf(chunk, 2))).toBe(0);
    const error = errorOf(() =>
      replaceBytes(chunk, [{ at: 2 * blocksize, bytes: Uint8Array.of(1) }], settings),
    );
    expect(isSuperchunkError(error, "BAD_CHUNK")).toBe(true);
  });
});

describe("what is encoded again", () => {
  test("the whole chunk, if another compressor is requested, or none", () => {
    const chunk = encodeSync(prices, settings);
    const edits = [{ at: 0, bytes: new Uint8Array(8) }];
    const zstd = replaceBytes(chunk, edits, { ...settings, cname: "zstd" });
    expect(info(zstd).compressor).toBe("zstd");
    expect(info(replaceBytes(chunk, edits, { ...settings, clevel: 0 })).memcpyed).toBe(true);
    const data = edited(prices, edits);
    expect(Buffer.compare(zstd, encodeSync(data, { ...settings, cname: "zstd" }))).toBe(0);
  });

  test("stored data that became compressible are compressed, others are changed in place", () => {
    const noise = makeNoise(100_000, 1);
    const chunk = encodeSync(noise, settings);
    expect(info(chunk).memcpyed).toBe(true);
    const few = replaceBytes(chunk, [{ at: 7, bytes: Uint8Array.of(1, 2) }], settings);
    expect(info(few).memcpyed).toBe(true);
    const zeros = replaceBytes(chunk, [{ at: 0, bytes: new Uint8Array(1), length: 90_000 }], settings);
    expect(zeros.length).toBeLessThan(20_000);
    expect(few.length).toBe(chunk.length);
  });

  test("a chunk that would become longer than its data is stored uncompressed", () => {
    const zeros = encodeSync(new Uint8Array(100_000), settings);
    const noise = makeNoise(100_000, 1);
    const changed = replaceBytes(zeros, [{ at: 0, bytes: noise }], settings);
    expect(info(changed).memcpyed).toBe(true);
    expect(changed.length).toBe(100_016);
  });
});

describe("what is refused", () => {
  const chunk = encodeSync(prices.subarray(0, 80_000), settings);

  test.each([
    ["bytes past the end", { at: 79_999, bytes: new Uint8Array(2) }],
    ["a negative offset", { at: -1, bytes: new Uint8Array(2) }],
    ["a length without bytes", { at: 0, bytes: new Uint8Array(0), length: 3 }],
    ["half a byte", { at: 0.5, bytes: new Uint8Array(1) }],
  ])("%s", (_, edit) => {
    expect(
      isSuperchunkError(
        errorOf(() => replaceBytes(chunk, [edit])),
        "BAD_ARGUMENT",
      ),
    ).toBe(true);
  });

  test("a truncated chunk, and an output that is too short, without writing past its end", () => {
    const edit = { at: 0, bytes: new Uint8Array(8) };
    expect(
      isSuperchunkError(
        errorOf(() => replaceBytes(chunk.subarray(0, 500), [edit])),
        "TRUNCATED",
      ),
    ).toBe(true);
    const memory = new Uint8Array(1000).fill(9);
    const error = errorOf(() => replaceBytes(chunk, [edit], settings, memory.subarray(100, 900)));
    expect(isSuperchunkError(error, "LIMIT")).toBe(true);
    expect(memory.subarray(0, 100).every((byte) => byte === 9)).toBe(true);
    expect(memory.subarray(900).every((byte) => byte === 9)).toBe(true);
  });

  test("any single changed byte gives a chunk that decodes to nbytes, or an error of this library", () => {
    let made = 0;
    const samples = readFixtureChunks("c-blosc-1.21.7").filter(
      ({ chunk: { length }, nbytes }) => length < 700 && nbytes > 9,
    );
    for (const sample of samples) {
      for (let at = 0; at < sample.chunk.length; at += sweep(1, 5)) {
        const changed = sample.chunk.slice();
        changed[at] = (changed[at] ?? 0) ^ 0x81;
        try {
          replaceBytes(changed, [{ at: 3, bytes: Uint8Array.of(1, 2) }]);
          made++;
        } catch (error) {
          if (!isSuperchunkError(error)) throw error;
        }
      }
    }
    expect(made).toBeGreaterThan(100);
  });
});
