/** Tables in files of Parquet, Arrow and CSV, with the face of a structured `.npy` file, which every writer of rows takes. */
import { createReadStream } from "node:fs";
import type { DType } from "../format/types.ts";
import type { StoreOptions } from "../store/types.ts";
import { packedRows, structOf, type TableFile } from "../tables/table-file.ts";
import { locate } from "./locate.ts";
import type { NpyFile } from "./npy-file.ts";

/** True for the name of a file that holds a table. */
export function isTableFile(name: string): boolean {
  return /\.(?:parquet|arrow|arrows|feather|csv)$/i.test(name);
}

/**
 * Opens a table. Types are those of the file; of CSV, and of the lengths of strings, what its values have in common, so that it is read
 * twice. NaN, NaT and the empty string stand for nulls.
 *
 * @param as what the rows are to become: columns are taken by their names, and values that do not fit are refused
 * @throws NOT_FOUND; BAD_FIELD, TRUNCATED for a file that is not whole; UNSUPPORTED for groups, maps and lists of several lengths;
 * BAD_ARGUMENT, when rows are read, for a value that its column cannot hold
 */
export async function openTableFile(
  location: string,
  { as, signal }: StoreOptions & { readonly as?: DType | undefined } = {},
): Promise<NpyFile> {
  const struct = as?.kind === "struct" ? as : undefined;
  const table = await openTable(location, { as: struct, signal });
  const dtype = struct ?? structOf(table.columns);
  const rows = (options: StoreOptions = {}): AsyncGenerator<Uint8Array> =>
    packedRows(table, dtype, options.signal);
  return {
    ...{ name: location, dtype, shape: [table.rows], order: "C", dataAt: 0 },
    ...{ nbytes: table.rows * dtype.itemSize, values: rows, rows },
  };
}

async function openTable(
  location: string,
  options: {
    readonly as: (DType & { readonly kind: "struct" }) | undefined;
    readonly signal: AbortSignal | undefined;
  },
): Promise<TableFile> {
  if (/\.csv$/i.test(location)) {
    const { openCsv } = await import("../tables/csv.ts");
    return openCsv(() => createReadStream(location, { highWaterMark: 4 << 20 }), location, options);
  }
  const { store, path } = await locate(location);
  if (/\.parquet$/i.test(location)) {
    const { openParquetTable } = await import("../tables/parquet.ts");
    return openParquetTable(store, path, options);
  }
  const { openArrowTable } = await import("../tables/arrow.ts");
  return openArrowTable(store, path, options);
}
