/** What a selection wants of one chunk: runs of bytes, and where they go. Must not know how chunks are read. */
import type { PlacedChunk } from "../places/sequence.ts";

/** Runs that lie closer together than this in a chunk are likely to be in blocks that are read together. */
const NEAR = 1 << 18;

/** The runs that fall into one chunk: from `source` in the chunk to `target` in the result, in bytes. */
export interface ChunkRuns {
  readonly index: number;
  place: PlacedChunk | undefined;
  /** Its object was opened for it. */
  isNew: boolean;
  readonly source: number[];
  readonly target: number[];
  readonly length: number[];
  bytes: number;
}

/** The same, once it is known where the chunk lies. */
export type PlacedRuns = ChunkRuns & { readonly place: PlacedChunk };

/** True once the place is known. */
export function isPlaced(runs: ChunkRuns): runs is PlacedRuns {
  return runs.place !== undefined;
}

/** Groups of runs that lie near one another: about as many requests as reading their blocks takes. */
export function countClusters({ source, length }: ChunkRuns): number {
  let clusters = 0;
  let end = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < source.length; i++) {
    const start = source[i] as number;
    if (start > end + NEAR || start < end - NEAR) clusters++;
    end = start + (length[i] as number);
  }
  return clusters;
}

/** Copies the runs `[first, end)` out of `from`, whose first byte is byte `base` of the chunk. */
export function copyOut(
  runs: ChunkRuns,
  first: number,
  end: number,
  from: Uint8Array,
  base: number,
  out: Uint8Array,
): void {
  for (let i = first; i < end; i++) {
    const source = (runs.source[i] as number) - base;
    const length = runs.length[i] as number;
    const target = runs.target[i] as number;
    if (length <= 16) for (let b = 0; b < length; b++) out[target + b] = from[source + b] as number;
    else out.set(from.subarray(source, source + length), target);
  }
}
