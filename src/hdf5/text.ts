/**
 * Text of variable length: items hold places in heaps. It becomes text of one length, alone and as a member of a compound.
 *
 * Knows heaps and items; must not know where chunks lie.
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { ByteReader } from "../bytes/fields.ts";
import { MAX_NBYTES } from "../codec/header.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType, parseDType } from "../format/dtype.ts";
import type { JsonValue } from "../format/types.ts";
import { putRow } from "../values/item-bytes.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { type Hdf5Type, paddedBytes, partsOf, trimSpaces } from "./datatype.ts";
import { decodeUtf8, Fields, type Hdf5File } from "./file.ts";
import { type KeptHeaps, prepareHeaps, readHeapValue } from "./heaps.ts";

/** Bytes of a chunk that is made, and of stored items that are read at a time to find the longest text. */
const PIECE = 1 << 20;
const STEP = 4 << 20;
/** Bytes of text called UTF-8 that are read when the array is opened, to find out whether it is. */
const CHECKED = 4 << 20;
/** Most characters of a text. */
const MAX_TEXT = 1 << 18;
/** Most items, all of which are read when the array is opened. */
const MAX_ITEMS = 2 ** 28;

/** Items with text of one length, in chunks of about a mebibyte: runs of rows. */
interface TextArray {
  readonly numpy: JsonValue;
  readonly chunks: readonly number[];
  /** Number of chunks along the first dimension. */
  readonly count: number;
  readonly textBytes: number;
  readonly why: string;
  make(index: number): Promise<Uint8Array>;
}

/**
 * Shows an array of stored items as one of items with text of one length: the longest has that many bytes, and as many characters or fewer.
 * It becomes bytes if some of it is not UTF-8: for text that the file calls UTF-8, among the first {@link CHECKED} bytes.
 *
 * @throws LIMIT for very long text; UNSUPPORTED, when a chunk is made, for later text called UTF-8 that is not; the codes of damage
 */
export async function textArray(
  file: Hdf5File,
  stored: ZarrArray,
  { type, path }: { type: Hdf5Type; path: string },
): Promise<TextArray> {
  const { shape } = stored;
  const parts = partsOf(type);
  const perRow = elementsOf(shape.slice(1));
  const rows = shape.length === 0 ? 1 : at(shape, 0);
  const read = (start: number, stop: number): Promise<Uint8Array> =>
    stored.getBytes(shape.length === 0 ? [] : [{ start, stop, step: 1 }, ...shape.slice(1).map(() => null)]);
  const fieldsOf = (bytes: Uint8Array): Fields => new Fields(new ByteReader(bytes, path, 0), file);
  if (rows * perRow > MAX_ITEMS) throw overLimit("items of text", MAX_ITEMS, rows * perRow, path);
  const longest = parts.map(() => 1);
  const isText = parts.map(() => true);
  let textBytes = 0;
  const open = parts.filter(({ numpy }) => numpy === undefined).map(({ offset }) => offset);
  const [own = 1] = stored.chunkShape;
  const step = own * Math.max(1, Math.floor(STEP / Math.max(1, own * perRow * type.size)));
  for (let start = 0; start < rows && perRow > 0 && open.length > 0; start += step) {
    const fields = fieldsOf(await read(start, Math.min(rows, start + step)));
    const kept: KeptHeaps = new Map();
    if (textBytes <= CHECKED) await prepareHeaps(file, fields, type.size, open);
    for (const [p, part] of parts.entries())
      for (let item = part.offset; part.numpy === undefined && item < fields.length; item += type.size) {
        fields.at = item;
        const length = fields.uint32("length of a text");
        longest[p] = Math.max(at(longest, p), length);
        textBytes += length;
        fields.at = item;
        if (isText[p] === true && (part.type.isAscii === true || textBytes <= CHECKED))
          isText[p] = decodeUtf8(await readHeapValue(file, fields, 1, kept)) !== undefined;
      }
  }
  const most = Math.max(...longest);
  if (most > MAX_TEXT) throw overLimit("bytes in a text", MAX_TEXT, most, path);
  const texts = longest.map((length, p) => parseDType(`${isText[p] ? "<U" : "|S"}${length}`, path));
  const sizes = parts.map(({ type: { size }, numpy }, p) =>
    numpy === undefined ? at(texts, p).itemSize : size,
  );
  const offsets = sizes.map((_, p) => sizes.slice(0, p).reduce((sum, size) => sum + size, 0));
  const itemsize = sizes.reduce((sum, size) => sum + size, 0);
  const rowBytes = perRow * itemsize;
  if (rowBytes > MAX_NBYTES) throw overLimit("bytes in a row", MAX_NBYTES, rowBytes, path);
  const formats = parts.map(({ numpy }, p) => numpy ?? formatDType(at(texts, p)));
  const names = parts.map(({ name }) => name);
  const length = Math.max(1, Math.min(rows, Math.floor(PIECE / Math.max(1, rowBytes))));
  return {
    numpy: type.text !== undefined ? at(formats, 0) : { names, formats, offsets, itemsize },
    chunks: shape.map((each, d) => (d === 0 ? length : Math.max(1, each))),
    count: Math.ceil(rows / length) * Math.min(1, perRow),
    textBytes,
    why: !parts.some(({ numpy }) => numpy === undefined)
      ? "its text is padded with spaces, which are not part of it"
      : isText.includes(false)
        ? "its text has variable length and is not UTF-8, and becomes bytes of one length"
        : "its text has variable length, and becomes text of one length",
    make: async (index) => {
      const fields = fieldsOf(await read(index * length, Math.min(rows, (index + 1) * length)));
      const out = new Uint8Array(length * rowBytes);
      const view = new DataView(out.buffer);
      const kept: KeptHeaps = new Map();
      await prepareHeaps(file, fields, type.size, open);
      for (let item = 0; item * type.size < fields.length; item++)
        for (const [p, part] of parts.entries()) {
          fields.at = item * type.size + part.offset;
          const to = item * itemsize + at(offsets, p);
          const isStored = part.numpy !== undefined;
          const value = isStored
            ? fields.bytes(part.type.size, "a member")
            : await readHeapValue(file, fields, 1, kept);
          const step = paddedBytes(part.type);
          if (isStored && step > 0)
            for (let i = 0; i < value.length; i += step)
              out.set(trimSpaces(value.subarray(i, i + step)), to + i);
          else if (isStored || isText[p] === false) out.set(value, to);
          else putRow(view, to, at(texts, p), [], decodeItem(value, path));
        }
      return out;
    },
  };
}

function overLimit(what: string, expected: number, found: number, path: string): SuperchunkError {
  const summary = `it has ${found} ${what}; ${expected} is the limit. Read it with h5py`;
  return new SuperchunkError("LIMIT", summary, { path, field: "dtype", expected, found });
}

function decodeItem(bytes: Uint8Array, path: string): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "it has text that is not UTF-8. Read it with h5py, and write the bytes with a dtype of fixed length",
    { path, field: "text" },
  );
}
