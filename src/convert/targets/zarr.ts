/**
 * Zarr v3 as a target: archives become arrays of shards, Zarr of every version goes over chunk by chunk.
 *
 * Knows hierarchies and their documents; must not know how shards are made.
 */
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { DOCUMENT } from "../../zarr/document/metadata-v3.ts";
import { consolidate, encodeDocument } from "../../zarr/document/zarr-metadata.ts";
import { ZarrArray } from "../../zarr/read/array.ts";
import { ZarrGroup } from "../../zarr/read/group.ts";
import type { ConvertOptions, Document, OpenedSource, Place, SourceRun, Target } from "../pipeline.ts";
import {
  type ConversionJobs,
  describeJobs,
  fingerprintSource,
  type JobOptions,
  planJobs,
} from "../plan/conversion-jobs.ts";
import { planJoined } from "../plan/joined.ts";
import { notesOnAttributes } from "../plan/zarr-attributes.ts";
import { planZarrJobs } from "../plan/zarr-jobs.ts";
import { objectRun } from "./zarr-objects.ts";
import { shardRun } from "./zarr-shards.ts";

/** Zarr v3. */
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
  source: OpenedSource,
  { key, isMember }: Place,
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

function jobsOf(source: OpenedSource, options: JobOptions): Promise<ConversionJobs> {
  if (source.kind === "joined") return planJoined(source.archives, options);
  if ("dialect" in source && !(source instanceof ZarrArray || source instanceof ZarrGroup))
    return planJobs(source, options);
  throw new SuperchunkError("BAD_ARGUMENT", "columns without an archive or a Zarr node cannot become Zarr", {
    path: "store" in source ? source.store.describe(source.path) : "",
    field: "source",
  });
}

async function planNode(
  root: ZarrArray | ZarrGroup,
  { key, isMember }: Place,
  options: ConvertOptions,
): Promise<SourceRun> {
  const { plan, arrays, groups, failed } = await planZarrJobs(root, { ...options, isMember });
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
    notes: groups.flatMap(({ path, node }) =>
      notesOnAttributes(node.attrs).map((note) => (path === "" ? note : `${path}: ${note}`)),
    ),
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

/** Groups from the innermost to the root, whose document repeats all others. */
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

/** The options that decide the bytes of the result, as the record keeps them. */
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
