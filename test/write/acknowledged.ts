/** The law of rows that several writers append at the same time, whatever fails. */
import { expect } from "vitest";

/** Checks that every acknowledged row is there, none is there twice, and none was never sent. */
export function expectOnce(
  found: readonly number[],
  { acknowledged, sent }: { readonly acknowledged: readonly number[]; readonly sent: readonly number[] },
): void {
  expect(new Set(found).size, "rows twice").toBe(found.length);
  const there = new Set(found);
  expect(
    acknowledged.filter((value) => !there.has(value)),
    "rows lost",
  ).toEqual([]);
  const known = new Set(sent);
  expect(
    found.filter((value) => !known.has(value)),
    "rows from nowhere",
  ).toEqual([]);
}
