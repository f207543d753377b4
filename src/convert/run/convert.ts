/**
 * One archive into Zarr v3: shards first, then the arrays' documents, then the groups', the root's last, so that
 * a conversion that was broken off never looks finished.
 */

import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import { isEqual } from "../../bytes/equal.ts";
import { encodeHere } from "../../codec/index.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { WritableStore } from "../../store/types.ts";
import { consolidate, encodeDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ArrayJob, JobLayout } from "../plan/array-job.ts";
import { type ConversionJobs, describeJobs, planJobs } from "../plan/conversion-jobs.ts";
import type {
  ConversionPlan,
  ConvertOptions,
  ConvertResult,
  LayoutOptions,
} from "../plan/convert-options.ts";
import { fingerprintSource, recordOptions } from "../plan/fingerprint.ts";
import { cellItems, indexSlot, shardCells } from "../plan/grid.ts";
import { type ChunkCounts, chunksOfCells } from "../sources/chunk-source.ts";
import { shardKey } from "../targets/shard-keys.ts";
import { shardPieces } from "../targets/shard-writer.ts";
import { assertApart, checkDestination, finishDestination, prepareDestination } from "./destination.ts";
import { type Publisher, publishDirectly } from "./publisher.ts";
import { verifyArray } from "./verify-conversion.ts";

/** Shards that are written at a time: while one is being synced, others are read and written. */
const SHARDS_AT_ONCE = 4;

/** What a conversion would do, without writing anything. Reads metadata and the first chunk header of each array. */
export async function planConversion(
  archive: Archive,
  options: LayoutOptions & OpenOptions = {},
): Promise<ConversionPlan> {
  return describeJobs(await planJobs(archive, options));
}

/**
 * Converts an archive into a Zarr v3 array or group at `prefix` of a store (`""` is its root).
 *
 * Chunks are copied as they are, their headers and digests checked; see {@link planConversion} for what is
 * recoded. Memory stays flat: chunks are streamed. Throws `UNSUPPORTED` for what Zarr cannot hold, `CONFLICT`
 * for a destination that is taken, and whatever reading the archive throws; then no `zarr.json` of the root is
 * there, and `resume` can go on.
 */
export async function convertArchive(
  archive: Archive,
  target: WritableStore,
  prefix: string,
  options: ConvertOptions = {},
): Promise<ConvertResult> {
  if (archive.store === target) assertApart(archive.path, prefix);
  await checkDestination(target, prefix, options);
  return convertJobs(await planJobs(archive, options), target, prefix, options);
}

/** Converts everything that was planned. Throws as {@link convertArchive}. */
export async function convertJobs(
  jobs: ConversionJobs,
  target: WritableStore,
  prefix: string,
  options: ConvertOptions,
): Promise<ConvertResult> {
  assertConvertible(jobs);
  const record = { source: await fingerprintSource(jobs, options), options: recordOptions(options) };
  const state = await prepareDestination(target, prefix, record, options);
  const keep = state === "unfinished" ? "shards" : "nothing";
  const result = await runJobs(jobs, { target, prefix, publisher: publishDirectly(target), keep }, options);
  await finishDestination(target, prefix);
  return result;
}

/** Throws the first refusal, so that nothing is written where not all can be. */
export function assertConvertible({ refused: [first] }: ConversionJobs): void {
  if (first !== undefined) throw first.error;
}

/** Where a run goes, and what it finds there. */
export interface RunPlace {
  readonly target: WritableStore;
  readonly prefix: string;
  readonly publisher: Publisher;
  /**
   * What of an earlier run is kept: arrays whose document is there, and of others the shards; only the former
   * where shards may be there without being durable.
   */
  readonly keep: "nothing" | "arrays" | "shards";
}

/** Runs planned jobs at a destination that is ready. */
export async function runJobs(
  jobs: ConversionJobs,
  place: RunPlace,
  options: ConvertOptions,
): Promise<ConvertResult> {
  const started = performance.now();
  const run = new ConversionRun(jobs, place, options);
  if (place.keep !== "nothing") await run.findFinished();
  await runPooled(run.tasks(), SHARDS_AT_ONCE, (task, signal) => run.write(task, signal), options.signal);
  await run.publishGroups();
  return run.result((performance.now() - started) / 1000);
}

/** A shard to be written, or with `shard` -1 the document of an array without shards. */
interface ShardTask {
  readonly job: ArrayJob;
  readonly shard: number;
}

/** The state of one conversion. */
class ConversionRun {
  readonly #jobs: ConversionJobs;
  readonly #place: RunPlace;
  readonly #options: ConvertOptions;
  readonly #total: number;
  readonly #counts: ChunkCounts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  readonly #left = new Map<ArrayJob, number>();
  readonly #finished = new Set<ArrayJob>();
  #shards = 0;
  #kept = 0;
  #written = 0;
  #done = 0;

  constructor(jobs: ConversionJobs, place: RunPlace, options: ConvertOptions) {
    this.#jobs = jobs;
    this.#place = place;
    this.#options = options;
    this.#total = jobs.arrays.reduce((total, { source }) => total + source.archive.nbytes, 0);
  }

  /** Finds the arrays that an earlier run has finished: their documents are there, whole. */
  async findFinished(): Promise<void> {
    const { target, prefix } = this.#place;
    for (const job of this.#jobs.arrays) {
      const stored = await target.get(joinKey(prefix, job.node, "zarr.json"), {
        signal: this.#options.signal,
      });
      const wanted = encodeDocument(job.document);
      if (isEqual(stored, wanted)) this.#finished.add(job);
    }
  }

  *tasks(): Generator<ShardTask> {
    for (const job of this.#jobs.arrays) {
      const count = job.layout?.shards.count ?? 0;
      if (this.#finished.has(job)) {
        this.#shards += count;
        this.#kept += count;
        this.#progress(job, job.source.archive.nbytes);
        continue;
      }
      this.#left.set(job, Math.max(1, count));
      if (count === 0) yield { job, shard: -1 };
      for (let shard = 0; shard < count; shard++) yield { job, shard };
    }
  }

  async write({ job, shard }: ShardTask, signal: AbortSignal): Promise<void> {
    if (shard >= 0 && job.layout !== undefined) await this.#writeShard(job, job.layout, shard, signal);
    const left = (this.#left.get(job) ?? 1) - 1;
    this.#left.set(job, left);
    if (left > 0) return;
    // Compared before the document makes the array visible.
    if (this.#options.verify === true)
      await verifyArray(job, this.#place.target, this.#place.prefix, { signal });
    await this.#publish(joinKey(job.node, "zarr.json"), job.document, signal);
  }

  async #writeShard(job: ArrayJob, layout: JobLayout, shard: number, signal: AbortSignal): Promise<void> {
    const key = shardKey(this.#place.prefix, job, layout, shard);
    const range = shardCells(layout.shards, shard);
    this.#shards++;
    if (this.#place.keep === "shards" && (await this.#place.target.stat(key, { signal })) !== undefined) {
      this.#kept++;
      this.#progress(job, shardBytes(job, layout, shard));
      return;
    }
    const onChunk = (nbytes: number): void => this.#progress(job, nbytes);
    const encoder = this.#options.encoder ?? encodeHere;
    const chunks = chunksOfCells(job, layout, range, this.#counts, signal, onChunk, encoder);
    const slots = (k: number): number => indexSlot(layout.shards, k, layout.reversed);
    const source = layout.sharded ? shardPieces(chunks, layout.shards.capacity, slots) : chunks;
    // Shards end side by side: the sum is read after the wait, not before it.
    const size = await this.#place.publisher.putShard(key, source, signal);
    this.#written += size;
  }

  /** Groups from the innermost to the root, whose document tells all others. */
  async publishGroups(): Promise<void> {
    const { groups, arrays } = this.#jobs;
    const below = new Map<string, JsonObject>();
    for (const [node, document] of groups) if (node !== "") below.set(node, document);
    for (const { node, document } of arrays) if (node !== "") below.set(node, document);
    for (const [node, document] of [...groups].reverse()) {
      const own = node === "" ? consolidate(document, below) : document;
      await this.#publish(joinKey(node, "zarr.json"), own, this.#options.signal);
    }
  }

  async #publish(key: string, document: JsonObject, signal: AbortSignal | undefined): Promise<void> {
    const size = await this.#place.publisher.putDocument(
      joinKey(this.#place.prefix, key),
      encodeDocument(document),
      signal,
    );
    this.#written += size;
  }

  #progress(job: ArrayJob, nbytes: number): void {
    this.#done += nbytes;
    const { archive } = job.source;
    this.#options.onProgress?.({
      done: this.#done,
      total: this.#total,
      label: archive.store.describe(archive.path),
    });
  }

  result(seconds: number): ConvertResult {
    const { arrays, groups, renamed, notes } = this.#jobs;
    const { copied, padded, recoded, oddTypesize } = this.#counts;
    const odd =
      oddTypesize === 0
        ? []
        : [
            `${oddTypesize} chunks have another typesize in their header than their items have bytes; they are copied as they are`,
          ];
    return {
      arrays: arrays.length,
      groups: groups.size,
      chunksCopied: copied,
      chunksPadded: padded,
      chunksRecoded: recoded,
      shards: this.#shards,
      shardsKept: this.#kept,
      bytesWritten: this.#written,
      nbytes: this.#total,
      seconds,
      verified: this.#options.verify === true,
      notes: [
        ...notes,
        ...arrays.flatMap((job) =>
          job.notes.map((note) => (job.node === "" ? note : `${job.node}: ${note}`)),
        ),
        ...odd,
      ],
      renamed,
    };
  }
}

function shardBytes({ source }: ArrayJob, { cells, shards }: JobLayout, shard: number): number {
  const { first, end } = shardCells(shards, shard);
  let items = 0;
  for (let cell = first; cell < end; cell++) items += cellItems(cells, cell);
  return items * source.dtype.itemSize;
}
