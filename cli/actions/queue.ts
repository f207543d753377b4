/** The queue part of `run`, `work` and `status`. Loads BullMQ only if a queue is named. */
import type { QueueOptions, QueueStatus } from "../../src/queue/index.ts";
import type { Context, Switches } from "../context.ts";
import { EXIT } from "../failure.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";

/** The queue's typed address. User and password may be in the environment, where lists of processes do not show them. */
function queueAt(url: string): QueueOptions {
  const { REDIS_USERNAME: username, REDIS_PASSWORD: password } = process.env;
  return { url, username, password };
}

/** Printed by commands that find a finished plan. What has no record of its plan can be that of another conversion. */
export const FINISHED_BEFORE =
  "nothing is left to do: the plan was finished before, or another conversion has made what is there";

/** Puts the remaining tasks of a plan into a queue. */
export async function runQueued(
  location: string,
  flags: { readonly queue: string; readonly retryFailed?: boolean; readonly json?: boolean },
  context: Context,
): Promise<void> {
  const { enqueue } = await import("../../src/queue/index.ts");
  const { retryFailed, json = false } = flags;
  const put = await enqueue(location, { ...queueAt(flags.queue), retryFailed, signal: context.signal });
  if (json) return context.json(put);
  if (put.finishedBefore) return context.out.line(FINISHED_BEFORE);
  const again = put.retried > 0 ? `, ${formatCount(put.retried)} of them once more` : "";
  await context.out.line(`${formatPlural(put.tasks, "task")} in the queue${again}`);
  context.message(
    "next: superchunk work --queue with this address, on any machine; a worker finishes the plan too",
  );
}

export async function statusOfQueue(id: string, url: string): Promise<QueueStatus> {
  const { queueStatus } = await import("../../src/queue/index.ts");
  return queueStatus(id, queueAt(url));
}

/** Facts of a queue for people, and its dead letters, one per line. */
export function queueFacts({ finish, left, waiting, active, delayed, workers, dead }: QueueStatus): {
  readonly facts: string[][];
  readonly letters: string[];
} {
  const others = `${formatCount(waiting)} waiting, ${formatCount(active)} active, ${formatCount(delayed)} for later`;
  const own =
    finish === "absent"
      ? "does not know the plan"
      : `${formatPlural(left, "task")} of the plan left, finish is ${finish === "waiting-children" ? "waiting for them" : finish}`;
  return {
    facts: [
      ["queue", own],
      ["in all", `${others}, ${formatPlural(workers, "worker")}`],
    ],
    letters: dead.map(
      ({ task, attempts, reason }) =>
        `dead: ${task === undefined ? "finish" : `task ${task}`}, after ${formatPlural(attempts, "attempt")}: ${printable(reason)}`,
    ),
  };
}

/** Makes `status` exit with 1 if there are dead letters, which need attention. */
export function noteDead({ dead }: QueueStatus, context: Context): void {
  if (dead.length > 0) context.note(EXIT.failed);
}

/** The options of `work`. */
export interface WorkFlags extends Switches<"untilEmpty" | "json"> {
  readonly queue: string;
  readonly concurrency?: number;
  readonly rate?: number;
  readonly stalledAfter?: number;
}

/** Runs the tasks of a queue until it is asked to stop. */
export async function workQueued(flags: WorkFlags, context: Context): Promise<void> {
  const { work } = await import("../../src/queue/index.ts");
  const { queue, json = false, ...own } = flags;
  const result = await work({
    ...own,
    ...queueAt(queue),
    signal: context.signal,
    onLost: (reason) => context.message(`the queue's server cannot be reached (${reason}); waiting for it`),
    onJob: ({ plan, unit, failure, isFinal }) => {
      if (failure === undefined) return;
      const what = unit === undefined ? "finish" : `task ${unit}`;
      context.message(`${isFinal ? "failed" : "failed, and tried again"}: ${what} of ${plan}: ${failure}`);
    },
  });
  const { done, failed } = result;
  const words = `${formatPlural(done, "task")} done${failed > 0 ? `, ${formatPlural(failed, "attempt")} failed` : ""}`;
  // A worker normally ends by a signal, but nothing goes to stdout after one.
  if (context.signal.aborted) return context.message(words);
  if (json) return context.json(result);
  await context.out.line(words);
}
