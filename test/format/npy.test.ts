import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { SuperchunkError } from "../../src/errors.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import type { DType, Field } from "../../src/format/types.ts";

const I1: DType = { kind: "int", itemSize: 1, byteOrder: "none" };
const I4: DType = { kind: "int", itemSize: 4, byteOrder: "little" };
const U4: DType = { kind: "uint", itemSize: 4, byteOrder: "little" };
const F4: DType = { kind: "float", itemSize: 4, byteOrder: "little" };
const F8: DType = { kind: "float", itemSize: 8, byteOrder: "little" };

function struct(itemSize: number, ...fields: readonly Field[]): DType {
  return { kind: "struct", itemSize, byteOrder: "none", fields };
}

function field(name: string, dtype: DType, offset: number, shape: readonly number[] = []): Field {
  return { name, dtype, offset, shape };
}

/** A header of version 1, as numpy 2.5.5 wrote it. */
function numpyHeader(dict: string, length: number): Buffer {
  const head = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 0, 0]);
  head.writeUInt16LE(length - 10, 8);
  return Buffer.concat([head, Buffer.from(dict.padEnd(length - 11), "latin1"), Buffer.from("\n")]);
}

describe("the header of .npy files", () => {
  it.each<[string, DType, number[], string, number]>([
    ["floats", F8, [3000], "{'descr': '<f8', 'fortran_order': False, 'shape': (3000,), }", 128],
    [
      "big-endian",
      { kind: "uint", itemSize: 2, byteOrder: "big" },
      [1500],
      "{'descr': '>u2', 'fortran_order': False, 'shape': (1500,), }",
      128,
    ],
    [
      "scalars",
      { kind: "bool", itemSize: 1, byteOrder: "none" },
      [],
      "{'descr': '|b1', 'fortran_order': False, 'shape': (), }",
      128,
    ],
    [
      "strings",
      { kind: "unicode", itemSize: 12, byteOrder: "little" },
      [2],
      "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }",
      128,
    ],
    [
      "dates",
      { kind: "datetime", itemSize: 8, byteOrder: "little", unit: "s", scale: 25 },
      [1, 2, 3],
      "{'descr': '<M8[25s]', 'fortran_order': False, 'shape': (1, 2, 3), }",
      128,
    ],
    [
      "structs",
      struct(16, field("id", U4, 0), field("v", F4, 4, [3])),
      [0],
      "{'descr': [('id', '<u4'), ('v', '<f4', (3,))], 'fortran_order': False, 'shape': (0,), }",
      128,
    ],
    [
      "structs with gaps",
      struct(24, field("a", I1, 0), field("b", F8, 8)),
      [2, 3],
      "{'descr': [('a', '|i1'), ('', '|V7'), ('b', '<f8'), ('', '|V8')], 'fortran_order': False, 'shape': (2, 3), }",
      192,
    ],
    [
      "names with quotes and accents",
      struct(8, field("it's", I4, 0), field("é", I4, 4)),
      [1],
      "{'descr': [(\"it's\", '<i4'), ('é', '<i4')], 'fortran_order': False, 'shape': (1,), }",
      128,
    ],
  ])("of %s matches numpy's, byte for byte", (_name, dtype, shape, dict, length) => {
    expect(Buffer.from(encodeNpyHeader(dtype, shape))).toEqual(numpyHeader(dict, length));
  });

  it("longer than 64 KiB has version 2, as numpy 2.5.5 writes it", () => {
    const fields = Array.from({ length: 4000 }, (_, i) =>
      field(`field_${String(i).padStart(5, "0")}`, I4, 4 * i),
    );
    const header = encodeNpyHeader(struct(16_000, ...fields), [1]);
    expect([header[6], header.length]).toEqual([2, 96_128]);
    const digest = createHash("sha256").update(header).digest("hex");
    expect(digest).toBe("23929600257048d786ca425c71a95ab85cf59c89b626b9c3a0e965012b5de3a7");
  });

  it("with names beyond Latin-1 has version 3 and UTF-8", () => {
    const header = Buffer.from(encodeNpyHeader(struct(4, field("日", I4, 0)), [1]));
    expect([header[6], header.length, header.readUInt32LE(8)]).toEqual([3, 128, 116]);
    expect(header.subarray(12).toString("utf8").trimEnd()).toBe(
      "{'descr': [('日', '<i4')], 'fortran_order': False, 'shape': (1,), }",
    );
  });

  it("is refused for objects and for fields that overlap", () => {
    for (const dtype of [
      { kind: "object", itemSize: 8, byteOrder: "none" } as const,
      struct(8, field("a", F8, 0), field("b", I4, 4)),
    ]) {
      expect(() => encodeNpyHeader(dtype, [1])).toThrow(SuperchunkError);
    }
  });
});
