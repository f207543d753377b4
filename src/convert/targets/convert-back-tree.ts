/**
 * Several sources back into another format, side by side below one destination. A damaged one does not stop the others.
 *
 * Knows how conversions are put in order, resumed and summed up; must not know formats.
 */
import { type ErrorCode, SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { JsonValue } from "../../format/types.ts";
import { isTaken } from "../../store/entries.ts";
import { joinKey } from "../../store/key.ts";
import { mapAhead } from "../../store/pool.ts";
import type { WritableStore } from "../../store/types.ts";
import type { PlannedArray } from "../plan/convert-options.ts";
import { deleteTree } from "../run/destination.ts";
import { failureOf } from "../run/failure.ts";
import type { BackJob } from "../sources/back-sources.ts";
import type { BackSource } from "../sources/source.ts";
import { BackJournal } from "./back-journal.ts";
import type { BackFormat, BackOptions, BackResult } from "./back-types.ts";
import { convertBack, FILE_ENDINGS, planBack } from "./convert-back.ts";

/** The record is written anew when so many parts of a whole are done. */
const STEPS = 20;
/** Sources that are opened at a time: a process may have no more than some hundred files open. */
const OPENED_AT_ONCE = 32;

/** Where things go, and whether an earlier run is gone on with. */
export interface BackTreeOptions extends BackOptions {
  /** Go on with an unfinished conversion of the same sources with the same options. */
  readonly resume?: boolean | undefined;
}

/** What became of one source. */
export interface BackEntry {
  /** How messages name the source. */
  readonly path: string;
  /** Key in the destination. */
  readonly node: string;
  /** `kept`: an earlier run had converted it. */
  readonly status: "converted" | "kept" | "failed";
  readonly code?: ErrorCode;
  readonly message?: string;
  readonly result?: BackResult;
}

/** What became of all: sums over those that were converted, and an entry for each. */
export interface BackTreeResult extends BackResult {
  readonly converted: number;
  readonly kept: number;
  readonly failed: number;
  readonly entries: readonly BackEntry[];
}

/** What would become of a source: its arrays, or why there are none. */
export interface BackPlan {
  readonly path: string;
  readonly node: string;
  readonly arrays: readonly PlannedArray[];
  readonly notes: readonly string[];
  readonly code?: ErrorCode;
  readonly message?: string;
}

/** What {@link convertBackTree} would do, source by source, without writing. */
export async function* planBackTree(
  jobs: AsyncIterable<BackJob>,
  destination: string,
  format: BackFormat,
  options: BackTreeOptions = {},
): AsyncGenerator<BackPlan> {
  for await (const { path, node, open, notes } of jobs) {
    const where = { path, node, notes };
    try {
      const source = await open();
      const arrays = await planBack(source, keyFor(source, destination, node, format), format, options);
      yield { ...where, arrays };
    } catch (error) {
      yield { ...where, arrays: [], ...failureOf(error, path) };
    }
  }
}

/**
 * Converts all jobs below a key of a store. `onProgress` counts sources. Failed ones become entries, and nothing of them is
 * left; a full or read-only destination and an abort end all, and `resume` goes on from there. A record of what is done lies
 * beside the destination until nothing is left to do.
 *
 * @throws NOT_FOUND where there is no job; CONFLICT where another unfinished conversion lies there
 */
export async function convertBackTree(
  jobs: AsyncIterable<BackJob>,
  target: WritableStore,
  destination: string,
  format: BackFormat,
  options: BackTreeOptions & { readonly sources: readonly string[] },
): Promise<BackTreeResult> {
  const started = performance.now();
  const { sources, resume, overwrite, columns, dtype, shape, recode, onProgress, ...others } = options;
  const settings = {
    format,
    columns: columns ?? null,
    dtype: dtype === undefined ? null : formatDType(dtype),
    shape: shape ?? null,
    recode: recode ?? true,
  };
  const journal = await BackJournal.open(
    target,
    destination,
    { sources, options: settings },
    { resume, overwrite },
  );
  const entries: BackEntry[] = [];
  const notes: string[] = [];
  const all = await collectJobs(jobs, sources);
  const run: OneRun = {
    target,
    destination,
    format,
    journal,
    options: { columns, dtype, shape, recode, overwrite, ...others },
  };
  // What is done is recorded in steps that grow, so that the record of many sources is not written anew for each.
  for (let at = 0; at < all.length; ) {
    const step = all.slice(at, at + Math.max(1, Math.floor(at / STEPS)));
    const ready: Ready[] = [];
    // Not aborted: what was done before is recorded first.
    for await (const each of mapAhead(step, OPENED_AT_ONCE, (job) => prepare(job, run))) ready.push(each);
    await journal.begin(ready.flatMap(({ mayWrite, job }) => (mayWrite ? [job.node] : [])));
    for (const each of ready) {
      options.signal?.throwIfAborted();
      const entry = await convertOne(each, run, all.length === 1);
      notes.push(...each.job.notes);
      entries.push(entry);
      onProgress?.({ done: entries.length, total: all.length, label: entry.path });
    }
    at += step.length;
  }
  await journal.end();
  return sumUp(entries, notes, (performance.now() - started) / 1000, options.verify === true);
}

/** Sorted out before anything is written: no two may go to the same place. Throws `NOT_FOUND`, `BAD_ARGUMENT`. */
async function collectJobs(jobs: AsyncIterable<BackJob>, sources: readonly string[]): Promise<BackJob[]> {
  const all: BackJob[] = [];
  const byNode = new Map<string, string>();
  for await (const job of jobs) {
    const other = byNode.get(job.node);
    if (other !== undefined) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${other} would go to the same place, "${job.node}"; convert one of them by itself`,
        { path: job.path, field: "src" },
      );
    }
    byNode.set(job.node, job.path);
    all.push(job);
  }
  if (all.length > 0) return all;
  const [path] = sources;
  throw new SuperchunkError("NOT_FOUND", "there is no archive and no Zarr array to convert", {
    ...(path === undefined ? {} : { path }),
    field: "src",
  });
}

/** What all sources of a run share. */
interface OneRun {
  readonly target: WritableStore;
  readonly destination: string;
  readonly format: BackFormat;
  readonly journal: BackJournal;
  readonly options: BackOptions;
}

/** A source that is opened, or why it is not. */
interface Ready {
  readonly job: BackJob;
  /** True where nothing lies at its place but what is ours. */
  readonly mayWrite: boolean;
  readonly opened?: { readonly source: BackSource; readonly key: string; readonly fingerprint: JsonValue };
  readonly error?: unknown;
}

async function prepare(job: BackJob, { target, destination, format, journal }: OneRun): Promise<Ready> {
  try {
    const source = await job.open();
    const key = keyFor(source, destination, job.node, format);
    const fingerprint = await job.fingerprint();
    const mayWrite = journal.isLeftover(job.node) || !(await isTaken(target, key));
    return { job, mayWrite, opened: { source, key, fingerprint } };
  } catch (error) {
    return { job, mayWrite: false, error };
  }
}

/** Throws what ends all; a single source's own failure too. */
async function convertOne({ job, opened, error }: Ready, run: OneRun, isOnly: boolean): Promise<BackEntry> {
  const { target, format, journal, options } = run;
  const { path, node } = job;
  try {
    if (opened === undefined) throw error;
    const { source, key, fingerprint } = opened;
    if (journal.isDone(node, fingerprint, path)) return { path, node, status: "kept" };
    if (journal.isLeftover(node)) {
      if (key !== "" && (await target.stat(key)) !== undefined) await target.delete(key);
      else await deleteTree(target, key, new Set());
      journal.clear(node);
    }
    const result = await convertBack(source, target, key, format, options);
    journal.finish(node, fingerprint);
    return { path, node, status: "converted", result };
  } catch (failure) {
    const told = failureOf(failure, path);
    if (!isOnly) return { path, node, status: "failed", ...told };
    await journal.end();
    throw failure;
  }
}

/** A single array in a format of files is a file; all else is a folder. */
function keyFor(source: BackSource, destination: string, node: string, format: BackFormat): string {
  const key = joinKey(destination, node);
  const isFile = source.kind !== "table" && (format === "npy" || format === "bloscpack");
  return isFile && node !== "" ? `${key}${FILE_ENDINGS[format]}` : key;
}

function sumUp(
  entries: readonly BackEntry[],
  notes: readonly string[],
  seconds: number,
  verified: boolean,
): BackTreeResult {
  const results = entries.flatMap(({ result }) => (result === undefined ? [] : [result]));
  const sum = (pick: (result: BackResult) => number): number =>
    results.reduce((total, result) => total + pick(result), 0);
  const countOf = (status: BackEntry["status"]): number =>
    entries.filter((entry) => entry.status === status).length;
  return {
    arrays: sum(({ arrays }) => arrays),
    nbytes: sum(({ nbytes }) => nbytes),
    chunksCopied: sum(({ chunksCopied }) => chunksCopied),
    chunksRecoded: sum(({ chunksRecoded }) => chunksRecoded),
    seconds,
    verified,
    notes: [...notes, ...results.flatMap((result) => result.notes)],
    converted: countOf("converted"),
    kept: countOf("kept"),
    failed: countOf("failed"),
    entries,
  };
}
