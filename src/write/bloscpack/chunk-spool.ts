/**
 * Holds chunks for a file whose first bytes depend on the last ones: in memory, or if there are many, in a scratch object of
 * the store.
 */
import { SuperchunkError } from "../../errors.ts";
import type { WritableStore } from "../../store/types.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";

/** Bytes of chunks held in memory; later chunks go to the scratch object. */
const KEPT_BYTES = 64 << 20;
/** Bytes of memory that a chunk takes besides its own. */
const PER_CHUNK = 256;
/** Bytes read back at once. */
const READ_BYTES = 4 << 20;

/** Where chunks may be held. */
export interface Scratch {
  readonly store: Pick<WritableStore, "put" | "getRange" | "delete" | "describe">;
  /** Key of an object that is created and removed again. */
  readonly key: string;
}

/** The held chunks. Sizes in bytes. */
export interface SpooledChunks {
  /** Of each chunk with its digest. */
  readonly sizes: readonly number[];
  /** Decoded bytes of all chunks, and of the last one. */
  readonly nbytes: number;
  readonly lastNbytes: number;
  /** Chunk, digest, chunk, digest, … in fresh pieces. */
  pieces(): AsyncGenerator<Uint8Array>;
  dispose(): Promise<void>;
}

/** A scratch object beside `key`. Its name is like that of an unfinished put, which listings hide and clean-ups remove. */
export function scratchBeside(store: WritableStore, key: string): Scratch & { store: WritableStore } {
  const slash = key.lastIndexOf("/") + 1;
  const random = Array.from({ length: 16 }, () => Math.floor(Math.random() * 16).toString(16)).join("");
  return { store, key: `${key.slice(0, slash)}.${key.slice(slash).slice(0, 60)}.${random}.tmp` };
}

/** Keys of scratch objects. */
export const SCRATCH_KEY: RegExp = /(?:^|\/)\.[^/]*\.[0-9a-f]{16}\.tmp$/;

/** Collects all chunks. If this fails, the scratch object is removed. */
export async function spoolChunks(
  chunks: AsyncGenerator<StoredChunk>,
  scratch: Scratch,
  keptBytes: number = KEPT_BYTES,
): Promise<SpooledChunks> {
  const kept: Uint8Array[] = [];
  const sizes: number[] = [];
  let nbytes = 0;
  let lastNbytes = 0;
  let held = 0;
  let isSpooled = false;
  const count = (chunk: StoredChunk): Uint8Array[] => {
    sizes.push(chunk.bytes.length + chunk.digest.length);
    nbytes += chunk.nbytes;
    lastNbytes = chunk.nbytes;
    return chunk.digest.length === 0 ? [chunk.bytes] : [chunk.bytes, chunk.digest];
  };
  const dispose = async (): Promise<void> => {
    if (isSpooled) await scratch.store.delete(scratch.key);
  };
  for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
    const pieces = count(next.value);
    kept.push(...pieces);
    held += PER_CHUNK + next.value.bytes.length + next.value.digest.length;
    if (held < keptBytes) continue;
    isSpooled = true;
    try {
      await scratch.store.put(scratch.key, restOf(chunks, count), { durable: false });
    } catch (error) {
      await dispose().catch(() => undefined); // only the first error is thrown
      throw error;
    }
    break;
  }
  return {
    sizes,
    nbytes,
    lastNbytes,
    async *pieces() {
      yield* kept;
      if (isSpooled) yield* readSpooled(scratch);
    },
    dispose,
  };
}

async function* restOf(
  chunks: AsyncGenerator<StoredChunk>,
  count: (chunk: StoredChunk) => Uint8Array[],
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield* count(chunk);
}

async function* readSpooled({ store, key }: Scratch): AsyncGenerator<Uint8Array> {
  for (let offset = 0; ; ) {
    const bytes = await store.getRange(key, { offset, length: READ_BYTES });
    if (bytes === undefined)
      throw new SuperchunkError("STALE", "the scratch object was removed while it was in use", {
        path: store.describe(key),
      });
    if (bytes.length === 0) return;
    yield bytes;
    offset += bytes.length;
  }
}
