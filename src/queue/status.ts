/** The progress of a plan in a queue: waiting and running jobs, and dead letters. */
import type { Job } from "bullmq";
import { finishIdOf, gateIdOf, type QueueOptions, withQueue } from "./connection.ts";
import { deadOf } from "./enqueue.ts";

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
    const dead: DeadLetter[] = [];
    for await (const { data, attemptsMade: attempts, failedReason: reason } of deadOf(queue, id))
      dead.push({ ...(data.unit === undefined ? {} : { task: data.unit }), attempts, reason });
    return {
      finish: (await finish?.getState()) ?? "absent",
      left: Math.max(0, unprocessed - (gate === undefined ? 0 : 1)),
      ...{ waiting, active, delayed: delayed - (isClosed ? 1 : 0) },
      workers: await queue.getWorkersCount(),
      dead,
    };
  });
}
