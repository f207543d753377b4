/** Comparisons that test/equality.ts makes cheap find what others find. */
import { expect, it } from "vitest";

const LENGTH = 1000;
const numbers = (): number[] => Array.from({ length: LENGTH }, (_, i) => i / 8);

it.each([
  ["a list", numbers],
  ["a typed array", () => Float64Array.from(numbers())],
  ["a buffer", () => Buffer.from(numbers())],
] as const)("%s equals one with the same items, and no other", (_, make) => {
  expect(make()).toEqual(make());
  expect({ in: [make()] }).toStrictEqual({ in: [make()] });
  for (const at of [0, 500, LENGTH - 1]) {
    const other = make();
    other[at] = 99;
    expect(make()).not.toEqual(other);
    expect(other).not.toEqual(make());
  }
  expect(make()).not.toEqual(make().slice(1));
});

it("tells types, signs of zero and missing items apart as Vitest does", () => {
  const zeros = (): number[] => new Array<number>(LENGTH).fill(0);
  expect(zeros()).not.toEqual(zeros().fill(-0, 7, 8));
  expect(zeros().fill(Number.NaN)).toEqual(zeros().fill(Number.NaN));
  expect(Float64Array.from(zeros())).not.toEqual(Float64Array.from(zeros()).fill(-0, 7, 8));
  expect(new Float64Array(8)).not.toEqual(new BigInt64Array(8));
  expect(new Uint8Array(8)).not.toStrictEqual(Buffer.alloc(8));
  expect(zeros()).not.toEqual([...zeros(), 0]);
});

it("compares long arrays without a look at each item", () => {
  let looks = 0;
  class Watched extends Uint8Array {
    override [Symbol.iterator]() {
      looks++;
      return super[Symbol.iterator]();
    }
  }
  expect(new Watched(LENGTH)).toEqual(new Watched(LENGTH));
  expect(looks).toBe(0);
});
