/**
 * Joins several archives to one array, whose chunks follow one another along the first dimension.
 *
 * The grid is regular if every chunk but the very last has the same number of rows; else rectilinear, if requested. Must not
 * know the forms in which references are written.
 */

import type { Archive } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/arrays.ts";
import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { shardPlace } from "../../convert/targets/shard-files.ts";
import { checkTail } from "../../dual/shard-file.ts";
import { type LinkedShard, planShards } from "../../dual/shards.ts";
import { readLiveState } from "../../dual/state.ts";
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import { chunkShapeOf, withLengths } from "../../zarr/document/make-v3.ts";
import { shardIndexLength } from "../../zarr/read/shard-index.ts";
import {
  type ArchiveArray,
  archiveNameOf,
  grownChunks,
  type PlanOptions,
  plannedArray,
  type ReferencedArray,
  type ReferenceOptions,
  type ReferencePlan,
  rowsOfArray,
} from "./plan.ts";
import { ScannedObjects } from "./scanned-objects.ts";

/**
 * Joins the plans of several archives, in their order: arrays with the same path become one. All archives must have the same
 * arrays, with the same type, further dimensions and codecs.
 *
 * Throws `BAD_ARGUMENT` if they differ, `UNSUPPORTED` if a chunk in the middle is short and the grid is regular, or a shard
 * in the middle is not full.
 */
export function joinPlans(plans: readonly ReferencePlan[], options: ReferenceOptions): ReferencePlan {
  const [first, ...others] = plans;
  if (first === undefined)
    throw new SuperchunkError("BAD_ARGUMENT", "there are no archives to join", { field: "concat" });
  for (const other of others) {
    const own = other.arrays.map(({ node }) => node).join();
    const wanted = first.arrays.map(({ node }) => node).join();
    if (own === wanted) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `it has other arrays than ${first.source}, so they cannot be joined`,
      { path: other.source, field: "concat", expected: wanted, found: own },
    );
  }
  return {
    source: first.source,
    node: first.node,
    groups: first.groups,
    arrays: first.arrays.map(({ node }, i) =>
      joinArrays(
        node,
        plans.flatMap(({ arrays }) => archiveArray(arrays[i])),
        options,
      ),
    ),
    notes: plans.flatMap(({ notes }) => notes),
  };
}

/** The array, which must belong to an archive. Throws `UNSUPPORTED`. */
function archiveArray(array: ReferencedArray | undefined): readonly ArchiveArray[] {
  if (array === undefined) return [];
  const { job } = array;
  if (job !== undefined) return [Object.assign(array, { job })];
  throw new SuperchunkError(
    "UNSUPPORTED",
    "datasets of HDF5 files are not joined; write references to each of them, or convert them and join the arrays",
    { path: array.source, field: "concat" },
  );
}

function joinArrays(node: string, arrays: readonly ArchiveArray[], options: ReferenceOptions): ArchiveArray {
  const [first] = arrays;
  if (first === undefined) throw new RangeError(`no arrays at ${node}`);
  for (const each of arrays) assertAlike(first, each);
  const linked = arrays.filter((each): each is LinkedArray => "placedAt" in each);
  if (linked.length === arrays.length) return joinLinked(node, linked);
  const filled = arrays.filter(({ job }) => job.layout !== undefined);
  const rows = filled.flatMap(({ job }) => rowsOfArray(job).filter(({ times }) => times > 0));
  const regular = regularRows(rows);
  if (regular === undefined && options.rectilinear !== true) throw shortInTheMiddle(filled);
  const document = joinedDocument(first, arrays, options.rectilinear === true ? rows : regular);
  const parts: ArchiveArray[] = [];
  let firstRow = 0;
  for (const [i, { job }] of filled.entries()) {
    const isLast = i === filled.length - 1;
    const cellRows = regular ?? job.layout?.cells.length ?? 1;
    const cellBytes = cellRows * (job.layout?.cells.inner ?? 1) * job.source.dtype.itemSize;
    const part = plannedArray(node, document, job, options, { firstRow, cellBytes, isLast });
    parts.push(part);
    firstRow += part.count;
  }
  return joinedArray(node, document, first.job, parts);
}

/** Rows of every chunk but the last, if they are the same and the last has no more. */
function regularRows(rows: readonly LengthRun[]): number | undefined {
  const [first] = rows;
  const last = rows.at(-1);
  if (first === undefined || last === undefined) return first?.length ?? 1;
  const same = rows.every((each) => each.length === first.length || (each === last && each.times === 1));
  return same && last.length <= first.length ? first.length : undefined;
}

function joinedDocument(
  first: ArchiveArray,
  arrays: readonly ArchiveArray[],
  rows: readonly LengthRun[] | number | undefined,
): JsonObject {
  const [, ...others] = first.document["shape"] as readonly number[];
  const length = arrays.reduce((sum, { document }) => sum + at(document["shape"] as number[], 0), 0);
  const { chunkDocument } = first.job;
  const [, ...chunk] = chunkShapeOf(chunkDocument);
  const regular = {
    ...first.document,
    shape: [length, ...others],
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: [typeof rows === "number" ? rows : 1, ...chunk] },
    },
  };
  return typeof rows === "object" ? withLengths(regular, 0, rows) : regular;
}

/** Checks that arrays differ only in the first dimension, and in members that do not affect values. */
function assertAlike(first: ArchiveArray, other: ArchiveArray): void {
  const { job } = other;
  const { layout } = job;
  const path = archiveNameOf(job);
  if (job.source.shape.length === 0 || (layout !== undefined && (layout.cells.axis !== 0 || layout.reversed)))
    throw new SuperchunkError(
      "UNSUPPORTED",
      "its chunks are not cut along the first dimension, so it cannot be joined; write references to it alone",
      { path, field: "concat" },
    );
  for (const member of ["data_type", "fill_value", "codecs"]) {
    const wanted = stringifyJson(settled(first.job, member));
    const found = stringifyJson(settled(job, member));
    if (found === wanted) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `its ${member} differs from that of ${archiveNameOf(first.job)}, so they cannot be joined`,
      { path, field: member, expected: wanted, found },
    );
  }
  const inner = (array: ArchiveArray): string =>
    (array.document["shape"] as readonly number[]).slice(1).join();
  if (inner(first) !== inner(other))
    throw new SuperchunkError("BAD_ARGUMENT", "its further dimensions differ, so it cannot be joined", {
      path,
      field: "shape",
      expected: inner(first),
      found: inner(other),
    });
}

/** A member of the document that must agree. Blosc's configuration is left out: each chunk names its own compression. */
function settled({ chunkDocument }: ArrayJob, member: string): JsonObject[string] {
  const value = chunkDocument[member] ?? null;
  if (member !== "codecs") return value;
  return (value as readonly JsonObject[]).filter(({ name }) => name !== "blosc");
}

function shortInTheMiddle(arrays: readonly ArchiveArray[]): SuperchunkError {
  const at = arrays.findIndex(({ job }, i) => {
    const last = rowsOfArray(job).at(-1);
    return i < arrays.length - 1 && last?.length !== arrays[0]?.job.layout?.cells.length;
  });
  const { archive } = (arrays[Math.max(0, at)] ?? arrays[0])?.job.source ?? {};
  return new SuperchunkError(
    "UNSUPPORTED",
    "its chunks do not have as many rows as those of the archives before and after it, and a regular grid has no short chunk in the middle; join with a rectilinear grid, or convert by copying",
    { path: archive?.store.describe(archive.path) ?? "", field: "concat" },
  );
}

/** Joins arrays that differ only in length. Throws `UNSUPPORTED`, with the reason, if their shards do not form a grid. */
function joinLinked(node: string, arrays: readonly LinkedArray[]): ArchiveArray {
  const filled = arrays.filter(({ count }) => count > 0);
  const first = filled[0] ?? arrays[0];
  if (first === undefined) throw new RangeError(`no arrays at ${node}`);
  const [, ...others] = first.document["shape"] as readonly number[];
  const rows = filled.reduce((sum, { job }) => sum + at(job.source.shape, 0), 0);
  const document = { ...first.document, shape: [rows, ...others] };
  let shard = 0;
  const parts = filled.map((array, i) => {
    assertSameShards(first.job, array.job);
    if (i < filled.length - 1) assertWholeShards(array.job);
    const part = array.placedAt(document, shard);
    shard += array.count;
    return part;
  });
  return joinedArray(node, document, first.job, parts, first.sampledBytes);
}

const OTHERWISE = "refer to the chunks one by one, without {shards: true}, or convert by copying";

function assertSameShards(first: ArrayJob, job: ArrayJob): void {
  const [expected, found] = [shardsOf(first), shardsOf(job)];
  if (expected === found) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its files are shards of ${found}, and those of ${archiveNameOf(first)} are of ${expected}, but an array has shards of one shape; ${OTHERWISE}`,
    { path: archiveNameOf(job), field: "shards", expected, found },
  );
}

function assertWholeShards(job: ArrayJob): void {
  const rows = at(job.source.shape, 0);
  const perShard = job.layout === undefined ? 1 : at(job.layout.shards.shape, 0);
  if (rows % perShard === 0) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its last file is not a whole shard: it has ${rows % perShard} of ${perShard} rows, and another archive follows; ${OTHERWISE}`,
    { path: archiveNameOf(job), field: "shards", expected: perShard, found: rows % perShard },
  );
}

/** `4 chunks of 10 x 3 items`. */
function shardsOf({ layout }: ArrayJob): string {
  if (layout === undefined) return "nothing";
  const { capacity, shape, cells } = layout.shards;
  const chunk = shape.map((n, axis) => n / at(cells, axis));
  return `${capacity} ${capacity === 1 ? "chunk" : "chunks"} of ${chunk.join(" x ")} items`;
}

/** The arrays as one. The positions of the chunks of `parts` already refer to it. */
function joinedArray(
  node: string,
  document: JsonObject,
  job: ArrayJob,
  parts: readonly ArchiveArray[],
  sampledBytes?: number,
): ArchiveArray {
  const count = parts.reduce((sum, part) => sum + part.count, 0);
  const partOf = (cell: number): { readonly part: ArchiveArray; readonly start: number } => {
    let start = 0;
    for (const part of parts) {
      if (cell < start + part.count) return { part, start };
      start += part.count;
    }
    throw new RangeError(`${node} has no chunk ${cell}`);
  };
  return {
    node,
    document,
    source: archiveNameOf(job),
    job,
    count,
    ...(sampledBytes === undefined ? {} : { sampledBytes }),
    async *chunks(counts, first = 0) {
      let start = 0;
      for (const part of parts) {
        if (first < start + part.count) yield* part.chunks(counts, Math.max(0, first - start));
        start += part.count;
      }
    },
    positionOf(cell) {
      const { part, start } = partOf(cell);
      return part.positionOf(cell - start);
    },
    sample(cell) {
      const { part, start } = partOf(cell);
      return part.sample(cell - start);
    },
    async *recheck() {
      for (const part of parts) yield* part.recheck();
    },
    chunksOf(before) {
      const { name } = document["chunk_grid"] as { readonly name: string };
      return grownChunks(before, document, count, name === "regular" ? chunkShapeOf(document)[0] : undefined);
    },
    async firstInObject(cell) {
      const { part, start } = partOf(cell);
      return start + (await part.firstInObject(cell - start));
    },
  };
}

// References to linked archives: one for each data file, which is a whole shard of a Zarr array.
//
// Knows shards and their indexes; must not know the forms in which references are written. @see FORMAT.md [FL-02]

const NEVER = new AbortController().signal;

/**
 * Plans one reference for each data file of an archive that `superchunk link` has made a Zarr array. `arrays[i].chunks()`
 * compares every file's index with its chunks.
 *
 * Throws `UNSUPPORTED` for what cannot be linked; the stream throws it for a file that is not linked.
 */
export async function planLinkedReferences(
  archive: Archive,
  options: PlanOptions = {},
): Promise<ReferencePlan> {
  const { dimensionNames, dtype, shape, signal, isMember, node = "" } = options;
  const linked = await planShards(archive, {
    dimensionNames,
    dtype,
    shape,
    signal,
    isMember,
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
      return linkedArray({ node: path, document, job, shards, root: archive }, options);
    }),
    notes: linked.notes,
  };
}

/** The data files of one array, and their places in it. */
interface LinkedFiles extends Pick<ArchiveArray, "node" | "document" | "job"> {
  /** The archive with this array. */
  readonly root: Archive;
  readonly shards: readonly LinkedShard[];
  /** Shards of a joined array before these (default 0). */
  readonly firstShard?: number;
}

/** An array with shards as the chunks of its references. */
interface LinkedArray extends ArchiveArray {
  /** The same shards in a joined array, after `firstShard` others along the first dimension. */
  placedAt(document: JsonObject, firstShard: number): LinkedArray;
}

function linkedArray(linked: LinkedFiles, options: PlanOptions): LinkedArray {
  const { node, document, job, shards, root, firstShard = 0 } = linked;
  const { store } = job.source.archive;
  const { layout } = job;
  const { signal = NEVER } = options;
  const objects = new ScannedObjects(store, options);
  // The index at the end of a file is sampled, whatever the file's size.
  const sampledBytes = shardIndexLength(layout?.shards.capacity ?? 0);
  const positionOf = (cell: number): readonly number[] => {
    if (layout === undefined) throw new RangeError(`${node} has no shards`);
    const [first = 0, ...rest] = shardPlace(job, layout, cell);
    return [first + firstShard, ...rest];
  };
  return {
    node,
    document,
    source: archiveNameOf(job),
    job,
    count: shards.length,
    sampledBytes,
    positionOf,
    placedAt: (joined, before) => linkedArray({ ...linked, document: joined, firstShard: before }, options),
    async *chunks(counts, first = 0) {
      objects.clear();
      for (const [k, shard] of shards.entries()) {
        if (k < first) continue;
        const { location, size, guard } = await objects.look(shard.path);
        const reason = await checkTail(shard, { store, key: shard.path, size }, signal);
        if (reason !== undefined) {
          const isLive = (await readLiveState(root.store, root.path)) !== undefined;
          throw new SuperchunkError(
            "UNSUPPORTED",
            isLive
              ? "it is not a shard of a Zarr array: in an array that is kept as Zarr, shards that were appended to or changed are other files than the superchunks; refer to its chunks one by one, without --shards"
              : `it is not a shard of a Zarr array: ${reason}; run "superchunk link" on the archive, or refer to its chunks one by one`,
            { path: store.describe(shard.path), field: "shards" },
          );
        }
        counts.virtual++;
        yield { kind: "virtual", node, index: positionOf(k), location, guard, offset: 0, length: size };
      }
    },
    async sample(cell) {
      const key = shards[cell]?.path ?? "";
      const bytes = await store.getRange(key, { suffixLength: sampledBytes }, { signal });
      if (bytes === undefined)
        throw new SuperchunkError("NOT_FOUND", "the object does not exist", { path: store.describe(key) });
      return bytes;
    },
    recheck: () => objects.recheck(),
    chunksOf(before) {
      const isCutElsewhere = layout === undefined || layout.cells.axis !== 0 || layout.reversed;
      return grownChunks(
        before,
        document,
        shards.length,
        isCutElsewhere ? undefined : layout.shards.shape[0],
      );
    },
    // Every shard is a separate object.
    firstInObject: async (cell) => cell,
  };
}
