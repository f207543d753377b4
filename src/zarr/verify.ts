/** Reads and decodes what is stored of an array. Knows what counts as damage; must not know how chunks are read. */
import type { Finding, LongOptions, Selection } from "../array/types.ts";
import { isSuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import { leafOf } from "./chain.ts";
import { listStoredChunks, type StoredChunk } from "./list-chunks.ts";
import type { ArrayModel } from "./model.ts";
import type { ShardCache } from "./shard-cache.ts";
import { storedPositions } from "./stored-positions.ts";

/** What verifying a Zarr array did and found. */
export interface ZarrVerifyReport {
  readonly ok: boolean;
  /** Stored chunks that were read. */
  readonly chunks: number;
  /** Bytes of their values. */
  readonly nbytes: number;
  /** Stored bytes of the chunks. */
  readonly cbytes: number;
  /** Checksums of chunks, and of the indexes of shards that are objects, that were compared. */
  readonly digests: number;
  readonly findings: readonly Finding[];
}

/** What is verified, and how its values are read. */
export interface VerifiedArray {
  readonly store: ReadableStore;
  readonly model: ArrayModel;
  readonly cache: ShardCache;
  /** Bytes of all values. */
  readonly nbytes: number;
  read(selection: Selection, options: LongOptions): Promise<Uint8Array>;
}

/** Reads every stored chunk, and tells what is damaged. Throws what is no damage: I/O, aborts. */
export async function verifyChunks(array: VerifiedArray, options: LongOptions): Promise<ZarrVerifyReport> {
  const { store, model, cache } = array;
  const { signal, onProgress } = options;
  const findings: Finding[] = model.warnings.map((message) => ({
    severity: "warning",
    code: "WARNING",
    message,
    path: store.describe(model.path),
  }));
  const found = { chunks: 0, nbytes: 0, cbytes: 0, digests: 0 };
  const { serializer, stages } = model.chain;
  const ofIndex = serializer.kind === "sharding" && stages.length === 0 ? serializer.index.checksums : 0;
  const ofChunk = leafOf(model.chain).stages.filter(({ name }) => name === "crc32c").length;
  for await (const position of storedPositions(store, model, signal)) {
    signal?.throwIfAborted();
    try {
      let isThere = false;
      for await (const chunk of listStoredChunks(store, onlyChunk(model, position), cache, signal)) {
        isThere = true;
        found.chunks++;
        found.cbytes += chunk.nbytes;
        try {
          const bytes = await array.read(selectionOf(chunk, model.shape), { signal });
          found.nbytes += bytes.length;
          found.digests += ofChunk;
        } catch (error) {
          findings.push(findingOf(error));
        }
        onProgress?.({ done: found.nbytes, total: array.nbytes });
      }
      if (isThere) found.digests += ofIndex;
    } catch (error) {
      findings.push(findingOf(error));
    }
  }
  return { ok: findings.every(({ severity }) => severity !== "error"), ...found, findings };
}

/** Throws what says nothing about the stored bytes. */
function findingOf(error: unknown): Finding {
  if (!isSuperchunkError(error) || !(error.isDamage || error.code === "UNSUPPORTED")) throw error;
  const { path, chunk, offset, field, expected, found } = error.details;
  return {
    severity: "error",
    code: error.code,
    message: error.message,
    ...(path === undefined ? {} : { path }),
    ...(chunk === undefined ? {} : { chunk }),
    ...(offset === undefined ? {} : { offset }),
    ...(field === undefined ? {} : { field }),
    ...(expected === undefined ? {} : { expected }),
    ...(found === undefined ? {} : { found }),
  };
}

/** The same array with a grid of one chunk, so that a damaged shard does not hide the others. */
function onlyChunk(model: ArrayModel, position: readonly number[]): ArrayModel {
  return {
    ...model,
    axes: model.axes.map((axis, d) => ({
      ...axis,
      count: 1,
      startOf: () => axis.startOf(position[d] ?? 0),
      lengthOf: () => axis.lengthOf(position[d] ?? 0),
    })),
    chunkKey: () => model.chunkKey(position),
  };
}

function selectionOf(chunk: StoredChunk, shape: readonly number[]): Selection {
  return chunk.start.map((start, d) => ({
    start: Math.min(start, shape[d] ?? 0),
    stop: Math.min(start + (chunk.shape[d] ?? 1), shape[d] ?? 0),
    step: 1,
  }));
}
