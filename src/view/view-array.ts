/**
 * One array of a view: which of its chunks a key stands for, and the bytes of that chunk.
 *
 * Knows how positions in Zarr's grid become chunks of the archive; must not know documents or other arrays.
 */
import { at } from "../bytes/at.ts";
import { encodeHere } from "../codec/index.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import type { ArrayJob } from "../convert/plan/array-job.ts";
import type { CellGrid } from "../convert/plan/grid.ts";
import { type ChunkWork, chunksOfCells } from "../convert/sources/chunk-source.ts";

/** A number as Zarr writes it into a key: without sign and leading zeros. */
const INDEX = /^(?:0|[1-9]\d{0,15})$/;

/** Number of the cell that the parts of a key after the array's path name; undefined where there is none. */
export function parseChunkKey(job: ArrayJob, parts: readonly string[]): number | undefined {
  const { layout, source, type } = job;
  const [prefix, ...indices] = parts;
  const dimensions = source.shape.length;
  if (layout === undefined || prefix !== "c" || indices.length !== dimensions + type.itemShape.length)
    return undefined;
  if (!indices.every((text) => INDEX.test(text))) return undefined;
  const position = indices.map(Number);
  // Items are never cut: the dimensions that they bring have one chunk.
  if (position.slice(dimensions).some((index) => index !== 0)) return undefined;
  if (dimensions === 0) return 0;
  const own = position.slice(0, dimensions);
  return cellAt(layout.cells, layout.reversed ? own.reverse() : own);
}

/** Number of the cell at a position in the stored order; undefined outside of the grid. */
function cellAt(cells: CellGrid, position: readonly number[]): number | undefined {
  let cell = 0;
  for (const [axis, index] of position.entries()) {
    const count = axis < cells.axis ? at(cells.shape, axis) : axis === cells.axis ? cells.along : 1;
    if (index >= count) return undefined;
    cell = cell * count + index;
  }
  return cell;
}

/** A chunk as a view hands it out. */
export interface ReadCell {
  readonly bytes: Uint8Array;
  /** It is not the archive's own chunk, but was filled up or compressed again. */
  readonly isMade: boolean;
}

/** Which chunk of an array is read, and how. */
export interface CellRequest extends Pick<ChunkWork, "job" | "layout" | "signal" | "buffers"> {
  readonly cell: number;
  /** Default: the codec of this thread. */
  readonly encoder?: ChunkEncoder | undefined;
}

/**
 * The bytes of a chunk as a whole Zarr chunk, the caller's own, or in one of the `buffers` taken out. Headers and digests are
 * checked; a chunk that is damaged or missing throws, and is never shown as fill values.
 */
export async function readCell({ cell, encoder = encodeHere, ...request }: CellRequest): Promise<ReadCell> {
  const { job, buffers } = request;
  const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  const range = { first: cell, end: cell + 1 };
  const { readInto } = job.source.archive.store;
  for await (const bytes of chunksOfCells({ ...request, encoder, counts, onChunk: () => undefined }, range)) {
    const isMade = counts.copied === 0;
    // Nothing else is read into the buffer that it lies in, but that may be far larger, or another's.
    const isOwn =
      !isMade &&
      readInto !== undefined &&
      (buffers !== undefined || bytes.buffer.byteLength < 2 * bytes.length);
    return { bytes: isOwn ? bytes : bytes.slice(), isMade };
  }
  throw new RangeError(`cell ${cell} gave no chunk`);
}
