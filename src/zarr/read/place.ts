/** Bytes of an encoded chunk: a range of an object in a store, or bytes that are already here. */
import { SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";

/** Where an encoded chunk lies. */
export interface ChunkPlace {
  readonly key: string;
  /** How messages name the object. */
  readonly path: string;
  /** Byte of the object where the chunk starts; of the bytes themselves where they are here. */
  readonly offset: number;
  /** Bytes of the chunk; undefined: the whole object, whatever its size. */
  readonly nbytes: number | undefined;
  /** Slot in the innermost shard's index; undefined for an object of its own. */
  readonly slot: number | undefined;
  /** Set where the bytes are here: those that `offset` and `nbytes` are a part of. */
  readonly memory: Uint8Array | undefined;
}

/** The details that errors about a place carry. */
export function placeDetails({ path, slot, offset }: ChunkPlace): {
  path: string;
  chunk?: number;
  offset: number;
} {
  return slot === undefined ? { path, offset } : { path, chunk: slot, offset };
}

/**
 * Refuses a folder in the place of a chunk or shard: only what is not there at all has the fill value. [FH-03]
 *
 * @throws INCOMPLETE
 */
export async function assertAbsent(store: ReadableStore, key: string, signal?: AbortSignal): Promise<void> {
  if ((await store.isFolder?.(key, { signal })) !== true) return;
  throw new SuperchunkError(
    "INCOMPLETE",
    "a folder is in the place of the chunk or shard, which is not there then, and not the fill value either; look for a whole copy, or remove the folder if the chunk is to be missing",
    { path: store.describe(key), expected: "a file, or nothing", found: "a folder" },
  );
}

/** Bytes `[start, start + length)` of a place. Throws `TRUNCATED`, `INCOMPLETE` where the object is gone. */
export async function readPlace(
  store: ReadableStore,
  place: ChunkPlace,
  start: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const offset = place.offset + start;
  if (place.memory !== undefined) {
    return checkLength(place.memory.subarray(offset, offset + length), length, place, offset);
  }
  return checkLength(await store.getRange(place.key, { offset, length }, { signal }), length, place, offset);
}

/** The bytes, if they are all there. Throws `TRUNCATED`, `INCOMPLETE`. */
export function checkLength(
  bytes: Uint8Array | undefined,
  length: number,
  place: ChunkPlace,
  offset: number,
): Uint8Array {
  if (bytes?.length === length) return bytes;
  if (bytes === undefined) {
    throw new SuperchunkError("INCOMPLETE", "the object was there, and is gone. Read again", {
      ...placeDetails(place),
      offset,
    });
  }
  throw new SuperchunkError(
    "TRUNCATED",
    `${length} bytes are needed from byte ${offset}, but only ${bytes.length} are there. The file is cut short; look for a whole copy`,
    { ...placeDetails(place), offset, expected: length, found: bytes.length },
  );
}
