/**
 * The documents of referenced arrays: Zarr v3 with a regular or a rectilinear grid, dimensions named.
 *
 * Knows what readers of references need in documents; must not know where chunks lie.
 */
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { ArrayJob } from "../array-job.ts";

/** Rows of the chunks of an array, one number for each chunk along the first axis. */
export type RowCounts = readonly { readonly rows: number; readonly times: number }[];

/** The same array with a rectilinear grid: chunks of the given rows along the first axis, regular along the others. */
export function withRows(document: JsonObject, counts: RowCounts): JsonObject {
  const [, ...others] = chunkShapeOf(document);
  const merged: { rows: number; times: number }[] = [];
  for (const { rows, times } of counts) {
    const last = merged.at(-1);
    if (last?.rows === rows) last.times += times;
    else if (times > 0) merged.push({ rows, times });
  }
  const rows = merged.map(({ rows, times }): JsonValue => (times === 1 ? rows : [rows, times]));
  return {
    ...document,
    chunk_grid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [rows, ...others] } },
  };
}

/** Chunk shape of a document with a regular grid. */
export function chunkShapeOf(document: JsonObject): readonly number[] {
  const grid = document["chunk_grid"] as { configuration: { chunk_shape: readonly number[] } };
  return grid.configuration.chunk_shape;
}

/** The node's name in documents: a job's own path below the archive's. */
export function isColumnOf(job: ArrayJob, groups: ReadonlyMap<string, JsonObject>): boolean {
  const parent = job.node.includes("/") ? job.node.slice(0, job.node.lastIndexOf("/")) : "";
  return job.node !== "" && groups.has(parent);
}
