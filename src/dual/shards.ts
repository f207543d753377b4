/**
 * Which data files of an archive become which shards: every file is one shard, and every shard holds as many chunks.
 *
 * Reads metadata and chunk headers only. Must not know files beyond their keys, and must not write.
 * @see FORMAT.md [FL-01] [FL-02]
 */
import { requireSettled } from "../archive/journal/array-journal.ts";
import type { Archive } from "../archive/kinds/types.ts";
import type { ArrayJob, JobLayout } from "../convert/plan/array-job.ts";
import { assertConvertible, type ConversionJobs, planJobs } from "../convert/plan/conversion-jobs.ts";
import { indexSlot, shardCells } from "../convert/plan/grid.ts";
import { shardKey } from "../convert/targets/shard-keys.ts";
import type { JsonObject } from "../format/types.ts";
import { encodeNodes } from "../zarr/document/zarr-metadata.ts";
import { type DataFile, describeOddities, type FormerSizes, listFiles, unlinkable } from "./data-files.ts";
import type { LinkOptions } from "./types.ts";

/** A data file that becomes a shard. */
export interface LinkedShard {
  readonly job: ArrayJob;
  readonly layout: JobLayout;
  /** Key of the data file. */
  readonly path: string;
  /** Key of the shard. */
  readonly link: string;
  /** Chunks of the array in the file: `[first, first + chunks.length)`. */
  readonly first: number;
  readonly chunks: DataFile["chunks"];
}

/** The slot of the index that leads to chunk `k` of the file. */
export function slotOf({ layout }: LinkedShard, k: number): number {
  return indexSlot(layout.shards, k, layout.reversed);
}

/** Everything that linking an archive comprises. */
export interface LinkedArchive {
  readonly shards: readonly LinkedShard[];
  /** The arrays that the shards are of. */
  readonly jobs: readonly ArrayJob[];
  readonly groups: ConversionJobs["groups"];
  /** Keys and bytes, in the order in which they are published: the root's last. */
  readonly documents: readonly (readonly [key: string, bytes: Uint8Array])[];
  readonly notes: readonly string[];
  /** Files of which only the offsets were read, which are still to be confirmed. */
  readonly guessed: readonly DataFile[];
}

/**
 * Plans all of an archive. With `guess`, chunk headers are left to `proveFiles` where the offsets can say the same.
 *
 * @throws UNSUPPORTED where it cannot be linked, saying why; what reading its headers throws
 */
export async function planShards(
  archive: Archive,
  options: LinkOptions,
  guess?: FormerSizes,
): Promise<LinkedArchive> {
  requireSettled(archive);
  const likely = await likelyCapacity(archive, options.signal);
  const first = await planJobs(archive, { ...options, chunksPerShard: likely });
  refuse(first);
  const byCapacity = new Map<number | undefined, ConversionJobs>([[likely, first]]);
  const notes = [...first.notes];
  const shards: LinkedShard[] = [];
  const planned: ArrayJob[] = [];
  const documents = new Map<string, JsonObject>();
  const guessed: DataFile[] = [];
  for (const job of first.arrays) {
    const { files, isGuessed } =
      job.layout === undefined
        ? { files: [], isGuessed: false }
        : await listFiles(job.source.archive, guess, options.signal);
    if (isGuessed) guessed.push(...files);
    const capacity = files[0]?.chunks.length ?? 1;
    let jobs = byCapacity.get(capacity);
    if (jobs === undefined) {
      jobs = await planJobs(archive, { ...options, chunksPerShard: capacity });
      byCapacity.set(capacity, jobs);
    }
    const own = jobs.arrays.find(({ node }) => node === job.node) ?? job;
    documents.set(own.node, own.document);
    planned.push(own);
    notes.push(...(job.node === "" ? job.notes : job.notes.map((note) => `${job.node}: ${note}`)));
    for (const note of await describeOddities(own.source.archive, files, options.kind)) notes.push(note);
    shards.push(...placeShards(own, files));
  }
  const { groups } = first;
  return { shards, jobs: planned, groups, documents: encodeNodes(groups, documents), notes, guessed };
}

/** Chunks of each file, if the first one counts them right: then the first plan is the last one. Undefined where nothing says so. */
async function likelyCapacity(
  archive: Archive,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  if (archive.kind !== "array" || archive.columnNames.length > 0 || archive.nchunks === 0) return undefined;
  const [place] = await archive.chunkPlaces(0, 1, { signal });
  const counted = place?.header?.nchunks ?? 0;
  return counted < 1 ? undefined : Math.min(counted, archive.nchunks);
}

function placeShards(job: ArrayJob, files: readonly DataFile[]): LinkedShard[] {
  const { layout, source } = job;
  if (layout === undefined) return [];
  return files.map((file, shard) => {
    const range = shardCells(layout.shards, shard);
    if (range.first !== file.first || range.end !== file.first + file.chunks.length) {
      throw unlinkable(
        source.archive.store.describe(file.key),
        `its chunks ${file.first} to ${file.first + file.chunks.length - 1} do not make a shard of whole rows of the shape [${source.shape.join(", ")}]`,
      );
    }
    return {
      job,
      layout,
      path: file.key,
      link: shardKey("", job, layout, shard),
      first: file.first,
      chunks: file.chunks,
    };
  });
}

/** Throws for the first array that Zarr cannot hold, or only with its chunks compressed again. */
function refuse(jobs: ConversionJobs): void {
  assertConvertible(jobs);
  for (const { source, recodes, layout } of jobs.arrays) {
    const path = source.archive.store.describe(source.archive.path);
    if (recodes !== undefined)
      throw unlinkable(path, `its chunks would have to be compressed again: ${recodes}`);
    if (layout !== undefined && !layout.sharded)
      throw unlinkable(path, "an array without dimensions has no shards in Zarr");
  }
}
