/**
 * A conversion that many processes share: planned once, run in shares (run.ts), finished once (finish.ts).
 *
 * It uses the parts of `convert`. Between the steps, its record and the receipts are beside the destination.
 */

import type { DamageReport } from "../archive/kinds/types.ts";
import { at } from "../bytes/arrays.ts";
import { textDigest } from "../bytes/checksum.ts";
import {
  type ConvertOptions,
  type ConvertSource,
  type Destination,
  type Failure,
  failureOf,
  type SourceItem,
  type SourceRun,
  type Target,
} from "../convert/pipeline.ts";
import { sourcesOf, targetOf } from "../convert/run/convert.ts";
import { checkDestination, conflict, readRecord } from "../convert/run/destination.ts";
import { type PlannedSource, placeAt, planItem } from "../convert/run/run-source.ts";
import { itemAt } from "../convert/sources/items.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { jsonBytes } from "../format/json.ts";
import { recordKey } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import type { OpenPlace } from "../places/placed-store.ts";
import { hasEntries, isTaken, joinKey } from "../store/key.ts";
import { mapAhead } from "../store/pool.ts";
import { deleteTree } from "../store/tree.ts";
import type { PutOptions, ReadableStore, WritableStore } from "../store/types.ts";
import { type Peeked, peek, peekVersions } from "./peek.ts";
import {
  assertShareable,
  countTasks,
  orderedTasks,
  packOptions,
  packTasks,
  type SharedPlan,
  type SharedSource,
  taskStateOf,
  Units,
  unpackOptions,
} from "./plan.ts";
import { readReceipts, receiptsFolder, type ShareNumber } from "./receipts.ts";

/** From this many uncompressed bytes on, one source of many is split into its tasks; a single source always is. */
const WHOLE_BYTES = 64 << 20;
/** Sources opened ahead while planning. */
const OPENED_AHEAD = 32;

/** Facts that a plan records, besides source and options. */
export interface SharedPlanFacts {
  readonly software: string;
  readonly from: readonly string[];
  readonly to: string;
}

/** Plans a conversion for many processes to share. Throws errors of planning, and `CONFLICT` for a destination that is taken. */
export async function planShared(
  source: ConvertSource,
  destination: Destination,
  options: ConvertOptions,
  facts: SharedPlanFacts,
): Promise<SharedPlan> {
  assertShareable(options.to);
  const target = targetOf(options.to);
  const packed = packOptions(options);
  await assertOutputFree(destination, target);
  const sources = await sourcesOf(source, target, options, destination.path);
  const { items, isTree } = sources;
  const own = isTree ? { ...options, skipFailed: true } : options;
  const planOne = async (item: SourceItem): Promise<SharedSource> => {
    const { path, node, found, renamedFrom, notes } = item;
    const where = {
      path,
      node,
      ...(isTree && found !== undefined ? { found } : {}),
      ...(renamedFrom === undefined ? {} : { renamedFrom }),
      ...(notes.length === 0 ? {} : { notes }),
    };
    try {
      const peeked = isTree && "store" in source ? await peekSmall(source.store, item, options) : undefined;
      if (peeked !== undefined) return { ...where, ...peeked };
      const planned = await planItem(item, placeAt(destination, node, items.length), target, own);
      return { ...where, ...(await describeSource(planned, isTree, target, options.signal)) };
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!isTree) throw error;
      return { ...where, nbytes: 0, failure: failureOf(error, path) };
    }
  };
  const planned: SharedSource[] = [];
  for await (const each of mapAhead(items, OPENED_AHEAD, planOne, options.signal)) {
    planned.push(each);
    const [done, total] = [planned.length, items.length];
    options.onProgress?.({ done, total, label: each.path, unit: "archives" });
  }
  const isInGroup = destination.isInGroup === true;
  return namedPlan({ ...facts, options: packed, isTree, isInGroup, sources: planned });
}

/** A plan with the digest that names it. */
export async function namedPlan(content: Omit<SharedPlan, "format" | "version" | "id">): Promise<SharedPlan> {
  const plan = { format: "superchunk-plan" as const, version: 1 as const, ...content };
  return { ...plan, id: await digestOfPlan(plan) };
}

/**
 * Throws `CHECKSUM_MISMATCH` for a plan that was edited: its units would not match its receipts. `digest` is its digest, if the reader
 * computed it.
 */
export async function checkPlan(
  { id, ...rest }: SharedPlan,
  where: string,
  digest?: string | undefined,
): Promise<void> {
  const found = digest ?? (await digestOfPlan(rest));
  if (found === id) return;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    "the plan was truncated or edited after it was made; make it again",
    { path: where, field: "id", expected: id, found },
  );
}

/** The target of a plan that is not a conversion: an object, or a folder without documents. */
const OTHER: Target = {
  format: "npy",
  isHierarchy: false,
  settings: () => ({ command: "verify" }),
  isDocument: () => false,
  plan: () => Promise.reject(new RangeError("a report has no arrays")),
};

/** Throws `CONFLICT` if the destination is taken. */
export async function assertOutputFree(
  { store, path = "" }: Destination,
  { isHierarchy }: Target = OTHER,
): Promise<void> {
  const taken = isHierarchy
    ? (await checkDestination(store, path, { resume: true })) === "taken"
    : await isTaken(store, path);
  const there = store.describe(path);
  const left = recordKey(path, isHierarchy);
  const isUnfinished = (taken || !isHierarchy) && (await store.stat(left)) !== undefined;
  const reason = isUnfinished
    ? "an unfinished plan or conversion is there; finish it, or plan with another destination"
    : "the destination exists; remove it, or plan with another one";
  if (taken) throw conflict(there, reason);
  if (isUnfinished)
    throw conflict(store.describe(left), "an unfinished plan or conversion left this; finish or remove it");
}

/** Peeks at a small archive without opening it; undefined if only opening it gives its size. */
async function peekSmall(
  store: ReadableStore,
  { found, metadata }: SourceItem,
  { signal }: ConvertOptions,
): Promise<Peeked | undefined> {
  if (found === undefined || found.isZarr) return undefined;
  const peeked = await peek(store, found.key, signal, metadata);
  return peeked !== undefined && peeked.nbytes < WHOLE_BYTES ? peeked : undefined;
}

async function describeSource(
  { run, fingerprint }: PlannedSource,
  isTree: boolean,
  { ending }: Target,
  signal: AbortSignal | undefined,
): Promise<Pick<SharedSource, "fingerprint" | "nbytes" | "tasks">> {
  const { nbytes } = run.plan;
  const { arrays } = run;
  const hasParts =
    arrays.every(({ keepsTasks, conclude }) => keepsTasks || conclude !== undefined) ||
    (ending !== undefined && arrays.length > 1);
  const isCut = hasParts && (!isTree || nbytes >= WHOLE_BYTES);
  if (!isCut) return { fingerprint, nbytes };
  const tasks: SharedSource["tasks"] = await Promise.all(
    arrays.map(async (array) => packTasks(await orderedTasks(array, signal))),
  );
  // A folder made by one task gets its name once it is complete.
  const isOne = arrays.some(({ conclude }) => conclude !== undefined) && countTasks(tasks.flat()) < 2;
  return isOne ? { fingerprint, nbytes } : { fingerprint, nbytes, tasks };
}

/** The engine's JSON is many times as fast as this library's. A plan that is stored in parts is digested without parsing it. */
export function digestOfPlan(plan: Omit<SharedPlan, "id">): Promise<string> {
  return textDigest(JSON.stringify(plan));
}

/** A plan with its source and destination opened again. */
export interface SharedJob {
  /** Of a job for one share, only sources with its units, and the first that can be planned, are known. */
  readonly plan: SharedPlan;
  /** Default: counted from the plan. */
  readonly units?: Units | undefined;
  readonly source: ConvertSource;
  readonly destination: Destination;
  readonly openPlace?: OpenPlace | undefined;
  /** The losses of damaged archives that the reader reported, by path. The code that opened the source fills it. */
  readonly damage?: Map<string, DamageReport>;
  /** Set for a plan that is not a conversion. */
  readonly work?: SharedWork;
}

/** The work of a plan that is not a conversion: a unit for each source, and an end for all of them. */
export interface SharedWork {
  /** Does the work for a source; returns its line of the report. Throws errors that are not the source's fault. */
  run(source: SharedSource, unit: number, signal: AbortSignal): Promise<JsonObject>;
  /** Key of the report, which the end writes: a line of JSON for each source. Absent without a report. */
  readonly report?: string;
  /** Makes the other parts of the result. */
  end?(signal: AbortSignal | undefined): Promise<void>;
}

/** Everything that the steps need of a plan. */
export interface Opened extends Pick<SharedJob, "work"> {
  readonly plan: SharedPlan;
  readonly target: Target;
  readonly units: Units;
  readonly store: WritableStore;
  readonly path: string;
  readonly record: string;
  readonly receipts: string;
  readonly options: ConvertOptions;
  /**
   * Opens and plans a source again, to be written to `key` if given. Throws `CONFLICT` if it has changed since the plan was made.
   */
  planOf(source: number, key?: string): Promise<SourceRun>;
  /** The losses of an opened source. */
  damageOf(source: number): readonly DamageReport[];
}

export function openJob(
  { plan, units, source, destination, work, damage, openPlace }: SharedJob,
  extra: Partial<ConvertOptions>,
): Opened {
  const unpacked = work === undefined ? unpackOptions(plan.options) : {};
  const target = work === undefined ? targetOf(unpacked.to) : OTHER;
  const gone = damage ?? new Map<string, DamageReport>();
  const onDamage = (report: DamageReport): void => void gone.set(report.path, report);
  const options = {
    ...unpacked,
    openPlace,
    onDamage,
    ...extra,
    ...(plan.isTree ? { skipFailed: true } : {}),
    // A process may have been killed between a file and its receipt; the destination belongs to the plan since it was taken.
    overwrite: !target.isHierarchy,
  };
  const { store, path = "" } = destination;
  let items: Promise<readonly SourceItem[]> | undefined;
  const itemOf = async (index: number): Promise<SourceItem> => {
    const { found, node } = at(plan.sources, index);
    if (found !== undefined && "store" in source) {
      const { signal, damaged, columns } = options;
      const reading = { signal, damaged, onDamage, openPlace, columns };
      return itemAt(source.store, found, node, { ...reading, asColumns: !target.isHierarchy });
    }
    items ??= sourcesOf(source, target, options, path).then((all) => all.items);
    return at(await items, index);
  };
  return {
    plan,
    target,
    store,
    path,
    options,
    ...(work === undefined ? {} : { work }),
    units: units ?? new Units(plan),
    record: recordKey(path, target.isHierarchy),
    receipts: receiptsFolder(path, target.isHierarchy),
    damageOf(index) {
      const { path: name } = at(plan.sources, index);
      return [...gone.values()].filter(({ path: own }) => own === name || own.startsWith(`${name}/`));
    },
    async planOf(index, key) {
      const planned = at(plan.sources, index);
      const { node, found: where, versions, path: name } = planned;
      const usual = placeAt({ ...destination, isInGroup: plan.isInGroup }, node, plan.sources.length);
      const place = { ...usual, key: key ?? usual.key };
      const wanted = taskStateOf(planned);
      let found: string;
      if (versions !== undefined && where !== undefined && "store" in source) {
        found = await peekVersions(source.store, where.key);
        if (found === wanted) {
          const run = await target.plan(await (await itemOf(index)).open(options.signal), place, options);
          if (run.refusal === undefined) return run;
          throw run.refusal;
        }
      } else {
        const { run, fingerprint } = await planItem(await itemOf(index), place, target, options);
        if (fingerprint === wanted) return run;
        found = fingerprint;
      }
      throw new SuperchunkError(
        "CONFLICT",
        "the source has changed since the plan was made, or is gone; plan again, to another destination",
        { path: name, field: "fingerprint", expected: wanted, found },
      );
    },
  };
}

/** Removes the receipts of a published plan. */
export async function removeReceipts({ store, receipts }: Opened): Promise<void> {
  await deleteTree(store, receipts.slice(0, receipts.lastIndexOf("/")));
}

/** The state of a plan according to its record. Throws `CONFLICT` if the destination belongs to another conversion. */
async function stageOf({ store, path, record, plan }: Opened): Promise<"free" | "running" | "published"> {
  const stored = await readRecord(store, record);
  if (stored === undefined) return "free";
  if (stored["plan"] === plan.id) return stored["published"] === true ? "published" : "running";
  throw conflict(
    store.describe(path),
    "another conversion is unfinished here; finish it, or remove its result",
  );
}

/** Throws `CONFLICT` if something else is at the destination, which no process of the plan has taken. */
export async function assertNotForeign(job: Opened): Promise<void> {
  if ((await stageOf(job)) === "free") await assertOutputFree(job, job.target);
}

/** Takes the destination for the plan, unless another process has. Throws `CONFLICT` if something else is there. */
export async function takeDestination(job: Opened): Promise<void> {
  if ((await stageOf(job)) !== "free") return;
  const { store, path, target } = job;
  try {
    await assertOutputFree({ store, path }, target);
  } catch (error) {
    // Another process may have taken it meanwhile.
    if (!isSuperchunkError(error, "CONFLICT") || (await stageOf(job)) === "free") throw error;
    return;
  }
  try {
    await putRecord(job, false, { ifAbsent: true });
  } catch (error) {
    // Another process has put it meanwhile, perhaps one of another plan.
    if (isSuperchunkError(error, "CONFLICT")) return void (await stageOf(job));
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    await putRecord(job, false);
  }
  // The record is written before everything else, and receipts before results. A result without receipts means that others have
  // ended the plan since.
  if (!(await isResultThere(job)) || (await hasEntries(store, job.receipts))) return;
  await store.delete(job.record);
  throw finishedMeanwhile(job);
}

/** The error for a process that was believed dead and continues. */
export function finishedMeanwhile({ store, path }: Opened): SuperchunkError {
  return new SuperchunkError("CONFLICT", "the plan was finished meanwhile", { path: store.describe(path) });
}

/** Every process of a plan writes the same bytes, so it does not matter which is first. */
export async function putRecord(
  { plan, store, record, target, options }: Opened,
  published: boolean,
  how: PutOptions = {},
): Promise<void> {
  const settings = { ...target.settings(options), plan: plan.id };
  const identity = { format: "superchunk-convert", version: 2, sources: plan.from, options: settings };
  const document = { ...identity, plan: plan.id, ...(published ? { published } : {}) };
  await store.put(record, jsonBytes(document), how);
}

/** True if everything is published, or the result is there without a record, or with one that a process believed dead put again. */
export async function isFinished(job: Opened): Promise<boolean> {
  const stage = await stageOf(job);
  if (stage === "published" || !(await isResultThere(job))) return stage === "published";
  return stage === "free" || (job.target.isHierarchy && !(await hasEntries(job.store, job.receipts)));
}

async function isResultThere({ store, path, target, plan }: Opened): Promise<boolean> {
  if (target === OTHER) return isTaken(store, path);
  if (target.isHierarchy) return (await store.stat(joinKey(path, "zarr.json"))) !== undefined;
  // `filter` passes over the sources of other shares.
  const [made] = plan.sources.filter(({ failure }) => failure === undefined);
  const key = joinKey(path, made?.node ?? "");
  const ending = made?.node === "" ? "" : (target.ending ?? "");
  return (await isTaken(store, `${key}${ending}`)) || (ending !== "" && (await isTaken(store, key)));
}

export const DONE = 1;
export const FAILED = 2;

/** The state of each unit: 0, done or failed; with a share, at least of its units. `failures` gets why units fail in every run. */
export async function readStates(
  job: Opened,
  share?: ShareNumber,
  failures?: Map<number, Failure>,
): Promise<Uint8Array> {
  const states = new Uint8Array(job.units.count);
  await readReceipts(job, {
    share,
    onReceipt({ unit, failure }) {
      states[unit] = failure === undefined ? DONE : FAILED;
      if (failure !== undefined) failures?.set(unit, failure);
    },
  });
  return states;
}
