/**
 * Worker threads that convert, or verify, their share of very many sources. Knows when they pay off; must not know how that is
 * done.
 */
import { availableParallelism } from "node:os";
import type { Finding, VerifyReport } from "../../archive/kinds/types.ts";
import type { ConvertOptions } from "../../convert/pipeline.ts";
import type { HandedOutcome, HandedSource, Helper, Helpers } from "../../convert/run/helpers.ts";
import { type PackedError, type SuperchunkError, unpackError } from "../../errors.ts";
import type { Dialect } from "../../format/types.ts";
import { type PackedOptions, packOptions } from "../../plan/plan.ts";
import { isRemote } from "../locate.ts";
import type { BloscChoice } from "./thread-messages.ts";
import type { ThreadOptions } from "./threads.ts";
import { NO_FILE, WorkerPool } from "./worker-pool.ts";

/** Default number of sources converted at a time, in all threads together. */
const JOBS = 4;
/** With fewer sources, a thread spends longer compiling than it saves. */
const LEAST_SOURCES = 500;

/** Jobs of a thread; `begin` comes first, and once. */
export type HelperJob =
  | {
      readonly kind: "begin";
      readonly from: readonly string[];
      readonly to: string;
      readonly options: PackedOptions;
      readonly blosc: BloscChoice | undefined;
      readonly isResumed: boolean;
    }
  | { readonly kind: "sources"; readonly sources: readonly HandedSource[]; readonly describes: boolean }
  | { readonly kind: "finish" };

/** The result of a job: for sources, one outcome each. */
export interface HelperReply {
  readonly outcomes: readonly HandedOutcome[];
  readonly error?: PackedError;
}

/** Threads for a conversion, until they are ended. */
interface HelperThreads extends Helpers {
  end(): Promise<void>;
}

class HelperThread implements Helper {
  readonly pool: WorkerPool<HelperJob, HelperReply> = new WorkerPool(
    1,
    import.meta.url ? new URL("./convert-worker.js", import.meta.url) : NO_FILE,
  );

  async run(
    sources: readonly HandedSource[],
    describes: boolean,
    signal: AbortSignal,
  ): Promise<HandedOutcome[]> {
    return this.ask({ kind: "sources", sources, describes }, signal);
  }

  async finish(signal: AbortSignal): Promise<void> {
    await this.ask({ kind: "finish" }, signal);
  }

  async ask(job: HelperJob, signal?: AbortSignal): Promise<HandedOutcome[]> {
    const { outcomes, error } = await this.pool.run(job, [], { signal });
    signal?.throwIfAborted();
    if (error !== undefined) throw unpackError(error);
    return [...outcomes];
  }
}

/** The threads for a conversion of files into a hierarchy of files; undefined if the caller must do it alone. */
export function helpersFor(
  from: readonly string[],
  to: string,
  options: ConvertOptions & ThreadOptions,
): HelperThreads | undefined {
  const { jobs = JOBS, threads = availableParallelism(), blosc, damaged = "stop" } = options;
  const { to: format = "zarr", encoder, onReceipt } = options;
  const count = Math.min(jobs, threads) - 1;
  const isHere = encoder !== undefined || onReceipt !== undefined || damaged !== "stop" || format !== "zarr";
  if (count < 1 || isHere || [...from, to].some(isRemote)) return undefined;
  const { resume: _, overwrite: __, threads: ___, directMemory: ____, workerUrl: _____, ...own } = options;
  const packed = packOptions({ ...own, jobs: Math.ceil(jobs / (count + 1)), skipFailed: true });
  const begun: HelperThread[] = [];
  return {
    count,
    leastSources: LEAST_SOURCES,
    async start(isResumed) {
      const thread = new HelperThread();
      begun.push(thread);
      if (!(await thread.pool.start())) return undefined;
      // If it fails, the thread takes no sources.
      thread.ask({ kind: "begin", from, to, options: packed, blosc, isResumed }).catch(() => undefined);
      return thread;
    },
    async end() {
      await Promise.all(begun.map(({ pool }) => pool.end()));
    },
  };
}

// Verifies archives in worker threads. Knows threads; must not know what is verified of an archive.

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
  pool ??= new WorkerPool(count, import.meta.url ? new URL("./convert-worker.js", import.meta.url) : NO_FILE);
  if (!(await pool.start())) return undefined;
  const { error, ...verified } = await pool.run({ kind: "verify", root: folder, key }, [], { signal });
  signal?.throwIfAborted();
  if (error === undefined) return verified;
  const unpacked = unpackError(error);
  if (!("code" in unpacked)) throw unpacked;
  return { ...verified, error: unpacked as SuperchunkError };
}
