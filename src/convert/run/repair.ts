/**
 * Repairs a damaged archive of any dialect into a copy of the same dialect, or an array of superchunks in place. Keeps every
 * intact chunk, reports the others, and invents nothing that the caller did not ask for.
 *
 * In the copy of a Zarr array or group, unreadable chunks become absent and so read as the fill value. A shard with a damaged
 * index becomes what its last intact index names.
 */
import type { ArrayArchive, Hole, HolePolicy, LongOptions, VerifyReport } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { countRows } from "../../archive/salvage/holes.ts";
import type { GivenFacts } from "../../archive/salvage/known.ts";
import { isArrayFolder, type Survey, surveyArchive } from "../../archive/salvage/survey.ts";
import { defined, pushAll } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { isSuperchunkError, resultOr, SuperchunkError } from "../../errors.ts";
import { isObject, stringifyJson } from "../../format/json.ts";
import { mergeSpans, type RowSpan } from "../../format/layout.ts";
import { HELD_NAMES, recordKey, ZARR_DOCUMENTS } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { type OpenPlace, PlacedStore } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import { isWritable, type ListEntry, type ReadableStore, type WritableStore } from "../../store/types.ts";
import { openOwnPlaces } from "../../write/array/root.ts";
import type { WriterLock } from "../../write/editable.ts";
import { type ArraySurvey, repairInPlace, repairInto } from "../../write/repair/rebuild.ts";
import { surveyZarrArray } from "../../zarr/read/damaged.ts";
import { openZarr } from "../../zarr/read/open.ts";
import type { ConvertFormat } from "../pipeline.ts";
import { readObjectPieces } from "../targets/zarr-objects.ts";
import { convert } from "./convert.ts";
import { readRecord } from "./destination.ts";

/** Destination of the repaired archive, and treatment of its holes. */
export interface RepairOptions extends LongOptions, GivenFacts {
  /** A place that is empty. Without it, an array of superchunks is repaired in place, by one commit. */
  readonly into?: { readonly store: WritableStore; readonly path: string } | undefined;
  readonly lock?: (() => Promise<WriterLock>) | undefined;
  /** Takes the lock of the array, or the destination, from another writer, which must have died. */
  readonly breakLock?: boolean | undefined;
  /** Opens the places outside the archive's folder that hold its superchunks. */
  readonly openPlace?: OpenPlace | undefined;
  /** Only reports what is wrong, and what would be lost (default false). */
  readonly dryRun?: boolean | undefined;
  /**
   * What replaces a missing or damaged chunk. `fill`: a value, so that all rows keep their positions; `drop`: nothing, so that rows move
   * up; `cut`: nothing, and no row after the first hole is kept. Without it, an archive with holes is refused.
   */
  readonly holes?: HolePolicy | undefined;
  /** Fill value of holes (default: the array's default value, else zeros). */
  readonly fill?: JsonValue | undefined;
  /** Searches for Blosc headers if nothing else locates chunks (default false). */
  readonly scan?: boolean | undefined;
  /** In place: removes the replaced files once the result is durable and was read back (default false). */
  readonly discard?: boolean | undefined;
}

/** Findings and results of a repair. */
export interface RepairReport {
  /** Rows according to the metadata; undefined if unreadable. For plain bytes: bytes, here and below. */
  readonly rowsBefore: number | undefined;
  readonly rows: number;
  /** Problems found, as text, in order. */
  readonly problems: readonly string[];
  /** What is lost, as text: the holes first. */
  readonly lost: readonly string[];
  /** Number of intact chunks. */
  readonly whole: number;
  /** What was read of them. Absent for Zarr nodes and Python objects. */
  readonly intact?: Pick<VerifyReport, "chunks" | "nbytes" | "cbytes" | "digests">;
  /** Every missing or damaged chunk. */
  readonly holes: readonly Hole[];
  /** Policies that can be requested for holes; only `fill` for Zarr nodes and Python objects. */
  readonly policies: readonly HolePolicy[];
  /** Rows of the result with the fill value. */
  readonly filled: readonly RowSpan[];
  /** Name in messages of the folder that received the replaced files; undefined if nothing was replaced. */
  readonly setAside: string | undefined;
}

const FORMATS: { readonly [dialect in Survey["dialect"]]: ConvertFormat } = {
  "bloscpack-1": "bloscpack",
  "bloscpack-2": "bloscpack",
  "bloscpack-3": "bloscpack",
  carray: "bcolz",
  ctable: "bcolz",
  "blz-superchunk": "blz",
};

/** Implements the exported `repairArray`. */
export async function repairArray(
  store: ReadableStore,
  path: string,
  options: RepairOptions = {},
): Promise<RepairReport> {
  checkOptions(
    options,
    "breakLock chunklen discard dryRun dtype fill holes into lock onProgress openPlace order scan shape signal",
  );
  if (await isZarrNode(store, path)) return repairZarr(store, path, options);
  if (HELD_NAMES.test(path === "" ? store.describe(path) : path)) throw notRepaired(store.describe(path));
  const objects = await openObjects(store, path, options);
  if (objects !== undefined) return repairObjects(objects, options);
  const isHere = options.into === undefined && options.dryRun !== true;
  const lock = isHere && (await isArrayFolder(store, path)) ? await options.lock?.() : undefined;
  let survey: Survey | undefined;
  try {
    survey = await surveyArchive(store, path, options);
    const { holes, problems, rowsBefore } = survey;
    const policy = options.holes ?? "fill";
    const kept = options.holes === undefined ? survey.rows : countRows(survey.kept(policy));
    const lost = [...holes.map(describeHole), ...cutOff(survey, options.holes), ...survey.lost];
    const report = {
      rowsBefore,
      rows: kept,
      problems,
      lost,
      whole: survey.intact.chunks,
      intact: survey.intact,
      holes,
      policies: EVERY_POLICY,
      filled: [],
      setAside: undefined,
    };
    if (options.dryRun === true) return report;
    if (holes.length > 0 && options.holes === undefined) throw refusal(store.describe(path), report);
    const { signal, onProgress, discard } = options;
    const rebuild = { policy, signal, onProgress, discard };
    if (options.into === undefined) {
      if (!isSuperchunks(survey)) throw notHere(store.describe(path), survey.dialect);
      if (!isWritable(store))
        throw new SuperchunkError("READ_ONLY", "the store cannot write; name a DST", {
          path: store.describe(path),
        });
      const { layout, placing } = survey.known;
      const placed =
        layout === undefined ? store : await openOwnPlaces(store, { path, layout }, placing, options);
      try {
        const isWhole = layout?.journal === undefined && problems.length + lost.length === 0;
        if (isWhole && (await isReadable(placed, path))) return report;
        const { filled, aside } = await repairInPlace(placed, survey, path, rebuild);
        return { ...report, filled, setAside: aside && store.describe(aside) };
      } finally {
        if (placed instanceof PlacedStore) await placed.closePlaces();
      }
    }
    if (isSuperchunks(survey))
      return {
        ...report,
        filled: await repairInto(survey, path, options.into, { ...rebuild, lock: options.lock }),
      };
    const to = FORMATS[survey.dialect];
    const { into } = options;
    // A repair that was killed left its record; the next one goes on with it.
    const record = recordKey(into.path, false);
    const stored = await readRecord(into.store, record);
    const resume = stored !== undefined;
    const repair = choicesOf(options, holes.length > 0);
    const source = await survey.open(policy);
    const { breakLock } = options;
    const asked = { to, signal, onProgress, verify: true, resume, breakLock, repair };
    await convert(source, into, asked).catch((error: unknown) => {
      // A repair replaces nothing, so it has no such option.
      if (!isSuperchunkError(error, "CONFLICT") || error.details.expected !== "overwrite") throw error;
      const isSame =
        stringifyJson(stored?.["sources"] ?? null) === stringifyJson([source.store.describe(source.path)]);
      const other = isSame ? differenceOf(repair, stored) : undefined;
      const unfinished =
        other === undefined
          ? "an unfinished repair of another archive, or of an earlier state of this one, is recorded here"
          : `an unfinished repair with other options is recorded here: ${other}. Give the same`;
      throw new SuperchunkError(
        "CONFLICT",
        resume
          ? `${unfinished}; name another DST, or delete this file and what there is of its DST`
          : "the destination exists; name another",
        { path: into.store.describe(resume ? record : into.path), field: "destination" },
      );
    });
    const filled = policy === "fill" ? mergeSpans(holes) : [];
    return { ...report, filled };
  } finally {
    await survey?.closePlaces?.();
    await lock?.release();
  }
}

/** The options that decide the result of a repair. */
function choicesOf(options: RepairOptions, hasHoles: boolean): JsonObject {
  const { holes, fill, dtype, shape, chunklen, order, scan } = options;
  return defined({ ...(hasHoles ? { holes, fill } : {}), dtype, shape, chunklen, order, scan }) as JsonObject;
}

/** What differs between the options of a repair and those of an unfinished one, as text; undefined if nothing does. */
function differenceOf(asked: JsonObject, stored: JsonObject | undefined): string | undefined {
  const options = stored?.["options"];
  const repair = isObject(options) ? options["repair"] : undefined;
  const before = isObject(repair) ? repair : {};
  const show = (value: JsonValue | undefined): string =>
    value === undefined ? "not given" : stringifyJson(value);
  const texts = [...new Set([...Object.keys(before), ...Object.keys(asked)])].flatMap((name) => {
    const [then, now] = [show(before[name]), show(asked[name])];
    return then === now ? [] : [`{${name}} was ${then}, and is ${now} now`];
  });
  return texts.length === 0 ? undefined : texts.join("; ");
}

/** True for a folder that is a Zarr node, and not an archive that is also one. */
async function isZarrNode(store: ReadableStore, path: string): Promise<boolean> {
  if ((await store.stat(joinKey(path, "meta/storage"))) !== undefined) return false;
  for (const name of ZARR_DOCUMENTS) if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}

/** Repairs a Zarr array or group: unreadable chunks are absent from the copy. */
async function repairZarr(store: ReadableStore, path: string, options: RepairOptions): Promise<RepairReport> {
  const survey = await surveyZarr(store, path, options);
  const { rows, whole, holes, problems } = survey;
  const report = { rows, whole, holes, problems, lost: [...holes.map(describeHole), ...survey.lost] };
  const isCopied = await copyWhole({ ...survey, store, path }, report, options, {
    what: "Zarr node",
    onlyFill:
      'Zarr chunks keep their positions, so a lost one can only read as the fill value: give {holes: "fill"}, or convert with {damaged: "skip"}, which leaves its rows out',
  });
  return { ...fillOnly(report), filled: isCopied ? mergeSpans(holes) : [] };
}

/** What was found of an archive whose chunks keep their positions. */
type CopyReport = Pick<RepairReport, "rows" | "whole" | "holes" | "problems" | "lost">;

function fillOnly(report: CopyReport): RepairReport {
  return { ...report, rowsBefore: report.rows, policies: ONLY_FILL, filled: [], setAside: undefined };
}

/**
 * Copies the objects of an archive whose chunks keep their positions, without the damaged ones. Returns false for a dry run. `what`: names
 * the archive; `onlyFill`: why holes are only filled.
 */
async function copyWhole(
  source: CopySource & { readonly store: ReadableStore; readonly path: string },
  report: CopyReport,
  { dryRun, into, holes }: RepairOptions,
  { what, onlyFill }: { readonly what: string; readonly onlyFill: string },
): Promise<boolean> {
  if (dryRun === true) return false;
  const path = source.store.describe(source.path);
  if (into === undefined) throw notHere(path, what);
  if (report.holes.length > 0 && holes === undefined) throw refusal(path, fillOnly(report));
  if (report.holes.length > 0 && holes !== "fill")
    throw new SuperchunkError("UNSUPPORTED", onlyFill, { path, field: "holes" });
  for await (const _ of into.store.list(into.path))
    throw new SuperchunkError("CONFLICT", "the destination exists; name another", {
      path: into.store.describe(into.path),
    });
  await copyBelow(source, source.path, into.store, into.path);
  return true;
}

/** The array of Python objects at a path, if there is one that opens. */
async function openObjects(
  store: ReadableStore,
  path: string,
  { signal }: RepairOptions,
): Promise<ArrayArchive | undefined> {
  if (!(await isArrayFolder(store, path))) return undefined;
  return resultOr(undefined, "any", async () => {
    const archive = await open(store, path, { signal });
    return archive.kind === "array" && archive.dtype.kind === "object" ? archive : undefined;
  });
}

/** Python objects are never decoded: files are copied as they are, except those of a carray whose chunk is damaged. */
async function repairObjects(archive: ArrayArchive, options: RepairOptions): Promise<RepairReport> {
  const { store, path, dialect } = archive;
  const { findings, chunks: whole } = await archive.verify({ signal: options.signal });
  const errors = findings.filter(({ severity }) => severity === "error");
  const holes = errors.flatMap(({ code, message, path: file = "", offset, chunk }): Hole[] => {
    if (chunk === undefined) return [];
    const reason = message.replace(`${file}: chunk ${chunk}: `, "");
    const hole = { chunk, from: chunk, to: chunk + 1, path: file, code, reason };
    return [offset === undefined ? hole : { ...hole, offset }];
  });
  const rows = archive.shape[0] ?? 0;
  const problems = errors.filter(({ chunk }) => chunk === undefined).map(({ message }) => message);
  const report = { rows, whole, holes, problems, lost: holes.map(describeHole) };
  const gone = new Set(dialect === "carray" ? holes.map((hole) => hole.path) : []);
  const isGone = (key: string): boolean => gone.has(store.describe(key));
  await copyWhole({ storeOf: () => store, isGone, store, path }, report, options, {
    what: `${dialect} of Python objects`,
    onlyFill:
      'Python objects are never decoded, so that their chunks keep their names: give {holes: "fill"}, which leaves the file of a damaged chunk out',
  });
  return fillOnly(report);
}

/** A hole as one line of text: rows, chunk, file, byte, reason. */
function describeHole({ column, chunk, from, to, path, offset, reason }: Hole): string {
  const rows = to - from === 1 ? `row ${from}` : `rows ${from} to ${to - 1}`;
  const of = column === undefined ? "" : ` of column "${column}"`;
  const where = path === "" ? "" : `: ${path}${offset === undefined ? "" : `, byte ${offset}`}`;
  return `${rows}${of}, chunk ${chunk}${where}: ${reason}`;
}

/** Describes intact rows that are lost because they are after the first hole. */
function cutOff({ holes, rows }: Survey, policy: HolePolicy | undefined): string[] {
  const first = holes.reduce((least, { from }) => Math.min(least, from), rows);
  if (policy !== "cut" || first >= rows) return [];
  return [`rows ${first} to ${rows - 1}, all from the first hole on`];
}

/** What each policy does. */
const POLICIES: { readonly [policy in HolePolicy]: string } = {
  fill: "a value; rows keep their places",
  drop: "rows move up",
  cut: "rows end there",
};
const EVERY_POLICY: readonly HolePolicy[] = ["fill", "drop", "cut"];
const ONLY_FILL: readonly HolePolicy[] = ["fill"];

function refusal(
  path: string,
  { holes, policies }: Pick<RepairReport, "holes" | "policies">,
): SuperchunkError {
  const choices = policies.map((policy) => `{holes: "${policy}"} (${POLICIES[policy]})`).join(", ");
  const more = holes.length - 1;
  const [first] = holes;
  const others = more > 0 ? ` and ${more} more` : "";
  return new SuperchunkError(
    "INCOMPLETE",
    `${first === undefined ? "" : describeHole(first)}${others}. Nothing was written. Choose what to do with the lost rows: ${choices}`,
    { path, field: "holes", expected: policies, found: holes },
  );
}

function notRepaired(path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    'HDF5 files, and frames and stores of Blosc2, are not repaired; convert them with {damaged: "fill"}, which keeps all undamaged values, to .b2nd or Zarr for example',
    { path },
  );
}

function notHere(path: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `this is a ${found}, and only arrays of superchunks are repaired in place; name a DST, which gets all undamaged rows`,
    { path, field: "dialect", expected: "blz-superchunk", found },
  );
}

function isSuperchunks(survey: Survey): survey is ArraySurvey {
  return survey.dialect === "blz-superchunk" && survey.known !== undefined;
}

/** True if a reader finds no error. */
async function isReadable(store: ReadableStore, path: string): Promise<boolean> {
  return resultOr(false, "any", async () => {
    const archive = await open(store, path);
    return (await archive.verify()).ok;
  });
}

/** What was found at and below a node. */
interface NodeSurvey extends Pick<Survey, "rows" | "holes" | "lost" | "problems"> {
  /** Number of intact chunks, including those not stored. */
  readonly whole: number;
  /** The store that reads objects of the node without the unreadable parts. */
  storeOf(key: string): ReadableStore;
}

/** Surveys the arrays at and below a node: reads every stored chunk. */
async function surveyZarr(
  store: ReadableStore,
  path: string,
  { signal, onProgress }: LongOptions,
): Promise<NodeSurvey> {
  const found = { rows: 0, whole: 0, holes: [] as Hole[], lost: [] as string[], problems: [] as string[] };
  const stores: { readonly folder: string; readonly store: ReadableStore }[] = [];
  const visit = async (node: Awaited<ReturnType<typeof openZarr>>, name: string): Promise<void> => {
    if (node.kind === "group") {
      for (const member of await node.members()) {
        const below = await node.open(member).catch((error: unknown) => {
          // Data without a document are copied as they are.
          if (!isSuperchunkError(error, "INCOMPLETE") || error.details.field !== "document") throw error;
          found.lost.push(error.message);
        });
        if (below !== undefined) await visit(below, joinKey(name, member));
      }
      return;
    }
    const {
      holes,
      lost,
      problems,
      store: whole,
    } = await surveyZarrArray(node, { column: name || undefined, signal, onProgress });
    const [rows = 1] = node.shape;
    found.rows = Math.max(found.rows, rows);
    found.whole += node.nchunks - holes.length;
    pushAll(found.holes, holes);
    pushAll(found.lost, lost);
    pushAll(found.problems, problems);
    stores.push({ folder: node.model.dataFolder, store: whole });
  };
  await visit(await openZarr(store, path, { signal }), "");
  const holds = (folder: string, key: string): boolean =>
    folder === "" || key === folder || key.startsWith(`${folder}/`);
  return { ...found, storeOf: (key) => stores.find(({ folder }) => holds(folder, key))?.store ?? store };
}

/** Names of documents of every version, and of an archive's metadata folder. */
const DOCUMENT = /^(?:zarr\.json|\.z(?:array|group|attrs|metadata)|meta|.*\.(?:array|group)\.json)$/;

/** What is copied: from which store, and what is left out. */
interface CopySource {
  storeOf(key: string): ReadableStore;
  isGone?(key: string): boolean;
}

/** Documents are copied last, those of a folder after everything below it, so an interrupted copy does not open. */
async function copyBelow(source: CopySource, from: string, target: WritableStore, to: string): Promise<void> {
  const store = source.storeOf(from);
  const copy = async ({ name, kind }: ListEntry): Promise<void> => {
    const [key, made] = [joinKey(from, name), joinKey(to, name)];
    if (kind === "folder") return copyBelow(source, key, target, made);
    if (source.isGone?.(key) === true) return;
    const nbytes = (await store.stat(key))?.size ?? 0;
    await target.put(made, readObjectPieces(store, key, { offset: 0, nbytes }), { durable: true });
  };
  const documents: ListEntry[] = [];
  for await (const entry of store.list(from)) {
    if (DOCUMENT.test(entry.name)) documents.push(entry);
    else await copy(entry);
  }
  for (const entry of documents) await copy(entry);
}
