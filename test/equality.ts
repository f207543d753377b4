/**
 * Makes `toEqual` of long arrays cheap: Vitest compares typed arrays as lists, item by item, and makes a name of each index.
 * What is the same to the last bit is equal; about everything else Vitest decides, and says where the difference is.
 */
import { expect } from "vitest";

/** Shorter lists may be matches of an expression, which have more than items. */
const SHORT = 64;

function isSame(a: unknown, b: unknown): true | undefined {
  if (typeof a !== "object" || typeof b !== "object") return;
  const isWhole = Array.isArray(a) ? Array.isArray(b) && sameItems(a, b) : sameBytes(a, b);
  return isWhole ? true : undefined;
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  const isValue = (item: unknown): boolean =>
    typeof item !== "object" && typeof item !== "function" && item !== undefined;
  return (
    a.length > SHORT && a.length === b.length && a.every((item, i) => isValue(item) && Object.is(item, b[i]))
  );
}

function sameBytes(a: object | null, b: object | null): boolean {
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b) || a.constructor !== b.constructor) return false;
  const [left, right] = [a, b].map((each) => Buffer.from(each.buffer, each.byteOffset, each.byteLength));
  return left !== undefined && right !== undefined && left.equals(right);
}

// Files share a process, and this is run before each.
const mark = Symbol.for("superchunk.equality");
if (!(mark in globalThis)) {
  Object.assign(globalThis, { [mark]: true });
  expect.addEqualityTesters([isSame]);
}
