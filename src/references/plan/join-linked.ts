/**
 * Linked archives as one array: their files are its shards, one behind the other along the first dimension.
 *
 * All must have shards of one shape, and all but the last end on a whole one. Must not know the forms in which references are
 * written. @see FORMAT.md [FL-02]
 */

import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { SuperchunkError } from "../../errors.ts";
import { JoinedArray } from "./joined-array.ts";
import type { LinkedArray } from "./linked-array.ts";
import type { ReferencedArray } from "./planned-array.ts";

/** Joins arrays that agree in all but their lengths. Throws `UNSUPPORTED`, with the reason, where their shards make no grid. */
export function joinLinked(node: string, arrays: readonly LinkedArray[]): ReferencedArray {
  const filled = arrays.filter(({ count }) => count > 0);
  const first = filled[0] ?? arrays[0];
  if (first === undefined) throw new RangeError(`no arrays at ${node}`);
  const [, ...others] = first.document["shape"] as readonly number[];
  const rows = filled.reduce((sum, { job }) => sum + (job.source.shape[0] ?? 0), 0);
  const document = { ...first.document, shape: [rows, ...others] };
  let shard = 0;
  const parts = filled.map((array, i) => {
    assertSameShards(first.job, array.job);
    if (i < filled.length - 1) assertWholeShards(array.job);
    const part = array.placedAt(document, shard);
    shard += array.count;
    return part;
  });
  return new JoinedArray(node, document, first.job, parts, first.sampledBytes);
}

const OTHERWISE = "refer to the chunks one by one, without --shards, or convert by copying";

function assertSameShards(first: ArrayJob, job: ArrayJob): void {
  const [expected, found] = [shardsOf(first), shardsOf(job)];
  if (expected === found) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its files are shards of ${found}, and those of ${pathOf(first)} are of ${expected}, but an array has shards of one shape; ${OTHERWISE}`,
    { path: pathOf(job), field: "shards", expected, found },
  );
}

function assertWholeShards(job: ArrayJob): void {
  const rows = job.source.shape[0] ?? 0;
  const perShard = job.layout?.shards.shape[0] ?? 1;
  if (rows % perShard === 0) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its last file is no whole shard: it has ${rows % perShard} of ${perShard} rows, and another archive follows; ${OTHERWISE}`,
    { path: pathOf(job), field: "shards", expected: perShard, found: rows % perShard },
  );
}

/** `4 chunks of 10 x 3 items`. */
function shardsOf({ layout }: ArrayJob): string {
  if (layout === undefined) return "nothing";
  const { capacity, shape, cells } = layout.shards;
  const chunk = shape.map((n, axis) => n / (cells[axis] ?? 1));
  return `${capacity} ${capacity === 1 ? "chunk" : "chunks"} of ${chunk.join(" x ")} items`;
}

function pathOf({ source: { archive } }: ArrayJob): string {
  return archive.store.describe(archive.path);
}
