import { createHash } from "node:crypto";
import { deflateSync, crc32 as zlibCrc32 } from "node:zlib";
import { expect, it, vi } from "vitest";
import { type ChecksumName, CRC32C_OF_SUMMED, crc32c, digest, loadDigest } from "../../src/bytes/checksum.ts";
import { toHex, utf8 } from "../format/hex.ts";

const HASHES = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"] as const;
const large = Uint8Array.from({ length: 200_001 }, (_, i) => (i * 7919) >> 3);

it.each(HASHES)("[FC-03] %s matches the raw digest of node:crypto", async (name) => {
  for (const bytes of [new Uint8Array(0), utf8("abc"), large]) {
    expect(toHex(await digest(name, bytes))).toBe(createHash(name).update(bytes).digest("hex"));
  }
});

it.each(HASHES)(
  "[FC-03] %s computed by the library matches the engine's, also for shared memory",
  async (name) => {
    const shared = new Uint8Array(new SharedArrayBuffer(1000)).fill(7);
    const expected = createHash(name).update(shared).digest("hex");
    expect(toHex(await digest(name, shared))).toBe(expected);
    expect(toHex((await loadDigest(name))(shared))).toBe(expected);
    expect(toHex(await digest(name, new Uint8Array(shared)))).toBe(expected);
  },
);

it("[FC-03] digests outside Node.js are the same", async () => {
  vi.resetModules();
  vi.stubGlobal("process", undefined);
  vi.stubGlobal("crypto", undefined);
  const { loadDigest: load } = await import("../../src/bytes/checksum.ts");
  vi.unstubAllGlobals();
  for (const name of ["crc32", ...HASHES] as const) {
    const [outside, inside] = [await load(name), await loadDigest(name)];
    expect(toHex(outside(large)), name).toBe(toHex(inside(large)));
  }
});

it("[FC-03] adler32 and crc32 are four bytes, least significant first", async () => {
  // Published check values: adler32 of "Wikipedia" is 11e60398, crc32 of "123456789" is cbf43926.
  expect(toHex(await digest("adler32", utf8("Wikipedia")))).toBe("9803e611");
  expect(toHex(await digest("crc32", utf8("123456789")))).toBe("2639f4cb");
  expect(toHex(await digest("adler32", new Uint8Array(0)))).toBe("01000000");
});

it("[FC-03] adler32 matches zlib for few and for many bytes", async () => {
  const loaded = await loadDigest("adler32");
  for (const length of [1, 5551, 5552, 5553, 65_536, 65_537]) {
    const bytes = new Uint8Array(length).fill(255);
    const ofZlib = Uint8Array.from(deflateSync(bytes).subarray(-4)).reverse();
    expect(await digest("adler32", bytes)).toEqual(ofZlib);
    expect(loaded(bytes)).toEqual(ofZlib);
  }
});

it("crc32 of many bytes matches zlib", async () => {
  const found = new DataView((await digest("crc32", large)).buffer).getUint32(0, true);
  // node:zlib has crc32 since 20.15.
  expect(found).toBe(zlibCrc32(large));
});

it("crc32c is the Castagnoli CRC: the check value of RFC 3720", async () => {
  expect(await crc32c(utf8("123456789"))).toBe(0xe3069283);
  expect(await crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(await crc32c(utf8("1234"), new Uint8Array(0), utf8("56789"))).toBe(0xe3069283);
  expect(await crc32c()).toBe(0);
});

it("the crc32c of any bytes followed by their own crc32c is a constant", async () => {
  for (const bytes of [new Uint8Array(0), utf8("123456789"), large]) {
    const sum = new Uint8Array(4);
    new DataView(sum.buffer).setUint32(0, await crc32c(bytes), true);
    expect(await crc32c(bytes, sum)).toBe(CRC32C_OF_SUMMED);
  }
});

it("the digest of None is empty", async () => {
  expect(await digest("None", utf8("abc"))).toEqual(new Uint8Array(0));
});

it("digests computed at the same time do not mix", async () => {
  const names: ChecksumName[] = ["md5", "crc32", "sha512", "adler32", "md5", "sha1"];
  const inputs = names.map((_, i) => utf8("x".repeat(i * 1000)));
  const alone: string[] = [];
  for (const [i, name] of names.entries()) alone.push(toHex(await digest(name, inputs[i] ?? large)));
  const together = await Promise.all(names.map((name, i) => digest(name, inputs[i] ?? large)));
  expect(together.map(toHex)).toEqual(alone);
});

it("a loaded digest is synchronous, and a later result does not overwrite an earlier one", async () => {
  const md5 = await loadDigest("md5");
  const first = md5(utf8("a"));
  const kept = toHex(first);
  md5(utf8("b"));
  expect(toHex(first)).toBe(kept);
});
