/**
 * The queue of plans in Redis or Valkey: loads BullMQ on first use, configures its connection, and names the jobs.
 *
 * Knows BullMQ and the content of a job; must not know how units are run.
 */
import type { Job, Queue } from "bullmq";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";

/** Location of a queue. */
export interface QueueOptions {
  /** `redis://[user:password@]host[:port][/database]`; with TLS `rediss://`. */
  readonly url: string;
  /** User and password, if the address has none. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Name of the queue. All its workers run all its plans. Default `superchunk`. */
  readonly name?: string | undefined;
}

/** One unit of a plan, or its final step. */
export interface QueueJob {
  /** Location of the plan: an absolute path, or an address. */
  readonly plan: string;
  readonly id: string;
  /** Number of the unit; absent in the job that ends the plan. */
  readonly unit?: number;
}

/** Result of a job. A job that would always fail counts as done, because `finish` leaves it out. */
export interface JobOutcome {
  readonly failed?: string;
}

type QueueModule = typeof import("bullmq");

/** Loads BullMQ. Throws `UNSUPPORTED` if it is not installed. */
export async function loadQueue(): Promise<QueueModule> {
  try {
    return await import("bullmq");
  } catch (cause) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      'queues need the packages "bullmq" and "ioredis", which are not installed: npm install bullmq ioredis',
      { field: "bullmq", cause },
    );
  }
}

/** Tries before an unreachable queue is an error. */
const TRIES = 3;

/** Settings of BullMQ. Without `patient`, an unreachable server is an error after a few tries. */
export function connectionSettings(
  { url, username, password }: QueueOptions,
  patient: boolean,
): { readonly connection: object } {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (address === undefined || !["redis:", "rediss:"].includes(address.protocol) || address.hostname === "")
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "a queue is named by the address of its server: redis://HOST:PORT, or rediss://HOST:PORT with TLS",
      { field: "queue", expected: "redis://HOST:PORT" },
    );
  const hasUser = address.username !== "" || address.password !== "";
  return {
    connection: {
      url,
      ...(hasUser || username === undefined ? {} : { username }),
      ...(hasUser || password === undefined ? {} : { password }),
      maxRetriesPerRequest: null,
      ...(patient ? {} : { retryStrategy: (times: number) => (times > TRIES ? null : 200 * times) }),
    },
  };
}

/** Name of the queue, if none is given. */
export function queueNameOf({ name = "superchunk" }: QueueOptions): string {
  return name;
}

/** Lets `work` use a queue, and closes it. Throws `IO` if the server cannot be reached. */
export async function withQueue<T>(
  options: QueueOptions,
  work: (queue: Queue<QueueJob, JobOutcome>, bullmq: QueueModule) => Promise<T>,
): Promise<T> {
  const settings = connectionSettings(options, false);
  const bullmq = await loadQueue();
  const queue = new bullmq.Queue<QueueJob, JobOutcome>(queueNameOf(options), settings);
  let lost: unknown;
  queue.on("error", (error) => {
    lost = error;
  });
  try {
    await queue.waitUntilReady();
    return await work(queue, bullmq);
  } catch (error) {
    if (isSuperchunkError(error)) throw error;
    throw unreachable(error, lost, options);
  } finally {
    await queue.close().catch(() => undefined); // nothing to close if it was never reached
  }
}

function unreachable(error: unknown, lost: unknown, { url }: QueueOptions): SuperchunkError {
  const { protocol, host } = new URL(url);
  const cause = lost ?? error;
  return new SuperchunkError(
    "IO",
    `the queue's server fails: ${textOf(cause)}; is it running, and is the address right?`,
    { path: `${protocol}//${host}`, field: "queue", cause },
  );
}

/** What failed. An error for several addresses of one name has only a code. */
export function textOf(error: unknown): string {
  return error instanceof Error
    ? error.message || String((error as NodeJS.ErrnoException).code)
    : String(error);
}

/** Id of a unit's job: a plan has one job for each unit, however often it is enqueued. */
export function jobIdOf(plan: string, unit: number): string {
  return `${plan}-${unit}`;
}

/** Id of the job that ends a plan, and of the gate job that holds it back until all others are enqueued. */
export function finishIdOf(plan: string): string {
  return `${plan}-finish`;
}
export function gateIdOf(plan: string): string {
  return `${plan}-all-in`;
}

/** Reads a job. Returns undefined for data that this version did not write. */
export function readJob({ data }: Pick<Job, "data">): QueueJob | undefined {
  const { plan, id, unit } = (data ?? {}) as Partial<Record<keyof QueueJob, unknown>>;
  if (typeof plan !== "string" || typeof id !== "string" || !/^[0-9a-f]{32}$/.test(id)) return undefined;
  if (unit === undefined) return { plan, id };
  return typeof unit === "number" && Number.isSafeInteger(unit) && unit >= 0 ? { plan, id, unit } : undefined;
}
