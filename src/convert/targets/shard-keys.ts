/** Where the shards of an array lie in the destination. */
import { joinKey } from "../../store/key.ts";
import { chunkKey } from "../../zarr/document/zarr-metadata.ts";
import type { ArrayJob, JobLayout } from "../plan/array-job.ts";
import { shardPosition } from "../plan/grid.ts";

/** Key of a shard; of a chunk where each is an object, as the only one of an array without dimensions. */
export function shardKey(prefix: string, job: ArrayJob, layout: JobLayout, shard: number): string {
  if (!layout.sharded && !layout.unequal) return joinKey(prefix, job.node, chunkKey([]));
  return joinKey(prefix, job.node, chunkKey(shardPlace(job, layout, shard)));
}

/** Position of a shard in the array's grid. */
export function shardPlace(job: ArrayJob, layout: JobLayout, shard: number): number[] {
  const stored = shardPosition(layout.shards, shard);
  const position = job.source.shape.length === 0 ? [] : layout.reversed ? stored.reverse() : stored;
  return [...position, ...job.type.itemShape.map(() => 0)];
}
