/** The reader of msgpack, against the bytes that Python's msgpack 1.2 writes. */
import { expect, test } from "vitest";
import { Extension, unpack, unpackAll } from "../../src/blosc2/msgpack.ts";

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, "hex"));
const letters = (count: number): string => "78".repeat(count);

const values: readonly (readonly [string, unknown])[] = [
  ["c0", null],
  ["c2", false],
  ["c3", true],
  ["00", 0],
  ["7f", 127],
  ["cc80", 128],
  ["ccff", 255],
  ["cd0100", 256],
  ["cdffff", 65_535],
  ["ce00010000", 65_536],
  ["ceffffffff", 2 ** 32 - 1],
  ["cf0000000100000000", 2 ** 32],
  ["cf001fffffffffffff", 2 ** 53 - 1],
  ["cf0020000000000000", 2n ** 53n],
  ["cfffffffffffffffff", 2n ** 64n - 1n],
  ["ff", -1],
  ["e0", -32],
  ["d0df", -33],
  ["d080", -128],
  ["d1ff7f", -129],
  ["d18000", -32_768],
  ["d2ffff7fff", -32_769],
  ["d280000000", -(2 ** 31)],
  ["d3ffffffff7fffffff", -(2 ** 31) - 1],
  ["d38000000000000000", -(2n ** 63n)],
  ["ca3f000000", 0.5],
  ["cb3fe0000000000000", 0.5],
  ["cb7ff0000000000000", Number.POSITIVE_INFINITY],
  ["a0", ""],
  [`bf${letters(31)}`, "x".repeat(31)],
  [`d920${letters(32)}`, "x".repeat(32)],
  [`da0100${letters(256)}`, "x".repeat(256)],
  [`db00010000${letters(65_536)}`, "x".repeat(65_536)],
  ["a6efbbbf626f6d", "\ufeffbom"],
  ["c400", new Uint8Array(0)],
  ["c40200ff", Uint8Array.of(0, 255)],
  [`c50100${letters(256)}`, new Uint8Array(256).fill(0x78)],
  [`c600010000${letters(65_536)}`, new Uint8Array(65_536).fill(0x78)],
  ["9201920290", [1, [2, []]]],
  ["dc0010000102030405060708090a0b0c0d0e0f", Array.from({ length: 16 }, (_, i) => i)],
  ["dd0000000107", [7]],
  ["80", {}],
  ["81a16181a16291c0", { a: { b: [null] } }],
  ["de0001a16101", { a: 1 }],
  ["df00000001a16101", { a: 1 }],
  ["d40500", new Extension()],
  ["c70305616263", new Extension()],
  ["d60561626364", new Extension()],
];

test.each(values)("%.20s is read as the value that was packed, and no part of it is", (hex, value) => {
  const bytes = bytesOf(hex);
  expect(unpack(bytes)).toEqual(value);
  for (let length = 0; length < Math.min(bytes.length, 300); length++)
    expect(() => unpack(bytes.subarray(0, length)), String(length)).toThrow(RangeError);
});

test("values follow one another, and the reader of one refuses two", () => {
  expect([...unpackAll(bytesOf("01a1619102"))]).toEqual([1, "a", [2]]);
  expect(() => unpack(bytesOf("0102"))).toThrow(new RangeError("2 values instead of one"));
});

test("what is not msgpack is a RangeError: an unused byte, deep lists, a key that is not text, an absurd length", () => {
  for (const hex of ["c1", `${"91".repeat(200)}00`, "8101c0", "ddffffffff00", "dfffffffff", "c6ffffffff"])
    expect(() => unpack(bytesOf(hex)), hex.slice(0, 10)).toThrow(RangeError);
});
