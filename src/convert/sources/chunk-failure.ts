/** Errors of working on a chunk of a source, with where the chunk lies. Must not know what becomes of it. */
import type { ChunkPlace } from "../../archive/kinds/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";

/** What `work` on the chunk at `place` comes to; where it fails, the error names object, chunk and offset. */
export async function placeFailure<T>(
  store: ReadableStore,
  { key, index, offset }: ChunkPlace,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    throw error.inObject({ path: store.describe(key), chunk: index, offset });
  }
}
