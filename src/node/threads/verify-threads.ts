/** Verifies archives in worker threads. Knows threads; must not know what is verified of an archive. */
import { availableParallelism } from "node:os";
import type { Finding, VerifyReport } from "../../archive/kinds/types.ts";
import { type PackedError, type SuperchunkError, unpackError } from "../../errors.ts";
import type { Dialect } from "../../format/types.ts";
import { WorkerPool } from "./worker-pool.ts";

/** Result of verifying an archive. */
export interface VerifiedArchive {
  /** Absent if it could not be opened. */
  readonly dialect?: Dialect;
  readonly report?: VerifyReport;
  /** Faults of the archive's Zarr array; absent if it has none. */
  readonly linked?: readonly Finding[];
  /** Why it could not be verified. */
  readonly error?: SuperchunkError;
}

/** An archive for a thread to verify. */
export interface VerifyJob {
  readonly kind: "verify";
  readonly root: string;
  readonly key: string;
}

/** The result of verifying it. */
export interface VerifyReply extends Omit<VerifiedArchive, "error"> {
  readonly error?: PackedError;
}

let pool: WorkerPool<VerifyJob, VerifyReply> | undefined;

/**
 * Verifies the archive at `key` in a folder, and its Zarr array if it is one as well, in a further thread: one for each further processor.
 * Meant for very many archives, beside those that the caller verifies itself. Links that lead out of the folder are not followed. Returns
 * undefined if there are no threads.
 *
 * @throws errors that are not the archive's: IO and LIMIT if a thread has ended, the reason of an abort
 */
export async function verifyInThread(
  folder: string,
  key: string,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<VerifiedArchive | undefined> {
  const count = availableParallelism() - 1;
  if (count < 1) return undefined;
  pool ??= new WorkerPool(count, new URL("./convert-worker.js", import.meta.url));
  if (!(await pool.start())) return undefined;
  const { error, ...verified } = await pool.run({ kind: "verify", root: folder, key }, [], { signal });
  signal?.throwIfAborted();
  if (error === undefined) return verified;
  const unpacked = unpackError(error);
  if (!("code" in unpacked)) throw unpacked;
  return { ...verified, error: unpacked as SuperchunkError };
}
