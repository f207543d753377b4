/**
 * Plans which data files of an archive become which shards, and where the chunks are in each: every file is one shard, and all shards
 * have the same capacity.
 *
 * Reads metadata and chunk headers only. Must not know files beyond their keys, and must not write.
 * @see FORMAT.md [FL-01] [FL-02]
 */
import type { Archive, ChunkInfo } from "../archive/kinds/types.ts";
import { openBlpkFile } from "../archive/places/blpk-file.ts";
import { requireSettled } from "../archive/places/journal.ts";
import type { ChunkPlace } from "../archive/places/sequence.ts";
import { decodeStoredHeader } from "../archive/read/block-read.ts";
import { at, pushAll } from "../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../bytes/checksum.ts";
import { decodeHeaderAt, HEADER_LENGTH } from "../codec/header.ts";
import type { ChunkHeader } from "../codec/types.ts";
import type { ArrayJob, JobLayout } from "../convert/plan/array-job.ts";
import {
  assertConvertible,
  type ConversionJobs,
  type JobOptions,
  planJobs,
} from "../convert/plan/conversion-jobs.ts";
import { indexSlot, shardCells } from "../convert/plan/grid.ts";
import type { SourceArchive } from "../convert/sources/source-array.ts";
import { shardKey } from "../convert/targets/shard-files.ts";
import { SuperchunkError, valueOr } from "../errors.ts";
import { type BlpkHeader, decodeFileHeader, FILE_HEADER_LENGTH } from "../format/header.ts";
import type { JsonObject } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import { encodeNodes } from "../zarr/document/make-v3.ts";
import type { DualFiles, LinkKind, LinkOptions } from "./types.ts";

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

/** The index slot of chunk `k` of the file. */
export function slotOf({ layout }: LinkedShard, k: number): number {
  return indexSlot(layout.shards, k, layout.reversed);
}

export interface LinkedArchive {
  readonly shards: readonly LinkedShard[];
  readonly jobs: readonly ArrayJob[];
  readonly groups: ConversionJobs["groups"];
  /** Keys and bytes, in publication order: the root's document is last. */
  readonly documents: readonly (readonly [key: string, bytes: Uint8Array])[];
  readonly notes: readonly string[];
}

/**
 * Plans the link of an archive. `files` reads many headers at once (default: one by one).
 * @throws UNSUPPORTED if it cannot be linked, with the reason; errors of reading its headers
 */
export async function planShards(
  archive: Archive,
  options: LinkOptions & Pick<JobOptions, "isMember">,
  files?: HeaderReads,
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
  for (const job of first.arrays) {
    const found = job.layout === undefined ? [] : await listFiles(job.source.archive, files, options.signal);
    const capacity = found[0]?.chunks.length ?? 1;
    let jobs = byCapacity.get(capacity);
    if (jobs === undefined) {
      jobs = await planJobs(archive, { ...options, chunksPerShard: capacity });
      byCapacity.set(capacity, jobs);
    }
    const own = jobs.arrays.find(({ node }) => node === job.node) ?? job;
    documents.set(own.node, own.document);
    planned.push(own);
    notes.push(...(job.node === "" ? job.notes : job.notes.map((note) => `${job.node}: ${note}`)));
    for (const note of await describeOddities(own.source.archive, found, options.kind)) notes.push(note);
    pushAll(shards, placeShards(own, found));
  }
  const { groups } = first;
  return { shards, jobs: planned, groups, documents: encodeNodes(groups, documents), notes };
}

/**
 * The number of chunks of the first file. If all files have as many, the first plan is final. Undefined if that number
 * is not available.
 */
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
    if (range.first !== file.first || range.end !== file.first + file.chunks.length)
      throw unlinkable(
        source.archive.store.describe(file.key),
        `its chunks ${file.first} to ${file.first + file.chunks.length - 1} do not make a shard of whole rows of the shape [${source.shape.join(", ")}]`,
      );
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

/** Throws for the first array that Zarr cannot represent, or only by recompressing its chunks. */
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

const PLACES = 1 << 16;

type HeaderReads = Pick<DualFiles, "readEach">;

/** A chunk in a file. Sizes in bytes; `ctbytes` includes the header but not the digest. */
interface FileChunk {
  readonly offset: number;
  readonly ctbytes: number;
  readonly nbytes: number;
}

interface DataFile {
  readonly key: string;
  /** Index of its first chunk in the array. */
  readonly first: number;
  readonly chunks: readonly FileChunk[];
  /** Bytes of the digest after each chunk. */
  readonly digestLength: number;
  /** Present if it has been read already. */
  readonly header?: BlpkHeader;
}

/**
 * The files in the order of their chunks.
 * @throws UNSUPPORTED if a file's chunks are not contiguous in the array, or no Zarr reader decodes them; the codes of damage
 */
async function listFiles(
  archive: SourceArchive,
  reads: HeaderReads | undefined,
  signal: AbortSignal | undefined,
): Promise<DataFile[]> {
  if (archive.chunkStarts !== undefined) {
    const path = archive.store.describe(archive.path);
    throw unlinkable(path, "its chunks are of unequal lengths, and those of a Zarr shard are not");
  }
  const files =
    (reads && (await readFilesAtOnce(archive, reads, signal))) ?? (await readFiles(archive, signal));
  files.forEach((file, i) => {
    const expected = at(files, 0).chunks.length;
    const found = file.chunks.length;
    if (found === expected || (i === files.length - 1 && found < expected)) return;
    throw unlinkable(
      archive.store.describe(file.key),
      `it has ${found} chunks of the array and the first file ${expected}, but all shards of a Zarr array hold the same number, and only the last may hold fewer (of an array of superchunks, "superchunk compact" makes them so)`,
    );
  });
  return files;
}

/** Groups chunks by file. Throws `UNSUPPORTED` if a file's chunks are not contiguous in the array. */
function groupByFile<T extends ChunkPlace>(archive: SourceArchive, chunks: readonly T[]): T[][] {
  const files: T[][] = [];
  const seen = new Set<string>();
  let key: string | undefined;
  for (const chunk of chunks) {
    if (chunk.key === key) files[files.length - 1]?.push(chunk);
    else if (seen.has(chunk.key))
      throw new SuperchunkError(
        "UNSUPPORTED",
        `it cannot be linked: chunk ${chunk.index} is in it, but the chunks before it are elsewhere, and a shard is one run of chunks. "superchunk compact" puts changed chunks back in order; "superchunk convert" makes a Zarr copy`,
        { path: archive.store.describe(chunk.key), field: "chunks", found: chunk.index },
      );
    else {
      key = chunk.key;
      seen.add(key);
      files.push([chunk]);
    }
  }
  return files;
}

/** The files according to every chunk's header. Throws what is wrong with one. */
async function readFiles(archive: SourceArchive, signal: AbortSignal | undefined): Promise<DataFile[]> {
  const chunks: ChunkInfo[] = [];
  for await (const chunk of archive.listChunks({ digests: false, signal })) {
    if (chunk.compressor === "snappy" && !chunk.memcpyed)
      throw unlinkable(
        archive.store.describe(chunk.key),
        `chunk ${chunk.index} is compressed with snappy, which zarr-python cannot decode`,
      );
    chunks.push(chunk);
  }
  return groupByFile(archive, chunks).flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    return [
      { key: first.key, first: first.index, chunks: group, digestLength: DIGEST_LENGTHS[first.checksum] },
    ];
  });
}

/** The same, reading all headers of a file in one loop; undefined if that is not possible, or a header prevents a link. */
async function readFilesAtOnce(
  archive: SourceArchive,
  reads: HeaderReads,
  signal: AbortSignal | undefined,
): Promise<DataFile[] | undefined> {
  const places: ChunkPlace[] = [];
  for (let at = 0; at < archive.nchunks; at += PLACES)
    places.push(...(await archive.chunkPlaces(at, at + PLACES, { signal })));
  const files: DataFile[] = [];
  for (const group of groupByFile(archive, places)) {
    signal?.throwIfAborted();
    const [first] = group;
    const header = first?.header;
    if (first === undefined || header === undefined || header.version < 3) return undefined;
    const digestLength = DIGEST_LENGTHS[header.checksum];
    const offsets = group.map(({ offset }) => offset);
    const heads = await reads.readEach(first.key, offsets, HEADER_LENGTH);
    if (heads === undefined) return undefined;
    const view = new DataView(heads.buffer, heads.byteOffset, heads.byteLength);
    const chunks: FileChunk[] = [];
    for (const [i, { offset, available, nbytes }] of group.entries()) {
      const chunk = decodeSound(view, i * HEADER_LENGTH, available - digestLength);
      if (chunk?.nbytes !== nbytes) return undefined;
      chunks.push({ offset, ctbytes: chunk.ctbytes, nbytes });
    }
    files.push({ key: first.key, first: first.index, chunks, digestLength, header });
  }
  return files;
}

/** A header that any Zarr reader decodes the chunk of; undefined for damage and for other chunks. */
function decodeSound(heads: DataView, at: number, available: number): ChunkHeader | undefined {
  return valueOr(undefined, "any", () => {
    const header = decodeHeaderAt(heads, at, available);
    return header.compressor !== "snappy" || header.memcpyed ? header : undefined;
  });
}

/** Notes on files that Bloscpack cannot read. Throws `UNSUPPORTED` for files that must not grow. */
async function describeOddities(
  archive: SourceArchive,
  files: readonly DataFile[],
  kind: LinkKind = "hard",
): Promise<string[]> {
  if (kind === "copy") return []; // the data files stay as they are
  const notes: string[] = [];
  for (const { key, chunks, digestLength: digest, header: known } of files) {
    const header = known ?? (await readFileHeader(archive, key));
    const path = archive.store.describe(key);
    if (header.nchunks < 0)
      throw unlinkable(
        path,
        "its header does not say how many chunks it has, so that readers walk to its end and would take what is added for chunks",
      );
    const isWalkable = chunks.every((chunk, i) => {
      const before = chunks[i - 1];
      return before === undefined || chunk.offset === before.offset + before.ctbytes + digest;
    });
    if (header.version === 4 || !isWalkable)
      notes.push(
        `${path} is not a file that Bloscpack can read, before and after: its chunks do not lie back to back and in order`,
      );
  }
  return notes;
}

async function readFileHeader({ store }: SourceArchive, key: string): Promise<BlpkHeader> {
  const head = await store.getRange(key, { offset: 0, length: FILE_HEADER_LENGTH });
  return decodeFileHeader(head ?? new Uint8Array(0), store.describe(key));
}

/** The error for an archive that cannot be linked, with the reason and what to do instead. */
function unlinkable(path: string, reason: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `it cannot be linked: ${reason}. "superchunk convert" makes a Zarr copy`,
    { path },
  );
}

/**
 * The byte after the last chunk and its digest, counting all chunks of the file's header. If chunks can only be found
 * by walking the file, the end of the file.
 * @throws the codes of damage
 */
export async function findDataEnd(store: ReadableStore, key: string, size: number): Promise<number> {
  const {
    starts,
    digestLength: digest,
    path,
  } = await openBlpkFile(store, key, size, Number.POSITIVE_INFINITY);
  if (starts.length === 0) return size;
  const start = starts.reduce((most, each) => Math.max(most, each));
  const head = await store.getRange(key, { offset: start, length: HEADER_LENGTH });
  const where = { path, chunk: starts.indexOf(start), offset: start };
  return start + decodeStoredHeader(head ?? new Uint8Array(0), where).ctbytes + digest;
}
