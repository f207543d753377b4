/**
 * `superchunk/queue`: the tasks of a plan as jobs of BullMQ, on Redis or Valkey. Needs the packages `bullmq` and `ioredis`, which the first
 * call loads.
 *
 * @packageDocumentation
 */
export type { JobOutcome, QueueJob, QueueOptions } from "./connection.ts";
export {
  type DeadLetter,
  type Enqueued,
  type EnqueueOptions,
  enqueue,
  type QueueStatus,
  queueStatus,
} from "./enqueue.ts";
export { type JobReport, type Worked, type WorkOptions, work } from "./work.ts";
