/** Files that bloscpack and we write identically. */

import { CHECKSUM_NAMES } from "../../src/format/header.ts";
import type { JsonValue } from "../../src/format/types.ts";
import type { BloscpackOptions } from "../../src/write/bloscpack/bloscpack-options.ts";
import type { FixtureDType } from "../fixtures/manifest.ts";
import { dtypeOf, someBytes, someText } from "./foreign-data.ts";

/** A file: its data, and how they are to be packed. */
export interface FileCase {
  readonly name: string;
  readonly data: Uint8Array;
  readonly options: BloscpackOptions & { readonly clevel: number };
  readonly array?: {
    readonly dtype: FixtureDType;
    readonly shape: readonly number[];
    readonly order: "C" | "F";
  };
  readonly metadata?: JsonValue;
}

/** All of them. */
export function listFiles(): FileCase[] {
  const cases: FileCase[] = [];
  const lengths = [0, 1, 1000, 4096, 4097, 100_000];
  for (const [i, checksum] of CHECKSUM_NAMES.entries()) {
    for (const clevel of [0, 7]) {
      const length = lengths[(i + clevel) % lengths.length] ?? 1;
      const options = { checksum, clevel, chunkSize: 4096, typesize: [1, 4, 8, 16][i % 4] ?? 1 };
      const name = `${length} bytes with ${checksum}, level ${clevel}`;
      cases.push({ name, data: someBytes(length), options });
      cases.push({
        name: `${name}, no offsets`,
        data: someBytes(length),
        options: { ...options, offsets: false },
      });
    }
  }
  for (const maxAppChunks of [0, 7, "3x"] as const)
    cases.push({
      name: `room for ${maxAppChunks}`,
      data: someBytes(9999),
      options: { clevel: 0, chunkSize: 1000, maxAppChunks },
    });
  // Not null: to bloscpack that means no metadata.
  const metadata: JsonValue[] = [
    {},
    [],
    "text",
    17,
    { a: [1, 2.5, "é\u0001", null, true], b: { c: 1e300 } },
    { long: "abc".repeat(500) },
  ];
  for (const value of metadata)
    cases.push({
      name: `metadata ${JSON.stringify(value).slice(0, 40)}`,
      data: someBytes(500),
      options: { clevel: 0 },
      metadata: value,
    });
  const arrays: FileCase["array"][] = [
    { dtype: "<f8", shape: [1000], order: "C" },
    { dtype: ">u2", shape: [40, 25], order: "C" },
    { dtype: "<i4", shape: [10, 20, 5], order: "F" },
    { dtype: "<i4", shape: [1, 100], order: "F" },
    { dtype: "|b1", shape: [77], order: "C" },
    { dtype: "|S5", shape: [100], order: "C" },
    { dtype: "<U3", shape: [100], order: "C" },
    { dtype: "<M8[ns]", shape: [100], order: "C" },
    { dtype: "<c16", shape: [], order: "C" },
    {
      dtype: [
        ["id", "<u4"],
        ["v", "<f4", [3]],
        ["t", "|S4"],
      ],
      shape: [64],
      order: "C",
    },
  ];
  for (const array of arrays) {
    if (array === undefined) continue;
    const items = array.shape.reduce((product, n) => product * n, 1);
    const size = dtypeOf(array.dtype).itemSize;
    const data =
      array.dtype === "|b1"
        ? someBytes(items).map((byte) => byte & 1)
        : array.dtype === "<U3"
          ? someText(items * 3)
          : someBytes(items * size);
    const cut = Math.max(size, Math.floor(700 / size) * size);
    cases.push({
      name: `array ${JSON.stringify(array)}`,
      data,
      options: { clevel: 0, chunkSize: cut, typesize: undefined },
      array,
    });
  }
  return cases;
}

/** The values in C order, as the readers give them. */
export function inCOrder(
  data: Uint8Array,
  { dtype, shape, order }: NonNullable<FileCase["array"]>,
): Uint8Array {
  if (order === "C" || shape.length < 2) return data;
  const size = dtypeOf(dtype).itemSize;
  const out = new Uint8Array(data.length);
  const count = shape.reduce((product, n) => product * n, 1);
  for (let i = 0; i < count; i++) {
    let rest = i;
    let at = 0;
    const index = shape.map(() => 0);
    for (let k = shape.length - 1; k >= 0; k--) {
      index[k] = rest % (shape[k] ?? 1);
      rest = Math.floor(rest / (shape[k] ?? 1));
    }
    for (let k = shape.length - 1; k >= 0; k--) at = at * (shape[k] ?? 1) + (index[k] ?? 0);
    out.set(data.subarray(at * size, (at + 1) * size), i * size);
  }
  return out;
}
