/**
 * The array of an archive as a Zarr v3 array: a task for each shard, its chunks copied or recoded as the plan says.
 *
 * Knows shards and chunks of archives; must not know how arrays are ordered and published.
 */
import { joinKey } from "../../store/key.ts";
import { encodeDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ArrayRun, Task, TaskContext } from "../pipeline.ts";
import type { ArrayJob, JobLayout } from "../plan/array-job.ts";
import { cellItems, indexSlot, shardCells } from "../plan/grid.ts";
import { verifyArray } from "../run/verify-conversion.ts";
import { chunksOfCells } from "../sources/chunk-source.ts";
import { shardKey, shardPieces } from "./shard-files.ts";

/** Stops nothing. */
const NEVER = new AbortController().signal;

/** A planned array on its way below `prefix`. */
export function shardRun(job: ArrayJob, prefix: string): ArrayRun {
  const { archive } = job.source;
  const { layout } = job;
  return {
    node: job.node,
    path: archive.store.describe(archive.path),
    arrays: 1,
    nbytes: archive.nbytes,
    notes: job.notes.map((note) => (job.node === "" ? note : `${job.node}: ${note}`)),
    root: joinKey(prefix, job.node),
    keepsTasks: true,
    *tasks() {
      if (layout === undefined) return;
      for (let shard = 0; shard < layout.shards.count; shard++)
        yield {
          key: shardKey(prefix, job, layout, shard),
          part: [shard],
          nbytes: shardBytes(job, layout, shard),
        };
    },
    async run(task, context) {
      if (layout !== undefined) await writeShard(job, layout, task, context);
      return true;
    },
    documents: [{ key: joinKey(prefix, job.node, "zarr.json"), bytes: encodeDocument(job.document) }],
    compare: async (store, signal) => void (await verifyArray(job, store, prefix, { signal })),
  };
}

async function writeShard(
  job: ArrayJob,
  layout: JobLayout,
  { key, part: [shard = 0] }: Task,
  { store, counts, encoder, signal = NEVER, advance }: TaskContext,
): Promise<void> {
  const work = { job, layout, counts, encoder, signal, onChunk: advance };
  const chunks = chunksOfCells(work, shardCells(layout.shards, shard));
  const slots = (k: number): number => indexSlot(layout.shards, k, layout.reversed);
  const source = layout.sharded ? shardPieces(chunks, layout.shards.capacity, slots) : chunks;
  await store.put(key, source, { signal });
}

function shardBytes({ source }: ArrayJob, { cells, shards }: JobLayout, shard: number): number {
  const { first, end } = shardCells(shards, shard);
  let items = 0;
  for (let cell = first; cell < end; cell++) items += cellItems(cells, cell);
  return items * source.dtype.itemSize;
}
