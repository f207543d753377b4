/**
 * Which data files of an archive become which shards: every file is one shard, and every shard holds as many chunks.
 *
 * Reads metadata and chunk headers only. Must not know files beyond their keys, and must not write.
 * @see FORMAT.md [FL-01] [FL-02]
 */
import { requireSettled } from "../../array/array-journal.ts";
import type { Archive, ChunkInfo } from "../../array/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { digestLength } from "../../format/checksums.ts";
import { decodeHeader } from "../../format/header.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ArrayJob, JobLayout } from "../array-job.ts";
import { type ConversionJobs, planJobs } from "../conversion-jobs.ts";
import { assertConvertible, encodeDocument } from "../convert.ts";
import { indexSlot, shardCells } from "../grid.ts";
import { shardKey } from "../shard-keys.ts";
import { consolidate } from "../zarr-metadata.ts";
import type { LinkKind, LinkOptions } from "./types.ts";

const HEADER_LENGTH = 32;

/** A data file that becomes a shard. */
export interface LinkedShard {
  readonly job: ArrayJob;
  readonly layout: JobLayout;
  /** Key of the data file. */
  readonly path: string;
  /** Key of the shard. */
  readonly link: string;
  /** Chunks of the array in the file: `[first, first + places.length)`. */
  readonly first: number;
  /** Where the chunks lie in the file, and in which slot of the index. */
  readonly places: readonly { readonly slot: number; readonly offset: number; readonly nbytes: number }[];
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
}

/**
 * Plans all of an archive.
 *
 * @throws UNSUPPORTED where it cannot be linked, saying why; what reading its headers throws
 */
export async function planShards(archive: Archive, options: LinkOptions): Promise<LinkedArchive> {
  requireSettled(archive);
  const first = await planJobs(archive, options);
  refuse(first);
  const byCapacity = new Map<number, ConversionJobs>();
  const notes = [...first.notes];
  const shards: LinkedShard[] = [];
  const planned: ArrayJob[] = [];
  const documents = new Map<string, JsonObject>();
  for (const job of first.arrays) {
    const files = job.layout === undefined ? [] : await listFiles(job, options.signal);
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
    for (const note of await describeOddities(own, files, options.kind)) notes.push(note);
    shards.push(...placeShards(own, files));
  }
  const { groups } = first;
  return { shards, jobs: planned, groups, documents: listDocuments(first, documents), notes };
}

/** The archive's groups and arrays as documents: arrays, then groups from the innermost to the root. */
function listDocuments(
  { groups }: ConversionJobs,
  arrays: ReadonlyMap<string, JsonObject>,
): (readonly [string, Uint8Array])[] {
  const below = new Map([...groups, ...arrays].filter(([node]) => node !== ""));
  const sorted = new Map([...below].sort(([a], [b]) => (a < b ? -1 : 1)));
  const ordered = [...arrays, ...[...groups].reverse()];
  return ordered.map(([node, document]) => [
    joinKey(node, "zarr.json"),
    encodeDocument(node === "" && groups.has("") ? consolidate(document, sorted) : document),
  ]);
}

/** A data file and the chunks of the array in it. */
interface DataFile {
  readonly key: string;
  readonly first: number;
  readonly chunks: readonly ChunkInfo[];
}

/** The files in the order of their chunks. Throws `UNSUPPORTED` where a file's chunks are not one run. */
async function listFiles({ source }: ArrayJob, signal: AbortSignal | undefined): Promise<DataFile[]> {
  const { archive } = source;
  const files: { key: string; first: number; chunks: ChunkInfo[] }[] = [];
  const seen = new Set<string>();
  for await (const chunk of archive.listChunks({ digests: false, signal })) {
    const last = files[files.length - 1];
    if (last?.key === chunk.key) last.chunks.push(chunk);
    else if (seen.has(chunk.key)) throw scattered(archive.store.describe(chunk.key), chunk.index);
    else {
      seen.add(chunk.key);
      files.push({ key: chunk.key, first: chunk.index, chunks: [chunk] });
    }
    if (chunk.compressor === "snappy" && !chunk.memcpyed) {
      throw unlinkable(
        archive.store.describe(chunk.key),
        `chunk ${chunk.index} is compressed with snappy, which zarr-python cannot decode`,
      );
    }
  }
  const [whole] = files;
  files.forEach((file, i) => {
    const expected = whole?.chunks.length ?? 0;
    const found = file.chunks.length;
    if (found === expected || (i === files.length - 1 && found < expected)) return;
    throw unlinkable(
      archive.store.describe(file.key),
      `it has ${found} chunks of the array and the first file ${expected}, but all shards of a Zarr array hold the same number, and only the last may hold fewer`,
    );
  });
  return files;
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
      places: file.chunks.map(({ offset, ctbytes }, k) => ({
        slot: indexSlot(layout.shards, k, layout.reversed),
        offset,
        nbytes: ctbytes,
      })),
    };
  });
}

/** What is worth knowing of files that are no Bloscpack files. Throws `UNSUPPORTED` for those that must not grow. */
async function describeOddities(
  { source }: ArrayJob,
  files: readonly DataFile[],
  kind: LinkKind = "hard",
): Promise<string[]> {
  if (kind === "copy") return []; // the data files stay as they are
  const { archive } = source;
  const notes: string[] = [];
  for (const { key, chunks } of files) {
    const path = archive.store.describe(key);
    const head = await archive.store.getRange(key, { offset: 0, length: HEADER_LENGTH });
    const header = decodeHeader(head ?? new Uint8Array(0), path);
    if (header.nchunks < 0) {
      throw unlinkable(
        path,
        "its header does not say how many chunks it has, so that readers walk to its end and would take what is added for chunks",
      );
    }
    const isWalkable = chunks.every((chunk, i) => {
      const before = chunks[i - 1];
      return (
        before === undefined ||
        chunk.offset === before.offset + before.ctbytes + digestLength(before.checksum)
      );
    });
    if (header.version === 4 || !isWalkable) {
      notes.push(
        `${path} is not a file that Bloscpack can read, before and after: its chunks do not lie one behind the other`,
      );
    }
  }
  return notes;
}

/** Throws for the first array that Zarr cannot hold, or only with its chunks made anew. */
function refuse(jobs: ConversionJobs): void {
  assertConvertible(jobs);
  for (const { source, recodes, layout } of jobs.arrays) {
    const path = source.archive.store.describe(source.archive.path);
    if (recodes !== undefined) throw unlinkable(path, `its chunks would have to be made anew: ${recodes}`);
    if (layout !== undefined && !layout.sharded)
      throw unlinkable(path, "an array without dimensions has no shards in Zarr");
  }
}

function scattered(path: string, chunk: number): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `it cannot be linked: chunk ${chunk} lies in it, but the chunks before it lie elsewhere, and a shard is one run of chunks. "superchunk compact" puts changed chunks in their places; "superchunk convert" makes a Zarr copy`,
    { path, field: "chunks", found: chunk },
  );
}

/** Says why an archive cannot be linked, and what can be done. */
function unlinkable(path: string, reason: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `it cannot be linked: ${reason}. "superchunk convert" makes a Zarr copy`,
    { path },
  );
}
