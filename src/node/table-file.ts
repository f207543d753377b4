/** Tables in files of Parquet, Arrow and CSV, with the interface of a structured `.npy` file, which every writer of rows accepts. */

import { createReadStream } from "node:fs";
import { checkOptions } from "../bytes/check-options.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { CopyingEncoder } from "../convert/sources/offered-chunks.ts";
import type { DType, JsonInput } from "../format/types.ts";
import type { StoreOptions } from "../store/types.ts";
import { type StructType, structOf } from "../tables/column-type.ts";
import {
  columnNamed,
  columnReader,
  offering,
  packedRows,
  type TableFile,
  type TableOptions,
} from "../tables/table-file.ts";
import { explainError } from "./fs/fs-handles.ts";
import { givenPath, locate, refuseFolder } from "./locate.ts";
import type { NpyFile } from "./npy-file.ts";
import { encoderOf } from "./threads/threads.ts";

/** Returns true for the name of a file that holds a table. */
export function isTableFile(name: string): boolean {
  return /\.(?:parquet|arrow|arrows|feather|csv|tsv)$/i.test(name);
}

/**
 * Carries compressed streams of a file over to a writer: an encoder that returns chunks made of these streams when the writer asks for the
 * values that they hold.
 */
export interface StreamCarrier {
  readonly encoder: ChunkEncoder & {
    /** Chunks made of streams of the file, and chunks that were compressed. */
    readonly copied: number;
    readonly recoded: number;
  };
  /** Rows of a chunk. A writer that cuts elsewhere finds no chunks. */
  readonly chunkLength: number;
  /** First row of the file at which a chunk begins; default 0. */
  readonly firstRow?: number;
}

/** The target of appended rows, which decides where chunks are cut. */
export interface CarryTarget {
  /** Rows of its chunks. */
  readonly chunkLength: number;
  /** Current number of rows. */
  readonly length: number;
}

/** A table with the interface of a structured `.npy` file. */
export interface NpyTable extends NpyFile {
  /**
   * Notes on types: columns of CSV that look like numbers or times but are text, each with the line and the value that made it so, and
   * decimals with more digits than float64. A note also names the columns that `as` leaves out. When rows were read, the notes also
   * count the missing texts that became empty.
   */
  readonly notes: readonly string[];
  /** User attributes that this library stored in the file; none in files of other programs. */
  readonly attrs: Readonly<Record<string, JsonInput>>;
  /**
   * Makes the rows read from now on come with the file's own streams. Pass the result's `encoder` and `chunkLength` when creating the
   * array, or its `encoder` when appending; an append carries only streams of the array's own codec over. Returns undefined if the file has
   * no streams that Blosc supports.
   *
   * @param target the array to append to; default: a new array
   */
  carry(target?: CarryTarget): Promise<StreamCarrier | undefined>;
  /** Reads one field of all rows; decodes only its column. Throws `NOT_FOUND`. */
  field(name: string): NpyFile;
}

/** Options of opening a table. */
export interface OpenTableOptions extends StoreOptions {
  /** Target type of the rows: columns are matched by name, and values that do not fit are refused. */
  readonly as?: DType | undefined;
  /** The columns of the rows, in this order, with the file's types; others are not read. Default: those of `as`, or all. */
  readonly columns?: readonly string[] | undefined;
  /** Result of `carry` from an earlier opening of the same file. */
  readonly carrier?: StreamCarrier | undefined;
}

/**
 * Opens a table. Types are those of the file. Types of CSV, and lengths of strings, are derived from the values, so the file is read twice.
 * NaN, NaT and the empty string stand for nulls.
 *
 * @throws NOT_FOUND; BAD_FIELD, TRUNCATED for an incomplete file; UNSUPPORTED for maps and lists of several lengths; BAD_ARGUMENT,
 * when rows are read, for a value that its column cannot hold
 */
export async function openTableFile(location: string, options: OpenTableOptions = {}): Promise<NpyTable> {
  checkOptions(options, "as carrier columns signal");
  const { as, columns, signal, carrier: given } = options;
  const struct = as?.kind === "struct" ? as : undefined;
  const table = await openTableAt(location, { as: struct, columns, signal });
  const dtype =
    struct ??
    structOf(columns ? [...new Set(columns)].map((name) => columnNamed(table, name)) : table.columns);
  let carrier = given;
  const readColumn = columnReader(table, dtype);
  const faceOf = (own: DType, rowShape: readonly number[], read: StructType, name?: string): NpyFile => {
    const rows = (options: StoreOptions = {}) => {
      const { signal } = options;
      const packed = name === undefined ? packedRows(table, read, signal) : readColumn(name, signal);
      if (!(carrier?.encoder instanceof CopyingEncoder)) return packed;
      return offering(packed, table, read, {
        taker: carrier.encoder,
        chunkRows: carrier.chunkLength,
        firstRow: carrier.firstRow ?? 0,
      });
    };
    const [shape, nbytes] = [[table.rows, ...rowShape], table.rows * read.itemSize];
    return { name: location, dtype: own, shape, order: "C", dataAt: 0, nbytes, values: rows, rows };
  };
  const field = (name: string): NpyFile => {
    const found = columnNamed({ columns: dtype.fields, path: location }, name);
    return faceOf(found.dtype, found.shape, structOf([found]), name);
  };
  const carry = async (target?: CarryTarget): Promise<StreamCarrier | undefined> => {
    carrier ??= await carrierOf(table, target);
    return carrier;
  };
  const left = columns
    ? []
    : table.columns.filter(({ name }) => !dtype.fields.some((each) => each.name === name));
  const names = left.map(({ name }) => name).join(", ");
  const without = left.length === 0 ? [] : [`left out, as the rows have no such column: ${names}`];
  table.notes.push(...without);
  return { ...faceOf(dtype, [], dtype), notes: table.notes, attrs: table.attrs ?? {}, field, carry };
}

async function carrierOf(
  table: TableFile,
  target: CarryTarget | undefined,
): Promise<StreamCarrier | undefined> {
  const chunks = await table.openChunks?.(table.columns.map(({ name }) => name));
  if (chunks === undefined) return undefined;
  await chunks.close();
  return {
    encoder: new CopyingEncoder(encoderOf(), { mostWaiting: MOST_WAITING, needsCodec: target !== undefined }),
    chunkLength: target?.chunkLength ?? chunks.rows,
    // The rows before it fill the array's last chunk.
    firstRow:
      target === undefined
        ? 0
        : -target.length + Math.ceil(target.length / target.chunkLength) * target.chunkLength,
  };
}

/** Bytes of CSV that are split at a time: values of more would outlive their first garbage collection. */
const CSV_BYTES = 1 << 18;

/** Most chunks that wait: those of all columns in the rows that are read at a time. */
const MOST_WAITING = 1024;

async function openTableAt(location: string, options: TableOptions): Promise<TableFile> {
  refuseFolder(location);
  const file = () => locate(location);
  if (/\.parquet$/i.test(location)) {
    const { openParquetTable } = await import("../tables/parquet.ts");
    return openParquetTable(file, options);
  }
  if (!/\.[ct]sv$/i.test(location)) return (await import("../tables/arrow.ts")).openArrowTable(file, options);
  const { openCsv } = await import("../tables/csv.ts");
  return openCsv(() => readText(location), location, options);
}

async function* readText(location: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(givenPath(location), { highWaterMark: CSV_BYTES });
  } catch (error) {
    throw explainError(error, location, "reading", false);
  }
}
