/** A hole of a damaged archive, as those who read or repair it learn of it. Types only. */

/** What stands where a chunk is missing or damaged. */
export type HolePolicy = "fill" | "drop" | "cut";

/** Rows that cannot be had. */
export interface Hole {
  /** Column, of tables and nested arrays. */
  readonly column?: string;
  /** Index of the chunk in its column. */
  readonly chunk: number;
  /** Rows `[from, to)`; of plain bytes the bytes. */
  readonly from: number;
  readonly to: number;
  /** How messages name the file. */
  readonly path: string;
  readonly offset?: number;
  readonly code: string;
  readonly reason: string;
}
