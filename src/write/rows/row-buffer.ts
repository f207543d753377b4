/** Collects rows until they fill a chunk, each column separately. */
import { elementsOf } from "../../bytes/arrays.ts";
import { splitField } from "../../values/copy-items.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import type { ArraySettings } from "../layout/settings.ts";

export class RowBuffer {
  readonly chunklen: number;
  readonly #columns: readonly ColumnLayout[];
  readonly #itemSize: number;
  readonly #rowBytes: number;
  #buffers: Uint8Array[];
  #rows = 0;
  /** Counts the changes: with the same count it holds the same rows. */
  revision = 0;

  constructor(
    columns: readonly ColumnLayout[],
    { chunklen, dtype, rowShape }: Pick<ArraySettings, "chunklen" | "dtype" | "rowShape">,
  ) {
    this.#columns = columns;
    this.chunklen = chunklen;
    this.#itemSize = dtype.itemSize;
    this.#rowBytes = elementsOf(rowShape) * dtype.itemSize;
    this.#buffers = columns.map(() => new Uint8Array(0));
  }

  get rows(): number {
    return this.#rows;
  }
  set rows(rows: number) {
    this.#rows = rows;
    this.revision++;
  }

  /** Rows that still fit. */
  get room(): number {
    return this.chunklen - this.rows;
  }

  /** Takes as many whole rows of `items` as fit; returns their number. */
  take(items: Uint8Array): number {
    const rows = Math.min(this.room, items.length / this.#rowBytes);
    const part = items.length === rows * this.#rowBytes ? items : items.subarray(0, rows * this.#rowBytes);
    const first = this.rows;
    this.#reserve(first + rows);
    for (let i = 0; i < this.#columns.length; i++) {
      const column = this.#columns[i];
      const buffer = this.#buffers[i];
      if (column !== undefined && buffer !== undefined)
        splitField(part, this.#itemSize, column, buffer, first * column.rowBytes);
    }
    this.rows = first + rows;
    return rows;
  }

  /** The rows of a column as bytes: a view. */
  column(index: number): Uint8Array {
    const rowBytes = this.#columns[index]?.rowBytes ?? 0;
    return this.#buffers[index]?.subarray(0, this.rows * rowBytes) ?? new Uint8Array(0);
  }

  /** Replaces the contents by these rows of each column. */
  load(columns: readonly Uint8Array[], rows: number): void {
    this.rows = 0;
    this.#reserve(rows);
    columns.forEach((bytes, i) => {
      const rowBytes = this.#columns[i]?.rowBytes ?? 0;
      this.#buffers[i]?.set(bytes.subarray(0, rows * rowBytes));
    });
    this.rows = rows;
  }

  /** Empties the buffer. `keepsBytes`: what {@link column} returned is still in use. */
  clear(keepsBytes = false): void {
    this.rows = 0;
    if (keepsBytes) this.#buffers = this.#columns.map(() => new Uint8Array(0));
  }

  /** Makes room; buffers grow as needed, so an array with long chunks and few rows stays small. */
  #reserve(rows: number): void {
    this.#columns.forEach(({ rowBytes }, i) => {
      const buffer = this.#buffers[i];
      const needed = rows * rowBytes;
      if (buffer !== undefined && buffer.length >= needed) return;
      const length = Math.min(this.chunklen * rowBytes, Math.max(needed, 2 * (buffer?.length ?? 0), 4096));
      const grown = new Uint8Array(length);
      if (buffer !== undefined) grown.set(buffer);
      this.#buffers[i] = grown;
    });
  }
}
