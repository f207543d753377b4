/**
 * Verifies many archives: finds more while it verifies, several at a time, reports them in order, and writes a record.
 *
 * Knows how a batch runs; must not know how outcomes are printed.
 */
import { EventEmitter, once } from "node:events";
import { createReadStream, readdirSync, type Stats, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import {
  type JsonObject,
  type JsonValue,
  stringifyJson,
  type UnfinishedConversion,
} from "../../src/index.ts";
import { type VerifiedArchive, verifyInThread } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { notReport, refuseOther } from "../input/input.ts";
import { isFolder } from "../input/opening.ts";
import { archivesUnder, isInIndex, type LeftOut, type NamedArchive, realPathOf } from "../input/tree.ts";
import { isAddress } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

/** Default number of archives under way. */
export const JOBS = 4;
/** Most archives to find before the ones ahead of them are verified. */
const AHEAD = 10_000;

/** One archive of a batch: its outcome, the other path by which it was already reached, or the line of an earlier run; or an unfinished conversion. */
export type BatchItem<T> =
  | {
      readonly kind: "outcome";
      readonly outcome: T;
      readonly files?: string | undefined;
      readonly isIndex?: boolean | undefined;
    }
  | { readonly kind: "same"; readonly path: string; readonly as: string }
  | { readonly kind: "unfinished"; readonly path: string; readonly conversion: UnfinishedConversion }
  | { readonly kind: "kept"; readonly line: JsonObject };

/** How a batch runs. */
export interface VerifyBatch<T> {
  readonly paths: readonly string[];
  readonly jobs: number;
  readonly context: Context;
  /** Places that references may read. */
  readonly allow?: readonly string[] | undefined;
  /** Packed files, which are not opened, and indexes are noted here. */
  readonly leftOut: LeftOut;
  /** Lines of an earlier run, by path; undefined if no record is written. */
  readonly kept: ReadonlyMap<string, JsonObject> | undefined;
  /** Verifies an archive. `alone`: no other is under way, and this one may show its own progress. */
  verify(named: NamedArchive, alone: boolean): Promise<T>;
  /** Checks the set of references at a path as a whole. */
  verifySet?(path: string): Promise<T | undefined>;
  /** Checks what belongs to a path but is not an archive itself. */
  verifyPath(path: string): Promise<T | undefined>;
}

/** Runs a batch. Yields items in the order in which the archives are found. */
export async function* runBatch<T>(batch: VerifyBatch<T>): AsyncGenerator<BatchItem<T>> {
  const { context } = batch;
  const queue: Promise<BatchItem<T>>[] = [];
  const gate = makeGate(batch.jobs);
  let found = 0;
  let isComplete = false;
  const queued = new EventEmitter();
  const changed = (): Promise<unknown> => once(queued, "change");
  const walk = async (): Promise<void> => {
    for await (const each of foundOnce(batch)) {
      const item =
        each.kind === "archive"
          ? gate(each.verify).then((outcome): BatchItem<T> => ({ ...each, kind: "outcome", outcome }))
          : Promise.resolve(each);
      item.catch(() => undefined); // thrown when its turn comes
      queue.push(item);
      found++;
      queued.emit("change");
      while (queue.length > AHEAD) await changed();
    }
  };
  let failure: { readonly error: unknown } | undefined;
  const walking = walk()
    .catch((error: unknown) => {
      failure = { error };
    })
    .finally(() => {
      isComplete = true;
      queued.emit("change");
    });
  const bar = startProgress(context.io, "verify", { unit: "archives" });
  try {
    for (let done = 0; ; done++) {
      while (queue.length === 0 && !isComplete) await changed();
      const next = queue.shift();
      if (next === undefined) break;
      queued.emit("change");
      const item = await next;
      if (found > 1) {
        const label = item.kind === "outcome" ? "" : item.kind;
        bar.onProgress?.({ done, total: Math.max(found, done + 1), label, isOpen: !isComplete });
      }
      yield item;
    }
    await walking;
    if (failure !== undefined) throw failure.error;
  } finally {
    bar.finish();
  }
}

/** An item that needs no work, or an archive to verify. */
type Found<T> =
  | Exclude<BatchItem<T>, { readonly kind: "outcome" }>
  | {
      readonly kind: "archive";
      readonly files?: string | undefined;
      readonly isIndex?: boolean;
      readonly verify: () => Promise<T>;
    };

/** Finds the archives at all paths. If two paths lead to the same archive, it is verified once, and the second path only names it. */
async function* foundOnce<T>(batch: VerifyBatch<T>): AsyncGenerator<Found<T>> {
  const { paths, context, kept } = batch;
  const places = new Map<string, string>();
  const isOne = paths.length === 1 && !(await isFolder(paths[0] ?? ""));
  for (const path of paths) {
    let seen = false;
    for await (const named of archivesUnder(path, {
      signal: context.signal,
      allow: batch.allow,
      onPacked: (file) => void batch.leftOut.packed.push(file),
    })) {
      seen ||= named.path === path;
      if (named.unfinished !== undefined) {
        yield { kind: "unfinished", path: named.path, conversion: named.unfinished };
        continue;
      }
      const isIndex = isInIndex(named, batch.leftOut);
      // Only the group's arrays, which follow it, need verifying: its document has just been read.
      if (named.group !== undefined) continue;
      const place = realPathOf(named.path);
      const first = places.get(place);
      if (first !== undefined) {
        yield { kind: "same", path: named.path, as: first };
        continue;
      }
      places.set(place, named.path);
      // The state before reading: an archive that changes during the run is verified again by the next run.
      const files = kept && stampOf(named.path);
      const line = kept?.get(named.path);
      if (line !== undefined && line["files"] === files && isFinal(line)) yield { kind: "kept", line };
      else yield { kind: "archive", files, isIndex, verify: () => batch.verify(named, isOne) };
    }
    const set = await batch.verifySet?.(path);
    if (set !== undefined) yield { kind: "archive", verify: async () => set };
    if (seen || set !== undefined) continue;
    const own = await batch.verifyPath(path);
    if (own !== undefined) yield { kind: "archive", verify: async () => own };
  }
}

/** False for a link that was not followed, an unfinished conversion, and an archive that could not be read: what prevented it may be over. */
function isFinal({ notFollowed, unfinished, error }: JsonObject): boolean {
  const { code } = (error ?? {}) as { readonly code?: JsonValue };
  return (notFollowed ?? unfinished) === undefined && code !== "IO" && code !== "STALE";
}

/** The state of an archive's files: their number, total bytes, and time of the last change. Undefined for archives elsewhere. */
function stampOf(path: string): string | undefined {
  if (isAddress(path)) return undefined;
  const [own, ...below] = filesAt(path);
  if (own === undefined) return path === dirname(path) ? undefined : stampOf(dirname(path));
  const files = own.isFile() ? [own] : below.filter((each) => each.isFile());
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const last = files.reduce((latest, { ctimeMs }) => Math.max(latest, ctimeMs), 0);
  return `${files.length} files, ${bytes} bytes, ${new Date(last).toISOString()}`;
}

/** The path and everything below it; empty if it does not exist, like a node inside of a file. */
function filesAt(path: string): Stats[] {
  try {
    const own = statSync(path);
    const names = own.isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
    const below = names.map((name) => statSync(join(path, name), { throwIfNoEntry: false }));
    return [own, ...below.filter((each) => each !== undefined)];
  } catch {
    return [];
  }
}

/** Limits the number of calls that run at a time. */
function makeGate(limit: number): <T>(act: () => Promise<T>) => Promise<T> {
  let free = limit;
  const waiting: (() => void)[] = [];
  return async (act) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    }
  };
}

/** A record of outcomes: JSON Lines, written one by one. */
interface BatchRecord {
  readonly kept: ReadonlyMap<string, JsonObject>;
  /** `files`: the state of the files of the line's archive, for a later run. */
  add(line: JsonValue, files?: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Creates the record at `path`, or with `resume` opens the one of an earlier run and removes its incomplete last line.
 *
 * @throws BAD_ARGUMENT for a file that is not such a record; the file is not changed
 */
export async function openRecord(path: string, resume: boolean): Promise<BatchRecord> {
  const kept = new Map<string, JsonObject>();
  let end = 0;
  const size = resume ? (await stat(path).catch(() => undefined))?.size : undefined;
  if (size !== undefined) {
    const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
    for await (const text of lines) {
      const line = parseLine(text);
      const length = Buffer.byteLength(text) + 1;
      // Only the last line may be incomplete, if the process was killed while it wrote it.
      if (line === undefined && end + length <= size) throw notReport(path);
      if (line === undefined || end + length > size) break;
      kept.set(line.path, line.line);
      end += length;
    }
  }
  if (!resume) await refuseOther(path);
  const file = await open(path, resume ? "a" : "w");
  if (resume) await file.truncate(end);
  return {
    kept,
    add: (line, files) =>
      file
        .appendFile(
          `${stringifyJson({ ...(line as JsonObject), ...(files === undefined ? {} : { files }) })}\n`,
        )
        .catch((error: Error) => {
          throw Object.assign(error, { path }); // the system's error does not name the file
        }),
    close: () => file.close(),
  };
}

/** False if the errors found in an archive are only chunks that superchunk does not support: they may be whole. */
export function hasDamage(codes: readonly string[]): boolean {
  return codes.length === 0 || codes.some((code) => code !== "UNSUPPORTED");
}

/** A line of a report, and the path that it is about; undefined for other text. */
function parseLine(text: string): { readonly path: string; readonly line: JsonObject } | undefined {
  try {
    const line = JSON.parse(text) as JsonObject;
    const { path, error, findings, notFollowed, unfinished } = line;
    const isLine = typeof (error ?? notFollowed ?? unfinished) === "object" || Array.isArray(findings);
    return isLine && typeof path === "string" ? { path, line } : undefined;
  } catch {
    return undefined;
  }
}

/** Number of archives from which on another thread pays off. */
const WORTH = 128;

/** Verifies an archive in another thread; undefined if the caller should verify it. */
export type VerifyAway = (named: NamedArchive, signal: AbortSignal) => Promise<VerifiedArchive | undefined>;

/** For a batch with `jobs` archives under way, one of which is always the caller's. */
export function verifyAway(jobs: number): VerifyAway {
  let [seen, away] = [0, 0];
  return async ({ inFolder }, signal) => {
    if (inFolder === undefined || ++seen <= WORTH || away >= jobs - 1) return undefined;
    away++;
    try {
      return await verifyInThread(inFolder.root, inFolder.key, { signal });
    } finally {
      away--;
    }
  };
}
