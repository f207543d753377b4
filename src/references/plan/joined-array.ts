/**
 * One array with the chunks of several, one behind the other. Must not know how they come to fit.
 */

import type { ArrayJob } from "../../convert/plan/array-job.ts";
import type { JsonObject } from "../../format/types.ts";
import { chunkShapeOf } from "../../zarr/document/zarr-metadata.ts";
import { grownChunks, type ReferencedArray } from "./planned-array.ts";
import type { GuardedObject } from "./scanned-objects.ts";
import type { PlannedChunk, ReferenceCounts } from "./types.ts";

/** Arrays of several archives as one. */
export class JoinedArray implements ReferencedArray {
  readonly node: string;
  readonly document: JsonObject;
  readonly job: ArrayJob;
  readonly sampledBytes?: number;
  readonly #parts: readonly ReferencedArray[];

  /** The `parts` have the chunks at their places in this array. */
  constructor(
    node: string,
    document: JsonObject,
    job: ArrayJob,
    parts: readonly ReferencedArray[],
    sampledBytes?: number,
  ) {
    this.node = node;
    this.document = document;
    this.job = job;
    this.#parts = parts;
    if (sampledBytes !== undefined) this.sampledBytes = sampledBytes;
  }

  get count(): number {
    return this.#parts.reduce((sum, { count }) => sum + count, 0);
  }

  async *chunks(counts: ReferenceCounts, first = 0): AsyncGenerator<PlannedChunk> {
    let start = 0;
    for (const part of this.#parts) {
      if (first < start + part.count) yield* part.chunks(counts, Math.max(0, first - start));
      start += part.count;
    }
  }

  positionOf(cell: number): readonly number[] {
    const { part, start } = this.#partOf(cell);
    return part.positionOf(cell - start);
  }

  sample(cell: number): Promise<Uint8Array> {
    const { part, start } = this.#partOf(cell);
    return part.sample(cell - start);
  }

  async *recheck(): AsyncGenerator<GuardedObject> {
    for (const part of this.#parts) yield* part.recheck();
  }

  chunksOf(before: JsonObject): number | undefined {
    return grownChunks(before, this.document, this.count, chunkRows(this.document));
  }

  async firstInObject(cell: number): Promise<number> {
    const { part, start } = this.#partOf(cell);
    return start + (await part.firstInObject(cell - start));
  }

  #partOf(cell: number): { readonly part: ReferencedArray; readonly start: number } {
    let start = 0;
    for (const part of this.#parts) {
      if (cell < start + part.count) return { part, start };
      start += part.count;
    }
    throw new RangeError(`${this.node} has no chunk ${cell}`);
  }
}

/** Rows of a chunk in a regular grid. */
function chunkRows(document: JsonObject): number | undefined {
  const grid = document["chunk_grid"] as { readonly name: string };
  return grid.name === "regular" ? chunkShapeOf(document)[0] : undefined;
}
