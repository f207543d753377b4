/**
 * Zarr v3 as a target. Archives become arrays of shards, with a task for each shard, whose chunks are copied or recoded as
 * planned. Zarr of every version is converted chunk by chunk (zarr-objects.ts).
 */

import type { OpenOptions } from "../../archive/kinds/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { objectOf, parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { type ReadableStore, saysEncoded } from "../../store/types.ts";
import { consolidate, DOCUMENT, encodeDocument } from "../../zarr/document/make-v3.ts";
import { ZarrArray } from "../../zarr/read/array.ts";
import { ZarrGroup } from "../../zarr/read/group.ts";
import type {
  ArrayRun,
  ChunkRun,
  ConversionPlan,
  ConvertOptions,
  Document,
  OpenedSource,
  PlannedArray,
  SourceRun,
  Target,
  TargetPlace,
  Task,
  TaskContext,
} from "../pipeline.ts";
import {
  type ArrayJob,
  cellSegments,
  countCopies,
  type JobLayout,
  mayBePadded,
  nbytesOf,
  takenBytes,
} from "../plan/array-job.ts";
import {
  type ConversionJobs,
  type JobOptions,
  noteOn,
  planJobs,
  type RefusedArray,
} from "../plan/conversion-jobs.ts";
import { cellItems, indexSlot, shardCells } from "../plan/grid.ts";
import { planJoined } from "../plan/joined.ts";
import { planZarrJobs, STRUCT_READERS } from "../plan/zarr-jobs.ts";
import { verifyArray } from "../run/compare.ts";
import { chunksOfCells } from "../sources/chunk-source.ts";
import type { SourceArray } from "../sources/source-array.ts";
import { piecesOfShard, shardKey } from "./shard-files.ts";
import { objectRun } from "./zarr-objects.ts";

export const ZARR: Target = {
  format: "zarr",
  isHierarchy: true,
  settings: zarrSettings,
  isDocument: (key) => /(?:^|\/)zarr\.json$/.test(key),
  plan(source, place, options) {
    if (source instanceof ZarrArray || source instanceof ZarrGroup) return planNode(source, place, options);
    return planArchive(source, place, options);
  },
};

async function planArchive(
  source: Exclude<OpenedSource, ZarrArray | ZarrGroup>,
  { key, isMember }: TargetPlace,
  options: ConvertOptions,
): Promise<SourceRun> {
  const jobs = await jobsOf(source, { ...options, isMember });
  const documents = new Map<string, JsonObject>(jobs.groups);
  for (const { node, document } of jobs.arrays) documents.set(node, document);
  return {
    plan: describeJobs(jobs),
    arrays: jobs.arrays.map((job) => shardRun(job, key)),
    refusal: jobs.refused[0]?.error,
    failed: [],
    notes: jobs.notes,
    skipsFailed: false,
    fingerprint: () => fingerprintSource(jobs, options),
    groups: () => groupDocuments(key, jobs.groups, documents),
    described: () => documents,
  };
}

function jobsOf(source: Parameters<typeof planArchive>[0], options: JobOptions): Promise<ConversionJobs> {
  if (source.kind === "joined") return planJoined(source.archives, options);
  if ("dialect" in source) return planJobs(source, options);
  throw new SuperchunkError("BAD_ARGUMENT", "columns without an archive or a Zarr node cannot become Zarr", {
    path: "store" in source ? source.store.describe(source.path) : "",
    field: "source",
  });
}

async function planNode(
  root: ZarrArray | ZarrGroup,
  { key, isMember }: TargetPlace,
  options: ConvertOptions,
): Promise<SourceRun> {
  const { plan, arrays, groups, failed, notes } = await planZarrJobs(root, {
    ...options,
    isMember,
    whyEncoded: async ({ store, path }) => (saysEncoded(store) ? store.whyEncoded(path) : undefined),
  });
  const skipsFailed = options.skipFailed === true && root.kind === "group";
  const [first] = failed;
  const nodes = new Map([...groups, ...arrays].map(({ path, document }) => [path, document]));
  const without = (left: ReadonlySet<string>): Map<string, JsonObject> =>
    new Map([...nodes].filter(([path]) => !left.has(path)));
  return {
    plan,
    arrays: arrays.map((job) => objectRun(job, key)),
    refusal: skipsFailed && arrays.length > 0 ? undefined : first?.error,
    failed,
    notes,
    skipsFailed,
    fingerprint: async () => ({
      location: plan.source,
      documents: Object.fromEntries([...nodes].map(([path, document]) => [`/${path}`, document])),
    }),
    groups: (left) =>
      groupDocuments(key, new Map(groups.map(({ path, document }) => [path, document])), without(left)),
    described: without,
  };
}

/** Documents of groups from the innermost to the root, whose document repeats all others. */
function groupDocuments(
  key: string,
  groups: ReadonlyMap<string, JsonObject>,
  nodes: ReadonlyMap<string, JsonObject>,
): readonly Document[] {
  const below = [...nodes].filter(([path]) => path !== "");
  return [...groups].reverse().map(([path, document]) => ({
    key: joinKey(key, path, DOCUMENT),
    bytes: encodeDocument(path === "" ? consolidate(document, below) : document),
  }));
}

/** The options that decide the bytes of the result, as the record stores them. */
function zarrSettings(options: ConvertOptions): JsonObject {
  const { shardSize, chunksPerShard, portable, dtype, shape, dimensionNames, recode, columns, grid } =
    options;
  return {
    to: "zarr",
    shardSize: shardSize ?? null,
    chunksPerShard: chunksPerShard ?? null,
    portable: portable === true,
    dtype: dtype === undefined ? null : formatDType(dtype),
    shape: shape ?? null,
    dimensionNames: dimensionNames ?? null,
    recode: recode !== false,
    columns: columns ?? null,
    grid: grid ?? "regular",
  };
}

const NEVER = new AbortController().signal;

/** A planned array that will be written below `prefix`. */
function shardRun(job: ArrayJob, prefix: string): ArrayRun {
  const { archive } = job.source;
  const { layout } = job;
  return {
    node: job.node,
    path: archive.store.describe(archive.path),
    arrays: 1,
    nbytes: nbytesOf(job),
    notes: notesOnJob(job).map((note) => noteOn(job.node, note)),
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
    documents: [{ key: joinKey(prefix, job.node, DOCUMENT), bytes: encodeDocument(job.document) }],
    async compare(store, signal) {
      await compareDocument(store, joinKey(prefix, job.node, DOCUMENT), job.document, signal);
      await verifyArray(job, store, prefix, { signal });
    },
  };
}

/** Members of an array's document that say nothing about its values. */
const FREE_MEMBERS = new Set(["attributes", "dimension_names", "storage_transformers"]);

/** Throws `BAD_FIELD` if an array is not laid out as planned, and `NOT_FOUND` if it does not exist. */
async function compareDocument(
  store: ReadableStore,
  key: string,
  planned: JsonObject,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = store.describe(key);
  const bytes = await store.get(key, { signal });
  if (bytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "there is no Zarr array; convert again", { path });
  const stored = objectOf(parseJson(bytes, path));
  for (const [field, expected] of Object.entries(planned)) {
    const found = stored[field];
    if (FREE_MEMBERS.has(field) || (found !== undefined && stringifyJson(found) === stringifyJson(expected)))
      continue;
    throw new SuperchunkError(
      "BAD_FIELD",
      `${field} is not what this conversion writes: the array was made with other options (give the same again), or was changed since`,
      { path, field, expected, found },
    );
  }
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
  const source = layout.sharded ? piecesOfShard(chunks, layout.shards.capacity, slots) : chunks;
  await store.put(key, source, { signal });
}

function shardBytes(job: ArrayJob, { cells, shards }: JobLayout, shard: number): number {
  const { first, end } = shardCells(shards, shard);
  let items = 0;
  for (let cell = first; cell < end; cell++) items += cellItems(cells, cell);
  return items * takenBytes(job);
}

function describeJobs({ archive, arrays, refused, groups, renamed }: ConversionJobs): ConversionPlan {
  const planned = [...arrays.map(describeJob), ...refused.map(describeRefused)];
  return {
    source: archive.store.describe(archive.path),
    kind: groups.size > 0 ? "group" : "array",
    arrays: planned,
    groups: [...groups.keys()],
    renamed,
    nbytes: planned.reduce((total, { nbytes }) => total + nbytes, 0),
  };
}

function describeJob(job: ArrayJob): PlannedArray {
  const { node, source, type, document, chunkDocument, layout, recodes } = job;
  const { archive, shape } = source;
  return {
    node,
    source: archive.store.describe(archive.path),
    action: actionOf(layout, recodes),
    ...(recodes === undefined ? {} : { reason: recodes }),
    nbytes: nbytesOf(job),
    chunks: layout?.cells.count ?? 0,
    shards: layout?.shards.count ?? 0,
    shape: [...shape, ...type.itemShape],
    ...(document["data_type"] === undefined ? {} : { dataType: document["data_type"] }),
    ...shapesIn(layout?.unequal === true ? chunkDocument : document),
    ...(layout === undefined ? {} : { runs: chunkRuns(job, layout) }),
    notes: notesOnJob(job),
  };
}

function notesOnJob({ type, notes }: ArrayJob): readonly string[] {
  return objectOf(type.dataType)["name"] === "struct" ? [STRUCT_READERS, ...notes] : notes;
}

/** Treatment of the chunks according to the metadata. A chunk whose own header differs is recoded anyway. */
function chunkRuns(job: ArrayJob, layout: JobLayout): readonly ChunkRun[] {
  const { count } = layout.cells;
  const isRecoded = actionOf(layout, job.recodes) === "recode";
  const runs: ChunkRun[] = [];
  for (const { first, end, chunk } of cellSegments(layout.copies, { first: 0, end: count })) {
    if (chunk === undefined || isRecoded) {
      const reason = job.recodes === undefined ? {} : { reason: job.recodes };
      runs.push({ first, count: end - first, action: "recode", ...reason });
      continue;
    }
    const isPadded = end === count && mayBePadded(job, layout, count - 1);
    if (end - first > Number(isPadded))
      runs.push({ first, count: end - first - Number(isPadded), action: "copy" });
    if (isPadded)
      runs.push({
        first: count - 1,
        count: 1,
        action: "restream",
        reason: "the last chunk is short: its blocks are copied, and padded to a full chunk",
      });
  }
  return runs;
}

function actionOf(layout: ArrayJob["layout"], recodes: string | undefined): PlannedArray["action"] {
  if (layout === undefined) return "empty";
  if (recodes === undefined) return "copy";
  const copied = countCopies(layout.copies);
  return copied > 0 && copied < layout.cells.count ? "mixed" : "recode";
}

function shapesIn(document: JsonObject): { chunkShape: readonly number[]; shardShape?: readonly number[] } {
  const grid = (document["chunk_grid"] as { configuration: { chunk_shape: readonly number[] } }).configuration
    .chunk_shape;
  const [first] = document["codecs"] as readonly {
    name: string;
    configuration?: { chunk_shape?: readonly number[] };
  }[];
  const inner = first?.name === "sharding_indexed" ? first.configuration?.chunk_shape : undefined;
  return inner === undefined ? { chunkShape: grid } : { chunkShape: inner, shardShape: grid };
}

function describeRefused({ node, source: { archive }, error }: RefusedArray): PlannedArray {
  return {
    node,
    source: archive.store.describe(archive.path),
    action: "refuse",
    code: error.code,
    reason: error.summary,
    nbytes: archive.nbytes,
    chunks: archive.nchunks,
    shards: 0,
    notes: [],
  };
}

/** Objects that identify the state of an archive; those that exist count. */
const METADATA = ["", "meta/sizes", "meta/storage", "meta/attributes", "__attrs__"];

/**
 * A fingerprint of the source: enough to refuse resuming with another source. It does not detect a chunk that was replaced
 * without a metadata change, but copying still checks the chunk's header and digest.
 */
async function fingerprintSource(jobs: ConversionJobs, options: OpenOptions): Promise<JsonObject> {
  const { archive } = jobs;
  const arrays: JsonObject[] = [];
  for (const { node, source } of [...jobs.arrays, ...jobs.refused])
    arrays.push({ node, ...(await fingerprintArray(source, options)) });
  return {
    location: archive.store.describe(archive.path),
    dialect: archive.dialect,
    kind: archive.kind,
    arrays,
  };
}

async function fingerprintArray(
  { archive, dtype, shape }: SourceArray,
  { signal }: OpenOptions,
): Promise<JsonObject> {
  const objects: Record<string, string> = {};
  for (const { store, path } of archive.joinedFrom ?? [archive])
    for (const name of METADATA) {
      const key = joinKey(path, name);
      if (key === "") continue;
      const info = await store.stat(key, { signal });
      const own = archive.joinedFrom === undefined ? name : store.describe(key);
      if (info !== undefined) objects[own] = `${info.size} ${info.stamp ?? info.version}`;
    }
  return { dtype: formatDType(dtype), shape, nchunks: archive.nchunks, nbytes: archive.nbytes, objects };
}
