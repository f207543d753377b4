/** Data types of Zarr arrays, numpy's next to Zarr's, and made-up values of each. */
import type { JsonValue } from "../../src/format/types.ts";

/** numpy's types, and the data types of Zarr v3 that every reader of it has. */
export const TYPES: Readonly<Record<string, string>> = {
  "|b1": "bool",
  "|i1": "int8",
  "|u1": "uint8",
  "<i2": "int16",
  "<u2": "uint16",
  "<i4": "int32",
  "<u4": "uint32",
  "<i8": "int64",
  "<u8": "uint64",
  "<f2": "float16",
  "<f4": "float32",
  "<f8": "float64",
  "<c8": "complex64",
  "<c16": "complex128",
};

/** Data types outside the specification, which only zarr-python has. */
export const EXTENSIONS: Readonly<Record<string, JsonValue>> = {
  "|S5": { name: "null_terminated_bytes", configuration: { length_bytes: 5 } },
  "<U3": { name: "fixed_length_utf32", configuration: { length_bytes: 12 } },
  "<M8[ns]": { name: "numpy.datetime64", configuration: { unit: "ns", scale_factor: 1 } },
  "|V3": { name: "raw_bytes", configuration: { length_bytes: 3 } },
  "<m8[s]": { name: "numpy.timedelta64", configuration: { unit: "s", scale_factor: 1 } },
};

/** Bytes of an item. */
export function sizeOf(dtype: string): number {
  const number = Number(/^.{2}(\d+)/.exec(dtype)?.[1]);
  return dtype.startsWith("<U") ? number * 4 : number;
}

/** A fill value that is not zero, as the document has it, and as an item. */
export function makeFill(dtype: string): { readonly json: JsonValue; readonly item: Uint8Array } {
  const item = new Uint8Array(sizeOf(dtype));
  const view = new DataView(item.buffer);
  switch (dtype) {
    case "|b1":
      item[0] = 1;
      return { json: true, item };
    case "<f2":
      view.setUint16(0, 0xc100, true);
      return { json: -2.5, item };
    case "<f4":
      view.setFloat32(0, -2.5, true);
      return { json: -2.5, item };
    case "<f8":
      view.setFloat64(0, -2.5, true);
      return { json: -2.5, item };
    case "<c8":
      [-2.5, 3.25].forEach((part, i) => {
        view.setFloat32(4 * i, part, true);
      });
      return { json: [-2.5, 3.25], item };
    case "<c16":
      [-2.5, 3.25].forEach((part, i) => {
        view.setFloat64(8 * i, part, true);
      });
      return { json: [-2.5, 3.25], item };
    default:
      item[0] = 113;
      return { json: 113, item };
  }
}

/** A mixture of values, and the fill value (zero unless given) where `isMissing`; items in C order, little-endian. */
export function makeItems(
  shape: readonly number[],
  dtype: string,
  isMissing: (item: number) => boolean,
  fill: Uint8Array = new Uint8Array(sizeOf(dtype)),
): Uint8Array {
  const size = sizeOf(dtype);
  const count = shape.reduce((product, n) => product * n, 1);
  const bytes = new Uint8Array(count * size);
  const view = new DataView(bytes.buffer);
  let state = 12345;
  for (let i = 0; i < count; i++) {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    if (isMissing(i)) {
      bytes.set(fill, i * size);
      continue;
    }
    const value = i % 7 === 0 ? state % 251 : i % 100;
    if (dtype === "|b1") bytes[i] = value % 2;
    else if (dtype === "<f2") view.setUint16(2 * i, 0x3c00 + (value % 512), true);
    else if (dtype === "<f4") view.setFloat32(4 * i, value / 7, true);
    else if (dtype === "<f8") view.setFloat64(8 * i, value / 7, true);
    else if (dtype === "<c8")
      for (const part of [0, 4]) view.setFloat32(8 * i + part, value / 3 - part, true);
    else if (dtype === "<c16")
      for (const part of [0, 8]) view.setFloat64(16 * i + part, value / 3 - part, true);
    else if (dtype === "<U3")
      for (const at of [0, 4]) view.setUint32(12 * i + at, 0x41 + ((value + at) % 26), true);
    else for (let byte = 0; byte < size; byte++) bytes[i * size + byte] = (value + byte * 37) & 0xff;
  }
  return bytes;
}
