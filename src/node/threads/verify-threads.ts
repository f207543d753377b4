/** Archives verified in worker threads. Knows threads; must not know what is verified of an archive. */
import { availableParallelism } from "node:os";
import type { Finding, VerifyReport } from "../../archive/kinds/types.ts";
import { type PackedError, type SuperchunkError, unpackError } from "../../errors.ts";
import type { Dialect } from "../../format/types.ts";
import { WorkerPool } from "./worker-pool.ts";

/** What verifying an archive came to. */
export interface VerifiedArchive {
  /** Absent where it could not be opened. */
  readonly dialect?: Dialect;
  readonly report?: VerifyReport;
  /** What is wrong with the Zarr array that it is as well; absent where it is none. */
  readonly linked?: readonly Finding[];
  /** Why it could not be verified. */
  readonly error?: SuperchunkError;
}

/** What a thread is to verify. */
export interface VerifyJob {
  readonly kind: "verify";
  readonly root: string;
  readonly key: string;
}

/** What became of it. */
export interface VerifyReply extends Omit<VerifiedArchive, "error"> {
  readonly error?: PackedError;
}

let pool: WorkerPool<VerifyJob, VerifyReply> | undefined;

/**
 * Verifies the archive at `key` in a folder, and the Zarr array that it is as well, in another thread than the caller's: one for
 * each further processor. For very many archives, beside those that the caller verifies itself. Links that lead out of the folder
 * are not followed. Undefined where there are no threads.
 *
 * @throws what is not the fault of the archive: IO and LIMIT where a thread has ended, the reason of an abort
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
