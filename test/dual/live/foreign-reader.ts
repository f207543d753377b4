/**
 * A reader of Zarr v3 arrays that knows nothing of superchunks: it reads a document, then indexes, then opens the
 * paths again. It reads missing objects as the fill value, like all readers. Written only for these tests.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { crc32c } from "../../../src/bytes/checksum.ts";
import { decode } from "../../../src/codec/index.ts";

/** What a reader knows of an array. */
export interface Document {
  readonly shape: readonly number[];
  readonly fill_value: number;
  readonly chunk_grid: { readonly configuration: { readonly chunk_shape: readonly number[] } };
  readonly codecs: readonly [{ readonly configuration: { readonly chunk_shape: readonly number[] } }];
}

/** Bytes of a path that an index pointed to. */
export interface Range {
  readonly shard: string;
  readonly offset: number;
  readonly nbytes: number;
}

/** What a reader knows after it has read the document and every index. */
export interface Reading {
  readonly rows: number;
  readonly rowItems: number;
  readonly fill: number;
  readonly chunkRows: number;
  /** The place of every inner chunk of the shape, or undefined. */
  readonly chunks: readonly (Range | undefined)[];
}

/** Throws if there is none. */
export function readDocument(root: string): Document {
  return JSON.parse(fs.readFileSync(join(root, "zarr.json"), "utf8")) as Document;
}

/** What a reader knows of one shard after it has read the document and that shard's index. */
export interface ShardReading extends Reading {
  /** The array's first row in it. */
  readonly first: number;
}

/** Reads the index of each shard of an earlier document; those that cannot be read are left out. */
export async function beginShards(root: string, document: Document): Promise<ShardReading[]> {
  const { rows, shardRows, tail } = shapeOf(document);
  const readings: ShardReading[] = [];
  for (let first = 0; first < rows; first += shardRows) {
    const one = { ...document, shape: [Math.min(shardRows, rows - first), ...tail] };
    try {
      readings.push({ first, ...(await beginReading(root, one, first / shardRows)) });
    } catch {
      // Its values are errors.
    }
  }
  return readings;
}

/**
 * The values by an earlier document, with everything else as it is now: undefined if an index or a chunk cannot be
 * read, the fill value if there is no shard or no chunk.
 */
export async function readByDocument(root: string, document: Document): Promise<(number | undefined)[]> {
  const { rows, rowItems } = shapeOf(document);
  const values = new Array<number | undefined>(rows * rowItems).fill(undefined);
  for (const reading of await beginShards(root, document)) {
    const found = await finishReading(root, reading);
    values.splice(reading.first * rowItems, found.length, ...found);
  }
  return values;
}

/** Reads the document and the indexes. Throws if a shard has no valid index. */
export async function beginReading(root: string, document = readDocument(root), from = 0): Promise<Reading> {
  const { rows, tail, shardRows, chunkRows, rowItems } = shapeOf(document);
  const capacity = shardRows / chunkRows;
  const chunks: (Range | undefined)[] = [];
  for (let shard = 0; shard * shardRows < rows; shard++) {
    const path = ["c", from + shard, ...tail.map(() => 0)].join("/");
    const entries = fs.existsSync(join(root, path))
      ? await readIndex(join(root, path), capacity)
      : new Array<undefined>(capacity).fill(undefined);
    for (const entry of entries)
      if (chunks.length * chunkRows < rows) chunks.push(entry && { shard: path, ...entry });
  }
  return { rows, rowItems, fill: document.fill_value, chunkRows, chunks };
}

function shapeOf(document: Document): {
  readonly rows: number;
  readonly tail: readonly number[];
  readonly shardRows: number;
  readonly chunkRows: number;
  readonly rowItems: number;
} {
  const [rows = 0, ...tail] = document.shape;
  const [shardRows = 1] = document.chunk_grid.configuration.chunk_shape;
  const [chunkRows = 1] = document.codecs[0].configuration.chunk_shape;
  return { rows, tail, shardRows, chunkRows, rowItems: tail.reduce((product, n) => product * n, 1) };
}

async function readIndex(
  path: string,
  capacity: number,
): Promise<({ offset: number; nbytes: number } | undefined)[]> {
  const length = capacity * 16 + 4;
  const index = readPart(path, (size) => ({ offset: size - length, nbytes: length }));
  if (index.length < length) throw new RangeError(`${path} is shorter than an index`);
  if ((await crc32c(index.subarray(0, -4))) !== index.readUInt32LE(length - 4))
    throw new RangeError(`${path}: checksum of the index`);
  return Array.from({ length: capacity }, (_, slot) => {
    const [offset, nbytes] = [index.readBigUInt64LE(slot * 16), index.readBigUInt64LE(slot * 16 + 8)];
    return offset === 2n ** 64n - 1n && nbytes === offset
      ? undefined
      : { offset: Number(offset), nbytes: Number(nbytes) };
  });
}

/** The bytes that a range has now: fewer past the end of the file. */
export function readRange(root: string, range: Range): Uint8Array {
  return readPart(join(root, range.shard), () => range);
}

/** Part of a file, using its size: shards have long holes. */
function readPart(path: string, partOf: (size: number) => Omit<Range, "shard">): Buffer {
  const file = fs.openSync(path, "r");
  try {
    return readAt(file, partOf(fs.fstatSync(file).size));
  } finally {
    fs.closeSync(file);
  }
}

/** Bytes of an open file: fewer past its end. */
export function readAt(file: number, { offset, nbytes }: Omit<Range, "shard">): Buffer {
  if (offset < 0) return Buffer.alloc(0);
  const bytes = Buffer.alloc(nbytes);
  return bytes.subarray(0, fs.readSync(file, bytes, 0, nbytes, offset));
}

/** The values, as numbers of int32, if the paths are opened only now; undefined if a chunk cannot be decoded. */
export async function finishReading(root: string, reading: Reading): Promise<(number | undefined)[]> {
  const { rows, rowItems, fill, chunkRows, chunks } = reading;
  const values: (number | undefined)[] = [];
  for (const range of chunks) {
    const items = await readChunk(root, range);
    for (let i = 0; i < chunkRows * rowItems; i++) values.push(range === undefined ? fill : items?.[i]);
  }
  return values.slice(0, rows * rowItems);
}

/** Like readers of parts of chunks, it does not check whether the chunk is as long as the document says. */
async function readChunk(root: string, range: Range | undefined): Promise<Int32Array | undefined> {
  if (range === undefined) return undefined;
  try {
    const bytes = await decode(readRange(root, range));
    return new Int32Array(bytes.slice().buffer);
  } catch {
    return undefined;
  }
}

/** All values. Throws if one cannot be read. */
export async function readForeign(root: string): Promise<number[]> {
  const values = await finishReading(root, await beginReading(root));
  return values.map((value, i) => {
    if (value === undefined) throw new RangeError(`value ${i} cannot be read`);
    return value;
  });
}
