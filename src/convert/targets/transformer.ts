/**
 * Hierarchies of the older storage transformer as a target: an archive's Blosc chunks are copied into shards, and a short last
 * one is padded. zarr 2.13 to 2.18 read the result.
 *
 * Knows archives and the transformer's layout; must not know how arrays are ordered and published.
 */

import type { Archive, ArrayArchive, BytesArchive } from "../../archive/kinds/types.ts";
import { decode, encode } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { keepFloats } from "../../format/json-float.ts";
import { hasEntries, joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import {
  dataKey,
  documentKey,
  ENTRY_DOCUMENT,
  TRANSFORMER_INDEX,
} from "../../zarr/document/metadata-transformer.ts";
import { openZarrArray } from "../../zarr/read/open.ts";
import { emptyEntries, encodeShardIndex } from "../../zarr/read/shard-index.ts";
import {
  encodeTransformerJson,
  hasEntryDocument,
  refuseFilters,
  type TransformerSpecification,
  transformerDocument,
} from "../../zarr/transformer.ts";
import type {
  ArrayRun,
  ConvertOptions,
  Document,
  OpenedSource,
  PlannedArray,
  SourceRun,
  Target,
  TargetPlace,
  TaskContext,
} from "../pipeline.ts";
import { compareValues } from "../run/compare.ts";
import { checkStreams, placeFailure } from "../sources/chunk-source.ts";
import { describeBytes, describeColumn } from "../sources/columns.ts";
import { chooseColumns } from "../sources/source-array.ts";
import { noObjects } from "./column-target.ts";

/** Default number of chunks in a shard. */
const CHUNKS_PER_SHARD = 1024;

/** The older storage transformer. Its shards are only copied: an array whose chunks do not fit is refused. */
export const TRANSFORMER: Target = {
  format: "zarr3-transformer",
  isHierarchy: false,
  settings: ({ columns, chunksPerShard }) => ({
    to: "zarr3-transformer",
    columns: columns ?? null,
    chunksPerShard: chunksPerShard ?? null,
  }),
  isDocument: (key) => /(?:^|\/)zarr\.json$|\.(?:array|group)\.json$/.test(key),
  plan: planHierarchy,
};

async function planHierarchy(
  source: OpenedSource,
  { key: base, inHierarchy }: TargetPlace,
  options: ConvertOptions,
): Promise<SourceRun> {
  const archive = archiveOf(source);
  const jobs: ArrayJob[] = [];
  const path = archive.store.describe(archive.path);
  let refusal: SuperchunkError | undefined;
  const members: readonly (readonly [string, ArrayArchive | BytesArchive])[] =
    archive.kind === "table"
      ? chooseColumns(archive, archive.names, options.columns).map(
          (name) => [name, archive.column(name)] as const,
        )
      : [["", archive]];
  for (const [name, member] of members) {
    try {
      jobs.push(await planArray(member, { name, path: joinKey(inHierarchy, name) }, options));
    } catch (error) {
      if (!(error instanceof SuperchunkError) || error.code !== "UNSUPPORTED") throw error;
      refusal ??= error;
    }
  }
  const named = { ...archive.attrs, column_order: jobs.map(({ name }) => name) };
  const document = {
    key: joinKey(base, documentKey(inHierarchy, "group")),
    bytes: encodeTransformerJson({ attributes: keepFloats(named, archive.attrs) }),
  };
  const group: readonly Document[] = archive.kind === "table" ? [document] : [];
  return {
    plan: {
      source: path,
      kind: archive.kind === "table" ? "group" : "array",
      arrays: jobs.map(describeJob),
      groups: archive.kind === "table" ? [""] : [],
      renamed: [],
      nbytes: archive.nbytes,
    },
    arrays: jobs.map((job) => arrayRun(job, base)),
    refusal,
    failed: [],
    notes: [],
    skipsFailed: false,
    fingerprint: async () => ({ path, nbytes: archive.nbytes }),
    claim: (store) =>
      claim(store, base, [...jobs.map((job) => job.path), ...(group.length > 0 ? [inHierarchy] : [])]),
    groups: () => group,
    described: () => [],
  };
}

function archiveOf(source: OpenedSource): Archive {
  if ("dialect" in source && ("encodedChunks" in source || source.kind === "table")) return source;
  throw new SuperchunkError("UNSUPPORTED", "only archives become hierarchies of the older transformer", {
    path: "store" in source ? source.store.describe(source.path) : "",
    field: "source",
  });
}

/** An array, and how it is cut. */
interface ArrayJob {
  readonly archive: ArrayArchive | BytesArchive;
  /** Name of the column; empty for an array that is not one. */
  readonly name: string;
  readonly path: string;
  readonly specification: TransformerSpecification;
  readonly itemSize: number;
  readonly nchunks: number;
  readonly perShard: number;
}

async function planArray(
  archive: ArrayArchive | BytesArchive,
  { name, path }: Pick<ArrayJob, "name" | "path">,
  { chunksPerShard = CHUNKS_PER_SHARD, signal }: ConvertOptions,
): Promise<ArrayJob> {
  const { shape, dataType, rows, itemSize, fillValue } = describe(archive);
  const { cname, clevel, shuffle } = await archive.summary({ signal });
  if (cname === "snappy")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "zarr 2.18 cannot decode Blosc chunks with snappy, and here chunks are only copied; convert it to Zarr v3",
      { path: archive.store.describe(archive.path), field: "cname", found: cname },
    );
  refuseFilters(archive.attrs, archive.store.describe(archive.path));
  const others = shape.slice(1).map((n) => Math.max(1, n));
  // An empty archive may have a chunk without rows, which has no place in Zarr.
  const nchunks = archive.nbytes === 0 ? 0 : archive.nchunks;
  const perShard = Math.max(1, Math.min(chunksPerShard, nchunks));
  const specification: TransformerSpecification = {
    shape,
    dataType,
    chunkShape: [rows, ...others],
    chunksPerShard: [perShard, ...others.map(() => 1)],
    compressor: {
      codec: "blosc",
      configuration: {
        cname: cname ?? "lz4",
        clevel: clevel ?? 5,
        shuffle: ["noshuffle", "shuffle", "bitshuffle"].indexOf(shuffle ?? "shuffle"),
        blocksize: 0,
      },
    },
    fillValue,
    attributes: archive.attrs,
  };
  return { archive, name, path, specification, itemSize, nchunks, perShard };
}

function describeJob({ archive, name, specification, nchunks, perShard }: ArrayJob): PlannedArray {
  return {
    node: name,
    source: archive.store.describe(archive.path),
    action: nchunks === 0 ? "empty" : "copy",
    nbytes: archive.nbytes,
    chunks: nchunks,
    shards: Math.ceil(nchunks / perShard),
    shape: specification.shape,
    dataType: specification.dataType,
    chunkShape: specification.chunkShape,
    notes: [],
  };
}

function arrayRun(job: ArrayJob, base: string): ArrayRun {
  const { archive, name, path, specification, nchunks, perShard } = job;
  const trailing = specification.shape.slice(1).map(() => 0);
  return {
    node: name,
    path: archive.store.describe(archive.path),
    arrays: 1,
    nbytes: archive.nbytes,
    notes: [],
    root: joinKey(base, "data/root", path),
    keepsTasks: true,
    *tasks() {
      for (let shard = 0; shard * perShard < nchunks; shard++)
        yield { key: joinKey(base, dataKey(path, [shard, ...trailing], "/")), part: [shard], nbytes: 0 };
    },
    async run({ key, part: [shard = 0] }, context) {
      await context.store.put(key, shardOf(job, shard, context), { signal: context.signal });
      return true;
    },
    documents: [
      { key: joinKey(base, "zarr.json"), bytes: encodeTransformerJson(ENTRY_DOCUMENT) },
      {
        key: joinKey(base, documentKey(path, "array")),
        bytes: encodeTransformerJson(transformerDocument(specification)),
      },
    ],
    async compare(store, signal) {
      const source =
        archive.kind === "bytes" ? await describeBytes(archive, {}) : await describeColumn("", archive);
      const at = joinKey(base, path);
      await compareValues(source, await openZarrArray(store, at, { signal }), store.describe(at), signal);
    },
  };
}

async function* shardOf(
  { archive, itemSize, nchunks, perShard }: ArrayJob,
  shard: number,
  { counts, advance, signal }: TaskContext,
): AsyncGenerator<Uint8Array> {
  const first = shard * perShard;
  const entries = emptyEntries(perShard);
  let offset = 0;
  for await (const { place, bytes } of archive.encodedChunks(first, Math.min(first + perShard, nchunks), {
    signal,
  })) {
    await placeFailure(archive.store, place, checkStreams(bytes));
    const isShort = place.nbytes < archive.chunkBytes;
    counts[isShort ? "padded" : "copied"]++;
    const chunk = isShort
      ? await placeFailure(archive.store, place, pad(bytes, archive.chunkBytes, itemSize))
      : bytes;
    entries[place.index - first] = { offset, nbytes: chunk.length };
    offset += chunk.length;
    yield chunk;
    advance(place.nbytes);
  }
  yield await encodeShardIndex(entries, [perShard], TRANSFORMER_INDEX);
}

/**
 * Throws `CONFLICT` if there is a node already, or another kind of hierarchy. Returns the hierarchy's folder if it does not
 * exist yet.
 */
async function claim(
  store: WritableStore,
  base: string,
  paths: readonly string[],
): Promise<readonly string[]> {
  if (!(await hasEntries(store, base))) return [base];
  await hasEntryDocument(store, base);
  for (const path of paths)
    for (const kind of ["array", "group"] as const) {
      const key = joinKey(base, documentKey(path, kind));
      if ((await store.stat(key)) === undefined) continue;
      throw new SuperchunkError("CONFLICT", "a node with this name exists; choose another name", {
        path: store.describe(key),
      });
    }
  return [];
}

function describe(
  archive: ArrayArchive | BytesArchive,
): Required<Pick<TransformerSpecification, "shape" | "dataType" | "fillValue">> &
  Record<"rows" | "itemSize", number> {
  if (archive.chunkStarts !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the archive's chunks are of unequal lengths, so they cannot be copied; convert it to Zarr v3",
      { path: archive.store.describe(archive.path), field: "chunks", found: "unequal lengths" },
    );
  if (archive.kind === "bytes") {
    const rows = Math.max(1, archive.chunkBytes);
    return { shape: [archive.nbytes], dataType: "|u1", rows, itemSize: 1, fillValue: 0 };
  }
  const { dtype, shape, order, chunkLength, columnNames } = archive;
  const type = formatDType(dtype);
  const path = archive.store.describe(archive.path);
  if (dtype.kind === "object") throw noObjects(path);
  if (typeof type !== "string" || columnNames.length > 0)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "zarr 2.18's version 3 has no structured data types; convert it to Zarr v3",
      { path, field: "dtype", found: dtype.kind },
    );
  if (shape.length === 0 || chunkLength === undefined || (order === "F" && shape.length > 1))
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the archive's chunks are not whole rows in C order, so they cannot be copied; convert it to Zarr v3",
      { path, field: "chunks", found: order },
    );
  return {
    shape,
    dataType: type,
    rows: Math.max(1, chunkLength), // 0 for an empty array
    itemSize: dtype.itemSize,
    fillValue: dtype.kind === "bool" ? false : ["bytes", "unicode"].includes(dtype.kind) ? "" : 0,
  };
}

async function pad(chunk: Uint8Array, nbytes: number, typesize: number): Promise<Uint8Array> {
  const items = new Uint8Array(nbytes);
  items.set(await decode(chunk, { maxNbytes: nbytes }));
  return encode(items, { cname: "lz4", typesize: Math.min(255, typesize) });
}
