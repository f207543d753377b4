/** HDF5 datatypes in numpy's notation, as in h5py; values of attributes, fill values and dimension scales as JSON. */
import { at, elementsOf, roundUp } from "../bytes/arrays.ts";
import { ByteReader } from "../bytes/fields.ts";
import { isSuperchunkError, isUnreadable } from "../errors.ts";
import { noteFloat } from "../format/json-float.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { fromHalf } from "../values/item-bytes.ts";
import { nest } from "../values/values.ts";
import { base64 } from "../zarr/document/zarr-dtype.ts";
import { decodeText, decodeUtf8, Fields, type Hdf5File } from "./file.ts";
import { readHeapValue } from "./heaps.ts";

export interface Hdf5Type {
  /** Bytes of an item. */
  readonly size: number;
  /** As in numpy's `descr`, or `{names, formats, offsets, itemsize}`; undefined if no array here can hold it. */
  readonly numpy: JsonValue | undefined;
  /** Name for messages. */
  readonly name: string;
  /** For text: of fixed or variable length. */
  readonly text?: "fixed" | "variable";
  /** For text: true if the file says ASCII, as programs do that store other encodings. */
  readonly isAscii?: boolean;
  /** For text of fixed length: true if spaces follow it, as in Fortran, which are not part of it. */
  readonly isPadded?: boolean;
  /** For array types: the dimensions, and the type of their items. */
  readonly sub?: { readonly dims: readonly number[]; readonly item: Hdf5Type };
  /** The members of a compound, except a complex number; `numpy` is undefined for those that prevent a numpy name. */
  readonly members?: readonly Member[];
}

export interface Member {
  readonly name: string;
  readonly offset: number;
  readonly type: Hdf5Type;
  readonly numpy: JsonValue | undefined;
}

const MAX_DEPTH = 16;
const MAX_MEMBERS = 65_536;

/** IEEE floats by size in bytes: bit of the sign, bit and length of the exponent, bit and length of the mantissa, bias. */
const IEEE: Readonly<Record<number, string>> = {
  2: "15,10,5,0,10,15",
  4: "31,23,8,0,23,127",
  8: "63,52,11,0,52,1023",
};

/** Names of other floats, by their size and the same facts. */
const OTHER_FLOATS: Readonly<Record<string, string>> = {
  "1,7,3,4,0,3,7": "float8_e4m3",
  "1,7,2,5,0,2,15": "float8_e5m2",
  "2,15,7,8,0,7,127": "bfloat16",
  "16,79,64,15,0,64,16383": "long double of x86",
  "16,127,112,15,0,112,16383": "float128",
};

/** Skips the offset and the number of a type's bits. Returns true if they cover the whole item. */
function isPlain(fields: Fields, size: number): boolean {
  const offset = fields.uint16("bit offset");
  return fields.uint16("bits of a number") === size * 8 && offset === 0;
}

/** What a datatype is in. `isPytables`: PyTables wrote the dataset, and stores booleans as eight bits. */
type Outer = { readonly depth?: number; readonly isPytables?: boolean };

/** Reads a datatype message. Throws the codes of damage; `numpy` is undefined for a type without a numpy name. */
export function readDatatype(fields: Fields, { depth = 0, isPytables = false }: Outer = {}): Hdf5Type {
  const inner = { depth: depth + 1, isPytables };
  const head = fields.uint8("class of a datatype");
  const bits = fields.uint(3, "bits of a datatype");
  const size = fields.uint32("size of a datatype");
  const version = head >> 4;
  if (depth > MAX_DEPTH) throw fields.bad("depth of a datatype", `at most ${MAX_DEPTH}`, depth);
  if (version < 1 || version > 5) throw fields.bad("version of a datatype", "1 to 5", version);
  const order = (bits & 1) === 1 ? ">" : "<";
  const named = (letter: string, known: readonly number[]): JsonValue | undefined =>
    known.includes(size) ? `${size === 1 ? "|" : order}${letter}${size}` : undefined;
  switch (head & 15) {
    case 0: {
      const numpy = isPlain(fields, size) ? named((bits & 8) === 8 ? "i" : "u", [1, 2, 4, 8]) : undefined;
      return {
        size,
        name: numpy === undefined ? "integers that do not fill their bytes" : "integers",
        numpy,
      };
    }
    case 1: {
      const isWhole = isPlain(fields, size);
      const places = [0, 0, 0, 0].map(() => fields.uint8("place of a float's part"));
      const bias = fields.uint32("bias of a float");
      const [, exponent, , mantissa] = places;
      const found = [(bits >> 8) & 0xff, ...places, bias].join();
      const isIeee = isWhole && (bits & 0x70) === 0x20 && found === IEEE[size];
      const known = OTHER_FLOATS[`${size},${found}`];
      const form = `floats of ${size} byte${size === 1 ? "" : "s"} with ${exponent} bits of exponent and ${mantissa} of mantissa`;
      return {
        size,
        name: isIeee ? "floats" : known === undefined ? form : `${known} (${form})`,
        numpy: isIeee ? named("f", [2, 4, 8]) : undefined,
      };
    }
    case 2: {
      // Only PyTables writes times: seconds, or seconds above and microseconds below.
      fields.skip(2);
      const part = `${order}i4`;
      const names = order === "<" ? ["microseconds", "seconds"] : ["seconds", "microseconds"];
      const both = { names, formats: [part, part], offsets: [0, 4], itemsize: 8 };
      return { size, name: "a time", numpy: size === 4 ? part : size === 8 ? both : undefined };
    }
    case 3:
      return {
        size,
        name: "text",
        numpy: `|S${size}`,
        text: "fixed",
        isAscii: (bits & 0xf0) === 0,
        isPadded: (bits & 15) === 2,
      };
    case 4: {
      const letter = isPytables && size === 1 ? "b" : "u";
      return { size, name: "bits", numpy: isPlain(fields, size) ? named(letter, [1, 2, 4, 8]) : undefined };
    }
    case 5: {
      // The length of the tag is padded to eight bytes. h5py stores numpy's name of a time there.
      const tag = decodeText(fields.bytes(bits & 0xff, "tag of opaque bytes"));
      const [, time = `|V${size}`] = /^NUMPY:([<>][mM]8\[\w+\])$/.exec(tag) ?? [];
      return { size, name: "opaque bytes", numpy: size === 8 ? time : `|V${size}` };
    }
    case 6:
      return readCompound(fields, { size, version, count: bits & 0xffff }, inner);
    case 7:
      return { size, name: "references", numpy: undefined };
    case 8:
      return readEnum(fields, { size, version, count: bits & 0xffff }, inner);
    case 9: {
      const item = readDatatype(fields, inner);
      const isText = (bits & 15) === 1;
      return {
        size,
        name: isText ? "text of variable length" : `lists of variable length (of ${item.name})`,
        numpy: undefined,
        ...(isText ? { text: "variable", isAscii: (bits & 0xf00) === 0 } : { sub: { dims: [-1], item } }),
      };
    }
    case 10: {
      const rank = fields.uint8("dimensions of a sub-array");
      if (version < 3) fields.skip(3);
      const dims = Array.from({ length: rank }, () => fields.uint32("length of a sub-array"));
      if (version < 3) fields.skip(4 * rank);
      const item = readDatatype(fields, inner);
      return { size, name: "a sub-array", numpy: undefined, sub: { dims, item } };
    }
    case 11: {
      const part = readDatatype(fields, inner);
      return { size, name: `complex numbers (of ${part.name})`, numpy: complexOf(part.numpy, size) };
    }
    default:
      return { size, name: `a datatype of class ${head & 15}`, numpy: undefined };
  }
}

/** The items of a type: those of a sub-array, whose dimensions follow those of the dataset, as in h5py. */
export function itemOf(type: Hdf5Type): { readonly type: Hdf5Type; readonly dims: readonly number[] } {
  const { sub } = type;
  if (sub === undefined || sub.dims.includes(-1) || sub.dims.includes(0)) return { type, dims: [] };
  const inner = itemOf(sub.item);
  return { type: inner.type, dims: [...sub.dims, ...inner.dims] };
}

interface CompoundHead {
  readonly size: number;
  readonly version: number;
  readonly count: number;
}

function readCompound(fields: Fields, { size, version, count }: CompoundHead, inner: Outer): Hdf5Type {
  if (count > MAX_MEMBERS) throw fields.bad("members of a compound", `at most ${MAX_MEMBERS}`, count);
  const offsetSize = size < 1 << 8 ? 1 : size < 1 << 16 ? 2 : size < 1 << 24 ? 3 : 4;
  const members: Member[] = [];
  for (let i = 0; i < count; i++) {
    const start = fields.at;
    const name = fields.text("name of a member");
    if (version < 3) fields.pad(start);
    const offset = fields.uint(version < 3 ? 4 : offsetSize, "offset of a member");
    let dims: number[] = [];
    if (version === 1) {
      const rank = fields.uint8("dimensions of a member");
      if (rank > 4) throw fields.bad("dimensions of a member", "at most 4", rank);
      fields.skip(11);
      dims = Array.from({ length: 4 }, () => fields.uint32("length of a member")).slice(0, rank);
    }
    const read = readDatatype(fields, inner);
    const { size, name: what, numpy } = read;
    const type =
      dims.length === 0
        ? read
        : { size: size * elementsOf(dims), name: what, numpy, sub: { dims, item: read } };
    const { type: item, dims: more } = itemOf(read);
    const shape = [...dims, ...more];
    const isOne = shape.length === 0 || item.numpy === undefined;
    members.push({ name, offset, type, numpy: isOne ? item.numpy : [item.numpy, shape] });
  }
  const bad = members.find(({ numpy }) => numpy === undefined);
  if (bad !== undefined)
    return {
      size,
      name: `a compound whose member "${bad.name}" has ${bad.type.name}`,
      numpy: undefined,
      members,
    };
  const names = members.map(({ name }) => name);
  const formats = members.map(({ numpy }) => numpy ?? null);
  const offsets = members.map(({ offset }) => offset);
  // h5py and PyTables store complex numbers this way.
  const [real, imaginary] = formats;
  const isPair = names.join() === "r,i" && offsets.join() === `0,${size / 2}` && real === imaginary;
  const complex = isPair ? complexOf(real, size) : undefined;
  if (complex !== undefined) return { size, name: "complex", numpy: complex };
  return { size, name: "a compound", numpy: { names, formats, offsets, itemsize: size }, members };
}

/** The complex number of two floats; undefined if numpy has none. */
function complexOf(part: JsonValue | undefined, size: number): string | undefined {
  const isFloat = typeof part === "string" && part.endsWith(`f${size / 2}`) && size > 4;
  return isFloat ? `${part.slice(0, 1)}c${size}` : undefined;
}

/** An enumeration of FALSE (0) and TRUE (1) is a boolean of h5py; others are read as their integers. */
function readEnum(fields: Fields, { size, version, count }: CompoundHead, inner: Outer): Hdf5Type {
  if (count > MAX_MEMBERS) throw fields.bad("members of an enumeration", `at most ${MAX_MEMBERS}`, count);
  const base = readDatatype(fields, inner);
  const names: string[] = [];
  for (let i = 0; i < count; i++) {
    const start = fields.at;
    names.push(fields.text("name of a member"));
    if (version < 3) fields.pad(start);
  }
  const values = fields.bytes(count * base.size, "values of an enumeration");
  const isTruth =
    size === 1 && count === 2 && names.every((name, i) => name === ["FALSE", "TRUE"][at(values, i)]);
  return { size, name: `an enumeration (of ${base.name})`, numpy: isTruth ? "|b1" : base.numpy };
}

/** Most values of an attribute to read. */
const MAX_VALUES = 100_000;

/** What an attribute holds. */
export interface AttributeValue {
  readonly type: Hdf5Type;
  /** Lengths of its dimensions; undefined if it is empty. */
  readonly dims: readonly number[] | undefined;
  readonly data: Fields;
}

/**
 * Converts an attribute to JSON: numbers, text, and lists of these. Undefined for other types: compounds, complex numbers, references,
 * opaque bytes (including pickles, which are never decoded).
 */
async function attributeJson(
  file: Hdf5File,
  { type, dims, data }: AttributeValue,
): Promise<JsonValue | undefined> {
  if (dims === undefined) return null;
  const count = elementsOf(dims);
  if (count > MAX_VALUES) return undefined;
  const values: JsonValue[] = [];
  for (let i = 0; i < count; i++) {
    const value = await itemJson(file, type, data.part(type.size, "value of an attribute"));
    if (value === undefined) return undefined;
    values.push(value);
  }
  return nest(values, dims) as JsonValue;
}

async function itemJson(file: Hdf5File, type: Hdf5Type, item: Fields): Promise<JsonValue | undefined> {
  const { text, isPadded = false, isAscii = false, size } = type;
  if (text === undefined) return numberJson(type.numpy, item.bytes(size, "a value"));
  const stored = text === "fixed" ? item.bytes(size, "text") : await readHeapValue(file, item, 1);
  const bytes = isPadded ? trimSpaces(stored) : stored;
  // Mostly Latin-1: a byte is a character.
  return isAscii ? decodeText(bytes, (byte) => String.fromCharCode(byte)) : decodeUtf8(bytes);
}

/** Text without the spaces after it. */
export function trimSpaces(text: Uint8Array): Uint8Array {
  return text.subarray(0, text.findLastIndex((byte) => byte !== 0x20) + 1);
}

/** A number, or a boolean; undefined for other types. */
function numberJson(numpy: JsonValue | undefined, bytes: Uint8Array): JsonValue | undefined {
  const [, order, kind] = /^(.)([biuf])\d$/.exec(typeof numpy === "string" ? numpy : "") ?? [];
  if (kind === undefined) return undefined;
  if (kind === "b") return bytes[0] !== 0;
  const ordered = order === ">" ? bytes : bytes.slice().reverse();
  if (kind === "f") {
    const value = floatOf(new DataView(ordered.buffer, ordered.byteOffset, ordered.byteLength));
    return Number.isFinite(value) ? value : String(value);
  }
  const bits = ordered.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const value = kind === "i" ? BigInt.asIntN(8 * bytes.length, bits) : bits;
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** A float of 2, 4 or 8 bytes, the highest first. */
function floatOf(view: DataView): number {
  if (view.byteLength > 2) return view.byteLength === 4 ? view.getFloat32(0) : view.getFloat64(0);
  return fromHalf(view.getUint16(0));
}

/** Reads the parts of an attribute. `unshared` reads a part that other objects share. */
export async function readAttribute(
  fields: Fields,
  dims: (part: Fields) => readonly number[] | undefined,
  unshared: (part: Fields) => Promise<Fields>,
): Promise<{ readonly name: string; readonly value: AttributeValue }> {
  const version = fields.uint8("version of an attribute");
  const flags = fields.uint8("flags of an attribute");
  const [nameSize, typeSize, spaceSize] = ["name", "datatype", "dataspace"].map((what) =>
    fields.uint16(`length of the ${what}`),
  ) as [number, number, number];
  if (version === 3) fields.skip(1);
  const padded = (length: number): number => (version === 1 ? roundUp(length, 8) : length);
  const name = decodeText(fields.bytes(padded(nameSize), "name of an attribute").subarray(0, nameSize));
  const typePart = fields.part(padded(typeSize), "datatype of an attribute");
  const space = fields.part(padded(spaceSize), "dataspace of an attribute");
  const own = (part: Fields, bit: number): Fields | Promise<Fields> =>
    version > 1 && (flags & bit) !== 0 ? unshared(part) : part;
  const type = readDatatype(await own(typePart, 1));
  return {
    name,
    value: { type, dims: dims(await own(space, 2)), data: fields.part(fields.left, "value of an attribute") },
  };
}

/** Address of the first scale of each dimension, from the attribute `DIMENSION_LIST`: references in lists of variable length. */
export async function scalesOf(
  file: Hdf5File,
  { dims = [], data }: AttributeValue,
): Promise<readonly (number | undefined)[]> {
  const scales: (number | undefined)[] = [];
  const [count = 0] = dims;
  data.at = 0;
  while (scales.length < count) {
    const bytes = await readHeapValue(file, data, file.offsetSize);
    const reference = new Fields(new ByteReader(bytes, file.path, 0), file);
    scales.push(bytes.length === 0 ? undefined : reference.address("a reference"));
  }
  return scales;
}

/** A dataset that has a scale. */
export interface ScaleUser {
  readonly address: number;
  readonly dimension: number;
}

/** The datasets that have a scale, and along which dimension, from its attribute `REFERENCE_LIST`. */
export function usersOf({ type, dims = [], data }: AttributeValue): readonly ScaleUser[] {
  // An address and a number take 12 bytes at most.
  const count = Math.min(elementsOf(dims), Math.floor(data.length / Math.max(12, type.size)));
  return Array.from({ length: count }, (_, i) => {
    data.at = i * type.size;
    return { address: data.address("a reference") ?? -1, dimension: data.uint32("a dimension") };
  });
}

/** True for errors of bytes that must not prevent reading an array. After those of the store, the next read may succeed. */
export function isHarmless(error: unknown): boolean {
  return isUnreadable(error) || isSuperchunkError(error, "LIMIT");
}

/** The attributes that can be read, by name, and the names of the others. */
export async function attributesJson(
  file: Hdf5File,
  attributes: readonly { readonly name: string; readonly value: AttributeValue }[],
): Promise<{ readonly attrs: JsonObject; readonly left: readonly string[] }> {
  const attrs = new Map<string, JsonValue>();
  const left: string[] = [];
  for (const { name, value } of attributes) {
    try {
      const json = await attributeJson(file, value);
      // Two names can look alike if one is not UTF-8.
      if (json === undefined || attrs.has(name)) left.push(name);
      else attrs.set(name, json);
    } catch (error) {
      if (!isHarmless(error)) throw error;
      left.push(name);
    }
  }
  const json = Object.fromEntries(attrs);
  for (const { name, value } of attributes)
    if (/^.f/.test(String(value.type.numpy)) && value.type.text === undefined)
      noteFloats(json, name, json[name]);
  return { attrs: json, left };
}

/** Notes that the whole numbers in a member are floats. */
function noteFloats(container: object, name: string | number, value: JsonValue | undefined): void {
  if (Array.isArray(value)) for (const [i, each] of value.entries()) noteFloats(value, i, each);
  else if (Number.isInteger(value)) noteFloat(container, name, Number(value));
}

/** The fill value in Zarr v2: numbers as they are, times as integers, the bytes of all other types in base64. */
export function fillJson(numpy: JsonValue, fill: Uint8Array): JsonValue {
  if (typeof numpy !== "string" || numpy[1] === "V" || numpy[1] === "S") return base64(fill);
  const half = fill.length / 2;
  if (numpy[1] === "c")
    return [0, half].map((at) => numberJson(`${numpy[0]}f${half}`, fill.subarray(at, at + half)) ?? 0);
  const value = numberJson(numpy.replace(/[mM](8).*/, "i$1"), fill) ?? 0;
  if (value !== "NaN") return value;
  const bits = numpy[0] === ">" ? fill : fill.slice().reverse();
  const hex = bits.reduce((text, byte) => text + byte.toString(16).padStart(2, "0"), "0x");
  return /^0x7(?:e|fc|ff8)0+$/.test(hex) ? value : hex;
}

/** The value of a list of one, as netCDF shows it. */
export function onlyOf(value: JsonValue): JsonValue {
  const [only = value, ...others] = Array.isArray(value) ? (value as readonly JsonValue[]) : [];
  return others.length === 0 ? only : value;
}

/** The attribute `_FillValue`, which netCDF keeps as a list of one, as xarray reads it from Zarr v3: floats in base64, as 8 bytes. */
export function fillAttribute(numpy: JsonValue | undefined, value: JsonValue): JsonValue {
  const only = onlyOf(value);
  if (typeof numpy !== "string" || numpy[1] !== "f" || Array.isArray(only)) return only;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Number(only), true);
  return base64(new Uint8Array(view.buffer));
}

/** The parts of items: members, or the items themselves. */
export function partsOf(type: Hdf5Type): readonly Member[] {
  return type.text === undefined ? (type.members ?? []) : [{ name: "", offset: 0, type, numpy: type.numpy }];
}

/** Bytes of a text with spaces after it, which a part is or has many of; 0 for other parts. */
export function paddedBytes(type: Hdf5Type): number {
  const { isPadded, size } = itemOf(type).type;
  return isPadded === true ? size : 0;
}

/** True for items that are shown with text of one length (text.ts): with text of variable length, not deeper inside than in a member, or with spaces after it. */
export function hasText(type: Hdf5Type): boolean {
  const parts = partsOf(type);
  return (
    parts.some(({ type }) => type.text === "variable" || paddedBytes(type) > 0) &&
    parts.every(({ type: { text }, numpy }) => text === "variable" || numpy !== undefined)
  );
}
