/**
 * How failures are reported: of one archive or array among many, and of a chunk of a source with its place. Also decides which
 * errors are not an archive's fault.
 */

import { isUnfollowed } from "../archive/open/discover.ts";
import type { ChunkPlace } from "../archive/places/sequence.ts";
import { isSuperchunkError, type SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import type { FailedNode, Failure, NodeFailure } from "./pipeline.ts";

/**
 * Code and message of the failure of what was found at `where`. A link that is not followed is not damage: its code is
 * `UNSUPPORTED`. Throws like {@link assertSkippable}.
 */
export function failureOf(error: unknown, where?: string): Failure {
  const { code, message } = assertSkippable(error);
  return { code: where !== undefined && isUnfollowed(error, where) ? "UNSUPPORTED" : code, message };
}

/** The failures of a source's skipped nodes. Throws like {@link failureOf}. */
export function failuresOf(failed: readonly FailedNode[]): NodeFailure[] {
  return failed.map(({ source, path, error }) => ({
    path: source,
    node: path,
    ...failureOf(error, source),
  }));
}

/** Rethrows errors of a full or read-only destination, and errors that are not an archive's fault; returns all others. */
export function assertSkippable(error: unknown): SuperchunkError {
  if (!isSuperchunkError(error) || error.code === "NO_SPACE" || error.code === "READ_ONLY") throw error;
  return error;
}

/** Awaits `work` on the chunk at `place`. If it fails, the error names object, chunk and offset. */
export async function placeFailure<T>(store: ReadableStore, place: ChunkPlace, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw placedError(error, store, place);
  }
}

/** Adds object, chunk and offset to an error of a chunk; returns other errors unchanged. */
export function placedError(
  error: unknown,
  store: ReadableStore,
  { key, index, offset }: ChunkPlace,
): unknown {
  return isSuperchunkError(error)
    ? error.inObject({ path: store.describe(key), chunk: index, offset })
    : error;
}
