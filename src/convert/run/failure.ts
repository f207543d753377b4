/** How the failure of one archive or array among many is reported, and which errors are not its fault. */
import { isUnfollowed } from "../../archive/open/discover.ts";
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import type { Failure } from "../pipeline.ts";

/**
 * Code and message of the failure of what was found at `where`. A link that is not followed is not damage: its code is
 * `UNSUPPORTED`. Throws what {@link assertSkippable} throws.
 */
export function failureOf(error: unknown, where?: string): Failure {
  const { code, message } = assertSkippable(error);
  return { code: where !== undefined && isUnfollowed(error, where) ? "UNSUPPORTED" : code, message };
}

/** Throws a full or read-only destination, and what is not the fault of an archive; returns all other errors. */
export function assertSkippable(error: unknown): SuperchunkError {
  if (!isSuperchunkError(error) || error.code === "NO_SPACE" || error.code === "READ_ONLY") throw error;
  return error;
}
