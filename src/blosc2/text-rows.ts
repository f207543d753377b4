/**
 * Text and bytes of any length in columns of C2 tables [BS-05], as items of one length.
 *
 * Loaded for such columns only. Knows how values are stored; must not know which rows a table has.
 */
import { at } from "../bytes/arrays.ts";
import { decode as decodeBlosc2 } from "../codec2/decode.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { putRow } from "../values/item-bytes.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { readFrame } from "./frame.ts";
import { unpackAll } from "./msgpack.ts";
import { arrayOf, type ColumnParts, damaged, frameRows, type Member, type Rows } from "./rows.ts";

/** A mark of byte order at the start of a value is one of its characters. */
const TEXT = new TextDecoder("utf-8", { ignoreBOM: true });
/** Offsets to read at a time. */
const STEP = 1 << 20;
/** Most bytes of the values of a list, which are in memory, and most characters of a text. */
const MAX_LIST = 256 << 20;
const MAX_TEXT = 1 << 18;

/** The rows of such a column as stored. @throws UNSUPPORTED for values that are neither text nor bytes; LIMIT; the codes of damage */
export async function textRowsOf(parts: ColumnParts): Promise<Rows> {
  const { textKind, main, extra, isNotNull = false } = parts;
  if (textKind === "vlstring" || textKind === "vlbytes") {
    const values = await listOf(parts, main);
    return isNotNull
      ? truths(values.length, async (start, stop) => values.slice(start, stop).map((each) => each !== null))
      : itemsOf(parts, values);
  }
  if (extra === undefined) throw damaged(parts, "a second frame with the text", "none");
  return textKind === "utf8" ? textRows(parts, await arrayOf(parts, extra)) : codeRows(parts, extra);
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
  if (array.dtype.itemSize !== 8) throw damaged(parts, "offsets of 8 bytes", array.dtype.itemSize);
  const count = at(array.shape, 0) - 1;
  const offsets = async (start: number, stop: number): Promise<readonly number[]> => {
    const stored = await array.getBytes([{ start, stop: stop + 1, step: 1 }]);
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    const list = Array.from({ length: stop + 1 - start }, (_, i) => Number(view.getBigInt64(8 * i, true)));
    const isGood = list.every((each, i) => each >= (i === 0 ? 0 : at(list, i - 1)));
    if (isGood && at(list, stop - start) <= at(bytes.shape, 0)) return list;
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
    return list.slice(1).map((end, i) => TEXT.decode(text.subarray(at(list, i) - first, end - first)));
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
