import { expect, it } from "vitest";
import { ByteReader, joinSafeNumber, toSafeNumber } from "../../src/bytes/fields.ts";
import { ByteWriter } from "../../src/bytes/writer.ts";
import { errorOf, hex } from "../format/hex.ts";

const place = { path: "a.blp", offset: 16, field: "nchunks" };

it("an int64 becomes a number exactly up to ±(2^53 - 1)", () => {
  for (const value of [0n, 1n, -1n, 2n ** 53n - 1n, -(2n ** 53n - 1n)]) {
    expect(BigInt(toSafeNumber(value, place))).toBe(value);
  }
});

it("an int64 outside that range is BAD_FIELD with its place", () => {
  for (const value of [2n ** 53n, -(2n ** 53n), 2n ** 62n, -(2n ** 63n)]) {
    const error = errorOf(() => toSafeNumber(value, place));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details).toMatchObject({ ...place, found: value });
    expect(error.message).toContain(`a.blp: nchunks at byte 16 is ${value}`);
  }
});

it("two halves join to the same number as the bigint", () => {
  for (const value of [0n, -1n, 2n ** 32n, 2n ** 40n + 5n, -(2n ** 33n) - 7n, 2n ** 53n - 1n]) {
    const low = Number(BigInt.asUintN(32, value));
    const high = Number(BigInt.asIntN(32, value >> 32n));
    expect(joinSafeNumber(low, high, () => place)).toBe(Number(value));
  }
  expect(errorOf(() => joinSafeNumber(0, 0x4000_0000, () => place)).details.found).toBe(2n ** 62n);
});

it("[F1-03] fields are little-endian, and a view of a larger buffer is read from the start of the view", () => {
  const whole = hex("ff ff 01 02 03 04 05 06 07 88 ff");
  const reader = new ByteReader(whole.subarray(2, 10), "a.blp", 100);
  expect(reader.length).toBe(8);
  expect(reader.uint8(0)).toBe(1);
  expect(reader.uint32(0)).toBe(0x04030201);
  expect(reader.int32(4)).toBe(-0x77f8f9fb);
  expect(reader.int64(0)).toBe(BigInt.asIntN(64, 0x8807060504030201n));
  expect(reader.view(2, 3)).toEqual(hex("03 04 05"));
});

it("reading past the end is TRUNCATED, and names the byte of the file", () => {
  const reader = new ByteReader(hex("00 01 02 03"), "a.blp", 100);
  for (const call of [
    () => reader.int64(0),
    () => reader.uint32(1),
    () => reader.uint8(4),
    () => reader.view(0, 5),
    () => reader.view(-1, 2),
  ]) {
    expect(errorOf(call).code).toBe("TRUNCATED");
  }
  expect(errorOf(() => reader.uint32(1, "meta-size")).details).toEqual({
    path: "a.blp",
    offset: 101,
    field: "meta-size",
    expected: 4,
    found: 3,
  });
});

it("a reader reads what a writer wrote, for each width at its limits", () => {
  const writer = new ByteWriter(25);
  writer.uint8(0, 255);
  writer.int32(1, -0x8000_0000);
  writer.uint32(5, 0xffff_ffff);
  writer.int64(9, Number.MIN_SAFE_INTEGER);
  writer.int64(17, -1);
  const reader = new ByteReader(writer.bytes, "a.blp");
  expect([reader.uint8(0), reader.int32(1), reader.uint32(5)]).toEqual([255, -0x8000_0000, 0xffff_ffff]);
  expect([reader.int64(9), reader.int64(17)]).toEqual([BigInt(Number.MIN_SAFE_INTEGER), -1n]);
});

it("a value that does not fit its field is BAD_ARGUMENT, never truncated", () => {
  const writer = new ByteWriter(8);
  for (const call of [
    () => writer.uint8(0, 256),
    () => writer.uint8(0, -1),
    () => writer.int32(0, 2 ** 31),
    () => writer.uint32(0, 1.5),
    () => writer.int64(0, 2 ** 53),
    () => writer.int64(0, Number.NaN),
  ]) {
    expect(errorOf(call).code).toBe("BAD_ARGUMENT");
  }
  expect(writer.bytes).toEqual(new Uint8Array(8));
});
