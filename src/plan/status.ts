/** The progress of a plan according to its receipts, and what is left of it. */

import { at } from "../bytes/arrays.ts";
import type { Failure } from "../convert/pipeline.ts";
import { DONE, FAILED, isFinished, openJob, readStates, type SharedJob } from "./job.ts";
import { REPORT_EVERY, readReceipts, type WorkerState } from "./receipts.ts";

/** Progress of a plan. */
export interface SharedStatus {
  readonly plan: string;
  /** `running` even if no process runs at the moment. */
  readonly stage: "planned" | "running" | "finished";
  readonly units: number;
  readonly done: number;
  /** Units that fail in every run, and units that failed and may succeed in another run. */
  readonly failed: number;
  readonly failing: number;
  /** Units without a receipt that processes, unless they are silent, say they work on. */
  readonly running: number;
  /** Uncompressed bytes of all units, and of those that are done. */
  readonly nbytes: number;
  readonly nbytesDone: number;
  /** Uncompressed bytes per second of the time in which a process ran; 0 before anything is done. */
  readonly rate: number;
  /** Seconds left at that rate, without units that always fail; absent before anything is done. */
  readonly secondsLeft?: number;
  readonly workers: readonly WorkerStatus[];
  /** Sources that fail in every run, or failed and were not done since; and why. */
  readonly failures: readonly ({ readonly path: string } & Failure)[];
}

/** Progress of one process. */
export interface WorkerStatus {
  readonly worker: string;
  readonly running: number;
  readonly ended: boolean;
  /** True if it has neither ended nor reported for two minutes: it was killed, or its machine is gone. Assumes that clocks agree. */
  readonly silent: boolean;
  /** Milliseconds since 1970. */
  readonly started: number;
  readonly updated: number;
  /** When its last unit began or ended. A process that reports, but has not progressed for long, hangs. */
  readonly since: number;
}

/** Milliseconds without a report after which a process is silent. */
const SILENT_AFTER = 4 * REPORT_EVERY;

export async function statusOf(shared: SharedJob): Promise<SharedStatus> {
  const job = openJob(shared, {});
  const { plan, units } = job;
  const nbytes = units.sizes.reduce((sum, size) => sum + size, 0);
  const failures = new Map<string, { readonly path: string } & Failure>();
  for (const { path, failure } of plan.sources)
    if (failure !== undefined) failures.set(path, { path, ...failure });
  const base = { plan: plan.id, units: units.count, nbytes, running: 0, failing: 0 };
  if (await isFinished(job))
    return {
      ...base,
      stage: "finished",
      done: units.count,
      failed: 0,
      nbytesDone: nbytes,
      rate: 0,
      workers: [],
      failures: [...failures.values()],
    };
  const states = new Uint8Array(units.count);
  const workers = new Map<string, WorkerState>();
  let [nbytesDone, nbytesLeft] = [0, nbytes];
  const fail = (unit: number, failure: Failure): void => {
    const { path } = at(plan.sources, units.place(unit).source);
    failures.set(path, { path, ...failure });
  };
  const failing = await readReceipts(job, {
    onReceipt({ unit, failure }) {
      states[unit] = failure === undefined ? DONE : FAILED;
      nbytesLeft -= at(units.sizes, unit);
      if (failure === undefined) nbytesDone += at(units.sizes, unit);
      else fail(unit, failure);
    },
    onWorker(state) {
      const known = workers.get(state.worker);
      if (known === undefined || known.updated <= state.updated) workers.set(state.worker, state);
    },
  });
  for (const [unit, failure] of failing) fail(unit, failure);
  const now = Date.now();
  const all = [...workers.values()].map((worker) => {
    return { ...worker, silent: !worker.ended && now - worker.updated > SILENT_AFTER };
  });
  const running = all.map(({ ended, running: own }) =>
    ended ? [] : own.filter((unit) => states[unit] === 0),
  );
  // The time in which at least one process ran: shares may be run days apart.
  let [seconds, end] = [0, 0];
  for (const { started, updated } of all.toSorted((a, b) => a.started - b.started)) {
    seconds += Math.max(0, updated - Math.max(started, end)) / 1000;
    end = Math.max(end, updated);
  }
  const rate = seconds > 0 ? nbytesDone / seconds : 0;
  return {
    ...base,
    stage: all.length === 0 ? "planned" : "running",
    done: states.reduce((sum, state) => sum + Number(state === DONE), 0),
    failed: states.reduce((sum, state) => sum + Number(state === FAILED), 0),
    failing: failing.size,
    running: new Set(running.flatMap((own, i) => (at(all, i).silent ? [] : own))).size,
    nbytesDone,
    rate,
    ...(rate > 0 ? { secondsLeft: nbytesLeft / rate } : {}),
    workers: all.map(({ plan: _, running: __, ...worker }, i) => {
      return { ...worker, running: at(running, i).length };
    }),
    failures: [...failures.values()],
  };
}

/** The units without a receipt, in order; undefined if the plan is finished. */
export async function unitsLeft(job: SharedJob, retryFailed: boolean): Promise<Uint32Array | undefined> {
  const opened = openJob(job, {});
  if (await isFinished(opened)) return undefined;
  const known = await readStates(opened);
  const isLeft = (unit: number): boolean => known[unit] === 0 || (known[unit] === FAILED && retryFailed);
  return opened.units.share(0, 1).filter(isLeft);
}
