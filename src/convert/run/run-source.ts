/**
 * Runs one planned source: its tasks, the comparison, and then the documents that make it visible.
 *
 * For each array the objects come first, then the comparison if requested, then its documents; groups follow their members.
 * Knows the order; must not know formats.
 */

import { isEqual } from "../../bytes/arrays.ts";
import { encodeHere } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import { deleteTree } from "../../store/tree.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import {
  type ArrayRun,
  assertSkippable,
  type ChunkCounts,
  type ConvertOptions,
  type Destination,
  type FailedNode,
  failureOf,
  isSkippable,
  type NodeFailure,
  type SourceItem,
  type SourceResult,
  type SourceRun,
  type Target,
  type TargetPlace,
  type Task,
  type TaskContext,
} from "../pipeline.ts";
import { refuseColumns } from "../plan/conversion-jobs.ts";
import { digestOf, watchSource } from "../sources/items.ts";
import {
  type BatchPublisher,
  type ConversionStore,
  holdDocuments,
  type ObjectPublisher,
} from "./conversion-store.ts";

/** Objects made at a time: while one is being synced, others are read and written. */
const TASKS_AT_ONCE = 4;

/** The place of one source, given the number of sources. */
export function placeAt(
  { path = "", node: inHierarchy = "", isInGroup = false }: Omit<Destination, "store">,
  node: string,
  sources: number,
): TargetPlace {
  const isMember = isInGroup || sources > 1;
  return { node, key: joinKey(path, node), inHierarchy, isMember };
}

/** A planned source, and its fingerprint, which changes when the source does. */
export interface PlannedSource {
  readonly run: SourceRun;
  readonly fingerprint: string;
}

/** Opens and plans a source. Throws errors of opening and planning. */
export async function planSource(
  item: SourceItem,
  place: TargetPlace,
  target: Target,
  options: ConvertOptions,
): Promise<SourceRun> {
  const source = await item.open(options.signal);
  const assertUnchanged = await watchSource(source, item.path);
  if (options.columns !== undefined) refuseColumns(source, target, options.portable);
  return { ...(await target.plan(source, place, options)), assertUnchanged };
}

/** Opens and plans a source that is converted. Throws a refusal too. */
export async function planItem(
  item: SourceItem,
  place: TargetPlace,
  target: Target,
  options: ConvertOptions,
): Promise<PlannedSource> {
  const run = await planSource(item, place, target, options);
  if (run.refusal !== undefined) throw run.refusal;
  const facts = await (target.isHierarchy ? run.fingerprint() : (item.fingerprint?.() ?? run.fingerprint()));
  return { run, fingerprint: await digestOf(facts) };
}

/** What all sources of a conversion share. */
export interface RunContext {
  readonly target: Target;
  readonly store: WritableStore;
  readonly options: ConvertOptions;
  readonly publisher: ObjectPublisher;
}

/**
 * What is kept of an earlier run. `arrays`: arrays whose documents exist, for cases where other objects may exist without being
 * durable. `tasks`: also single objects of other arrays. `receipts`: the objects of all tasks are known to exist.
 */
export type Kept = "nothing" | "arrays" | "tasks" | "receipts";

export interface RunSettings {
  readonly keep: Kept;
  /** Deletes what is at a key, and cancels what was to be published there. */
  discard(key: string): Promise<void>;
  readonly signal: AbortSignal | undefined;
  /** For files: whether what was made is removed after a failure. Default yes. */
  undoes?(error: unknown): Promise<boolean>;
  /** Called with uncompressed bytes, done and total. */
  readonly onProgress: (done: number, total: number, label: string) => void;
}

export interface SourceOutcome {
  readonly result: SourceResult;
  readonly failed: readonly FailedNode[];
}

/** An array while its tasks run. */
interface ArrayState {
  readonly run: ArrayRun;
  readonly store: ConversionStore;
  readonly pending: Set<Promise<unknown>>;
  /** True if an earlier run published it. */
  readonly isFinished: boolean;
  /** True once its file has its final name: with the documents, or, if files are not hidden, with its task. */
  isPublished: boolean;
  /** Uncompressed bytes reported as done. */
  done: number;
  shards: number;
  kept: number;
  readonly counts: ChunkCounts;
  error: unknown;
}

/** A task, or without one the end of its array. */
interface Step {
  readonly state: ArrayState;
  readonly task: Task | undefined;
}

/** Runs a planned source at a prepared place. Throws errors of tasks, except for arrays that may be skipped. */
export async function runSource(
  run: SourceRun,
  context: RunContext,
  settings: RunSettings,
): Promise<SourceOutcome> {
  const started = performance.now();
  const execution = new Execution(run, context, settings);
  const take = (step: Step, signal: AbortSignal): Promise<void> => execution.take(step, signal);
  try {
    await runPooled(execution.steps(), TASKS_AT_ONCE, take, settings.signal);
    return await execution.finish(started);
  } catch (error) {
    if (!context.target.isHierarchy && (await settings.undoes?.(error)) !== false)
      await execution.undo().catch(() => undefined); // only the first error is thrown
    // Damage that is found in a source that has changed need not be there.
    if (isSuperchunkError(error) && error.isDamage) await run.assertUnchanged?.();
    throw error;
  }
}

/** Settings for one source of many in a hierarchy. */
interface MemberSettings extends Pick<RunSettings, "signal" | "onProgress"> {
  /** Key of the place, which belongs to this source alone. */
  readonly key: string;
  readonly batch: BatchPublisher | undefined;
  /** What an earlier run may have left there: objects of the source as it is now, or something else. */
  readonly before: "nothing" | "ours" | "other";
  /** True if that is durable although it is of a batch. */
  readonly isSynced?: boolean;
  /** True if nothing of it is kept when it fails. */
  readonly isLeftOut: boolean;
}

/** Runs a planned source in a hierarchy. An abort and a full disk leave its objects for a later run. */
export async function runMember(
  run: SourceRun,
  context: RunContext,
  { key, batch, before, isSynced = false, isLeftOut, signal, onProgress }: MemberSettings,
): Promise<SourceOutcome> {
  const discard = async (path: string): Promise<void> => {
    const folder = joinKey(key, path);
    await batch?.forget(folder);
    await deleteTree(context.store, folder);
  };
  if (before === "other") await discard("");
  // After a power loss, objects of a batch may exist without their bytes: only documents prove that they are complete.
  const keep: Kept = before !== "ours" ? "nothing" : batch === undefined || isSynced ? "tasks" : "arrays";
  try {
    return await runSource(run, context, { keep, discard, signal, onProgress });
  } catch (error) {
    if (isLeftOut && signal?.aborted !== true && isSkippable(error)) await discard("");
    throw error;
  }
}

/** Runs the tasks of a source, and publishes what they made. */
class Execution {
  readonly #source: SourceRun;
  readonly #context: RunContext;
  readonly #settings: RunSettings;
  readonly #states: ArrayState[] = [];
  readonly #notes: string[] = [];
  /** Uncompressed bytes done, of `total`. */
  #done = 0;
  readonly #total: number;

  constructor(source: SourceRun, context: RunContext, settings: RunSettings) {
    this.#source = source;
    this.#context = context;
    this.#settings = settings;
    this.#total = source.arrays.reduce((sum, { nbytes }) => sum + nbytes, 0);
  }

  async *steps(): AsyncGenerator<Step> {
    for (const run of this.#source.arrays) {
      const state = await this.#begin(run);
      for await (const task of run.tasks(this.#settings.signal)) yield { state, task };
      yield { state, task: undefined };
    }
  }

  async #begin(run: ArrayRun): Promise<ArrayState> {
    const { target, store, options, publisher } = this.#context;
    const held = holdDocuments(store, {
      isDocument: target.isDocument,
      hidesFiles: options.verify === true && target.ending !== undefined,
      publisher,
      onReceipt: options.onReceipt,
    });
    const state: ArrayState = {
      run,
      store: held,
      pending: new Set(),
      isFinished: this.#settings.keep !== "nothing" && (await this.#isComplete(run)),
      isPublished: false,
      done: 0,
      shards: 0,
      kept: 0,
      counts: { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 },
      error: undefined,
    };
    this.#states.push(state);
    return state;
  }

  /** True if the array's documents exist, complete. */
  async #isComplete({ documents }: ArrayRun): Promise<boolean> {
    const { store } = this.#context;
    for (const { key, bytes } of documents)
      if (!isEqual(await store.get(key, { signal: this.#settings.signal }), bytes)) return false;
    return documents.length > 0;
  }

  /** Runs a step. The failure of an array that may be skipped is kept until the end of the array. */
  async take({ state, task }: Step, signal: AbortSignal): Promise<void> {
    if (task !== undefined && state.error !== undefined) return;
    const work = task === undefined ? this.#end(state, signal) : this.#make(state, task, signal);
    if (task !== undefined) state.pending.add(work);
    try {
      await work;
    } catch (error) {
      signal.throwIfAborted();
      if (!this.#source.skipsFailed) throw error;
      state.error ??= assertSkippable(error);
    } finally {
      state.pending.delete(work);
    }
  }

  async #make(state: ArrayState, task: Task, signal: AbortSignal): Promise<void> {
    const { run } = state;
    const { target, options } = this.#context;
    const isThere = await this.#isThere(state, task, signal);
    if (state.isFinished && !isThere) return;
    if (isThere) {
      state.kept++;
      this.#advance(state, task.nbytes);
    } else {
      if (!(await run.run(task, this.#contextOf(state, signal)))) return;
      // Another task may fail before this array ends, and its file has its final name already.
      if (target.ending !== undefined && options.verify !== true) state.isPublished = true;
    }
    if (run.keepsTasks) state.shards++;
  }

  #contextOf(state: ArrayState, signal: AbortSignal): TaskContext {
    return {
      store: state.store.store,
      encoder: this.#context.options.encoder ?? encodeHere,
      signal,
      counts: state.counts,
      advance: (nbytes) => this.#advance(state, nbytes),
      note: (text) => void this.#notes.push(text),
    };
  }

  /** True if an earlier run made the object of a task. */
  async #isThere({ run, isFinished }: ArrayState, { key }: Task, signal: AbortSignal): Promise<boolean> {
    const { keep } = this.#settings;
    if (keep === "receipts") return true;
    if (!isFinished && !(run.keepsTasks && keep === "tasks")) return false;
    return (await this.#context.store.stat(key, { signal })) !== undefined;
  }

  /** Ends an array whose tasks have all started: waits for them, compares, publishes. */
  async #end(state: ArrayState, signal: AbortSignal): Promise<void> {
    await Promise.allSettled(state.pending);
    if (state.error !== undefined) return;
    signal.throwIfAborted();
    const { run, store } = state;
    if (!state.isFinished) {
      for (const { key, bytes } of run.documents) await store.store.put(key, bytes, { signal });
      await run.conclude?.(this.#contextOf(state, signal));
    }
    try {
      if (this.#context.options.verify === true) await run.compare(store.store, signal);
      if (this.#source.arrays.length === 1) await this.#source.assertUnchanged?.();
    } catch (error) {
      await store.discard().catch(() => undefined); // only the first error is thrown
      throw error;
    }
    await store.publish(signal);
    state.isPublished = true;
    this.#advance(state, run.nbytes - state.done);
  }

  #advance(state: ArrayState, nbytes: number): void {
    const { run } = state;
    state.done += nbytes;
    this.#done += nbytes;
    if (nbytes > 0 || run.nbytes === 0) this.#settings.onProgress(this.#done, this.#total, run.path);
  }

  /** Removes what was made: files that have their final names, and incomplete folders. */
  async undo(): Promise<void> {
    const { store, target } = this.#context;
    for (const { run, store: held, isPublished } of this.#states) {
      await held.discard();
      if (target.ending === undefined) {
        if (!isPublished) await deleteAt(store, run.root);
      } else if (isPublished) await store.delete(run.root);
    }
  }

  /** Removes skipped arrays, and publishes the groups. */
  async finish(started: number): Promise<SourceOutcome> {
    const failed = [...this.#source.failed];
    for (const { run, error } of this.#states) {
      if (error === undefined) continue;
      failed.push({ path: run.node, source: run.path, error: assertSkippable(error) });
      await this.#settings.discard(run.node);
    }
    if (this.#states.length !== 1) await this.#source.assertUnchanged?.();
    const groups = this.#source.groups(new Set(failed.map(({ path }) => path)));
    let written = 0;
    for (const { key, bytes } of groups)
      written += await this.#context.publisher.putDocument(key, bytes, this.#settings.signal);
    return { failed, result: this.#sumUp({ groups: groups.length, written, started }) };
  }

  /** `written`: the bytes of the documents of groups. */
  #sumUp({ groups, written, started }: Record<"groups" | "written" | "started", number>): SourceResult {
    const source = this.#source;
    const whole = this.#states.filter(({ error }) => error === undefined);
    const sum = (pick: (state: ArrayState) => number): number =>
      whole.reduce((total, state) => total + pick(state), 0);
    const notes = [...source.notes, ...whole.flatMap(({ run }) => run.notes), ...this.#notes];
    const odd = sum(({ counts }) => counts.oddTypesize);
    if (odd > 0)
      notes.push(`chunks whose typesize is not the size of their items are copied as they are: ${odd}`);
    return {
      arrays: sum(({ run }) => run.arrays),
      groups,
      chunksCopied: sum(({ counts }) => counts.copied),
      chunksPadded: sum(({ counts }) => counts.padded),
      chunksRecoded: sum(({ counts }) => counts.recoded),
      ...restreamedIn(sum(({ counts }) => counts.restreamed ?? 0)),
      shards: sum(({ shards }) => shards),
      shardsKept: sum(({ kept }) => kept),
      bytesWritten: written + sum(({ store }) => store.written()),
      nbytes: sum(({ run }) => run.nbytes),
      seconds: (performance.now() - started) / 1000,
      verified: this.#context.options.verify === true,
      notes,
      renamed: source.plan.renamed,
    };
  }
}

/** Deletes a file or a folder. */
export async function deleteAt(store: WritableStore, key: string): Promise<void> {
  if (key !== "" && (await store.stat(key)) !== undefined) await store.delete(key);
  else await deleteTree(store, key);
}

/** The number of restreamed chunks, omitted if it is 0. */
export function restreamedIn(count: number): Pick<SourceResult, "chunksRestreamed"> {
  return count === 0 ? {} : { chunksRestreamed: count };
}

/** The failures of a source's skipped nodes. Throws like {@link failureOf}. */
export function failuresOf(failed: readonly FailedNode[]): NodeFailure[] {
  return failed.map(({ source, path, error }) => ({ path: source, node: path, ...failureOf(error, source) }));
}

/** True if something is where an array is written. Of the older transformer, an array without chunks has only its documents. */
async function isThere(store: ReadableStore, { root, documents }: ArrayRun): Promise<boolean> {
  if (await isTaken(store, root)) return true;
  const found = await Promise.all(documents.map(({ key }) => store.stat(key)));
  return found.length > 0 && !found.includes(undefined);
}

/**
 * Compares the arrays of a source one after the other. Returns what differs or could not be compared, and the number of the arrays that are
 * equal and their uncompressed bytes. Throws `STALE`.
 */
export async function compareArrays(
  run: SourceRun,
  store: ReadableStore,
  signal: AbortSignal,
  onProgress: RunSettings["onProgress"],
): Promise<{ failed: NodeFailure[]; arrays: number; nbytes: number }> {
  const total = run.arrays.reduce((sum, each) => sum + each.nbytes, 0);
  const failed = failuresOf(run.failed);
  let [done, arrays, nbytes] = [0, 0, 0];
  for (const array of run.arrays) {
    const { node, path, root } = array;
    try {
      if (!(await isThere(store, array)))
        throw new SuperchunkError(
          "NOT_FOUND",
          "nothing is there: the source was not converted to this place",
          { path: store.describe(root) },
        );
      await array.compare(store, signal);
      arrays += array.arrays;
      nbytes += array.nbytes;
    } catch (error) {
      signal.throwIfAborted();
      failed.push({ node, path, ...failureOf(error, path) });
    }
    done += array.nbytes;
    onProgress(done, total, path);
  }
  await run.assertUnchanged?.();
  return { failed, arrays, nbytes };
}
