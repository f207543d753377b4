/** Enqueues the rest of a plan: a job for each unit, and a final job that waits for all of them. Reports how far the queue is. */
import type { FlowJob, Job, Queue } from "bullmq";
import type { ConvertOptions } from "../convert/pipeline.ts";
import { SuperchunkError } from "../errors.ts";
import { absolute, planLeft } from "../node/plan.ts";
import {
  connectionSettings,
  finishIdOf,
  gateIdOf,
  type JobOutcome,
  jobIdOf,
  type QueueJob,
  type QueueOptions,
  queueNameOf,
  withQueue,
} from "./connection.ts";

const JOBS_AT_ONCE = 1000;
/** Delay of the gate job, which is opened explicitly; only has to be longer than enqueuing takes. */
const GATE_CLOSED = 365 * 24 * 3600 * 1000;
/** Tries of a job, and milliseconds before the second; each next wait is twice as long. */
const ATTEMPTS = 5;
const BACKOFF = 1000;

/** Options of {@link enqueue}. */
export interface EnqueueOptions extends QueueOptions {
  /** Attempts of a task before it becomes a dead letter. Default 5. */
  readonly attempts?: number | undefined;
  /** Milliseconds before the second attempt; each later wait is twice as long. Default 1000. */
  readonly backoff?: number | undefined;
  /** Enqueues again tasks that have failed for good, and dead letters. */
  readonly retryFailed?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ConvertOptions["onProgress"];
}

/** Result of {@link enqueue}. */
export interface Enqueued {
  readonly plan: string;
  /** Tasks without a receipt. All have a job now. */
  readonly tasks: number;
  /** Dead letters that are tried again. */
  readonly retried: number;
  /** True if the plan was finished before, so that no job was added. */
  readonly finishedBefore?: true;
}

/**
 * Enqueues the tasks of a plan that have no receipt, and the job that ends the plan after all of them. Workers (`work`) on any machine run
 * them. Can be killed, and called again, at any time: a task has one job no matter how often it is enqueued.
 *
 * @throws UNSUPPORTED if BullMQ is not installed; IO if the server cannot be reached; the errors of reading a plan
 */
export async function enqueue(planned: string, options: EnqueueOptions): Promise<Enqueued> {
  const location = absolute(planned);
  const { attempts = ATTEMPTS, backoff = BACKOFF, retryFailed = false, signal, onProgress } = options;
  connectionSettings(options, false);
  const { plan, left } = await planLeft(location, retryFailed);
  return withQueue(options, async (queue, { FlowProducer }) => {
    const own = { attempts, backoff: { type: "exponential", delay: backoff }, removeOnComplete: true };
    const base = { plan: location, id: plan.id };
    if (left !== undefined && (await clearEnded(queue, plan.id))) {
      const producer = new FlowProducer(connectionSettings(options, false));
      producer.on("error", () => undefined); // thrown by the call
      try {
        await producer.add(flowOf(base, queueNameOf(options), own));
      } finally {
        await producer.close();
      }
    }
    const parent = { id: finishIdOf(plan.id), queue: queue.qualifiedName };
    for (let first = 0; left !== undefined && first < left.length; first += JOBS_AT_ONCE) {
      signal?.throwIfAborted();
      const lot = Array.from(left.subarray(first, first + JOBS_AT_ONCE), (unit) => ({
        name: "run" as const,
        data: { ...base, unit },
        opts: { ...own, parent, jobId: jobIdOf(plan.id, unit) },
      }));
      await queue.addBulk(lot);
      onProgress?.({ done: Math.min(first + lot.length, left.length), total: left.length, label: location });
    }
    const retried = retryFailed ? await retryDead(queue, plan.id) : 0;
    const gate: Job | undefined = await queue.getJob(gateIdOf(plan.id));
    if ((await gate?.getState()) === "delayed") await gate?.promote();
    if (left === undefined) return { plan: plan.id, tasks: 0, retried, finishedBefore: true };
    return { plan: plan.id, tasks: left.length, retried };
  });
}

/** The final job of a plan behind a gate: while the gate is closed, the final job waits for jobs that are still being enqueued. */
function flowOf(data: QueueJob, queueName: string, opts: object): FlowJob {
  return {
    name: "finish",
    queueName,
    data,
    opts: { ...opts, removeOnComplete: { age: 7 * 24 * 3600 }, jobId: finishIdOf(data.id) },
    children: [
      { name: "all-in", queueName, data, opts: { ...opts, jobId: gateIdOf(data.id), delay: GATE_CLOSED } },
    ],
  };
}

/** Removes the final job if it has ended, to start again. Returns false if it is there and waits for others. Throws `CONFLICT` while it runs. */
async function clearEnded(queue: Queue<QueueJob, JobOutcome>, id: string): Promise<boolean> {
  const finish: Job | undefined = await queue.getJob(finishIdOf(id));
  const state = (await finish?.getState()) ?? "unknown";
  if (state === "waiting-children") return false;
  if (state === "completed" || state === "failed") await finish?.remove();
  else if (state !== "unknown")
    throw new SuperchunkError(
      "CONFLICT",
      "the plan is being finished; look at its status, and try again then",
      { field: "queue", found: state },
    );
  return true;
}

async function retryDead(queue: Queue<QueueJob, JobOutcome>, id: string): Promise<number> {
  const dead = await deadOf(queue, id);
  for (const job of dead) await job.retry("failed", { resetAttemptsMade: true });
  return dead.length;
}

/** The jobs of a plan that have failed as often as they may. */
async function deadOf(queue: Queue<QueueJob, JobOutcome>, id: string): Promise<Job<QueueJob, JobOutcome>[]> {
  const found: Job<QueueJob, JobOutcome>[] = [];
  for (let first = 0; ; first += JOBS_AT_ONCE) {
    const lot = await queue.getFailed(first, first + JOBS_AT_ONCE - 1);
    // A job may be removed while its list is read.
    found.push(...lot.filter((job) => job?.id?.startsWith(`${id}-`) === true));
    if (lot.length < JOBS_AT_ONCE) return found;
  }
}

// The progress of a plan in a queue: waiting and running jobs, and dead letters.

/** State of a plan in a queue. */
export interface QueueStatus {
  /** State of the job that ends the plan, in BullMQ's words; `absent` if the queue does not know the plan. */
  readonly finish: string;
  /** Jobs of the plan that are not done, dead letters included. */
  readonly left: number;
  /** Jobs of all plans of the queue. */
  readonly waiting: number;
  readonly active: number;
  /** Jobs that wait for their next attempt. */
  readonly delayed: number;
  readonly workers: number;
  /** Jobs of the plan that have failed as often as they may. */
  readonly dead: readonly DeadLetter[];
}

/** A job that has used all its attempts. */
export interface DeadLetter {
  /** Number of the task; absent for the job that ends the plan. */
  readonly task?: number;
  readonly attempts: number;
  readonly reason: string;
}

/** Returns what a queue knows of the plan with this `id`. Throws `IO` if the server cannot be reached, `UNSUPPORTED` without BullMQ. */
export function queueStatus(id: string, options: QueueOptions): Promise<QueueStatus> {
  return withQueue(options, async (queue) => {
    const finish: Job | undefined = await queue.getJob(finishIdOf(id));
    const counts: Partial<Record<string, number>> = await queue.getJobCounts("waiting", "active", "delayed");
    const { waiting = 0, active = 0, delayed = 0 } = counts;
    // The gate is not a task, and disappears once it is open.
    const gate: Job | undefined = await queue.getJob(gateIdOf(id));
    const isClosed = (await gate?.getState()) === "delayed";
    const { unprocessed = 0 } = (await finish?.getDependenciesCount({ unprocessed: true })) ?? {};
    const dead = await deadOf(queue, id);
    return {
      finish: (await finish?.getState()) ?? "absent",
      left: Math.max(0, unprocessed - (gate === undefined ? 0 : 1)),
      waiting,
      active,
      delayed: delayed - (isClosed ? 1 : 0),
      workers: await queue.getWorkersCount(),
      dead: dead.map(({ data: { unit }, attemptsMade: attempts, failedReason: reason }) => {
        return { ...(unit === undefined ? {} : { task: unit }), attempts, reason };
      }),
    };
  });
}
