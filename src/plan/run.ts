/** Runs a share of a plan; each receipt is written after what it names is durable. */

import { at, keepLast } from "../bytes/arrays.ts";
import { encodeHere } from "../codec/index.ts";
import {
  type ChunkCounts,
  type ConvertOptions,
  type Failure,
  failureOf,
  type Receipt,
  type SourceRun,
  type Task,
} from "../convert/pipeline.ts";
import {
  BatchPublisher,
  holdDocuments,
  type ObjectPublisher,
  publishDirectly,
} from "../convert/run/conversion-store.ts";
import { convertedOf } from "../convert/run/outcomes.ts";
import { runSource } from "../convert/run/run-source.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { joinKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import { deleteTree } from "../store/tree.ts";
import { MOST_CONSOLIDATED } from "../zarr/document/make-v3.ts";
import { makeAside } from "./aside.ts";
import {
  FAILED,
  finishedMeanwhile,
  isFinished,
  type Opened,
  openJob,
  readStates,
  removeReceipts,
  type SharedJob,
  takeDestination,
} from "./job.ts";
import { assertShare, orderedTasks, taskStateOf } from "./plan.ts";
import { folderBeside, MAY_PASS, ReceiptLog, type ShareNumber, type UnitReceipt } from "./receipts.ts";

/** Units that one process runs at a time. */
const UNITS_AT_ONCE = 4;
/** Number of opened sources that are kept by a process that is given single units. */
const OPEN_SOURCES = 16;
/** Milliseconds between writes of receipts; more if writing them would take over a tenth of the time. */
const RECEIPTS_EVERY = 1000;
const RECEIPTS_PART = 10;

/** Options of running a share. */
export interface ShareOptions extends Pick<ConvertOptions, "signal" | "onProgress" | "encoder"> {
  /** Share `k` of `n`, counted from 1. Default all. */
  readonly share?: ShareNumber | undefined;
  /** Concurrent units. Default 4. */
  readonly jobs?: number | undefined;
  /** Name of this process in receipts. Default: a random one. */
  readonly worker?: string | undefined;
  /** Also runs units that have failed for good. */
  readonly retryFailed?: boolean | undefined;
}

/** A source with units that could not be run, now or before. */
export interface ShareFailure extends Failure {
  readonly path: string;
  /** Number of its failed units in the share. */
  readonly units: number;
  /** True if every run fails; `finish` then leaves it out, or says why it cannot. */
  readonly isFinal: boolean;
}

/** Result of a share. */
export interface ShareResult {
  readonly plan: string;
  /** Units of the share. */
  readonly units: number;
  readonly done: number;
  /** Units that already had a receipt. */
  readonly kept: number;
  readonly failed: number;
  /** Units among `kept` that failed before and always fail; `failures` names their sources too. `retryFailed` runs them again. */
  readonly failedBefore: number;
  /** Uncompressed bytes of the completed units. */
  readonly nbytes: number;
  readonly failures: readonly ShareFailure[];
  /** True if the plan was finished before, so that nothing was done. */
  readonly finishedBefore?: true;
}

/** A process that runs a share, or the units that it is given one by one. */
export class Share {
  readonly #job: Opened;
  readonly #settings: ShareOptions;
  readonly #batch: BatchPublisher | undefined;
  readonly #publisher: ObjectPublisher;
  readonly #log: ReceiptLog;
  readonly #running = new Set<number>();
  readonly #planned = new Map<number, Promise<SourceRun>>();
  readonly #failures = new Map<string, ShareFailure>();
  readonly #walks = new Map<number, TaskWalk>();
  #waiting: UnitReceipt[] = [];
  /** When receipts are due. */
  #due = Date.now() + RECEIPTS_EVERY;
  #writing: Promise<void> = Promise.resolve();
  #nextWrite: Promise<void> | undefined;
  /** When the last unit began or ended. */
  #since = Date.now();
  #done = 0;
  #nbytes = 0;
  #total = 0;
  #isOver = false; // true once others have finished the plan

  constructor(job: Opened, settings: ShareOptions) {
    const { store, plan, target, receipts } = job;
    this.#job = job;
    this.#settings = settings;
    const isBatch = plan.isTree && target.isHierarchy && store.sync !== undefined;
    this.#batch = isBatch ? new BatchPublisher(store) : undefined;
    this.#publisher = this.#batch ?? publishDirectly(store);
    const { share = { k: 1, n: 1 }, worker = `worker-${Math.random().toString(36).slice(2)}` } = settings;
    const state = { worker, plan: plan.id, started: Date.now() };
    const progress = () => ({ running: [...this.#running], since: this.#since });
    this.#log = new ReceiptLog(store, receipts, share, state, progress);
  }

  async run(): Promise<ShareResult> {
    const { units, plan } = this.#job;
    const { share: { k, n } = { k: 1, n: 1 }, signal, jobs = UNITS_AT_ONCE, retryFailed } = this.#settings;
    const mine = units.share(k - 1, n);
    const earlier = new Map<number, Failure>();
    const known = await readStates(this.#job, { k, n }, earlier);
    const todo = mine.filter((unit) => known[unit] === 0 || (known[unit] === FAILED && retryFailed === true));
    for (const unit of retryFailed === true ? [] : mine) {
      const failure = earlier.get(unit);
      if (failure !== undefined) this.#nameFailure(units.place(unit).source, failure);
    }
    const failedBefore = this.#failedUnits();
    this.#total = todo.reduce((sum, unit) => sum + at(units.sizes, unit), 0);
    if (todo.length > 0) await this.begin();
    try {
      await runPooled(
        this.#steps(todo),
        jobs,
        async (step, inner) => void (await this.#take(step, inner)),
        signal,
      );
    } finally {
      this.#log.endReports();
      if (mine.length > 0) await this.#writeReceipts(true);
    }
    return {
      plan: plan.id,
      units: mine.length,
      done: this.#done,
      kept: mine.length - todo.length,
      failed: this.#failedUnits() - failedBefore,
      failedBefore,
      nbytes: this.#nbytes,
      failures: [...this.#failures.values()],
    };
  }

  /** Records the beginning, before anything is made. Unless the end is recorded too, `finish` looks for what was left. */
  async begin(): Promise<void> {
    await this.#log.write([]);
    this.#log.startReports(() => this.#leaveNothing());
  }

  /** Runs one unit. Resolves once its receipt is durable; with the reason, if it failed: then at once, if another run may succeed. Throws NO_SPACE, READ_ONLY, IO. */
  async runOne(unit: number, signal: AbortSignal): Promise<ShareFailure | undefined> {
    const { source, task } = this.#job.units.place(unit);
    let failure: ShareFailure | undefined;
    try {
      const found = task === undefined ? {} : await this.#findTask(source, task, signal);
      const step = { unit, source, ...found };
      failure = await this.#take(step, signal);
    } catch (error) {
      signal.throwIfAborted();
      failure = this.#fail(unit, source, error);
    }
    if (failure === undefined || failure.isFinal) await this.#receiptsWritten();
    return failure;
  }

  /** Ends what {@link begin} began. */
  async end(): Promise<void> {
    this.#log.endReports();
    await this.#receiptsWritten(true);
  }

  /** Finds a task by its place. Jobs arrive roughly in task order, so the walk over the tasks continues from its position. */
  async #findTask(
    source: number,
    { array, index }: { readonly array: number; readonly index: number },
    signal: AbortSignal,
  ): Promise<Pick<Step, "task" | "array">> {
    for (;;) {
      let walk = this.#walks.get(source);
      if (walk === undefined || walk.array !== array || walk.next > index) {
        const run = await this.#planOf(source);
        const tasks = (await orderedTasks(at(run.arrays, array), signal))[Symbol.iterator]();
        const { path } = at(this.#job.plan.sources, source);
        walk = { array, next: 0, turn: Promise.resolve(), tasks, path };
      }
      keepLast(this.#walks, source, walk, OPEN_SOURCES);
      // One after the other, because all concurrent jobs share a walk.
      const own = walk;
      const found = own.turn.then(() => findIn(own, index));
      own.turn = found.catch(() => undefined); // thrown to its caller
      const task = await found;
      if (task !== "passed") return { task, array };
    }
  }

  /** Units in order, so that a source is opened once for all its tasks. */
  async *#steps(todo: Uint32Array): AsyncGenerator<Step> {
    const { units } = this.#job;
    for (let first = 0; first < todo.length && !this.#isOver; ) {
      const { source, task } = units.place(at(todo, first));
      const { end: limit } = units.of(source);
      let end = first;
      while (end < todo.length && at(todo, end) < limit) end++;
      const own = todo.subarray(first, end);
      first = end;
      if (task === undefined) yield { unit: at(own, 0), source };
      else yield* this.#taskSteps(source, own);
    }
  }

  async *#taskSteps(source: number, own: Uint32Array): AsyncGenerator<Step> {
    const { units, plan } = this.#job;
    const { signal } = this.#settings;
    let next = 0;
    try {
      const run = await this.#planOf(source);
      let unit = units.of(source).first;
      for (const [array, each] of run.arrays.entries())
        for (const task of await orderedTasks(each, signal)) {
          if (this.#isOver) return;
          if (unit === own[next]) {
            yield { unit, source, task, array };
            next++;
          }
          unit++;
        }
      if (unit !== units.of(source).end) throw otherTasks(at(plan.sources, source).path);
    } catch (error) {
      signal?.throwIfAborted();
      for (const unit of own.subarray(next)) this.#fail(unit, source, error);
    } finally {
      this.#planned.delete(source);
    }
  }

  #planOf(source: number): Promise<SourceRun> {
    const planning = this.#planned.get(source) ?? this.#job.planOf(source);
    planning.catch(() => undefined); // thrown to the callers
    keepLast(this.#planned, source, planning, OPEN_SOURCES);
    return planning;
  }

  async #take(step: Step, signal: AbortSignal): Promise<ShareFailure | undefined> {
    const { unit, source } = step;
    let failure: ShareFailure | undefined;
    this.#running.add(unit);
    this.#since = Date.now();
    try {
      const made =
        step.task === undefined ? await this.#runWhole(step, signal) : await this.#runTask(step, signal);
      this.#waiting.push({ unit, source: taskStateOf(at(this.#job.plan.sources, source)), ...made });
      this.#done++;
      this.#nbytes += at(this.#job.units.sizes, unit);
    } catch (error) {
      signal.throwIfAborted();
      failure = this.#fail(unit, source, error);
    } finally {
      this.#running.delete(unit);
      this.#since = Date.now();
    }
    const { path: label } = at(this.#job.plan.sources, source);
    this.#settings.onProgress?.({ done: this.#nbytes, total: this.#total, label });
    await this.#batch?.flushIfFull();
    if (Date.now() > this.#due) await this.#writeReceipts(false);
    return failure;
  }

  /** Handles a unit that failed. Another run tries it again, unless it fails in every run. */
  #fail(unit: number, source: number, error: unknown): ShareFailure {
    const planned = at(this.#job.plan.sources, source);
    const failure = failureOf(error, planned.path);
    const failed = this.#nameFailure(source, failure);
    this.#waiting.push({ unit, source: taskStateOf(planned), failure });
    return failed;
  }

  /** Names a failed unit in the result: by its source, and a reason that may pass if there is one. */
  #nameFailure(source: number, failure: Failure): ShareFailure {
    const { path } = at(this.#job.plan.sources, source);
    const failed = { path, ...failure, isFinal: !MAY_PASS.has(failure.code), units: 1 };
    const known = this.#failures.get(path);
    const named = known?.isFinal === false ? known : failed;
    this.#failures.set(path, { ...named, units: (known?.units ?? 0) + 1 });
    return failed;
  }

  #failedUnits(): number {
    return [...this.#failures.values()].reduce((sum, { units }) => sum + units, 0);
  }

  /** Makes a small source, from its objects to its documents. */
  async #runWhole({ source, unit }: Step, signal: AbortSignal): Promise<Partial<UnitReceipt>> {
    const { plan, target, store, path, work } = this.#job;
    if (work !== undefined) return { line: await work.run(at(plan.sources, source), unit, signal) };
    const to = joinKey(path, at(plan.sources, source).node);
    if (target.isHierarchy || target.ending !== undefined)
      return this.#runSource(source, { key: to, to }, signal);
    const aside = joinKey(folderBeside(path), "made");
    return makeAside(store, { aside, to, signal }, (key) => this.#runSource(source, { key, to }, signal));
  }

  /** Makes a source at `key`, which will be moved to `to`. */
  async #runSource(
    source: number,
    { key, to }: { readonly key: string; readonly to: string },
    signal: AbortSignal,
  ): Promise<Partial<UnitReceipt>> {
    const { plan, target, store, options } = this.#job;
    const objects: Receipt[] = [];
    const run = await this.#job.planOf(source, key);
    const discard = async (below: string): Promise<void> => {
      const folder = target.isHierarchy ? joinKey(key, below) : below;
      await this.#assertUnfinished();
      await this.#batch?.forget(folder);
      await deleteTree(store, folder);
    };
    const onReceipt = (receipt: Receipt): void =>
      void objects.push({ ...receipt, key: to + receipt.key.slice(key.length) });
    const context = {
      target,
      store,
      publisher: this.#publisher,
      options: { ...options, onReceipt },
    };
    // A temporary failure may not have happened in another process, whose result is the same.
    const undoes = async (error: unknown): Promise<boolean> => {
      if (!isSuperchunkError(error) || MAY_PASS.has(error.code) || signal.aborted) return false;
      await this.#assertUnfinished();
      return true;
    };
    try {
      const settings = { keep: "nothing" as const, discard, undoes, signal, onProgress: () => undefined };
      const outcome = await runSource(run, context, settings);
      const { result, failures: left, nodes, described } = convertedOf(run, outcome);
      const isFew = plan.isTree && plan.sources.length <= MOST_CONSOLIDATED;
      const damage = this.#job.damageOf(source);
      return {
        objects,
        result,
        left,
        nodes,
        ...(isFew ? { described } : {}),
        ...(damage.length === 0 ? {} : { damage }),
      };
    } catch (error) {
      if (target.isHierarchy && (await undoes(error))) await discard("");
      throw error;
    }
  }

  /** Called before anything is removed: a process believed dead must not remove a finished result. */
  async #assertUnfinished(): Promise<void> {
    if ((await this.#job.store.stat(this.#job.record)) === undefined) throw finishedMeanwhile(this.#job);
  }

  /** Makes the object of one task; `finish` publishes the array. */
  async #runTask({ source, task, array }: Step, signal: AbortSignal): Promise<Partial<UnitReceipt>> {
    const { target, store, options } = this.#job;
    if (task === undefined || array === undefined) throw new RangeError("the unit is not a task");
    const run = await this.#planOf(source);
    const objects: Receipt[] = [];
    const notes: string[] = [];
    const counts: ChunkCounts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
    // A file is a whole array or table, and is compared before it gets its name; a part only with the rest of its array.
    const hidesFiles = options.verify === true && target.ending !== undefined;
    const held = holdDocuments(store, {
      isDocument: target.isDocument,
      hidesFiles,
      publisher: this.#publisher,
      onReceipt: (receipt) => void objects.push(receipt),
    });
    const own = at(run.arrays, array);
    try {
      await own.run(task, {
        store: held.store,
        encoder: options.encoder ?? encodeHere,
        signal,
        counts,
        advance: () => undefined,
        note: (text) => void notes.push(text),
      });
      if (hidesFiles) await own.compare(held.store, signal);
    } catch (error) {
      await held.discard().catch(() => undefined); // only the first error is thrown
      throw error;
    }
    await held.publish(signal);
    return { objects, counts, ...(notes.length === 0 ? {} : { notes }) };
  }

  /** Resolves once everything done so far has its receipts. Units that end while receipts are written share the next write. */
  #receiptsWritten(ended = false): Promise<void> {
    this.#nextWrite ??= this.#writing
      .catch(() => undefined) // thrown to those that waited for it
      .then(() => {
        this.#nextWrite = undefined;
        this.#writing = this.#writeReceipts(ended);
        return this.#writing;
      });
    return this.#nextWrite;
  }

  /** Writes the receipts of finished units, once their results are durable. */
  async #writeReceipts(isLast: boolean): Promise<void> {
    const began = Date.now();
    this.#due = Number.POSITIVE_INFINITY; // one at a time
    const receipts = this.#waiting;
    this.#waiting = [];
    await this.#batch?.finish();
    await this.#log.write(receipts, isLast);
    await this.#leaveNothing();
    const ended = Date.now();
    this.#due = ended + Math.max(RECEIPTS_EVERY, (ended - began) * RECEIPTS_PART);
  }

  /** Called after receipts were written: a process believed dead may have done so after the plan was finished. */
  async #leaveNothing(): Promise<void> {
    this.#isOver = (await this.#job.store.stat(this.#job.record)) === undefined;
    if (this.#isOver) await removeReceipts(this.#job);
  }
}

/** The tasks of one array, found one after the other. */
interface TaskWalk {
  readonly array: number;
  next: number;
  turn: Promise<unknown>;
  readonly tasks: Iterator<Task>;
  readonly path: string;
}

/** The task with this number, or "passed" if the walk is past it. Throws `CONFLICT` if there are fewer. */
function findIn(walk: TaskWalk, index: number): Task | "passed" {
  if (index < walk.next) return "passed";
  for (;;) {
    const { done, value } = walk.tasks.next();
    if (done === true) throw otherTasks(walk.path);
    if (walk.next++ === index) return value;
  }
}

function otherTasks(path: string): SuperchunkError {
  return new SuperchunkError(
    "CONFLICT",
    "the source has other objects than when the plan was made; plan again, to another destination",
    { path, field: "tasks" },
  );
}

/** One unit with what it takes to run it. */
interface Step {
  readonly unit: number;
  readonly source: number;
  readonly task?: Task;
  readonly array?: number;
}

/**
 * Runs the units of a share that have no receipt. A full or read-only destination and an abort stop it; a failed unit does not.
 * @throws CONFLICT if something else is at the destination; NO_SPACE, READ_ONLY, IO
 */
export async function runShared(job: SharedJob, options: ShareOptions): Promise<ShareResult> {
  assertShare(options.share);
  const none = { plan: job.plan.id, units: 0, done: 0, kept: 0, failed: 0, failedBefore: 0, nbytes: 0 };
  return (await (await openShare(job, options))?.run()) ?? { ...none, failures: [], finishedBefore: true };
}

/** Takes the destination. Undefined if the plan is finished. Throws `CONFLICT` if something else is there. */
export async function openShare(job: SharedJob, options: ShareOptions): Promise<Share | undefined> {
  const { signal, encoder } = options;
  const opened = openJob(job, { signal, encoder });
  if (await isFinished(opened)) return undefined;
  await takeDestination(opened);
  return new Share(opened, options);
}
