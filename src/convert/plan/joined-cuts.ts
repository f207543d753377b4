/**
 * How the chunks of several arrays lie in the rows of all of them: on the borders of a grid, or off them.
 *
 * Knows lengths only; must not read chunks.
 */

import type { LengthRun } from "../../zarr/document/unequal-cells.ts";
import type { SourceArray, UnevenChunks } from "../sources/source-array.ts";
import { addCopies, type CellCopies, countCopies } from "./cell-copies.ts";

/** The cuts of joined arrays. */
export interface JoinedCuts {
  /** Uncompressed bytes of a whole chunk in the grid of all. */
  readonly chunkBytes: number;
  /** Undefined where every chunk is a cell of that grid, in order. */
  readonly uneven: UnevenChunks | undefined;
}

/** Finds the cuts of arrays that have values each; there is one at least. */
export function findJoinedCuts(parts: readonly SourceArray[]): JoinedCuts {
  const first = parts[0]?.archive;
  // Archives of one short chunk each, all as long as one another, have a grid of their own.
  for (const own of [first?.chunkBytes ?? 1, first?.nbytes ?? 1])
    if (isWhole(parts, own)) return { chunkBytes: own, uneven: undefined };
  // A chunk that is alone may be as short as its rows: that is no length for those of all others.
  const many = parts.find(({ archive }) => archive.nchunks > 1);
  const { chunkBytes } = (many ?? parts[0])?.archive ?? { chunkBytes: 1 };
  const uneven = {
    reason: whyUneven(parts, chunkBytes),
    copies: copiesOf(parts, chunkBytes),
    lengths: lengthsOf(parts),
  };
  return { chunkBytes, uneven };
}

function isWhole(parts: readonly SourceArray[], chunkBytes: number): boolean {
  const copies = copiesOf(parts, chunkBytes);
  const chunks = parts.reduce((sum, { archive }) => sum + archive.nchunks, 0);
  return copies.length === 1 && countCopies(copies) === chunks;
}

/** Cells of `chunkBytes` that are chunks of a part as they lie. */
function copiesOf(parts: readonly SourceArray[], chunkBytes: number): readonly CellCopies[] {
  const copies: CellCopies[] = [];
  let start = 0;
  let chunk = 0;
  for (const [i, { archive }] of parts.entries()) {
    const { nbytes, nchunks } = archive;
    if (start % chunkBytes === 0) {
      const cell = start / chunkBytes;
      addCopies(copies, { cell, chunk, times: fittingChunks(archive, chunkBytes, i === parts.length - 1) });
    }
    start += nbytes;
    chunk += nchunks;
  }
  return copies;
}

/** Chunks of a part that are whole cells where it begins on a border; only at the end of all a cell may be short. */
function fittingChunks(archive: SourceArray["archive"], chunkBytes: number, isLast: boolean): number {
  const { nbytes, nchunks } = archive;
  if (!hasCellLength(archive, chunkBytes)) return 0;
  return isLast ? nchunks : Math.min(nchunks, Math.floor(nbytes / chunkBytes));
}

/** True where the chunks of a part are as long as cells; one that is alone may be shorter. */
function hasCellLength(
  { nbytes, nchunks, chunkBytes: own, chunkStarts }: SourceArray["archive"],
  chunkBytes: number,
): boolean {
  if (chunkStarts !== undefined) return false;
  return own === chunkBytes || (nchunks === 1 && nbytes <= chunkBytes);
}

/** Rows of each chunk; undefined where a chunk ends within a row. */
function lengthsOf(parts: readonly SourceArray[]): readonly LengthRun[] | undefined {
  const lengths: LengthRun[] = [];
  for (const { archive, dtype, shape, uneven } of parts) {
    if (uneven !== undefined) {
      if (uneven.lengths === undefined) return undefined;
      lengths.push(...uneven.lengths);
      continue;
    }
    const { nbytes, nchunks, chunkBytes } = archive;
    const rowBytes = shape.slice(1).reduce((bytes, n) => bytes * n, dtype.itemSize);
    if (nchunks > 1 && chunkBytes % rowBytes !== 0) return undefined;
    const last = nbytes - (nchunks - 1) * chunkBytes;
    lengths.push(
      { length: chunkBytes / rowBytes, times: nchunks - 1 },
      { length: last / rowBytes, times: 1 },
    );
  }
  return lengths;
}

/** The first part that does not fit, in words. */
function whyUneven(parts: readonly SourceArray[], chunkBytes: number): string {
  for (const [i, { archive, shape }] of parts.entries()) {
    const path = archive.store.describe(archive.path);
    const isLast = i === parts.length - 1;
    if (!hasCellLength(archive, chunkBytes))
      return `${path} has chunks of ${archive.chunkBytes} bytes, and others of ${chunkBytes}`;
    if (!isLast && archive.nbytes % chunkBytes !== 0)
      return `the last chunk of ${path} is short, with ${shape[0]} rows in all, and Zarr's regular grid has no short chunk in the middle`;
  }
  return "the chunks are of unequal lengths";
}
