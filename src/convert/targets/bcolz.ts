/** bcolz's folders: carrays, and ctables. */
import { PROLOGUE } from "../../archive/places/sequence.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { parseFilled } from "../../format/layout.ts";
import { parseCarrayChunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import {
  type CarrayOptions,
  checkNames,
  commitCarray,
  commitTable,
  settleCarray,
} from "../../write/bcolz/bcolz-create.ts";
import { typesizeOf } from "../../write/bcolz/carray-settings.ts";
import { putRows } from "../../write/bcolz/carray-steps.ts";
import { type Column, compressionOf, isCutByRows, offeredRows } from "../sources/columns.ts";
import type { ColumnFormat, Piece } from "./column-target.ts";
import { isFolderDocument, otherRows, rowTasks, storedBytes } from "./folder-tasks.ts";

/**
 * bcolz 1.2 locates rows by the typesize that it would have given to Blosc; from a chunk with another one it returns wrong values.
 */
const NEEDS_TYPESIZE = { needsTypesize: true } as const;

export const BCOLZ: ColumnFormat = {
  format: "bcolz",
  isDocument: isFolderDocument,
  folders: (piece) => piece.columns.map((column) => folderOf(piece, column)),

  whyRecoded(piece) {
    const reason = whyNotRows(piece);
    if (reason !== undefined) return reason;
    for (const { dtype, settings } of piece.columns) {
      const needed = typesizeOf(dtype);
      if (settings.typesize !== undefined && settings.typesize !== needed)
        return `its chunks have typesize ${settings.typesize}, with which bcolz would find wrong rows; it needs ${needed}`;
    }
    return undefined;
  },

  whyRefused({ columns, table }) {
    for (const { dtype, shape } of columns) {
      if (shape.length === 0)
        return "bcolz stores rows, and an array without dimensions has none; convert it to npy or bloscpack";
      if (dtype.kind === "struct")
        return `bcolz does not open ${table === undefined ? "an array" : "a column"} of a structured dtype; convert it to blz, npy or bloscpack`;
      if (elementsOf(shape.slice(1)) * dtype.itemSize === 0)
        return "bcolz does not support rows of zero bytes; convert it to blz, npy or bloscpack";
    }
    const names = columns.map(({ name }) => name);
    const paths = columns.map(({ path }) => path);
    if (table !== undefined) checkNames(names, paths);
    return undefined;
  },

  tasks(piece, options) {
    return piece.columns.flatMap((column, index) => {
      const { chunklen, rowBytes } = carrayOf(column).settings;
      const own = { key: folderOf(piece, column), columns: [column] };
      return rowTasks(own, { rowsApart: chunklen, rowBytes, part: [index] }, options);
    });
  },

  /** The files of some chunks of a column. */
  async write(piece, context, [index = 0, first = 0, end = 0]) {
    const { store, signal } = context;
    const column = at(piece.columns, index);
    const encoder = context.copying(NEEDS_TYPESIZE);
    const data = context.watch(offeredRows(column, encoder, signal, [first, end]));
    const { settings } = carrayOf(column);
    const made = { store, path: folderOf(piece, column), settings, rows: first };
    const { rows, keys } = await putRows(made, data, { encoder, signal });
    if (rows !== end) throw otherRows(column, end - first, rows - first);
    await store.sync?.(keys, { signal });
  },

  async conclude(piece, context) {
    const { key, columns, table } = piece;
    const { store, options } = context;
    const replaces = options.overwrite === true;
    for (const column of columns) {
      const [path, made, rows] = [folderOf(piece, column), carrayOf(column), at(column.shape, 0)];
      // A short last chunk does not count.
      const whole = Math.floor(rows / made.settings.chunklen);
      const numbers = { numberOf: parseCarrayChunkName, first: 0, count: whole };
      const cbytes = (await storedBytes(context, joinKey(path, "data"), numbers)) - PROLOGUE * whole;
      const described = { attrs: column.attrs, filled: filledIn(column), replaces };
      await commitCarray(store, path, made, { rows, cbytes }, described);
    }
    const names = columns.map(({ name }) => name);
    if (table !== undefined) await commitTable(store, key, names, { attrs: table.attrs, replaces });
  },
};

function folderOf({ key, table }: Pick<Piece, "key" | "table">, { name }: Column): string {
  return table === undefined ? key : joinKey(key, name);
}

/** Why the chunks of columns cannot be copied into a folder; undefined if they can. */
export function whyNotRows({ columns }: Piece): string | undefined {
  const column = columns.find(({ chunks }) => chunks === undefined);
  if (column !== undefined) return column.whyRecoded ?? "its chunks cannot be copied";
  return columns.every(isCutByRows) ? undefined : "its chunks are not rows in C order";
}

/** Keeps the record of rows that a repair filled. [FG-15] */
function filledIn({ archive, path }: Column): CarrayOptions["filled"] {
  const { sizes } = (archive?.metadata ?? {}) as { readonly sizes?: JsonObject };
  return sizes === undefined ? undefined : parseFilled(sizes, path).filled;
}

function carrayOf({ dtype, shape, settings, chunks, fillValue }: Column): ReturnType<typeof settleCarray> {
  const [expectedLength, ...rowShape] = shape;
  const chunkLength = chunks?.chunkLength;
  const options = { compressor: compressionOf(settings), chunkLength, expectedLength, fillValue };
  return settleCarray({ dtype, rowShape }, options);
}
