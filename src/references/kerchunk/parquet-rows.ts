/**
 * Rows of a Parquet file, kept by column: a hundred thousand rows as objects would take ten times as much memory.
 *
 * hyparquet does the decoding. Must not know what the columns mean.
 */
import type { ColumnData } from "hyparquet";
import { decodeStreamSync, prepare } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";

/** The rows of one file. */
export class ParquetRows {
  /** Rows of the file. */
  readonly count: number;
  readonly #columns: ReadonlyMap<string, readonly ColumnData[]>;

  constructor(pieces: readonly ColumnData[]) {
    const columns = new Map<string, ColumnData[]>();
    let count = 0;
    for (const piece of pieces) {
      const column = columns.get(piece.columnName);
      if (column === undefined) columns.set(piece.columnName, [piece]);
      else column.push(piece);
      count = Math.max(count, piece.rowEnd);
    }
    this.#columns = columns;
    this.count = count;
  }

  /** The value of a column in a row; undefined where there is none. */
  value(column: string, row: number): unknown {
    const piece = this.#columns.get(column)?.find(({ rowStart, rowEnd }) => row >= rowStart && row < rowEnd);
    return piece?.columnData[row - piece.rowStart];
  }
}

/** Decodes a file. Throws `BAD_FIELD` for what is no Parquet; `path` is what messages call it. */
export async function decodeParquetRows(bytes: Uint8Array, path: string): Promise<ParquetRows> {
  const [{ parquetRead }] = await Promise.all([import("hyparquet"), prepare("zstd")]);
  const pieces: ColumnData[] = [];
  try {
    await parquetRead({
      file: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer,
      utf8: false,
      compressors: { ZSTD: (input, length) => decodeStreamSync("zstd", input, length) },
      onChunk: (piece) => void pieces.push(piece),
    });
  } catch (cause) {
    if (isSuperchunkError(cause)) throw cause;
    throw new SuperchunkError("BAD_FIELD", "this file of references is no Parquet that can be read", {
      path,
      cause,
    });
  }
  return new ParquetRows(pieces);
}
