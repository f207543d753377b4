/**
 * Columns of C2 tables whose stored frame cannot be shown unchanged [BS-05]: those of a table with deleted rows, and text of any length,
 * which becomes text of one length. Their chunks are made from the rows.
 *
 * Loaded for such columns only. Knows the values of columns; must not know names in a store.
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { readFrame } from "./frame.ts";
import { frameStore, rowsStore } from "./open.ts";
import type { Blosc2Store } from "./zarr-view.ts";

/** The longest run of deleted rows that is read with the rows around it. */
const GAP = 1024;

/** A frame: its store, and its key there. */
export interface Member {
  readonly store: ReadableStore;
  readonly key: string;
  /** Data type of its items, if the frame does not say. */
  readonly dtype?: DType;
  /** Number of rows, if the frame has room for more. */
  readonly rows?: number;
  /** Makes a store from frames, if the stored frame cannot be shown unchanged. */
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
export interface Rows {
  readonly dtype: DType;
  /** Dimensions of an item. */
  readonly itemShape: readonly number[];
  readonly count: number;
  read(start: number, stop: number): Promise<Uint8Array>;
}

/**
 * Makes the store of a column, of its `stored` rows if they are text: a frame of one block per chunk, whose chunks are made when they are
 * read. @throws LIMIT; the codes of damage
 */
export async function columnStore(parts: ColumnParts, stored?: Rows): Promise<Blosc2Store> {
  const { path, textKind, name, main, extra } = parts;
  const { count, places } = parts.rows;
  const found = stored ?? frameRows(await arrayOf(parts, main), main.dtype);
  const needed = places === undefined ? count : (places.at(-1) ?? -1) + 1;
  if (found.count < needed) throw damaged(parts, `${needed} rows`, found.count);
  const why =
    textKind === undefined
      ? "rows of the table were deleted in place"
      : `its values have variable length (${textKind}), and become items of one length`;
  const { dtype, itemShape, read } = places === undefined ? found : picked(found, places);
  let storedBytes = 0;
  for (const each of [main, extra]) storedBytes += (each && (await each.store.stat(each.key))?.size) ?? 0;
  const named = { path: `${path}/${name}`, file: main.key, version: "" };
  const facts = { ...named, storedBytes, attrs: {}, attrsLeft: [] };
  return rowsStore(main.store, facts, { dtype, shape: [count, ...itemShape], why, read });
}

export function damaged({ path, name }: ColumnParts, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `the column "${name}" should have ${expected}, not ${String(found)}; the store is damaged, or was not finished`,
    { path, field: name, expected, found },
  );
}

export async function arrayOf(parts: ColumnParts, { store, key }: Member): Promise<ZarrArray> {
  const frame = await readFrame(store, key);
  if (frame === undefined) throw damaged(parts, "a frame", "none");
  return openZarrArray(frameStore(store, frame), "");
}

export function frameRows(array: ZarrArray, dtype: DType = array.dtype): Rows {
  const [count = 0, ...itemShape] = array.shape;
  const rest = itemShape.map(() => null);
  const read = (start: number, stop: number): Promise<Uint8Array> =>
    array.getBytes([{ start, stop, step: 1 }, ...rest]);
  return { dtype, itemShape, count, read };
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
