import { expect, test } from "vitest";
import { at } from "../../src/bytes/arrays.ts";

test("returns an element that exists, also if it is 0, false or empty", () => {
  expect([at([0, 1], 0), at([false], 0), at([""], 0), at(Float64Array.of(2, Number.NaN), 1)]).toEqual([
    0,
    false,
    "",
    Number.NaN,
  ]);
});

test("throws an error with the index and the length if there is no such element", () => {
  for (const index of [-1, 2, 0.5, Number.NaN])
    expect(() => at([1, 2], index)).toThrow(new RangeError(`no element ${index} in a list of 2`));
});
