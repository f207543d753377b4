/** Tables in files of Parquet, Arrow and CSV, with the face of a structured `.npy` file, which every writer of rows takes. */
import { createReadStream } from "node:fs";
import type { DType } from "../format/types.ts";
import type { StoreOptions } from "../store/types.ts";
import {
  columnNamed,
  packedRows,
  type StructType,
  structOf,
  type TableFile,
  type TableOptions,
} from "../tables/table-file.ts";
import { locate } from "./locate.ts";
import type { NpyFile } from "./npy-file.ts";

/** True for the name of a file that holds a table. */
export function isTableFile(name: string): boolean {
  return /\.(?:parquet|arrow|arrows|feather|csv)$/i.test(name);
}

/** A table with the face of a structured `.npy` file. */
export interface NpyTable extends NpyFile {
  /** One field of all rows: its column alone is decoded. Throws `NOT_FOUND`. */
  field(name: string): NpyFile;
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
): Promise<NpyTable> {
  const struct = as?.kind === "struct" ? as : undefined;
  const table = await openTable(location, { as: struct, signal });
  const dtype = struct ?? structOf(table.columns);
  const faceOf = (own: DType, rowShape: readonly number[], read: StructType): NpyFile => {
    const rows = (options: StoreOptions = {}) => packedRows(table, read, options.signal);
    const [shape, nbytes] = [[table.rows, ...rowShape], table.rows * read.itemSize];
    return { name: location, dtype: own, shape, order: "C", dataAt: 0, nbytes, values: rows, rows };
  };
  const field = (name: string): NpyFile => {
    const found = columnNamed({ columns: dtype.fields, path: location }, name);
    return faceOf(found.dtype, found.shape, structOf([found]));
  };
  return { ...faceOf(dtype, [], dtype), field };
}

async function openTable(location: string, options: TableOptions): Promise<TableFile> {
  const file = () => locate(location);
  if (/\.parquet$/i.test(location)) {
    const { openParquetTable } = await import("../tables/parquet.ts");
    return openParquetTable(file, options);
  }
  if (!/\.csv$/i.test(location)) return (await import("../tables/arrow.ts")).openArrowTable(file, options);
  const { openCsv } = await import("../tables/csv.ts");
  return openCsv(() => createReadStream(location, { highWaterMark: 4 << 20 }), location, options);
}
