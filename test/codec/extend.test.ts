import { describe, expect, test } from "vitest";
import { decodeSync, encodeSync, extendChunk, info, prepareEncode } from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { DATA } from "./encode-data.ts";
import { listProducers, readFixtureChunks } from "./fixture-chunks.ts";
import { COMPRESSORS, makeTexture, options, textures } from "./textures.ts";

/** Both, one after the other. */
function joined(data: Uint8Array, added: Uint8Array): Uint8Array {
  const both = new Uint8Array(data.length + added.length);
  both.set(data);
  both.set(added, data.length);
  return both;
}

describe("for any chunk, settings and added data", () => {
  test("the chunk decodes to its data plus the added data, and is shorter than storing them; otherwise none is made", async () => {
    for (const cname of COMPRESSORS) await prepareEncode(cname);
    let made = 0;
    await fc.assert(
      fc.asyncProperty(textures, textures, options, async (first, second, settings) => {
        const [data, added] = [makeTexture(first), makeTexture(second)];
        const chunk = encodeSync(data, settings);
        const before = chunk.slice();
        const { cname = "lz4", clevel = 5 } = settings;
        const extended = await extendChunk(chunk, added, { cname, clevel });
        expect(Buffer.compare(chunk, before)).toBe(0);
        if (extended === undefined) return;
        made++;
        expect(Buffer.compare(decodeSync(extended), joined(data, added))).toBe(0);
        expect(info(extended)).toMatchObject({ ctbytes: extended.length, memcpyed: false });
        expect(extended.length).toBeLessThan(data.length + added.length + 16);
      }),
      { numRuns: sweep(300, 30) },
    );
    expect(made).toBeGreaterThan(sweep(20, 2));
  });

  test("chunks of every c-blosc since 1.5 decode to their data plus zeros, with one block or many", async () => {
    let count = 0;
    for (const producer of listProducers()) {
      for (const { name, chunk, nbytes } of readFixtureChunks(producer)) {
        const added = new Uint8Array(1 + (nbytes >> 1));
        const extended = await extendChunk(chunk, added);
        if (extended === undefined) continue;
        const expected = joined(decodeSync(chunk), added);
        if (Buffer.compare(decodeSync(extended), expected) !== 0) throw new Error(`${producer} ${name}`);
        count++;
      }
    }
    expect(count).toBeGreaterThan(50);
  });
});

const settings = { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8 } as const;
const prices = DATA.prices?.(3 << 20) ?? new Uint8Array(0);

describe("what is copied", () => {
  test("whole blocks keep their bytes, also a single one that is shorter than the encoder would choose", async () => {
    for (const length of [3 << 20, 3_000_000, 700_000]) {
      const chunk = encodeSync(prices.subarray(0, length), settings);
      const whole = Math.floor(length / info(chunk).blocksize);
      const extended = (await extendChunk(chunk, new Uint8Array(400_000), settings)) ?? new Uint8Array(0);
      const [from, to] = [chunk, extended].map(startsOf);
      for (let block = 0; block < whole; block++) {
        const [a, b] = [from?.[block] ?? 0, to?.[block] ?? 0];
        const size = (from?.[block + 1] ?? chunk.length) - a;
        expect(Buffer.compare(extended.subarray(b, b + size), chunk.subarray(a, a + size))).toBe(0);
      }
      expect(whole).toBeGreaterThan(0);
    }
  });
});

function startsOf(chunk: Uint8Array): number[] {
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  return Array.from({ length: info(chunk).nblocks }, (_, block) => view.getUint32(16 + 4 * block, true));
}

describe("no chunk is extended", () => {
  const chunk = encodeSync(prices.subarray(0, 80_000), settings);
  const added = new Uint8Array(80_000);

  test("if another compressor, filter or typesize is requested, or no compression", async () => {
    await expect(extendChunk(chunk, added, settings)).resolves.toBeDefined();
    for (const other of [
      { cname: "blosclz" },
      { shuffle: "noshuffle" },
      { typesize: 4 },
      { clevel: 0 },
    ] as const)
      await expect(extendChunk(chunk, added, other)).resolves.toBeUndefined();
  });

  test("if the data are stored, empty, or in much shorter blocks than data of that length would have", async () => {
    const stored = encodeSync(prices.subarray(0, 80_000), { ...settings, clevel: 0 });
    const empty = encodeSync(new Uint8Array(0), settings);
    const small = encodeSync(prices.subarray(0, 800), settings);
    expect(info(small).memcpyed).toBe(false);
    for (const each of [stored, empty, small])
      await expect(extendChunk(each, new Uint8Array(1 << 20), settings)).resolves.toBeUndefined();
  });
});

test("a damaged header, table or last block is an error with its code", async () => {
  const chunk = encodeSync(prices.subarray(0, 1_500_000), settings);
  const spoil = async (at: number, value: number): Promise<unknown> => {
    const bad = chunk.slice();
    new DataView(bad.buffer).setUint32(at, value, true);
    return extendChunk(bad, new Uint8Array(8), settings).catch((error: unknown) =>
      isSuperchunkError(error) ? error.code : error,
    );
  };
  expect(info(chunk).nblocks).toBe(2);
  expect(await spoil(8, 0)).toBe("BAD_FIELD");
  expect(await spoil(20, chunk.length)).toBe("BAD_FIELD");
  expect(await spoil(new DataView(chunk.buffer).getUint32(20, true), 0x7fff_ffff)).toBe("BAD_CHUNK");
});
