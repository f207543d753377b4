import { describe, expect, test } from "vitest";
import type { Selection } from "../../src/values/selection.ts";
import { fortranToC, resolveSelection, runsOf, stridesOf } from "../../src/values/selection.ts";

/** What a selection picks from an array whose values are 0, 1, 2, …: through the runs. */
function pick(selection: Selection | null, shape: readonly number[]): number[] {
  const picked: number[] = [];
  for (const batch of runsOf(resolveSelection(selection, shape), shape)) {
    for (let i = 0; i < batch.count; i++) {
      for (let j = 0; j < batch.length; j++) picked[(batch.target[i] ?? 0) + j] = (batch.source[i] ?? 0) + j;
    }
  }
  return picked;
}

/** The same by counting every element. */
function pickSlowly(selection: Selection | null, shape: readonly number[]): number[] {
  const extents = resolveSelection(selection, shape);
  const strides = stridesOf(shape);
  let picked = [0];
  extents.forEach((extent, d) => {
    picked = picked.flatMap((base) =>
      Array.from(
        { length: extent.count },
        (_, i) => base + (extent.start + i * extent.step) * (strides[d] ?? 1),
      ),
    );
  });
  return picked;
}

const slice = (start: number | null, stop: number | null, step: number | null = null) => ({
  start,
  stop,
  step,
});

describe("selections", () => {
  const cases: { selection: Selection | null; shape: number[] }[] = [
    { selection: null, shape: [5] },
    { selection: null, shape: [] },
    { selection: [], shape: [2, 3] },
    { selection: [3], shape: [5] },
    { selection: [-1, null], shape: [5, 4] },
    { selection: [slice(1, 4), slice(0, 3)], shape: [5, 3] },
    { selection: [slice(1, null, 2), slice(null, null, 3), 2], shape: [7, 8, 4] },
    { selection: [null, 1, slice(-3, null)], shape: [3, 2, 6] },
    { selection: [slice(2, 2)], shape: [5] },
    { selection: [slice(null, null, 2)], shape: [20001] },
    { selection: [slice(0, 90, 1), slice(0, 90, 7)], shape: [100, 100] },
    { selection: [null, null], shape: [0, 4] },
  ];
  test.each(cases)("runs of $selection in $shape are the elements, in order", ({ selection, shape }) => {
    expect(pick(selection, shape)).toEqual(pickSlowly(selection, shape));
  });

  test("adjacent dimensions that are selected whole are joined into one run", () => {
    const [batch] = runsOf(resolveSelection([slice(2, 5)], [10, 4, 5]), [10, 4, 5]);
    expect(batch).toMatchObject({ count: 1, length: 60 });
    expect(batch?.source[0]).toBe(40);
  });

  test("bounds past the end are clipped, as in numpy", () => {
    expect(resolveSelection([slice(-100, 100)], [5])).toEqual([
      { start: 0, count: 5, step: 1, dropped: false },
    ]);
  });

  test.each([
    { selection: [5], field: "index beyond the end" },
    { selection: [-6], field: "index before the start" },
    { selection: [1.5], field: "fraction" },
    { selection: [slice(0, 5, 0)], field: "step 0" },
    { selection: [slice(0, 5, -1)], field: "negative step" },
    { selection: [slice(0.5, 5)], field: "fraction as bound" },
    { selection: [0, 0], field: "too many entries" },
    { selection: [undefined as never], field: "an index that is missing, which would mean all" },
  ])("a wrong selection is refused: $field", ({ selection }) => {
    expect(() => resolveSelection(selection, [5])).toThrow(expect.objectContaining({ code: "BAD_ARGUMENT" }));
  });

  test.each([
    ["a string", ["a"]],
    ["a list of indices", [[0, 3]]],
    ["a bigint", [2n]],
    ["true", [true]],
    ["a slice that is not in a list", { start: 0, stop: 3, step: 1 }],
    ["text", "0:3"],
    ["{ start, end }", [{ start: 0, end: 3 }]],
    ["{ from }", [{ from: 1 }]],
  ])("%s is refused, and not taken for all", (_, selection) => {
    expect(() => resolveSelection(selection as unknown as Selection, [5])).toThrow(
      expect.objectContaining({
        code: "BAD_ARGUMENT",
        details: expect.objectContaining({ field: "selection" }) as object,
      }),
    );
  });

  test("F order becomes C order", () => {
    // [[0, 1, 2], [3, 4, 5]] in F order
    expect([...fortranToC(Uint8Array.of(0, 3, 1, 4, 2, 5), [2, 3], 1)]).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

test("a bigint, or a negative step, is refused with a message that shows it", () => {
  const refusal = (selection: unknown): string => {
    try {
      resolveSelection(selection as Selection, [10]);
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };
  expect(refusal([5n])).toContain("the entry for dimension 0 is 5n, expected an integer");
  expect(refusal([1.5])).toContain("the entry for dimension 0 is 1.5, expected an integer");
  expect(refusal([[5n]])).toContain('the entry for dimension 0 is ["5n"], expected an integer');
  expect(refusal([{ start: 0n }])).toBe("a bound in dimension 0 is 0n, expected an integer");
  expect(refusal([{ start: 9, stop: 0, step: -1 }])).toBe(
    "the step in dimension 0 is -1, expected 1 or more; oindex takes negative steps",
  );
});
