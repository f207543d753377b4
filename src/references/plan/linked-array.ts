/**
 * Linked archives as references: one to each data file, which is a whole shard of a Zarr array.
 *
 * Knows shards and their indexes; must not know the forms in which references are written. @see FORMAT.md [FL-02]
 */
import type { Archive } from "../../archive/kinds/types.ts";
import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { shardPlace } from "../../convert/targets/shard-files.ts";
import { type LinkedShard, planShards } from "../../dual/shards.ts";
import { checkTail } from "../../dual/tail.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { shardIndexLength } from "../../zarr/read/shard-index.ts";
import type { PlanOptions, ReferencePlan } from "./plan.ts";
import { grownChunks, type ReferencedArray } from "./planned-array.ts";
import { type GuardedObject, ScannedObjects } from "./scanned-objects.ts";
import type { ChunkReference, ReferenceCounts } from "./types.ts";

const NEVER = new AbortController().signal;

/**
 * Plans one reference to each data file of an archive that `superchunk link` has made a Zarr array. Every file's index
 * is compared with its chunks as `arrays[i].chunks()` goes along.
 *
 * Throws `UNSUPPORTED` for what cannot be linked; the stream does for a file that is not.
 */
export async function planLinkedReferences(
  archive: Archive,
  options: PlanOptions = {},
): Promise<ReferencePlan> {
  const { dimensionNames, dtype, shape, signal, isMember, node = "" } = options;
  const linked = await planShards(archive, {
    ...{ dimensionNames, dtype, shape, signal, isMember },
    kind: "copy",
  });
  return {
    source: archive.store.describe(archive.path),
    node,
    groups: new Map([...linked.groups].map(([path, document]) => [joinKey(node, path), document])),
    arrays: linked.jobs.map((job) => {
      const path = joinKey(node, job.node);
      const { document } = job;
      const shards = linked.shards.filter((shard) => shard.job === job);
      return new LinkedArray({ node: path, document, job, shards }, options);
    }),
    notes: linked.notes,
  };
}

/** The data files of one array, and where they belong. */
interface LinkedFiles extends Pick<ReferencedArray, "node" | "document" | "job"> {
  readonly shards: readonly LinkedShard[];
  /** Shards of a joined array before these (default 0). */
  readonly firstShard?: number;
}

/** An array whose chunks, as references go, are shards. */
export class LinkedArray implements ReferencedArray {
  readonly node: string;
  readonly document: JsonObject;
  readonly job: ArrayJob;
  readonly #shards: readonly LinkedShard[];
  readonly #objects: ScannedObjects;
  readonly #signal: AbortSignal;
  readonly #options: PlanOptions;
  readonly #firstShard: number;

  constructor({ node, document, job, shards, firstShard = 0 }: LinkedFiles, options: PlanOptions) {
    this.node = node;
    this.document = document;
    this.job = job;
    this.#shards = shards;
    this.#objects = new ScannedObjects(job.source.archive.store, options);
    this.#signal = options.signal ?? NEVER;
    this.#options = options;
    this.#firstShard = firstShard;
  }

  /** The same shards in an array that several are joined to, after `firstShard` others along the first dimension. */
  placedAt(document: JsonObject, firstShard: number): LinkedArray {
    const { node, job } = this;
    return new LinkedArray({ node, document, job, shards: this.#shards, firstShard }, this.#options);
  }

  get count(): number {
    return this.#shards.length;
  }

  /** The index is at the end of a file, whatever its size. */
  get sampledBytes(): number {
    return shardIndexLength(this.job.layout?.shards.capacity ?? 0);
  }

  async *chunks(counts: ReferenceCounts, first = 0): AsyncGenerator<ChunkReference> {
    const { store } = this.job.source.archive;
    this.#objects.clear();
    for (const [k, shard] of this.#shards.entries()) {
      if (k < first) continue;
      const { location, size, guard } = await this.#objects.look(shard.path);
      const reason = await checkTail(shard, { store, key: shard.path, size }, this.#signal);
      if (reason !== undefined) {
        throw new SuperchunkError(
          "UNSUPPORTED",
          `it is not a shard of a Zarr array: ${reason}; run "superchunk link" on the archive, or refer to its chunks one by one`,
          { path: store.describe(shard.path), field: "shards" },
        );
      }
      counts.virtual++;
      const index = this.positionOf(k);
      yield { kind: "virtual", node: this.node, index, location, guard, offset: 0, length: size };
    }
  }

  positionOf(cell: number): readonly number[] {
    const { layout } = this.job;
    if (layout === undefined) throw new RangeError(`${this.node} has no shards`);
    const [first = 0, ...rest] = shardPlace(this.job, layout, cell);
    return [first + this.#firstShard, ...rest];
  }

  async sample(cell: number): Promise<Uint8Array> {
    const { store } = this.job.source.archive;
    const key = this.#shards[cell]?.path ?? "";
    const bytes = await store.getRange(key, { suffixLength: this.sampledBytes }, { signal: this.#signal });
    if (bytes === undefined)
      throw new SuperchunkError("NOT_FOUND", "there is no such object", { path: store.describe(key) });
    return bytes;
  }

  recheck(): AsyncGenerator<GuardedObject> {
    return this.#objects.recheck();
  }

  chunksOf(before: JsonObject): number | undefined {
    const { layout } = this.job;
    const rows =
      layout === undefined || layout.cells.axis !== 0 || layout.reversed ? undefined : layout.shards.shape[0];
    return grownChunks(before, this.document, this.count, rows);
  }

  /** Every shard is an object of its own. */
  async firstInObject(cell: number): Promise<number> {
    return cell;
  }
}
