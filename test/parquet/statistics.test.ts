/** Minimum and maximum of values, and whether they are sorted, match what sorting gives. */
import { expect, test, vi } from "vitest";
import { encode, leaseDecoder } from "../../src/codec/index.ts";
import type { Leaf, ValueKind } from "../../src/parquet/schema.ts";
import { statisticsOf } from "../../src/parquet/statistics.ts";
import { bytesOf } from "../../src/parquet/values.ts";

const ARRAYS = {
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float: Float32Array,
  double: Float64Array,
} as const;

/** Values around zero, around the middle of the range of unsigned numbers, and equal ones. */
const LISTS: readonly (readonly number[])[] = [
  [5],
  [1, 1, 2, 3],
  [3, 2, 1],
  [1, 2, 3, 2],
  [2, 3, 1, 7],
  [-3, -2, 4],
  [4, -5],
  [-1, -1, -7, 2 ** 31, 2 ** 32 + 5, 2 ** 32 + 4],
];

test.each(Object.keys(ARRAYS) as (keyof typeof ARRAYS)[])("bounds of %s", (kind) => {
  for (const list of LISTS) {
    const values =
      kind === "int64" || kind === "uint64" ? ARRAYS[kind].from(list.map(BigInt)) : ARRAYS[kind].from(list);
    const sorted = values.slice().sort();
    const leaf = { kind: kind satisfies ValueKind, width: values.BYTES_PER_ELEMENT } as Leaf;
    const bytes = bytesOf(values);
    const found = statisticsOf(leaf, { bytes, count: list.length, present: undefined });
    // Bounds of 64 bits are kept as signed numbers in the file.
    const bits = (bound: unknown): unknown => (typeof bound === "bigint" ? BigInt.asIntN(64, bound) : bound);
    expect([found.least, found.greatest].map(bits), `${kind} ${list}`).toEqual(
      [sorted.at(0), sorted.at(-1)].map(bits),
    );
    expect(found.isAscending, `${kind} ${list}`).toBe(values.join() === sorted.join());
  }
});

/** Long runs are compared in pieces, and pieces in vectors: an odd value at any place must count. */
test.each(Object.keys(ARRAYS) as (keyof typeof ARRAYS)[])("bounds of %s in long runs", (kind) => {
  for (const length of [3, 9, 4096, 8191, 8193, 20_001])
    for (const place of [0, 1, length - 2, length - 1, 4095, 4096, 8191, 8192]) {
      if (place >= length) continue;
      for (const odd of [-1, 40_000]) {
        const list = Array.from({ length }, (_, i) => (i === place ? odd : 10 + i));
        const values =
          kind === "int64" || kind === "uint64"
            ? ARRAYS[kind].from(list.map(BigInt))
            : ARRAYS[kind].from(list);
        const sorted = values.slice().sort();
        const bytes = bytesOf(values);
        const found = statisticsOf(
          { kind: kind satisfies ValueKind, width: values.BYTES_PER_ELEMENT } as Leaf,
          { bytes, count: length, present: undefined },
        );
        const isAscending = values.every((value, i) => i === 0 || value >= (values[i - 1] ?? value));
        expect([found.least, found.greatest, found.isAscending], `${odd} at ${place} of ${length}`).toEqual([
          sorted.at(0),
          sorted.at(-1),
          isAscending,
        ]);
      }
    }
});

test.each([Float32Array, Float64Array])("values with NaN, wherever it is, have no bounds in %o", (array) => {
  const kind: ValueKind = array === Float32Array ? "float" : "double";
  const leaf = { kind, width: array.BYTES_PER_ELEMENT } as Leaf;
  const boundsOf = (list: readonly number[]): unknown[] => {
    const bytes = bytesOf(array.from(list));
    const { least, greatest, isAscending, isOpen } = statisticsOf(leaf, {
      bytes,
      count: list.length,
      present: undefined,
    });
    return [least, greatest, isAscending, isOpen];
  };
  for (let length = 1; length <= 40; length++)
    for (let place = 0; place < length; place++) {
      const list = Array.from({ length }, (_, i) => (i === place ? Number.NaN : i % 7));
      expect([length, place, boundsOf(list)]).toEqual([length, place, [undefined, undefined, false, true]]);
    }
});

test("numbers in memory that a decoder lends have the same bounds", async () => {
  const values = Float64Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 10_007);
  const chunk = await encode(bytesOf(values), { cname: "lz4", typesize: 8, blocksize: 65_536 });
  const lease = leaseDecoder(chunk.length);
  lease.input.set(chunk);
  const leaf = { kind: "double" satisfies ValueKind, width: 8 } as Leaf;
  for (let start = 0; start < values.byteLength; start += 65_536) {
    const bytes = lease.decodeRange(start, Math.min(65_536, values.byteLength - start));
    const [lent, own] = [bytes, bytes.slice()].map((each) =>
      statisticsOf(leaf, { bytes: each, count: each.length / 8, present: undefined }),
    );
    expect(lent).toEqual(own);
  }
  lease.release();
});

test("hosts that do not compile WebAssembly find the same bounds", async () => {
  const samples = (Object.keys(ARRAYS) as (keyof typeof ARRAYS)[]).flatMap((kind) => {
    const isFloat = kind === "float" || kind === "double";
    const lists = isFloat ? [...LISTS, [Number.NaN], [3, Number.NaN, 7], [-0, 0]] : LISTS;
    return lists.map((list) => {
      const values =
        kind === "int64" || kind === "uint64" ? ARRAYS[kind].from(list.map(BigInt)) : ARRAYS[kind].from(list);
      return { kind, width: values.BYTES_PER_ELEMENT, bytes: bytesOf(values), count: list.length };
    });
  });
  const factsBy = (statistics: typeof statisticsOf) =>
    samples.map(({ kind, width, bytes, count }) =>
      statistics({ kind, width } as Leaf, { bytes, count, present: undefined }),
    );
  const expected = factsBy(statisticsOf);
  vi.resetModules();
  const { statisticsOf: fresh } = await import("../../src/parquet/statistics.ts");
  const compile = vi.spyOn(WebAssembly, "Module").mockImplementation(function refuse() {
    throw new WebAssembly.CompileError("not here");
  });
  expect(factsBy(fresh)).toEqual(expected);
  expect(compile).toHaveBeenCalledOnce();
  compile.mockRestore();
});
