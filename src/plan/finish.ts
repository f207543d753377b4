/** The end of a plan: publishing, once all receipts exist. */
import type { DamageReport } from "../archive/kinds/types.ts";
import { addTo, at } from "../bytes/arrays.ts";
import {
  type ChunkCounts,
  type ConvertOptions,
  type ConvertResult,
  type Failure,
  failureOf,
  type Receipt,
} from "../convert/pipeline.ts";
import { hiddenKey, publishDirectly } from "../convert/run/conversion-store.ts";
import { removeLeftoversOf } from "../convert/run/destination.ts";
import { convertedOf, Outcomes } from "../convert/run/outcomes.ts";
import { deleteAt, restreamedIn, runSource } from "../convert/run/run-source.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { stringifyJson } from "../format/json.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, splitKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import { deleteTree } from "../store/tree.ts";
import {
  assertNotForeign,
  DONE,
  isFinished,
  type Opened,
  openJob,
  putRecord,
  removeReceipts,
  type SharedJob,
  type SharedWork,
  takeDestination,
} from "./job.ts";
import type { SharedPlan } from "./plan.ts";
import {
  forgetReceipts,
  MAY_PASS,
  parseOwn,
  ReceiptLog,
  readReceipts,
  type UnitReceipt,
} from "./receipts.ts";

/** Folders that `finish` inspects at a time. */
const STATS_AT_ONCE = 64;
/** From this many objects on, a folder is listed instead of requesting each. */
const LISTED_FROM = 4;
/** Tries of a `finish` whose files others remove. */
const TRIES = 5;
/** Missing units that an error names. */
const NAMED = 5;

/** Options of the end of a plan. */
export interface FinishOptions extends Pick<ConvertOptions, "signal" | "onProgress" | "encoder"> {
  /**
   * Also leaves out sources whose tasks failed, and may succeed in another run: those that have changed, are missing or could not be read.
   * `entries` or the report name them. Default false: `INCOMPLETE`. For plans of many sources.
   */
  readonly withoutFailed?: boolean | undefined;
}

/** `join` makes the result known to groups above it, and resolves with notes. */
type FinishSettings = FinishOptions & { readonly join?: (() => Promise<readonly string[]>) | undefined };

/**
 * Ends a plan: checks that every unit has its receipt and every object its size, compares values if the plan asks for it, and
 * publishes the remaining documents, the root's last. It can be killed at any point and run again; undefined if everything was
 * done before.
 * @throws INCOMPLETE if units are missing, with the first of them; CONFLICT for a source that has changed, BAD_FIELD if a value
 * differs, and the codes of damage
 */
export async function finishShared(
  shared: SharedJob,
  options: FinishSettings = {},
): Promise<SharedResult | undefined> {
  for (let tries = 1; tries < TRIES; tries++)
    try {
      return await finishOnce(shared, options);
    } catch (error) {
      // Another run of `finish` removes files that this one has half written.
      if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
    }
  return finishOnce(shared, options);
}

async function finishOnce(
  shared: SharedJob,
  { withoutFailed = false, join, ...options }: FinishSettings,
): Promise<SharedResult | undefined> {
  const started = performance.now();
  const job = openJob(shared, options);
  if (await isFinished(job)) {
    // Also removes what a process believed dead has left since.
    await cleanUp(job);
    return undefined;
  }
  const { plan, units } = job;
  // A plan without tasks, for example of an empty array, is never run.
  if (units.count === 0) await takeDestination(job);
  const end = new Finish(job, plan.isTree && withoutFailed, options.signal);
  if (!(await end.readReceipts()) || !(await end.checkObjects())) return undefined;
  if (job.store.removeLeftovers !== undefined) {
    await noteBegun(job);
    if (await isFinished(job)) {
      await cleanUp(job);
      return undefined;
    }
  }
  for (const index of plan.sources.keys()) await end.finishSource(index);
  const result = await end.publishRoot((performance.now() - started) / 1000);
  const notes = (await join?.()) ?? [];
  await end.removeLeftovers();
  await putRecord(job, true);
  await cleanUp(job);
  return { ...result, notes: [...result.notes, ...notes], damage: end.damage };
}

/** Records that this process begins to write, like one that runs tasks: if it is killed, the next `finish` removes what it had half written. */
async function noteBegun({ store, receipts, plan }: Opened): Promise<void> {
  const started = Date.now();
  const state = { worker: "finish", plan: plan.id, started };
  const log = new ReceiptLog(store, receipts, { k: 1, n: 1 }, state, () => ({ running: [], since: started }));
  await log.write([]);
}

async function cleanUp(job: Opened): Promise<void> {
  const { store, record, path, target } = job;
  // A process that writes receipts looks for the record afterwards, so one of the two removes them.
  await store.delete(record);
  await removeReceipts(job);
  const files = target.isHierarchy || path === "" ? [] : [path, hiddenKey(path)];
  await removeLeftoversOf(store, [record, ...files]);
}

/** The result of a shared conversion. */
export interface SharedResult extends ConvertResult {
  /** Losses of damaged archives, if the plan was made with `damaged`. */
  readonly damage: readonly DamageReport[];
}

interface TaskSums extends ChunkCounts {
  restreamed: number;
  bytes: number;
  readonly notes: string[];
}

/** An object that a unit of a source made. */
interface MadeObject extends Receipt {
  readonly source: number;
  readonly unit: number;
}

/** One run of `finish`. */
class Finish {
  readonly damage: DamageReport[] = [];
  readonly #job: Opened;
  readonly #withoutFailed: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #whole = new Map<number, UnitReceipt>();
  readonly #sums = new Map<number, TaskSums>();
  readonly #failed = new Map<number, Failure>();
  readonly #objects: MadeObject[] = [];
  readonly #outcomes = new Outcomes();
  /** Processes that have begun, and whether they ended. */
  readonly #ended = new Map<string, boolean>();

  constructor(job: Opened, withoutFailed: boolean, signal: AbortSignal | undefined) {
    this.#job = job;
    this.#withoutFailed = withoutFailed;
    this.#signal = signal;
  }

  /** As {@link areAllDone}; also throws why the only source fails, if every run does. */
  async readReceipts(): Promise<boolean> {
    const { plan, units } = this.#job;
    const states = new Uint8Array(units.count);
    const failing = await readReceipts(this.#job, {
      onReceipt: (receipt) => {
        states[receipt.unit] = DONE;
        this.#add(receipt, units.place(receipt.unit).source);
      },
      onWorker: ({ worker, ended }) =>
        void this.#ended.set(worker, ended || this.#ended.get(worker) === true),
    });
    const [failure] = this.#failed.values();
    if (!plan.isTree && failure !== undefined)
      throw new SuperchunkError(
        failure.code,
        `${failure.message}; every run fails: remove this destination, and plan again with an undamaged archive or other options`,
        { path: this.#job.store.describe(this.#job.path), field: "tasks" },
      );
    if (this.#withoutFailed)
      for (const [unit, { code, message }] of failing) {
        const { source } = units.place(unit);
        const { first, end } = units.of(source);
        this.#failed.set(source, { code, message });
        states.fill(DONE, first, end);
      }
    return areAllDone(this.#job, failing, (unit) => states[unit] === DONE);
  }

  #add(receipt: UnitReceipt, source: number): void {
    if (receipt.failure !== undefined) {
      this.#failed.set(source, receipt.failure);
      return;
    }
    for (const object of receipt.objects ?? []) this.#objects.push({ ...object, source, unit: receipt.unit });
    if (at(this.#job.plan.sources, source).tasks === undefined) {
      this.#whole.set(source, receipt);
      return;
    }
    const sums = this.#sums.get(source) ?? noSums();
    this.#sums.set(source, sums);
    const { counts, objects = [], notes = [] } = receipt;
    sums.bytes += objects.reduce((sum, { size }) => sum + size, 0);
    sums.notes.push(...notes);
    if (counts === undefined) return;
    for (const name of ["copied", "padded", "recoded", "oddTypesize"] as const) sums[name] += counts[name];
    sums.restreamed += counts.restreamed ?? 0;
  }

  /** As {@link areAllDone}, for objects that differ from their receipts or are missing. The next run makes them again. */
  async checkObjects(): Promise<boolean> {
    const { store, path, units, target } = this.#job;
    const folders = new Map<string, MadeObject[]>();
    for (const object of this.#objects) {
      if (this.#failed.has(object.source)) continue; // an earlier `finish` may have removed it
      const { folder } = splitKey(object.key);
      addTo(folders, folder, object);
    }
    const wrong = new Map<number, string>();
    await runPooled(
      folders,
      STATS_AT_ONCE,
      async ([folder, objects], signal) => {
        const sizes = new Map<string, number>();
        // One listing instead of a request for each object.
        if (objects.length >= LISTED_FROM)
          for await (const { name, size } of store.list(folder, { signal, sizes: true }))
            if (size !== undefined) sizes.set(joinKey(folder, name), size);
        for (const { key, size, unit } of objects) {
          const found = sizes.get(key) ?? (await store.stat(key, { signal }))?.size;
          if (found !== size)
            wrong.set(unit, `${store.describe(key)}: expected ${size} bytes, found ${found ?? "nothing"}`);
        }
      },
      this.#signal,
    );
    const [first] = wrong.values();
    if (first === undefined) return true;
    // A folder that is moved to its place would not replace what is left.
    if (!target.isHierarchy && target.ending === undefined)
      for (const unit of wrong.keys()) {
        const { source, task } = units.place(unit);
        if (task === undefined) await this.#removeSource(source);
      }
    await forgetReceipts(this.#job, wrong);
    if (await isFinished(this.#job)) {
      await cleanUp(this.#job);
      return false;
    }
    throw new SuperchunkError(
      "INCOMPLETE",
      `the results of ${wrong.size} of ${units.count} tasks were changed or removed (${first}${wrong.size > 1 ? ", …" : ""}); run the plan again, which runs these tasks again, then finish`,
      { path: store.describe(path), field: "tasks", expected: units.count, found: units.count - wrong.size },
    );
  }

  /** Removes files that a killed process did not finish or compare. */
  async removeLeftovers(): Promise<void> {
    const { store, path, plan, target, options } = this.#job;
    if ([...this.#ended.values()].every((ended) => ended)) return;
    if (options.verify === true && target.ending !== undefined)
      await runPooled(this.#objects, STATS_AT_ONCE, ({ key }) => store.delete(hiddenKey(key)), this.#signal);
    if (store.removeLeftovers === undefined) return;
    const ownsFolder = target.isHierarchy || plan.isTree || plan.sources[0]?.tasks !== undefined;
    const folders = new Set<string>(ownsFolder ? [path] : []);
    for (const { key } of ownsFolder ? this.#objects : []) {
      let folder = key;
      do folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/")));
      while (!folders.has(folder) && folder.length > path.length && folders.add(folder));
    }
    if (!target.isHierarchy && target.ending === undefined)
      for (const folder of [...folders]) folders.add(joinKey(folder, "meta"));
    await runPooled(folders, STATS_AT_ONCE, async (folder) => store.removeLeftovers?.(folder), this.#signal);
  }

  /** Publishes a source whose tasks were run one by one; counts the others. */
  async finishSource(index: number): Promise<void> {
    const { plan, target, store, path: destination } = this.#job;
    const { path, node, tasks, failure } = at(plan.sources, index);
    const failed = failure ?? this.#failed.get(index);
    if (failed !== undefined) {
      if (tasks !== undefined || this.#withoutFailed) await this.#removeSource(index);
      this.#outcomes.add(index, { path, node, status: "failed", ...failed });
      return;
    }
    if (tasks === undefined) {
      const {
        result,
        left: failures = [],
        nodes = 0,
        described = [],
        damage = [],
      } = this.#whole.get(index) ?? {};
      if (result === undefined) return;
      this.damage.push(...damage);
      this.#outcomes.addConverted(index, { path, node }, { result, failures, described, nodes });
      return;
    }
    try {
      const run = await this.#job.planOf(index);
      this.damage.push(...this.#job.damageOf(index));
      const { options } = this.#job;
      // Files were compared by their tasks.
      const verify = options.verify === true && target.ending === undefined;
      const context = { target, store, options: { ...options, verify }, publisher: publishDirectly(store) };
      const outcome = await runSource(run, context, {
        keep: "receipts",
        undoes: async () => false,
        discard: (below) => deleteTree(store, joinKey(destination, node, below)),
        signal: this.#signal,
        onProgress: (done, total, label) => options.onProgress?.({ done, total, label }),
      });
      const sums = this.#sums.get(index) ?? noSums();
      const result = {
        ...outcome.result,
        chunksCopied: sums.copied,
        chunksPadded: sums.padded,
        chunksRecoded: sums.recoded,
        ...restreamedIn(sums.restreamed),
        shardsKept: 0,
        verified: options.verify === true,
        bytesWritten: outcome.result.bytesWritten + sums.bytes,
        notes: [...outcome.result.notes, ...sums.notes],
      };
      this.#outcomes.addConverted(index, { path, node }, convertedOf(run, { ...outcome, result }));
    } catch (error) {
      this.#signal?.throwIfAborted();
      const mayPass = isSuperchunkError(error) && MAY_PASS.has(error.code);
      if (!plan.isTree || (mayPass && !this.#withoutFailed)) throw error;
      const entry = failureOf(error, path);
      await this.#removeSource(index);
      this.#outcomes.add(index, { path, node, status: "failed", ...entry });
    }
  }

  /** Removes what tasks of a source made. */
  async #removeSource(index: number): Promise<void> {
    const { plan, target, store, path } = this.#job;
    const { node, tasks } = at(plan.sources, index);
    const key = joinKey(path, node);
    if (target.isHierarchy) return deleteTree(store, key);
    if (tasks === undefined || target.ending === undefined)
      return deleteAt(store, `${key}${target.ending ?? ""}`);
    const folders = new Set<string>();
    for (const { source, key } of this.#objects) {
      if (source !== index) continue;
      await store.delete(key);
      folders.add(splitKey(key).folder);
    }
    if (store.isFolder !== undefined) for (const folder of folders) await store.delete(folder);
  }

  /** Publishes the groups for folders, the root's last. */
  async publishRoot(seconds: number): Promise<ConvertResult> {
    const { plan, target, store, path, options } = this.#job;
    const isNamed = plan.isTree && target.isHierarchy;
    if (isNamed && !this.#outcomes.areAllFailed)
      await this.#outcomes.publishFolders(async (node, document) => {
        await store.put(joinKey(path, node, "zarr.json"), document, { signal: this.#signal });
        return document.length;
      });
    return this.#outcomes.result(plan.sources, { isNamed, verified: options.verify === true, seconds });
  }
}

/** The result of a plan that is not a conversion. */
export const NOTHING_CONVERTED: ConvertResult = new Outcomes().result([], {
  isNamed: false,
  verified: true,
  seconds: 0,
});

/** Throws `INCOMPLETE` with the first missing units, and why they failed. False if another process has ended the plan since. */
async function areAllDone(
  job: Opened,
  failing: ReadonlyMap<number, Failure>,
  isDone: (unit: number) => boolean,
): Promise<boolean> {
  const { units, store, path } = job;
  const missing: number[] = [];
  for (let unit = 0; unit < units.count; unit++) if (!isDone(unit)) missing.push(unit);
  if (missing.length === 0) return true;
  if (await isFinished(job)) return false;
  if (missing.length === units.count) await assertNotForeign(job);
  const describe = (unit: number): string => {
    const { source, task } = units.place(unit);
    const { path } = at(job.plan.sources, source);
    return task === undefined ? path : `${path} (array ${task.array}, task ${task.index})`;
  };
  const nameOf = (unit: number): string => `${unit}: ${failing.get(unit)?.message ?? describe(unit)}`;
  const named = missing.slice(0, NAMED).map(nameOf);
  const found = units.count - missing.length;
  const mayLeave = job.plan.isTree && missing.every((unit) => failing.has(unit));
  const others = missing.length > NAMED ? `, and ${missing.length - NAMED} more` : "";
  throw new SuperchunkError(
    "INCOMPLETE",
    `${missing.length} of ${units.count} tasks have no receipt (${named.join("; ")}${others}); run the plan again, then finish${mayLeave ? ", or leave out what failed: {withoutFailed: true}" : ""}`,
    { path: store.describe(path), field: "tasks", expected: units.count, found },
  );
}

/**
 * Ends a plan that is not a conversion: makes the result, writes the report, and returns its lines. If the plan was ended
 * before, returns the lines of the existing report.
 * @throws INCOMPLETE if units are missing, with the first of them
 */
export async function finishWork(
  shared: SharedJob,
  work: SharedWork,
  options: Pick<FinishOptions, "signal" | "withoutFailed">,
): Promise<readonly JsonObject[]> {
  const job = openJob(shared, { signal: options.signal });
  const { plan, units, store, path } = job;
  const { report, end } = work;
  if (await isFinished(job)) {
    await cleanUp(job);
    const text = report === undefined ? "" : new TextDecoder().decode(await store.get(report));
    return text.split("\n").flatMap((line) => (line === "" ? [] : [parseOwn(line, path) as JsonObject]));
  }
  if (units.count === 0) await takeDestination(job);
  const found: JsonObject[] = [];
  const failing = await readReceipts(job, {
    onReceipt({ unit, line, failure }) {
      found[unit] = line ?? lineOfFailure(plan, units.place(unit).source, failure);
    },
  });
  if (options.withoutFailed === true)
    for (const [unit, { code, message }] of failing)
      found[unit] = lineOfFailure(plan, units.place(unit).source, { code, message });
  if (!(await areAllDone(job, failing, (unit) => found[unit] !== undefined)))
    return finishWork(shared, work, options);
  const lines = plan.sources.map(({ failure }, source) =>
    failure === undefined ? at(found, units.of(source).first) : lineOfFailure(plan, source, failure),
  );
  await end?.(options.signal);
  const text = lines.map((line) => `${stringifyJson(line)}\n`).join("");
  if (report !== undefined)
    await store.put(report, new TextEncoder().encode(text), { signal: options.signal });
  await putRecord(job, true);
  await cleanUp(job);
  return lines;
}

function lineOfFailure({ sources }: SharedPlan, source: number, failure: Failure | undefined): JsonObject {
  const { path } = at(sources, source);
  return { path, dialect: null, ok: false, error: { ...failure } };
}

function noSums(): TaskSums {
  return {
    copied: 0,
    padded: 0,
    recoded: 0,
    restreamed: 0,
    oddTypesize: 0,
    bytes: 0,
    notes: [],
  };
}
