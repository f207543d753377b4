/**
 * Columns of C2 tables that are not a frame as it lies [BS-05]: those of a table with deleted rows, and text of any length, which becomes
 * text of one length. Their chunks are made from the rows, as chunks of Blosc2.
 *
 * Loaded for such columns only. Knows the values of columns; must not know names in a store.
 */
import { at, elementsOf, keepLast } from "../bytes/arrays.ts";
import { decode as decodeBlosc2 } from "../codec2/decode.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import type { DType } from "../format/types.ts";
import { resolveRange } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import { putRow } from "../values/item-bytes.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { readFrame } from "./frame.ts";
import { unpackAll } from "./msgpack.ts";
import { Blosc2Store, frameStore } from "./zarr-view.ts";

/** Bytes of a chunk that is made: a chunk of this size can always be one block. */
const CHUNK_BYTES = 256 << 10;
/** Offsets to read at a time, and the longest run of deleted rows that is read with the rows around it. */
const STEP = 1 << 20;
const GAP = 1024;
/** Most bytes of the values of a list, which are in memory, and most characters of a text. */
const MAX_LIST = 256 << 20;
const MAX_TEXT = 1 << 18;
const KEPT = 4;

/** A frame: its store, and its key there. */
export interface Member {
  readonly store: ReadableStore;
  readonly key: string;
  /** Data type of its items, if the frame does not say. */
  readonly dtype?: DType;
  /** Number of rows, if the frame has room for more. */
  readonly rows?: number;
  /** Makes a store from frames, if the member is not a frame as it lies. */
  readonly make?: () => Promise<Blosc2Store>;
  /** What else its values come from: the text of its offsets, or the member that holds it. */
  readonly from?: readonly Member[];
  /** Error to throw when it is read. */
  readonly error?: SuperchunkError;
}

/** The rows of a table: the first ones, or those at `places`. */
export interface FrameRows {
  readonly count: number;
  readonly places?: Uint32Array;
}

/** Kinds of columns of text or bytes of any length. */
export type TextKind = "vlstring" | "vlbytes" | "utf8" | "dictionary";

/** A column: its frames, and the rows that the table has. */
export interface ColumnParts {
  readonly name: string;
  /** Undefined if its values are items of one length. */
  readonly textKind: TextKind | undefined;
  /** The values; the offsets of text; the codes of a dictionary. */
  readonly main: Member;
  /** The bytes of text; the values of a dictionary. */
  readonly extra: Member | undefined;
  readonly rows: FrameRows;
  /** Name in messages. */
  readonly path: string;
  /** True for the column that says which values are not null. */
  readonly isNotNull?: boolean;
}

/** Rows of a column as stored, with those that were deleted. */
interface Rows {
  readonly dtype: DType;
  /** Dimensions of an item. */
  readonly itemShape: readonly number[];
  readonly count: number;
  read(start: number, stop: number): Promise<Uint8Array>;
}

/** Makes the store of a column. @throws UNSUPPORTED for values that are neither text nor bytes; LIMIT; the codes of damage */
export async function columnStore(parts: ColumnParts): Promise<Blosc2Store> {
  const { rows: table, path, textKind, name } = parts;
  const rows = await rowsOf(parts);
  const { places } = table;
  const needed = places === undefined ? table.count : (places.at(-1) ?? -1) + 1;
  if (rows.count < needed) throw damaged(parts, `${needed} rows`, rows.count);
  const why =
    textKind === undefined
      ? "rows of the table were deleted in place"
      : `its values have variable length (${textKind}), and become items of one length`;
  const sizes = [parts.main, parts.extra].map(async (each) =>
    each === undefined ? 0 : ((await each.store.stat(each.key))?.size ?? 0),
  );
  return madeStore(places === undefined ? rows : picked(rows, places), {
    count: table.count,
    storedBytes: (await Promise.all(sizes)).reduce((sum, size) => sum + size),
    path: `${path}/${name}`,
    why,
  });
}

async function rowsOf(parts: ColumnParts): Promise<Rows> {
  const { textKind, main, extra, isNotNull = false } = parts;
  if (textKind === undefined) return frameRows(await arrayOf(parts, main), main.dtype);
  if (textKind === "vlstring" || textKind === "vlbytes") {
    const values = await listOf(parts, main);
    return isNotNull
      ? truths(values.length, async (start, stop) => values.slice(start, stop).map((each) => each !== null))
      : itemsOf(parts, values);
  }
  if (extra === undefined) throw damaged(parts, "a second frame with the text", "none");
  return textKind === "utf8" ? textRows(parts, await arrayOf(parts, extra)) : codeRows(parts, extra);
}

function damaged({ path, name }: ColumnParts, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `the column "${name}" should have ${expected}, not ${String(found)}; the store is damaged, or was not finished`,
    { path, field: name, expected, found },
  );
}

async function arrayOf(parts: ColumnParts, { store, key }: Member): Promise<ZarrArray> {
  const frame = await readFrame(store, key);
  if (frame === undefined) throw damaged(parts, "a frame", "none");
  return openZarrArray(frameStore(store, frame), "");
}

function frameRows(array: ZarrArray, dtype = array.dtype): Rows {
  const [count = 0, ...itemShape] = array.shape;
  const rest = itemShape.map(() => null);
  const read = (start: number, stop: number): Promise<Uint8Array> =>
    array.getBytes([{ start, stop, step: 1 }, ...rest]);
  return { dtype, itemShape, count, read };
}

function truths(count: number, read: (start: number, stop: number) => Promise<readonly boolean[]>): Rows {
  return {
    dtype: parseDType("|b1", ""),
    itemShape: [],
    count,
    read: async (start, stop) => Uint8Array.from(await read(start, stop), Number),
  };
}

/** The objects of a list of Python: each block of its chunks is a list in msgpack. */
async function listOf(parts: ColumnParts, { store, key }: Member): Promise<readonly unknown[]> {
  const frame = await readFrame(store, key);
  if (frame === undefined) throw damaged(parts, "a frame", "none");
  if (frame.nbytes > MAX_LIST) throw tooLong(parts, frame.nbytes, MAX_LIST);
  const values: unknown[] = [];
  for (const chunk of frame.chunks) {
    const { offset = 0, end = 0 } = "key" in chunk ? chunk : {};
    const bytes = await store.getRange(key, { offset, length: end - offset });
    if (bytes === undefined || end === 0) throw damaged(parts, "chunks of values", "others");
    try {
      const lists = unpackAll(await decodeBlosc2(bytes, { maxNbytes: frame.nbytes }));
      for (const list of lists) for (const value of list as unknown[]) values.push(value);
    } catch (error) {
      if (error instanceof SuperchunkError) throw error;
      throw damaged(parts, "lists in msgpack", "other bytes");
    }
  }
  return values;
}

function tooLong({ path, name }: ColumnParts, found: number, expected: number): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `values of ${found} bytes in the column "${name}"; ${expected} is the limit`,
    { path, field: name, expected, found },
  );
}

/** Values of variable length, which are in memory; null becomes an empty value. */
function itemsOf(parts: ColumnParts, values: readonly unknown[]): Rows {
  const { textKind, path, name } = parts;
  const isBytes = textKind === "vlbytes";
  const bad = values.find(
    (each) => each !== null && (isBytes ? !(each instanceof Uint8Array) : typeof each !== "string"),
  );
  const hasZero = isBytes && values.some((each) => each instanceof Uint8Array && each.at(-1) === 0);
  if (bad !== undefined || hasZero)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the column "${name}" has ${hasZero ? "values that end with a zero byte, which items of one length lose" : `values that are not ${isBytes ? "bytes" : "text"}`}; read it with python-blosc2`,
      { path, field: name },
    );
  if (!isBytes)
    return fixedText(
      parts,
      values.length,
      longestOf(values as readonly (string | null)[]),
      async (start, stop) => values.slice(start, stop) as string[],
    );
  const length = values.reduce<number>(
    (most, each) => Math.max(most, (each as Uint8Array | null)?.length ?? 0),
    1,
  );
  const read = async (start: number, stop: number): Promise<Uint8Array> => {
    const out = new Uint8Array((stop - start) * length);
    for (let i = start; i < stop; i++) out.set((values[i] as Uint8Array | null) ?? [], (i - start) * length);
    return out;
  };
  return { dtype: parseDType(`|S${length}`, path), itemShape: [], count: values.length, read };
}

function longestOf(texts: readonly (string | null)[]): number {
  return texts.reduce((most, text) => Math.max(most, [...(text ?? "")].length), 1);
}

/** Rows of text, in UTF-32. */
function fixedText(
  parts: ColumnParts,
  count: number,
  length: number,
  read: (start: number, stop: number) => Promise<readonly (string | null)[]>,
): Rows {
  if (length > MAX_TEXT) throw tooLong(parts, length, MAX_TEXT);
  const dtype = parseDType(`<U${length}`, parts.path);
  return {
    dtype,
    itemShape: [],
    count,
    read: async (start, stop) => {
      const view = new DataView(new ArrayBuffer((stop - start) * dtype.itemSize));
      for (const [i, text] of (await read(start, stop)).entries())
        putRow(view, i * dtype.itemSize, dtype, [], text ?? "");
      return new Uint8Array(view.buffer);
    },
  };
}

/** Text as offsets, one more than there are rows, and the bytes of all rows. */
async function textRows(parts: ColumnParts, bytes: ZarrArray): Promise<Rows> {
  const array = await arrayOf(parts, parts.main);
  const count = at(array.shape, 0) - 1;
  const offsets = async (start: number, stop: number): Promise<readonly number[]> => {
    const stored = await array.getBytes([{ start, stop: stop + 1, step: 1 }]);
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    const list = Array.from({ length: stop + 1 - start }, (_, i) => Number(view.getBigInt64(8 * i, true)));
    const isGood = list.every((each, i) => each >= (i === 0 ? 0 : at(list, i - 1)));
    if (array.dtype.itemSize === 8 && isGood && at(list, stop - start) <= at(bytes.shape, 0)) return list;
    throw damaged(parts, "offsets that ascend within its text", "others");
  };
  let longest = 1;
  for (let start = 0; start < count; start += STEP) {
    const list = await offsets(start, Math.min(count, start + STEP));
    longest = list.reduce((most, each, i) => Math.max(most, i === 0 ? 0 : each - at(list, i - 1)), longest);
  }
  return fixedText(parts, count, longest, async (start, stop) => {
    const list = await offsets(start, stop);
    const first = at(list, 0);
    const text = await bytes.getBytes([{ start: first, stop: at(list, stop - start), step: 1 }]);
    return list
      .slice(1)
      .map((end, i) => new TextDecoder().decode(text.subarray(at(list, i) - first, end - first)));
  });
}

/** Text as numbers of the values of a dictionary; a negative one is null. */
async function codeRows(parts: ColumnParts, dictionary: Member): Promise<Rows> {
  const codes = frameRows(await arrayOf(parts, parts.main));
  const values = await listOf(parts, dictionary);
  const read = async (start: number, stop: number): Promise<readonly number[]> => {
    const stored = await codes.read(start, stop);
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    return Array.from({ length: stop - start }, (_, i) => view.getInt32(4 * i, true));
  };
  if (codes.dtype.itemSize !== 4) throw damaged(parts, "codes of 4 bytes", codes.dtype.itemSize);
  if (parts.isNotNull === true)
    return truths(codes.count, async (start, stop) => (await read(start, stop)).map((code) => code >= 0));
  if (!values.every((each) => typeof each === "string"))
    throw damaged(parts, "text in its dictionary", "others");
  return fixedText(parts, codes.count, longestOf(values as readonly string[]), async (start, stop) =>
    (await read(start, stop)).map((code) => {
      const text = code < 0 ? null : (values[code] as string | undefined);
      if (text === undefined) throw damaged(parts, `codes below ${values.length}`, code);
      return text;
    }),
  );
}

/** The rows at `places`. Places close to one another are read together. */
function picked(rows: Rows, places: Uint32Array): Rows {
  const size = rows.dtype.itemSize * elementsOf(rows.itemShape);
  return {
    ...rows,
    read: async (start, stop) => {
      const out = new Uint8Array((stop - start) * size);
      for (let i = start, end = start; i < stop; i = end) {
        const first = at(places, i);
        do end++;
        while (end < stop && at(places, end) - at(places, end - 1) <= GAP);
        const bytes = await rows.read(first, at(places, end - 1) + 1);
        for (let k = i; k < end; k++) {
          const from = (at(places, k) - first) * size;
          out.set(bytes.subarray(from, from + size), (k - start) * size);
        }
      }
      return out;
    },
  };
}

interface Made {
  readonly count: number;
  readonly storedBytes: number;
  readonly path: string;
  readonly why: string;
}

/** The rows as a frame of one block per chunk, whose chunks are made when they are read. */
function madeStore({ dtype, itemShape, read }: Rows, { count, storedBytes, path, why }: Made): Blosc2Store {
  const rowBytes = dtype.itemSize * elementsOf(itemShape);
  const length = Math.max(1, Math.min(count, Math.floor(CHUNK_BYTES / Math.max(1, rowBytes))));
  const chunkBytes = length * rowBytes;
  const typesize = dtype.itemSize > 255 ? 1 : dtype.itemSize;
  const make = async (index: number): Promise<Uint8Array> => {
    const stop = Math.min(count, (index + 1) * length);
    const { encode } = await import("../codec2/index.ts");
    const bytes = await read(index * length, stop);
    return encode(bytes, { cname: "lz4", typesize, blocksize: chunkBytes, format: 2 });
  };
  const kept = new Map<string, Promise<Uint8Array>>();
  const get = (key: string): Promise<Uint8Array> => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const made = make(Number(key));
    keepLast(kept, key, made, KEPT);
    made.catch(() => kept.delete(key));
    return made;
  };
  const store: ReadableStore = {
    describe: () => path,
    get,
    async *list() {},
    getRange: async (key, range) => {
      const bytes = await get(key);
      const { offset, length: wanted } = resolveRange(range, bytes.length, key);
      return bytes.subarray(offset, offset + wanted);
    },
    stat: async (key) => ({ size: (await get(key)).length, version: "" }),
  };
  const chunks = Array.from({ length: Math.ceil(count / length) }, (_, i) => ({
    key: `${i}`,
    offset: 0,
    end: undefined,
  }));
  const nbytes = count * rowBytes;
  const sizes = { typesize: dtype.itemSize, nbytes, storedBytes, chunkBytes, blockBytes: chunkBytes };
  const facts = { path, version: "", codec: 1, clevel: 5, filters: [1], attrs: {}, attrsLeft: [] };
  const shape = [length, ...itemShape];
  return new Blosc2Store(
    store,
    { ...facts, ...sizes, chunks, metalayers: new Map() },
    { dtype, shape: [count, ...itemShape], chunks: shape, blocks: shape },
    why,
  );
}
