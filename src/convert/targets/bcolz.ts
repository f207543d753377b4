/** bcolz's folders: carrays, and ctables. */
import { at, elementsOf } from "../../bytes/arrays.ts";
import { parseFilled } from "../../format/layout.ts";
import type { JsonObject } from "../../format/types.ts";
import { type CarrayOptions, createCarray, createTable } from "../../write/bcolz/bcolz-create.ts";
import { typesizeOf } from "../../write/bcolz/carray-settings.ts";
import type { ColumnTable } from "../pipeline.ts";
import { type Column, compressionOf, isCutByRows, offeredRows } from "../sources/columns.ts";
import { type ColumnFormat, isFolderDocument, type Piece, type PieceContext } from "./column-target.ts";

/**
 * bcolz 1.2 locates rows by the typesize that it would have given to Blosc; from a chunk with another one it returns wrong values.
 */
const NEEDS_TYPESIZE = { needsTypesize: true } as const;

export const BCOLZ: ColumnFormat = {
  format: "bcolz",
  isDocument: isFolderDocument,

  whyRecoded(piece) {
    const reason = whyNotRows(piece);
    if (reason !== undefined) return reason;
    for (const { dtype, settings } of piece.columns) {
      const needed = typesizeOf(dtype);
      if (settings.typesize !== undefined && settings.typesize !== needed)
        return `its chunks are of elements of ${settings.typesize} bytes, by which bcolz would find wrong rows; it needs ${needed}`;
    }
    return undefined;
  },

  whyRefused({ columns, table }) {
    for (const { dtype, shape } of columns) {
      if (shape.length === 0)
        return "an array without dimensions has no rows, as bcolz would have it; convert it to npy or bloscpack";
      if (dtype.kind === "struct")
        return `bcolz opens no ${table === undefined ? "array" : "column"} of a structured dtype; convert it to blz, npy or bloscpack`;
      if (elementsOf(shape.slice(1)) * dtype.itemSize === 0)
        return "bcolz has no rows of zero bytes; convert it to blz, npy or bloscpack";
    }
    return undefined;
  },

  async write({ key, columns, table }, context) {
    if (table !== undefined) await writeTable(context, table, columns, key);
    else await writeArray(context, at(columns, 0), key);
  },
};

/** Why the chunks of columns cannot be copied into a folder; undefined if they can. */
export function whyNotRows({ columns }: Piece): string | undefined {
  const column = columns.find(({ chunks }) => chunks === undefined);
  if (column !== undefined) return column.whyRecoded ?? "its chunks cannot be copied";
  return columns.every(isCutByRows) ? undefined : "its chunks are not rows in C order";
}

async function writeArray(context: PieceContext, column: Column, key: string): Promise<void> {
  const encoder = context.copying(NEEDS_TYPESIZE);
  const { dtype, shape, attrs } = column;
  const data = context.watch(offeredRows(column, encoder, context.signal));
  const options = { ...columnOptions(column), attrs, encoder, signal: context.signal };
  await createCarray(context.store, key, { dtype, rowShape: shape.slice(1), data }, options);
}

async function writeTable(
  context: PieceContext,
  table: ColumnTable,
  columns: readonly Column[],
  key: string,
): Promise<void> {
  const { signal } = context;
  // One encoder for all columns: it compares bytes, so columns are not mixed up.
  const encoder = context.copying(NEEDS_TYPESIZE);
  const sources = columns.map((column) => {
    const { name, dtype, shape, attrs } = column;
    const options = { ...columnOptions(column), ...(Object.keys(attrs).length === 0 ? {} : { attrs }) };
    const data = context.watch(offeredRows(column, encoder, signal));
    return { name, dtype, rowShape: shape.slice(1), data, options };
  });
  await createTable(context.store, key, sources, { attrs: table.attrs, encoder, signal });
}

/** Keeps the record of rows that a repair filled. [FG-15] */
function filledIn({ archive, path }: Column): CarrayOptions["filled"] {
  const { sizes } = (archive?.metadata ?? {}) as { readonly sizes?: JsonObject };
  return sizes === undefined ? undefined : parseFilled(sizes, path).filled;
}

function columnOptions(column: Column): CarrayOptions {
  return {
    compressor: compressionOf(column.settings),
    chunkLength: column.chunks?.chunkLength,
    expectedLength: column.shape[0],
    fillValue: column.fillValue,
    filled: filledIn(column),
  };
}
