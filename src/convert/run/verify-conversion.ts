/**
 * Reads a conversion back and compares it with its source, chunk by chunk, with flat memory.
 *
 * Uses its own shard reader, so that a fault of the writer is not hidden. Must not write.
 */
import type { Archive, LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkPlace } from "../../archive/places/sequence.ts";
import { decode, decodeHeader } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { placeFailure } from "../failure.ts";
import type { LayoutOptions } from "../pipeline.ts";
import { type ArrayJob, bytesOfCell, cellSegments, type JobLayout } from "../plan/array-job.ts";
import { type ConversionJobs, planJobs } from "../plan/conversion-jobs.ts";
import { cellItems, indexSlot, shardCells } from "../plan/grid.ts";
import { recodedCells } from "../sources/chunk-source.ts";
import { openShard, readShardChunks, shardKey } from "../targets/shard-files.ts";

/** What was compared. */
export interface ConversionCheck {
  readonly arrays: number;
  readonly chunks: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
}

/**
 * Compares a finished conversion with its source: documents, shard indexes, and every value. `options` are those
 * of the conversion. Throws the damage it finds: `BAD_FIELD` with the array, chunk and byte where values differ.
 */
export async function verifyConversion(
  archive: Archive,
  store: ReadableStore,
  prefix: string,
  options: LayoutOptions & LongOptions = {},
): Promise<ConversionCheck> {
  const jobs = await planJobs(archive, options);
  const check = { arrays: 0, chunks: 0, nbytes: 0 };
  for (const job of jobs.arrays) {
    await checkDocument(store, joinKey(prefix, job.node, "zarr.json"), job.document);
    check.chunks += await verifyArray(job, store, prefix, options);
    check.nbytes += job.source.archive.nbytes;
    check.arrays++;
    options.onProgress?.({
      done: check.nbytes,
      total: totalBytes(jobs),
      label: archive.store.describe(archive.path),
    });
  }
  for (const [node, document] of jobs.groups)
    await checkDocument(store, joinKey(prefix, node, "zarr.json"), document);
  return check;
}

/** Compares the values of one array, whose document need not be there yet. Returns the number of chunks. */
export async function verifyArray(
  job: ArrayJob,
  store: ReadableStore,
  prefix: string,
  { signal }: LongOptions = {},
): Promise<number> {
  const { layout } = job;
  if (layout === undefined) return 0;
  for (let shard = 0; shard < layout.shards.count; shard++) {
    const range = shardCells(layout.shards, shard);
    const own = signal ?? new AbortController().signal;
    const key = shardKey(prefix, job, layout, shard);
    const found = readBack(layout, shard, { store, key }, own);
    let cell = range.first;
    for await (const expected of expectedChunks(job, layout, range.first, range.end, own)) {
      const next = await found.next();
      const place = { path: store.describe(key), chunk: cell - range.first };
      if (next.done === true)
        throw new SuperchunkError("INCOMPLETE", "the chunk is absent from the shard; convert again", place);
      await compareChunk(
        expected,
        next.value,
        cellItems(layout.cells, cell) * job.type.itemSize,
        bytesOfCell(job, layout, cell),
        place,
      );
      cell++;
    }
    await found.return(undefined);
  }
  return layout.cells.count;
}

/** A source chunk: encoded as the archive has it, with where that is, or decoded. */
type Expected = ({ readonly encoded: Uint8Array } & Source) | { readonly items: Uint8Array };

/** Where a chunk of the source lies. */
interface Source {
  readonly store: ReadableStore;
  readonly place: ChunkPlace;
}

async function* expectedChunks(
  job: ArrayJob,
  layout: JobLayout,
  first: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<Expected> {
  const { archive } = job.source;
  for (const run of cellSegments(layout.copies, { first, end })) {
    if (run.chunk === undefined) {
      for await (const items of recodedCells(job, layout, run, signal)) yield { items };
      continue;
    }
    const last = run.chunk + run.end - run.first;
    for await (const { place, bytes } of archive.encodedChunks(run.chunk, last, { signal }))
      yield { encoded: bytes, store: archive.store, place };
  }
}

async function* readBack(
  layout: JobLayout,
  shard: number,
  { store, key }: { readonly store: ReadableStore; readonly key: string },
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (!layout.sharded) {
    const bytes = await store.get(key, { signal });
    if (bytes !== undefined) yield bytes;
    return;
  }
  const { first, end } = shardCells(layout.shards, shard);
  const open = await openShard(store, key, layout.shards.capacity, { signal });
  const slots = Array.from({ length: end - first }, (_, k) => indexSlot(layout.shards, k, layout.reversed));
  yield* readShardChunks(store, open, slots, { signal });
}

async function compareChunk(
  expected: Expected,
  found: Uint8Array,
  length: number,
  cellBytes: number,
  place: { path: string; chunk: number },
): Promise<void> {
  const header = decodeHeader(found, found.length);
  if (header.nbytes !== cellBytes) throw differs(place, "nbytes", cellBytes, header.nbytes);
  if ("encoded" in expected && firstDifference(expected.encoded, found, found.length) === undefined) {
    // The same bytes: what is wrong with them was wrong in the source.
    await placeFailure(expected.store, expected.place, decode(found, { expectedNbytes: cellBytes }));
    return;
  }
  const items =
    "items" in expected
      ? expected.items
      : await placeFailure(expected.store, expected.place, decode(expected.encoded));
  const decoded = await decode(found, { expectedNbytes: cellBytes }).catch((error: unknown) => {
    if (!isSuperchunkError(error)) throw error;
    // Where the chunk is in its object is not known here.
    const { offset: _, ...details } = error.details;
    const summary = `${error.summary}; bytes count from the start of the chunk`;
    throw new SuperchunkError(error.code, summary, { ...details, ...place });
  });
  const at = firstDifference(items, decoded, length);
  if (at !== undefined)
    throw differs({ ...place, offset: at }, `byte ${at} of the decoded chunk`, items[at], decoded[at]);
}

/** The first of `length` bytes at which two runs differ, or undefined. */
function firstDifference(a: Uint8Array, b: Uint8Array, length: number): number | undefined {
  if (a.length < length || b.length < length) return Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return i;
  return undefined;
}

function differs(
  place: { path: string; chunk: number; offset?: number },
  field: string,
  expected: unknown,
  found: unknown,
): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the converted values differ from the source: ${field} is ${found}, expected ${expected}; convert again`,
    {
      ...place,
      field,
      expected,
      found,
    },
  );
}

async function checkDocument(store: ReadableStore, key: string, expected: JsonObject): Promise<void> {
  const path = store.describe(key);
  const bytes = await store.get(key);
  if (bytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "the document is not there; the conversion was not finished", {
      path,
    });
  const found = parseJson(bytes, path) as JsonObject;
  for (const [member, value] of Object.entries(expected)) {
    // Earlier versions named no dimensions.
    if (member === "dimension_names" && found[member] === undefined) continue;
    const wanted = stringifyJson(value);
    const stored = found[member] === undefined ? "nothing" : stringifyJson(found[member]);
    if (stored === stringifyJson(parseJson(new TextEncoder().encode(wanted), path))) continue;
    throw new SuperchunkError(
      "BAD_FIELD",
      `${member} is ${stored}, expected ${wanted}; convert again with the same options`,
      {
        path,
        field: member,
        expected: wanted,
        found: stored,
      },
    );
  }
}

function totalBytes(jobs: ConversionJobs): number {
  return jobs.arrays.reduce((total, { source }) => total + source.archive.nbytes, 0);
}
