/** Conversions that many processes share, by paths and addresses: the plan as a file or a folder, its shares, and its end. */
import { hostname } from "node:os";
import { resolve } from "node:path";
import type { DamageReport, HolePolicy } from "../archive/kinds/types.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import {
  type FinishOptions,
  finishShared,
  finishWork,
  NOTHING_CONVERTED,
  type SharedResult,
} from "../plan/finish.ts";
import { checkPlan, planShared, type SharedJob, type SharedWork } from "../plan/job.ts";
import { type PlaceWork, type PlanPlace, planPlaces } from "../plan/places.ts";
import { packOptions, type SharedPlan, spoiledBy, Units, unpackOptions } from "../plan/plan.ts";
import { folderBeside, type ShareNumber } from "../plan/receipts.ts";
import { openShare, runShared, type ShareFailure, type ShareOptions, type ShareResult } from "../plan/run.ts";
import { type SharedStatus, statusOf, unitsLeft } from "../plan/status.ts";
import { PLAN_HEAD, readPlan, type StoredPlan, storePlan } from "../plan/stored-plan.ts";
import { repairSource, verifySource } from "../plan/verify.ts";
import { type ListSettings, listSource, replayLists } from "../plan/virtualize.ts";
import { isTaken, joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import {
  CONVERT_OPTIONS,
  type ConvertPathOptions,
  findSources,
  locateDestination,
  membershipOf,
  refuseOverlaps,
} from "./convert.ts";
import { verifyLinkAt } from "./dual/link.ts";
import {
  assertNamesDiffer,
  closing,
  givenPath,
  isRemote,
  locate,
  locateTarget,
  nameOf,
  type WritableLocation,
} from "./locate.ts";
import { placeOpener } from "./open.ts";
import { encoderOf, type ThreadOptions } from "./threads/threads.ts";
import { openHeld, type VirtualizeOptions, type VirtualizeResult, virtualizeListed } from "./virtualize.ts";

/** As in package.json, which a bundled application does not have. */
const VERSION = "0.1.0";
const MISSING = {
  code: "NOT_FOUND",
  message: "the archive was there when the plan was made, and is missing now",
} as const;

/** Options of {@link plan}. */
export interface PlanPathOptions extends ConvertPathOptions {
  /** Also writes the plan there: one file if the name ends in `.json`, else a folder with parts of JSON lines. */
  readonly output?: string | undefined;
  /**
   * The shared work. `verify`: verifies everything at the sources; `destination` is the file of the report. `virtualize`: writes references
   * to all archives to `destination`; uses the options `portable`, `columns` and `dimensionNames`. `repair`: copies the intact parts of
   * each damaged archive to the folder `destination`, beside a report, `repair.jsonl`. Default `convert`.
   */
  readonly command?: "convert" | "verify" | "virtualize" | "repair" | undefined;
  /** `virtualize`: form of the references. Default `icechunk`. */
  readonly form?: VirtualizeOptions["to"];
  /** `repair`: what replaces a lost chunk. Without it, archives with holes are named, and not repaired. */
  readonly holes?: HolePolicy | undefined;
  /** `repair`: searches for Blosc headers if nothing else says where chunks are (default false). */
  readonly scan?: boolean | undefined;
}

/**
 * Plans a conversion that many processes or machines share, with the sources and options of `convert`. Writes nothing at the destination.
 * {@link runTasks} runs shares of the plan, anywhere and in any order, and {@link finish} ends it; the result is the same as that of one
 * `convert`, byte for byte. Sources and destination are named by absolute paths, or by addresses, which every machine must have.
 *
 * @throws CONFLICT if the destination is taken, or something is at `output`; BAD_ARGUMENT for an `output` inside the destination, or with a
 * name of Zarr's documents; UNSUPPORTED for `zarr3-transformer`, which only one process can write; the errors of `planConversion`
 */
export async function plan(
  sources: string | readonly string[],
  destination: string,
  options: PlanPathOptions = {},
): Promise<SharedPlan> {
  checkOptions(options, `command form holes output scan ${CONVERT_OPTIONS}`);
  const { output, threads: _, command = "convert", form, holes, scan, ...own } = options;
  const from = (typeof sources === "string" ? [sources] : sources).map(absolute);
  const to = absolute(destination);
  if (output !== undefined) await checkOutput(output, to);
  if (command !== "convert") {
    if (command === "repair") await refuseOverlaps(from, to);
    const { portable, columns, dimensionNames } = own;
    const chosen = {
      verify: {},
      virtualize: { form, portable, columns, dimensionNames },
      repair: { holes, scan },
    }[command];
    const allow = own.allow?.map(allowedInPlan);
    const settings = packOptions({ ...chosen, allow } as ConvertPathOptions);
    const [archivesOnly, takesDamaged] = [command === "virtualize", command === "repair"];
    const made = await planWork(
      { command, options: settings, archivesOnly, takesDamaged },
      { from, to },
      own,
    );
    if (output !== undefined) await writePlan(made, output);
    return made;
  }
  return closing(await findSources(from, to, own), ({ source }) => {
    const target = locateDestination(to, own);
    return closing(target.store, async () => {
      const isInGroup = (await membershipOf(to, own)) !== undefined;
      const facts = { software: VERSION, from, to };
      const settings = { ...own, allow: own.allow?.map(allowedInPlan), openPlace: placeOpener(own) };
      const made = await planShared(source, { ...target, isInGroup }, settings, facts);
      if (output !== undefined) await writePlan(made, output);
      return made;
    });
  });
}

/** Plans work that is not a conversion. */
async function planWork(
  work: PlaceWork,
  { from, to }: { readonly from: readonly string[]; readonly to: string },
  { signal, onProgress, ...access }: ConvertPathOptions,
): Promise<SharedPlan> {
  const options = { signal, onProgress, openPlace: placeOpener(access) };
  const held = work.archivesOnly === true ? await openHeld(from, signal) : [];
  const places: PlanPlace[] = [];
  const target = locateTarget(to, "file");
  try {
    const roots = new Map(held.map(({ typed, root }) => [typed, root]));
    const others = from.filter((path) => !roots.has(path));
    if (work.command !== "verify") assertNamesDiffer(others.map(nameOf));
    for (const path of from) places.push({ ...(await locate(path)), opened: roots.get(path) });
    return await planPlaces(work, places, target, options, { software: VERSION, from, to });
  } finally {
    for (const { root } of held) await root.close();
    await closeAll([...places, target]);
  }
}

async function closeAll(places: readonly { readonly store: ReadableStore }[]): Promise<void> {
  for (const { store } of places) await store.close?.();
}

/**
 * An allowed place in a form that every process understands. Throws `BAD_ARGUMENT` for a signature, which every reader of the plan would
 * see.
 */
function allowedInPlan(place: string): string {
  if (!/[?&]sig=/i.test(place)) return absolute(place);
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "a plan is a file that others read, so no signed address goes into it; give the signature to each process, in AZURE_STORAGE_SAS_TOKEN",
    { field: "allow" },
  );
}

/** An address, or an absolute path. */
export function absolute(path: string): string {
  const given = givenPath(path);
  return isRemote(given) ? given : resolve(given);
}

/** Before sources are examined: throws `BAD_ARGUMENT` for an output that would spoil the result, and `CONFLICT` if something is there. */
async function checkOutput(output: string, to: string): Promise<void> {
  const refuse = (reason: string, code: "BAD_ARGUMENT" | "CONFLICT" = "CONFLICT"): never => {
    throw new SuperchunkError(code, `${reason}; choose another path`, { path: output, field: "output" });
  };
  const spoiled = spoiledBy(absolute(output), to);
  if (spoiled !== undefined) refuse(spoiled, "BAD_ARGUMENT");
  const isFile = /\.json$/i.test(output);
  const { store, path } = locateTarget(output, isFile ? "file" : "folder");
  return closing(store, async () => {
    if (await isTaken(store, isFile ? path : joinKey(path, PLAN_HEAD)))
      refuse("the path exists, and a plan never changes");
    // Parts without a head are what a killed process left.
    for await (const { name } of isFile ? [] : store.list(path))
      if (!name.startsWith("sources-")) refuse(`the folder has other files ("${name}")`);
  });
}

async function writePlan(made: SharedPlan, output: string): Promise<void> {
  const isFile = /\.json$/i.test(output);
  const { store, path } = locateTarget(output, isFile ? "file" : "folder");
  return closing(store, () => storePlan(made, store, path, isFile));
}

/** Throws `NOT_FOUND` if no plan is there, and `BAD_FIELD` for one of another version. */
async function readPlanAt(location: string, share: ShareNumber | undefined): Promise<StoredPlan> {
  const { store, path } = await locate(location);
  return closing(store, () => readPlan(store, path, share));
}

/** Opens the job of a plan, or of a share of it, lets `work` use it, and closes it. */
async function withJob<T>(
  planned: SharedPlan | string,
  work: (job: SharedJob, references: OpenPlan["references"]) => Promise<T>,
  share?: ShareNumber,
): Promise<T> {
  return closing(await openPlan(planned, share), ({ job, references }) => work(job, references));
}

/** A plan with opened sources and destination. */
interface OpenPlan {
  readonly job: SharedJob;
  /** The written references, after the end of a plan for references. */
  references?(): VirtualizeResult | undefined;
  close(): Promise<void>;
}

/** The work of a plan that is not a conversion. */
function workOf(
  made: SharedPlan,
  places: readonly PlanPlace[],
  { store, path }: WritableLocation,
): { readonly work: SharedWork; readonly references?: OpenPlan["references"] } {
  const beside = folderBeside(path);
  const { allow } = made.options as Pick<PlanPathOptions, "allow">;
  const openPlace = placeOpener({ allow });
  if (made.command === "repair") {
    const { holes, scan } = made.options as Pick<PlanPathOptions, "holes" | "scan">;
    const into = { store, path, made: joinKey(beside, "made") };
    return {
      work: {
        run: (source, _, signal) => repairSource(places, source, into, { holes, scan, signal, openPlace }),
        report: joinKey(path, "repair.jsonl"),
      },
    };
  }
  if (made.command === "virtualize") {
    const { form: to = "icechunk", ...settings } = made.options as ListSettings &
      Pick<PlanPathOptions, "form">;
    const keyOf = (unit: number): string => joinKey(beside, `chunks/${unit}.json`);
    let result: VirtualizeResult | undefined;
    return {
      references: () => result,
      work: {
        run: (source, unit, signal) =>
          listSource(places, source, { store, key: keyOf(unit) }, { ...settings, signal, openPlace }),
        async end(signal) {
          const units = new Units(made);
          const numbers = new Map(made.sources.map((source, i) => [source.path, units.of(i).first]));
          // An interrupted end may have written a part of the result, or all of it.
          const again = { update: to === "icechunk", overwrite: to !== "icechunk" };
          const found = new Set<string>();
          const onFound: VirtualizeOptions["onFound"] = (all) => {
            for (const { path } of all) found.add(path);
          };
          // A path that is gone is a failure of its own.
          const onFailure: VirtualizeOptions["onFailure"] = ({ path }) => found.add(path);
          const how = { ...settings, ...again, to, signal, onFound, onFailure };
          const written = await virtualizeListed(made.from, made.to, how, async (source) => {
            const key = keyOf(numbers.get(source) ?? -1);
            const bytes = await store.get(key, { signal });
            return bytes === undefined ? undefined : replayLists(bytes, store.describe(key));
          });
          const gone = made.sources.filter(({ path, failure }) => failure === undefined && !found.has(path));
          const missing = gone.map(({ path, node }) => ({ ...MISSING, path, node }));
          result = { ...written, failures: [...written.failures, ...missing] };
        },
      },
    };
  }
  return {
    work: {
      run: (source, _, signal) =>
        verifySource(places, source, { signal, openPlace }, (each) => verifyLinkAt(each, { signal })),
      report: path,
    },
  };
}

async function openPlan(planned: SharedPlan | string, share?: ShareNumber): Promise<OpenPlan> {
  if (typeof planned !== "string" && typeof planned?.to !== "string")
    throw badArgument("the plan", planned, "a plan, or the path of one");
  const read = typeof planned === "string" ? await readPlanAt(planned, share) : { plan: planned };
  const { plan: made } = read;
  if (made.software !== VERSION)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `superchunk ${made.software} made the plan, but this is ${VERSION}, which may make other bytes; use the same version everywhere, or plan again`,
      { path: typeof planned === "string" ? planned : made.to, expected: made.software, found: VERSION },
    );
  await checkPlan(made, typeof planned === "string" ? planned : made.to, read.digest);
  const { units } = read;
  if (made.command !== undefined) {
    const places = await Promise.all(made.from.map((path) => locate(path)));
    const destination = locateTarget(made.to, "file");
    const { work, references } = workOf(made, places, destination);
    return {
      job: { plan: made, units, source: [], destination, work },
      ...(references === undefined ? {} : { references }),
      close: () => closeAll([...places, destination]),
    };
  }
  const damage = new Map<string, DamageReport>();
  const onDamage = (report: DamageReport): void => void damage.set(report.path, report);
  const options: ConvertPathOptions = { ...unpackOptions(made.options), onDamage };
  const { source, close } = await findSources(made.from, made.to, options);
  const { store, path } = locateDestination(made.to, options);
  return {
    job: {
      plan: made,
      units,
      source,
      destination: { store, path, isInGroup: made.isInGroup },
      damage,
      openPlace: placeOpener(options),
    },
    close: () => closing({ close }, async () => store.close?.()),
  };
}

/** A plan whose units a queue hands out one by one. */
export interface PlanRunner {
  readonly plan: SharedPlan;
  /**
   * Resolves once the unit's receipt is durable: with undefined, or the reason of failure. NO_SPACE, READ_ONLY and IO of the destination
   * are thrown.
   */
  run(unit: number, signal: AbortSignal): Promise<ShareFailure | undefined>;
  close(): Promise<void>;
}

/** Opens a plan to run units of it. In a finished plan every unit is done. */
export async function openPlanRunner(
  planned: string,
  options: Pick<RunTasksOptions, "encoder" | "threads">,
): Promise<PlanRunner> {
  const { job, close } = await openPlan(planned);
  try {
    const encoder = options.encoder ?? encoderOf(options);
    const runner = await openShare(job, { encoder, worker: workerName() });
    await runner?.begin();
    return {
      plan: job.plan,
      run: async (unit, signal) => runner?.runOne(unit, signal),
      close: () => closing({ close }, async () => runner?.end()),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The remaining work of a plan: the numbers of its units without a receipt; undefined if it is finished. */
export function planLeft(
  planned: string,
  retryFailed: boolean,
): Promise<{ readonly plan: SharedPlan; readonly left: Uint32Array | undefined }> {
  return withJob(planned, async (job) => ({ plan: job.plan, left: await unitsLeft(job, retryFailed) }));
}

function workerName(): string {
  const random = Math.random().toString(36).slice(2, 8);
  return `${hostname().replaceAll(/[^\w.-]/g, "_")}-${process.pid}-${random}`;
}

const THREADS = "blosc directMemory encoder threads workerUrl";

/** Options of {@link runTasks}. */
export interface RunTasksOptions extends ShareOptions, ThreadOptions {}

/**
 * Runs the tasks in a share of a plan that have no receipt beside the destination (`share: { k: 3, n: 50 }` is the third of fifty; default
 * all). `planned` is a plan, or its location. A failed task does not stop the others; `failures` names its source. A task that runs twice,
 * or on two machines at the same time, writes the same bytes.
 *
 * @throws CONFLICT if the destination holds anything else; NO_SPACE, READ_ONLY, IO; UNSUPPORTED for a plan of another version of superchunk
 */
export async function runTasks(
  planned: SharedPlan | string,
  options: RunTasksOptions = {},
): Promise<ShareResult> {
  checkOptions(options, `jobs onProgress retryFailed share signal worker ${THREADS}`);
  const worker = options.worker ?? workerName();
  const encoder = options.encoder ?? encoderOf(options);
  return withJob(planned, (job) => runShared(job, { ...options, worker, encoder }), options.share);
}

/** Result of a plan. */
export interface FinishResult extends SharedResult {
  readonly plan: SharedPlan;
  /**
   * For `verify`: the report, a line for each archive and Zarr array, as `superchunk verify --report` writes it. For `repair`: each
   * outcome.
   */
  readonly report?: readonly JsonObject[];
  /** For `virtualize`: what was written; absent if that was done before. */
  readonly references?: VirtualizeResult;
}

/**
 * Ends a plan: checks that every task has its receipt, compares values if the plan says so (`verify`), and makes the result visible, the
 * root last. For plans that are not conversions, it checks the receipts and writes the report or the references. It can be killed at any
 * point and run again. Returns undefined if the plan was finished before.
 *
 * @throws INCOMPLETE if tasks are missing, with the first of them; CONFLICT if a source has changed; BAD_FIELD if a value differs; the
 * codes of damage
 */
export async function finish(
  planned: SharedPlan | string,
  options: FinishOptions & ThreadOptions = {},
): Promise<FinishResult | undefined> {
  checkOptions(options, `onProgress signal withoutFailed ${THREADS}`);
  return withJob(planned, async (job, references) => {
    const { signal, onProgress, withoutFailed } = options;
    if (job.work !== undefined) {
      const report = await finishWork(job, job.work, { signal, withoutFailed });
      const written = references?.();
      if (job.plan.command === "virtualize" && written === undefined) return undefined;
      return {
        ...NOTHING_CONVERTED,
        damage: [],
        plan: job.plan,
        ...(written === undefined ? { report } : { references: written }),
      };
    }
    const encoder = options.encoder ?? encoderOf(options);
    const { plan: made } = job;
    const above = await membershipOf(made.to, { to: unpackOptions(made.options).to, signal });
    const settings = { signal, onProgress, encoder, withoutFailed, join: above?.join };
    const result = await finishShared(job, settings);
    return result && { ...result, plan: made };
  });
}

/** Returns the progress of a plan, from the receipts beside its destination. */
export function planStatus(planned: SharedPlan | string): Promise<SharedStatus> {
  return withJob(planned, statusOf);
}
