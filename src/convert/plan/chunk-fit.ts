/**
 * Whether a chunk of an archive can stand for a cell of Zarr's grid as it is: the one rule for copies, references, views and
 * linked files.
 *
 * Knows lengths and compressors; must not know where chunks lie or go.
 */
import type { ChunkHeader } from "../../codec/types.ts";
import { type ArrayJob, bytesOfCell, type JobLayout } from "./array-job.ts";
import { cellItems } from "./grid.ts";

/** What must happen to a chunk: nothing, filled up to the length of its cell, or recompressed. */
export type ChunkFit = "copied" | "padded" | "recoded";

/** Bytes of the rows of a cell, as the archive has them: without padding. */
export function rowBytesOfCell({ source }: ArrayJob, { cells }: JobLayout, cell: number): number {
  return cellItems(cells, cell) * source.dtype.itemSize;
}

/** True for a cell with fewer rows than its length: its chunk is short, or has padding of its own already. */
export function mayBePadded(job: ArrayJob, layout: JobLayout, cell: number): boolean {
  return rowBytesOfCell(job, layout, cell) < bytesOfCell(job, layout, cell);
}

/** What must happen to the chunk with this header to be that of a cell. */
export function fitOf(
  job: ArrayJob,
  layout: JobLayout,
  cell: number,
  { nbytes, compressor, memcpyed }: Pick<ChunkHeader, "nbytes" | "compressor" | "memcpyed">,
): ChunkFit {
  const wanted = bytesOfCell(job, layout, cell);
  if (nbytes !== wanted) return nbytes < wanted ? "padded" : "recoded";
  // The Blosc of numcodecs, which zarr-python and Icechunk's users have, is built without snappy.
  return job.replacesSnappy && compressor === "snappy" && !memcpyed ? "recoded" : "copied";
}
