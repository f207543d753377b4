/** dtypes of one string: `float64`, `>f4`, `|S5`, `<M8[25s]`. @see FORMAT.md [FD.1] [FD.2] */
import { SuperchunkError } from "../errors.ts";
import type { ByteOrder, DType, TimeUnit } from "./types.ts";

/** Most bytes of an item: numpy's own limit. [FD-04] */
export const MAX_ITEM_SIZE: number = 2 ** 31 - 1;

/** numpy's names of plain types. [FD.1] */
const NAMES: Readonly<Record<string, string>> = {
  bool: "b1",
  bool_: "b1",
  int8: "i1",
  int16: "i2",
  int32: "i4",
  int64: "i8",
  uint8: "u1",
  uint16: "u2",
  uint32: "u4",
  uint64: "u8",
  float16: "f2",
  float32: "f4",
  float64: "f8",
  float96: "f12",
  float128: "f16",
  complex64: "c8",
  complex128: "c16",
  complex192: "c24",
  complex256: "c32",
  object: "O",
  object_: "O",
};

const SIZES: Readonly<Record<"b" | "i" | "u" | "f" | "c", readonly number[]>> = {
  b: [1],
  i: [1, 2, 4, 8],
  u: [1, 2, 4, 8],
  f: [2, 4, 8, 12, 16],
  c: [8, 16, 24, 32],
};
const KINDS = { i: "int", u: "uint", f: "float", c: "complex" } as const;

const UNITS: readonly string[] = [
  "Y",
  "M",
  "W",
  "D",
  "h",
  "m",
  "s",
  "ms",
  "us",
  "ns",
  "ps",
  "fs",
  "as",
  "generic",
];

const NUMBER = /^([<>=|]?)([biufc])(\d{1,3})$/;
const STRING = /^([<>=|]?)([SaUV])(\d{0,10})$/;
const TIME = /^([<>=|]?)([Mm])8(?:\[(\d{0,10})([A-Za-zµμ]+)\])?$/;
const TIME_NAME = /^(datetime|timedelta)64(\[.*\])?$/;
const OBJECT = /^\|?O(?:[48])?$/;

/** Parses one string without quotes. Throws `BAD_FIELD`, `UNSUPPORTED`. */
export function parseScalarDType(text: string, path: string): DType {
  const time = TIME_NAME.exec(text);
  const type =
    time === null ? (own(NAMES, text) ?? text) : `${time[1] === "datetime" ? "M8" : "m8"}${time[2] ?? ""}`;
  if (/^[<>=|]?\?$/.test(type)) return { kind: "bool", itemSize: 1, byteOrder: "none" };
  if (OBJECT.test(type)) return { kind: "object", itemSize: 8, byteOrder: "none" };
  const dtype = parseNumber(type, path) ?? parseString(type, path) ?? parseTime(type, path);
  if (dtype !== undefined) return dtype;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `the dtype ${JSON.stringify(text.slice(0, 80))} is not one that superchunk knows`,
    { path, field: "dtype", expected: "a numpy type", found: text },
  );
}

function own(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function parseNumber(type: string, path: string): DType | undefined {
  const [, order = "", letter = "", digits = ""] = NUMBER.exec(type) ?? [];
  if (letter !== "b" && letter !== "i" && letter !== "u" && letter !== "f" && letter !== "c")
    return undefined;
  const itemSize = Number(digits);
  if (!SIZES[letter].includes(itemSize))
    throw badDType(type, path, `one of ${SIZES[letter].join(", ")} bytes`);
  if (letter === "b") return { kind: "bool", itemSize: 1, byteOrder: "none" };
  return { kind: KINDS[letter], itemSize, byteOrder: itemSize === 1 ? "none" : orderOf(order) };
}

function parseString(type: string, path: string): DType | undefined {
  const [, order = "", letter = "", digits = ""] = STRING.exec(type) ?? [];
  if (letter === "") return undefined;
  const itemSize = Number(digits) * (letter === "U" ? 4 : 1);
  if (itemSize > MAX_ITEM_SIZE) throw badDType(type, path, `at most ${MAX_ITEM_SIZE} bytes`);
  if (letter === "U") return { kind: "unicode", itemSize, byteOrder: orderOf(order) };
  return { kind: letter === "V" ? "void" : "bytes", itemSize, byteOrder: "none" };
}

function parseTime(type: string, path: string): DType | undefined {
  const match = TIME.exec(type);
  if (match === null) return undefined;
  const [, order = "", letter, count, name = "generic"] = match;
  const scale = count === undefined || count === "" ? 1 : Number(count);
  if (!isTimeUnit(name)) throw badDType(type, path, `a time unit of ${UNITS.join(", ")}`);
  if (scale < 1 || scale > 0x7fff_ffff)
    throw badDType(type, path, "a count of time units from 1 to 2^31 - 1");
  return {
    kind: letter === "M" ? "datetime" : "timedelta",
    itemSize: 8,
    byteOrder: orderOf(order),
    unit: name,
    scale,
  };
}

function isTimeUnit(name: string): name is TimeUnit {
  return UNITS.includes(name);
}

/** Native order is little-endian: no program of this family ran on another machine. [FD-02] */
function orderOf(prefix: string): ByteOrder {
  return prefix === ">" ? "big" : "little";
}

/** The error for an invalid dtype. */
export function badDType(found: unknown, path: string, expected: string): SuperchunkError {
  const text = typeof found === "string" ? found : safeText(found);
  return new SuperchunkError(
    "BAD_FIELD",
    `the dtype ${JSON.stringify(text.slice(0, 80))} is invalid: expected ${expected}. The metadata are damaged; look for another copy`,
    { path, field: "dtype", expected, found },
  );
}

export function safeText(value: unknown): string {
  return (
    JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? part.toString() : part)) ??
    String(value)
  );
}
