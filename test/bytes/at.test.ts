import { expect, test } from "vitest";
import { at } from "../../src/bytes/at.ts";

test("an element that is there is given, also where it is 0, false or empty", () => {
  expect([at([0, 1], 0), at([false], 0), at([""], 0), at(Float64Array.of(2, Number.NaN), 1)]).toEqual([
    0,
    false,
    "",
    Number.NaN,
  ]);
});

test("where there is none, it is an error with the index and the length", () => {
  for (const index of [-1, 2, 0.5, Number.NaN])
    expect(() => at([1, 2], index)).toThrow(new RangeError(`no element ${index} in a list of 2`));
});
