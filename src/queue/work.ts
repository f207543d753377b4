/** A worker: runs the jobs of a queue, of any plan, until it is stopped. */
import type { Job } from "bullmq";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { finish, openPlanRunner, type PlanRunner } from "../node/plan.ts";
import { pause } from "../store/pool.ts";
import {
  connectionSettings,
  type JobOutcome,
  loadQueue,
  type QueueJob,
  type QueueOptions,
  queueNameOf,
  readJob,
  textOf,
  withQueue,
} from "./connection.ts";

const CONCURRENCY = 4;
/** Plans that a worker keeps open. */
const OPEN_PLANS = 4;
/** Seconds after which a job of a silent worker goes to another worker. */
const STALLED_AFTER = 30;
/** Times that a job may lose its worker before it is a dead letter, because the job itself may crash workers. */
const MOST_STALLED = 3;

/** Options of {@link work}. */
export interface WorkOptions extends QueueOptions {
  /** Concurrent jobs. Default 4. */
  readonly concurrency?: number | undefined;
  /** Tasks per second, over all workers of the queue. Default: no limit. */
  readonly rate?: number | undefined;
  /** Seconds after which a job of a silent worker goes to another worker. Default 30. */
  readonly stalledAfter?: number | undefined;
  /** Ends when the queue is empty, delayed jobs included. Default false: waits for more. */
  readonly untilEmpty?: boolean | undefined;
  /** Threads that encode, for each plan. */
  readonly threads?: number | undefined;
  /** Stops the worker: running jobs are ended, and no more are taken. */
  readonly signal?: AbortSignal | undefined;
  readonly onJob?: ((done: JobReport) => void) | undefined;
  /** Called once each time that the server cannot be reached, also at the start. Connecting continues without limit. */
  readonly onLost?: ((reason: string) => void) | undefined;
}

/** Result of a job. */
export interface JobReport extends QueueJob {
  /** Why it failed. */
  readonly failure?: string;
  /** True if it is not tried again. */
  readonly isFinal: boolean;
}

/** Totals of a worker. */
export interface Worked {
  readonly done: number;
  readonly failed: number;
}

/**
 * Runs the jobs of a queue until the signal stops it; then ends the running jobs, and resolves. The job of a dead worker goes to another; a
 * failed job is tried again, with growing waits. Anyone who may write to the queue's server decides what is read and written here.
 *
 * @throws UNSUPPORTED without BullMQ; IO if the server refuses the connection's password at the start; NO_SPACE and READ_ONLY, which stop
 * the worker
 */
export async function work(options: WorkOptions): Promise<Worked> {
  const { concurrency = CONCURRENCY, rate, stalledAfter = STALLED_AFTER, signal, onJob, onLost } = options;
  connectionSettings(options, true);
  const { Worker, UnrecoverableError } = await loadQueue();
  if (!(await isReached(options))) return { done: 0, failed: 0 };
  const plans = new OpenPlans(options.threads);
  const stop = new AbortController();
  let failure: unknown;
  let [done, failed, isLost] = [0, 0, false];
  const run = async (job: Job<QueueJob, JobOutcome>): Promise<JobOutcome> => {
    const read = readJob(job);
    if (read === undefined) throw new UnrecoverableError("this is not a job of superchunk");
    try {
      if (job.name === "all-in") return {};
      const outcome = await (job.name === "finish" ? end(read, options) : runUnit(read, plans));
      done++;
      onJob?.({
        ...read,
        ...(outcome.failed === undefined ? {} : { failure: outcome.failed }),
        isFinal: true,
      });
      return outcome;
    } catch (error) {
      failed++;
      const { code = "", message } = isSuperchunkError(error) ? error : { message: String(error) };
      const isFinal = failsAlways(error) || job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
      onJob?.({ ...read, failure: message, isFinal });
      if (failsAlways(error)) throw new UnrecoverableError(message);
      if (code === "IO") plans.drop(read.id);
      if (code === "NO_SPACE" || code === "READ_ONLY") {
        failure ??= error;
        stop.abort();
      }
      throw error;
    }
  };
  const worker = new Worker<QueueJob, JobOutcome>(queueNameOf(options), run, {
    ...connectionSettings(options, true),
    concurrency,
    lockDuration: stalledAfter * 1000,
    stalledInterval: stalledAfter * 1000,
    maxStalledCount: MOST_STALLED,
    ...(rate === undefined ? {} : { limiter: { max: rate, duration: 1000 } }),
  });
  worker.on("error", (error) => {
    // A job that lost its lock now belongs to another worker, which writes the same bytes.
    if (isLost || !AWAY.test(textOf(error))) return;
    isLost = true;
    onLost?.(textOf(error));
  });
  for (const event of ["ready", "active"] as const)
    worker.on(event, () => {
      isLost = false;
    });
  try {
    await stopped([stop.signal, ...(signal === undefined ? [] : [signal])], options);
  } finally {
    await worker.close();
    await plans.close();
  }
  if (failure !== undefined) throw failure;
  return { done, failed };
}

/** True for failures that would be the same at every other try. */
function failsAlways(error: unknown): boolean {
  if (!isSuperchunkError(error)) return false;
  return error.isDamage || error.code === "UNSUPPORTED" || error.code === "BAD_ARGUMENT";
}

/** Milliseconds between checks for a server, or for an empty queue. */
const LOOK_EVERY = 500;
/** Messages of a server that may come back. */
const AWAY = /ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|closed/i;

/** Waits for a server that cannot be reached yet. False if the signal stopped that. Throws `IO` if the server refuses, such as a password. */
async function isReached(options: WorkOptions): Promise<boolean> {
  let isLost = false;
  while (options.signal?.aborted !== true) {
    try {
      await withQueue(options, async () => undefined);
      return true;
    } catch (error) {
      if (!isSuperchunkError(error, "IO") || !AWAY.test(error.message)) throw error;
      if (!isLost) options.onLost?.(textOf(error.cause));
      isLost = true;
    }
    await pause(LOOK_EVERY, options.signal).catch(() => undefined);
  }
  return false;
}

/** Resolves when a signal stops the worker, or nothing is left. */
async function stopped(signals: readonly AbortSignal[], options: WorkOptions): Promise<void> {
  const any = AbortSignal.any([...signals]);
  const aborted = new Promise<void>((resolve) => {
    if (any.aborted) resolve();
    any.addEventListener("abort", () => resolve(), { once: true });
  });
  if (options.untilEmpty !== true) return aborted;
  while (!any.aborted) {
    const isEmpty = await withQueue(options, async (queue) => {
      const counts: Partial<Record<string, number>> = await queue.getJobCounts();
      const { failed = 0, completed = 0, "waiting-children": held = 0 } = counts;
      const all =
        Object.values(counts).reduce<number>((sum, count = 0) => sum + count, 0) - failed - completed;
      // A final job that waits only for dead letters needs a person.
      return all === 0 || (failed > 0 && all === held);
    }).catch((error: unknown) => {
      if (isSuperchunkError(error, "IO")) return false; // the server may come back
      throw error;
    });
    if (isEmpty) return;
    await pause(LOOK_EVERY, any).catch(() => undefined);
  }
}

/** Runs a unit. A permanent failure has a receipt and counts as done; others are thrown, to be tried again. */
async function runUnit({ plan, id, unit = 0 }: QueueJob, plans: OpenPlans): Promise<JobOutcome> {
  const runner = await plans.open(plan, id);
  const failure = await runner.run(unit, new AbortController().signal);
  if (failure === undefined) return {};
  if (failure.isFinal) return { failed: `${failure.path}: ${failure.message}` };
  throw new SuperchunkError(failure.code, failure.message, { path: failure.path });
}

async function end({ plan }: QueueJob, { threads }: WorkOptions): Promise<JobOutcome> {
  await finish(plan, { threads });
  return {};
}

/** The last few plans that a worker has opened. */
class OpenPlans {
  readonly #threads: number | undefined;
  readonly #open = new Map<string, Promise<PlanRunner>>();
  readonly #closing: Promise<unknown>[] = [];

  constructor(threads: number | undefined) {
    this.#threads = threads;
  }

  /** Throws `CONFLICT` if there is another plan at the location. */
  async open(location: string, id: string): Promise<PlanRunner> {
    const known = this.#open.get(id);
    if (known !== undefined) {
      this.#open.delete(id);
      this.#open.set(id, known);
      return known;
    }
    const [oldest] = this.#open;
    if (this.#open.size >= OPEN_PLANS && oldest !== undefined) {
      this.#open.delete(oldest[0]);
      // Running units still need its files, so it is closed at the end.
      this.#closing.push(oldest[1]);
    }
    const opening = openPlanRunner(location, { threads: this.#threads }).then(async (runner) => {
      if (runner.plan.id === id) return runner;
      await runner.close();
      throw new SuperchunkError(
        "UNSUPPORTED",
        "the job's plan was replaced by another one; put that into the queue again",
        { path: location, expected: id, found: runner.plan.id },
      );
    });
    this.#open.set(id, opening);
    // A plan that cannot be opened now may be available at the next try.
    opening.catch(() => this.#open.delete(id));
    return opening;
  }

  /** The next job opens the plan again: after a failed sync, objects of an open one may never become durable. */
  drop(id: string): void {
    const known = this.#open.get(id);
    if (known === undefined) return;
    this.#open.delete(id);
    this.#closing.push(known);
  }

  async close(): Promise<void> {
    const all = [...this.#closing, ...this.#open.values()] as Promise<PlanRunner>[];
    for (const opening of all) {
      const runner = await opening.catch(() => undefined);
      await runner?.close();
    }
  }
}
