/** Reads the values of arrays with zarrita, in this process. */
import { createHash } from "node:crypto";
import { type AsyncReadable, FileSystemStore } from "@zarrita/storage";
import * as zarr from "zarrita";
import type { FixtureDType } from "../fixtures/manifest.ts";
import type { Answer, Job } from "./answers.ts";

/** Answers every job with the values, or says why it cannot. */
export async function readWithZarrita(jobs: readonly Job[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const job of jobs) {
    try {
      answers.push(await read(job));
    } catch (error) {
      answers.push({ kind: "error", error: String(error) });
    }
  }
  return answers;
}

/** SHA-256 of the values of an array that zarrita has open, in C order. */
export async function hashValues(array: zarr.Array<zarr.DataType>, dtype: string): Promise<string> {
  const { bytes } = await readValues(array, readType(dtype));
  return createHash("sha256").update(bytes).digest("hex");
}

async function read({ path, dtype, fields }: Job): Promise<Answer> {
  const { shape, bytes } = fields === true ? await readFields(path, dtype) : await readArray(path, dtype);
  return { kind: "values", shape, sha256: createHash("sha256").update(bytes).digest("hex"), attrs: null };
}

/** A folder, or an address that serves one. */
function storeAt(path: string): AsyncReadable {
  return /^https?:/.test(path) ? new zarr.FetchStore(path) : new FileSystemStore(path);
}

/** Values in C order, in the asked byte order. */
interface ReadValues {
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

async function readArray(path: string, dtype: FixtureDType | undefined): Promise<ReadValues> {
  const array = await zarr.open.v3(zarr.root(storeAt(path)), { kind: "array" });
  return readValues(array, readType(dtype));
}

async function readValues(array: zarr.Array<zarr.DataType>, type: ItemType): Promise<ReadValues> {
  if (array.dtype !== type.name) throw new TypeError(`values are ${array.dtype}, not ${type.name}`);
  // For an array without dimensions `get` returns only the value, without its bytes.
  const { data, shape, stride } = await (array.shape.length === 0 ? array.getChunk([]) : zarr.get(array));
  // All types of TYPES have their values in one buffer, zarrita's own array of bool included.
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return { shape, bytes: gather(new Uint8Array(buffer, byteOffset, byteLength), shape, stride, type) };
}

/** Packed rows of a group with an array for each field. */
async function readFields(path: string, dtype: FixtureDType | undefined): Promise<ReadValues> {
  if (dtype === undefined || typeof dtype === "string")
    throw new TypeError("a group has no fields without a type");
  const columns: { values: Uint8Array; size: number }[] = [];
  let shape: readonly number[] = [];
  for (const [name, spelling] of dtype) {
    const column = await readArray(`${path}/${name}`, spelling);
    columns.push({ values: column.bytes, size: readType(spelling).size });
    shape = column.shape;
  }
  const rowSize = columns.reduce((sum, { size }) => sum + size, 0);
  const rows = shape[0] ?? 0;
  const bytes = new Uint8Array(rows * rowSize);
  let at = 0;
  for (const { values, size } of columns) {
    for (let row = 0; row < rows; row++)
      bytes.set(values.subarray(row * size, (row + 1) * size), row * rowSize + at);
    at += size;
  }
  return { shape, bytes };
}

interface ItemType {
  /** zarrita's name. */
  readonly name: string;
  /** In bytes. */
  readonly size: number;
  readonly bigEndian: boolean;
}

/** zarrita's names of the numpy types that it has. */
const TYPES: Readonly<Record<string, string>> = {
  b1: "bool",
  i1: "int8",
  i2: "int16",
  i4: "int32",
  i8: "int64",
  u1: "uint8",
  u2: "uint16",
  u4: "uint32",
  u8: "uint64",
  f2: "float16",
  f4: "float32",
  f8: "float64",
};

function readType(dtype: FixtureDType | undefined): ItemType {
  const spelling = typeof dtype === "string" ? dtype : "";
  const name = TYPES[spelling.slice(1)];
  if (name === undefined) throw new TypeError(`zarrita has no type for ${JSON.stringify(dtype)}`);
  return { name, size: Number(spelling.slice(2)), bigEndian: spelling.startsWith(">") };
}

/** The items of a strided array in C order. */
function gather(
  source: Uint8Array,
  shape: readonly number[],
  stride: readonly number[],
  { size, bigEndian }: ItemType,
): Uint8Array {
  const count = shape.reduce((product, length) => product * length, 1);
  const bytes = new Uint8Array(count * size);
  const position = shape.map(() => 0);
  for (let item = 0; item < count; item++) {
    const at = position.reduce((sum, index, axis) => sum + index * (stride[axis] ?? 0), 0) * size;
    const value = source.subarray(at, at + size);
    bytes.set(bigEndian ? value.slice().reverse() : value, item * size);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const next = (position[axis] ?? 0) + 1;
      position[axis] = next === shape[axis] ? 0 : next;
      if (position[axis] !== 0) break;
    }
  }
  return bytes;
}
