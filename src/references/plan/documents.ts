/**
 * The documents of referenced arrays: Zarr v3 with a regular or a rectilinear grid, dimensions named.
 *
 * Knows what readers of references need in documents; must not know where chunks lie.
 */

import type { ArrayJob } from "../../convert/plan/array-job.ts";
import type { JsonObject } from "../../format/types.ts";

/** The node's name in documents: a job's own path below the archive's. */
export function isColumnOf(job: ArrayJob, groups: ReadonlyMap<string, JsonObject>): boolean {
  const parent = job.node.includes("/") ? job.node.slice(0, job.node.lastIndexOf("/")) : "";
  return job.node !== "" && groups.has(parent);
}
