import { describe, expect, test } from "vitest";
import type { DType } from "../../src/format/types.ts";
import { ByteStringArray, ComplexArray, StructArray, swapBytes, toValues } from "../../src/values/values.ts";
import { toJsonValues } from "./json-values.ts";

const bytes = (...values: number[]) => Uint8Array.from(values);

describe("values", () => {
  test("float16 is widened exactly: normal, subnormal, zero, infinite, not a number", () => {
    const dtype: DType = { kind: "float", itemSize: 2, byteOrder: "little" };
    const halves = Uint16Array.of(
      0x3c00,
      0xc000,
      0x0001,
      0x03ff,
      0x0400,
      0x8000,
      0x7bff,
      0x7c00,
      0xfc00,
      0x7e00,
    );
    const values = toValues(new Uint8Array(halves.buffer), dtype);
    expect([...(values as Float32Array)]).toEqual([
      1,
      -2,
      2 ** -24,
      1023 * 2 ** -24,
      2 ** -14,
      -0,
      65504,
      Infinity,
      -Infinity,
      NaN,
    ]);
  });

  test("big-endian numbers come in native order", () => {
    const dtype: DType = { kind: "uint", itemSize: 4, byteOrder: "big" };
    expect([...(toValues(bytes(0, 0, 1, 2, 255, 255, 255, 254), dtype) as Uint32Array)]).toEqual([
      258, 4294967294,
    ]);
  });

  test.each([2, 4, 8, 16])(
    "swapping groups of %i bytes twice changes nothing, once reverses each",
    (width) => {
      const original = Uint8Array.from({ length: 48 }, (_, i) => i);
      const swapped = original.slice();
      swapBytes(swapped, width);
      expect([...swapped.subarray(0, width)]).toEqual([...original.subarray(0, width)].reverse());
      swapBytes(swapped, width);
      expect(swapped).toEqual(original);
    },
  );

  test("int64 and dates are bigint; NaT and large integers have their own JSON", () => {
    const data = new Uint8Array(BigInt64Array.of(5n, 2n ** 60n, -(2n ** 63n)).buffer);
    const int: DType = { kind: "int", itemSize: 8, byteOrder: "little" };
    const date: DType = { kind: "datetime", itemSize: 8, byteOrder: "little", unit: "ns", scale: 1 };
    expect(toValues(data, int)).toBeInstanceOf(BigInt64Array);
    expect(toJsonValues(toValues(data, int), int)).toEqual([
      5,
      "1152921504606846976",
      "-9223372036854775808",
    ]);
    expect(toJsonValues(toValues(data, date), date)).toEqual(["5", "1152921504606846976", "NaT"]);
  });

  test("complex numbers are pairs", () => {
    const dtype: DType = { kind: "complex", itemSize: 8, byteOrder: "little" };
    const values = toValues(new Uint8Array(Float32Array.of(1, 2, NaN, -Infinity).buffer), dtype);
    expect(values).toBeInstanceOf(ComplexArray);
    expect(toJsonValues(values, dtype)).toEqual([
      [1, 2],
      ["NaN", "-Infinity"],
    ]);
  });

  test("S drops zero bytes at the end and keeps those inside", () => {
    const strings = new ByteStringArray(bytes(97, 0, 98, 0, 233, 0, 0, 0), 4);
    expect([...strings]).toEqual(["a\0b", "é"]);
  });

  test("a struct has its fields by name, sub-arrays nested", () => {
    const dtype: DType = {
      kind: "struct",
      itemSize: 7,
      byteOrder: "none",
      fields: [
        { name: "id", dtype: { kind: "uint", itemSize: 2, byteOrder: "big" }, shape: [], offset: 0 },
        { name: "v", dtype: { kind: "int", itemSize: 1, byteOrder: "none" }, shape: [2, 2], offset: 3 },
      ],
    };
    const values = toValues(bytes(1, 0, 99, 1, 2, 3, 4), dtype);
    expect(values).toBeInstanceOf(StructArray);
    expect({ ...(values as StructArray).get(0) }).toEqual({
      id: 256,
      v: [
        [1, 2],
        [3, 4],
      ],
    });
    expect(toJsonValues(values, dtype)).toEqual([
      [
        256,
        [
          [1, 2],
          [3, 4],
        ],
      ],
    ]);
    expect([...((values as StructArray).field("id") as Uint16Array)]).toEqual([256]);
  });

  test("Python objects and long doubles are refused", () => {
    expect(() => toValues(bytes(0), { kind: "object", itemSize: 8, byteOrder: "none" })).toThrow(/pickles/);
    expect(() => toValues(new Uint8Array(16), { kind: "float", itemSize: 16, byteOrder: "little" })).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED" }),
    );
  });
});
