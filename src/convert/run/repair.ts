/**
 * Repairs a damaged archive of any dialect: into a copy of the same dialect, or, an array of superchunks, where it lies. Keeps
 * every chunk that is whole, says which are not, and makes nothing up that the caller did not ask for.
 *
 * In the copy of a Zarr array or group, chunks that cannot be read have the fill value, as chunks that are not stored; a shard whose
 * index is damaged becomes what its last whole index names.
 */

import type { Hole, HolePolicy, LongOptions } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { encodeJson } from "../../archive/places/generation.ts";
import { flawOf, isFlaw } from "../../archive/salvage/chunk-check.ts";
import { lengthOf } from "../../archive/salvage/holes.ts";
import type { ToldFacts } from "../../archive/salvage/known.ts";
import { isArrayFolder, type Survey, surveyArchive } from "../../archive/salvage/survey.ts";
import { at } from "../../bytes/at.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import { encodeFilled, mergeSpans, type RowSpan } from "../../format/layout.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { isWritable, type ReadableStore, type WritableStore } from "../../store/types.ts";
import type { Selection } from "../../values/selection.ts";
import type { WriterLock } from "../../write/array/create.ts";
import { type ArraySurvey, repairInPlace, repairInto } from "../../write/repair/rebuild.ts";
import { startsOf } from "../../zarr/document/chunk-grid.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { openZarr } from "../../zarr/read/open.ts";
import { openZarrWriter } from "../../zarr/write/create.ts";
import { recoverShard } from "../../zarr/write/recover-shard.ts";
import type { WritableZarrArray } from "../../zarr/write/writable-array.ts";
import type { ConvertFormat } from "../pipeline.ts";
import { convert } from "./convert.ts";

export type { Hole, HolePolicy } from "../../archive/kinds/types.ts";

/** Where the repaired archive goes, and what becomes of its holes. */
export interface RepairOptions extends LongOptions, ToldFacts {
  /** A place where nothing is; without it an array of superchunks is repaired where it lies, by one commit. */
  readonly into?: { readonly store: WritableStore; readonly path: string } | undefined;
  readonly lock?: (() => Promise<WriterLock>) | undefined;
  /** Only look: say what is wrong, and what would be gone (default false). */
  readonly dryRun?: boolean | undefined;
  /**
   * What stands where a chunk is missing or damaged: `fill`, a value, so that all rows keep their places; `drop`, nothing, so
   * that rows move up; `cut`, nothing, nor any row after the first hole. Without it an archive with holes is refused.
   */
  readonly holes?: HolePolicy | undefined;
  /** The value that fills (default: the array's default value, else zeros). */
  readonly fill?: JsonValue | undefined;
  /** Search for Blosc headers where nothing else tells where chunks are (default false). */
  readonly scan?: boolean | undefined;
  /** Where it lies: remove what was replaced once the result is durable and was read back (default false). */
  readonly discard?: boolean | undefined;
}

/** What a repair found and did. */
export interface RepairReport {
  /** Rows that the metadata counted; undefined where they could not be read. Of plain bytes the bytes, here and below. */
  readonly rowsBefore: number | undefined;
  readonly rows: number;
  /** What was found wrong, in words, in order. */
  readonly problems: readonly string[];
  /** What is gone, in words. */
  readonly lost: readonly string[];
  /** Chunks that are whole. */
  readonly whole: number;
  /** Every chunk that is missing or damaged. */
  readonly holes: readonly Hole[];
  /** Rows of the result that hold the fill value. */
  readonly filled: readonly RowSpan[];
  /** How messages name the folder to which what was replaced went; undefined where nothing was. */
  readonly setAside: string | undefined;
}

/** The format in which a dialect is written. */
const FORMATS: { readonly [dialect in Survey["dialect"]]: ConvertFormat } = {
  "bloscpack-1": "bloscpack",
  "bloscpack-2": "bloscpack",
  "bloscpack-3": "bloscpack",
  carray: "bcolz",
  ctable: "bcolz",
  "blz-superchunk": "blz",
};

/**
 * Repairs the archive at a key of a store, or says what that would do.
 *
 * @throws NOT_FOUND; INCOMPLETE where there are holes and `holes` does not say what becomes of them (`details.found` lists
 * them), and where something is missing that the options must tell; the codes of damage; UNSUPPORTED for what is not an
 * archive, or cannot be repaired where it lies; CONFLICT, NO_SPACE, IO
 */
export async function repairArray(
  store: ReadableStore,
  path: string,
  options: RepairOptions = {},
): Promise<RepairReport> {
  if (await isZarrNode(store, path)) return repairZarr(store, path, options);
  const isHere = options.into === undefined && options.dryRun !== true;
  const lock = isHere && (await isArrayFolder(store, path)) ? await options.lock?.() : undefined;
  try {
    const survey = await surveyArchive(store, path, options);
    const { holes, problems, rowsBefore } = survey;
    const policy = options.holes ?? "fill";
    const kept = options.holes === undefined ? survey.rows : lengthOf(survey.kept(policy));
    const lost = [...holes.map(describeHole), ...cutOff(survey, options.holes), ...survey.lost];
    const report = {
      rowsBefore,
      rows: kept,
      problems,
      lost,
      whole: survey.whole,
      holes,
      filled: [],
      setAside: undefined,
    };
    if (options.dryRun === true) return report;
    if (holes.length > 0 && options.holes === undefined) throw refusal(store.describe(path), survey);
    const { signal, onProgress, discard } = options;
    const rebuild = { policy, signal, onProgress, discard };
    if (options.into === undefined) {
      if (!isSuperchunks(survey)) throw notHere(store.describe(path), survey.dialect);
      if (!isWritable(store)) throw readOnly(store.describe(path));
      const isSettled = survey.known.layout?.journal === undefined;
      if (isSettled && problems.length + lost.length === 0 && (await isReadable(store, path))) return report;
      const { filled, aside } = await repairInPlace(store, survey, path, rebuild);
      return { ...report, filled, setAside: aside && store.describe(aside) };
    }
    if (isSuperchunks(survey))
      return {
        ...report,
        filled: await repairInto(survey, path, options.into, { ...rebuild, lock: options.lock }),
      };
    const to = FORMATS[survey.dialect];
    const { into } = options;
    await convert(survey.open(policy), into, { to, signal, onProgress, verify: true });
    const filled = policy === "fill" ? mergeSpans(holes) : [];
    if (to === "bcolz" && filled.length > 0) await noteFilled(into.store, into.path, survey);
    return { ...report, filled };
  } finally {
    await lock?.release();
  }
}

const ZARR_DOCUMENTS = ["zarr.json", ".zarray", ".zgroup"];

/** True for a folder that is a Zarr node, and not an archive that is one as well. */
async function isZarrNode(store: ReadableStore, path: string): Promise<boolean> {
  if ((await store.stat(joinKey(path, "meta/storage"))) !== undefined) return false;
  for (const name of ZARR_DOCUMENTS) if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}

/** An array without dimensions is one row. */
function rowsOf({ shape: [rows = 1] }: ZarrArray): number {
  return rows;
}

/** A Zarr array or group: chunks that cannot be read are chunks that are not stored in the copy. */
async function repairZarr(store: ReadableStore, path: string, options: RepairOptions): Promise<RepairReport> {
  const surveys = await surveyZarr(store, path, options.signal);
  const holes = surveys.flatMap(({ bad }) => bad.map(({ hole }) => hole));
  const rows = surveys.reduce((most, { array }) => Math.max(most, rowsOf(array)), 0);
  const report = {
    rowsBefore: rows,
    rows,
    problems: [],
    lost: holes.map(describeHole),
    whole: surveys.reduce((sum, { whole }) => sum + whole, 0),
    holes,
    filled: [],
    setAside: undefined,
  };
  if (options.dryRun === true) return report;
  const shown = store.describe(path);
  if (options.into === undefined) throw notHere(shown, "Zarr node");
  if (holes.length > 0 && options.holes === undefined) throw refusal(shown, { holes });
  if (holes.length > 0 && options.holes !== "fill")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "chunks of Zarr keep their places, and the fill value stands where one is gone: take --holes fill",
      { path: shown, field: "holes" },
    );
  const { filled, bad } = await repairZarrInto(store, path, surveys, options.into);
  const back = holes.length - bad.length;
  const problems = back > 0 ? [`${back} chunks came back by an earlier index of their shard`] : [];
  return { ...report, problems, lost: bad.map(describeHole), holes: bad, filled };
}

/** Notes the rows that were filled in the `meta/sizes` of each carray, where nothing but this library looks for them. [FG-15] */
async function noteFilled(store: WritableStore, path: string, { holes, kind }: Survey): Promise<void> {
  const columns = new Set(holes.map(({ column }) => column));
  for (const column of columns) {
    const folder = kind === "table" && column !== undefined ? joinKey(path, column) : path;
    const key = joinKey(folder, "meta/sizes");
    const bytes = await store.get(key);
    if (bytes === undefined) continue;
    const sizes = parseJson(bytes, store.describe(key)) as JsonObject;
    const filled = mergeSpans(holes.filter((hole) => hole.column === column));
    await store.put(key, encodeJson({ ...sizes, ...encodeFilled(filled) }), { durable: true });
  }
}

/** A hole as a line says it: rows, chunk, file, byte, reason. */
function describeHole({ column, chunk, from, to, path, offset, reason }: Hole): string {
  const rows = to - from === 1 ? `row ${from}` : `rows ${from} to ${to - 1}`;
  const of = column === undefined ? "" : ` of column "${column}"`;
  const where = path === "" ? "" : `: ${path}${offset === undefined ? "" : `, byte ${offset}`}`;
  return `${rows}${of}, chunk ${chunk}${where}: ${reason}`;
}

/** Rows that are whole, and go because they are behind the first hole. */
function cutOff({ holes, rows }: Survey, policy: HolePolicy | undefined): string[] {
  const first = holes.reduce((least, { from }) => Math.min(least, from), rows);
  if (policy !== "cut" || first >= rows) return [];
  return [`rows ${first} to ${rows - 1}, all from the first hole on`];
}

function refusal(path: string, { holes }: Pick<Survey, "holes">): SuperchunkError {
  const more = holes.length - 1;
  const [first] = holes;
  const others = more > 0 ? ` and ${more} more` : "";
  return new SuperchunkError(
    "INCOMPLETE",
    `${first === undefined ? "" : describeHole(first)}${others}. Nothing was written: --holes says what stands there, fill (a value; rows keep their places), drop (rows move up) or cut (rows end there)`,
    { path, field: "holes", expected: "no holes, or --holes", found: holes },
  );
}

function notHere(path: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `this is a ${found}, and only arrays of superchunks are repaired where they lie; name a DST, which gets all that is whole`,
    { path, field: "dialect", expected: "blz-superchunk", found },
  );
}

function readOnly(path: string): SuperchunkError {
  return new SuperchunkError("READ_ONLY", "the store cannot write; name a DST", { path });
}

function isSuperchunks(survey: Survey): survey is ArraySurvey {
  return survey.dialect === "blz-superchunk" && survey.known !== undefined;
}

/** True where a reader finds nothing wrong. */
async function isReadable(store: ReadableStore, path: string): Promise<boolean> {
  try {
    const archive = await open(store, path);
    return (await archive.verify()).ok;
  } catch (error) {
    if (isSuperchunkError(error)) return false;
    throw error;
  }
}

/** A chunk of an array that cannot be read. */
interface BadChunk {
  /** First item, by dimension. */
  readonly start: readonly number[];
  readonly hole: Hole;
}

/** What was found of an array. */
interface ZarrSurvey {
  /** Path below the node that was asked for. */
  readonly name: string;
  readonly array: ZarrArray;
  readonly bad: readonly BadChunk[];
  readonly whole: number;
}

/** Looks through the arrays at and below a node: reads every chunk. Throws `UNSUPPORTED` for grids of unequal chunks. */
async function surveyZarr(
  store: ReadableStore,
  path: string,
  signal?: AbortSignal,
): Promise<readonly ZarrSurvey[]> {
  const surveys: ZarrSurvey[] = [];
  const visit = async (key: string, name: string): Promise<void> => {
    const node = await openZarr(store, key, { signal });
    if (node.kind === "array") surveys.push(await surveyOne(node, name, signal));
    else for (const member of await node.members()) await visit(joinKey(key, member), joinKey(name, member));
  };
  await visit(path, "");
  return surveys;
}

async function surveyOne(array: ZarrArray, name: string, signal?: AbortSignal): Promise<ZarrSurvey> {
  const { chunkShape } = await array.summary();
  const path = array.store.describe(array.path);
  if (chunkShape === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "a grid of unequal chunks cannot be repaired; convert it first",
      { path },
    );
  const bad: BadChunk[] = [];
  let index = 0;
  for (const start of startsOf(array.shape, chunkShape)) {
    signal?.throwIfAborted();
    try {
      await array.getBytes(regionOf(array.shape, chunkShape, start), { signal });
    } catch (error) {
      if (!isFlaw(error)) throw error;
      const [[from = 0], [step = 1]] = [start, chunkShape];
      const to = Math.min(rowsOf(array), from + step);
      const column = name === "" ? {} : { column: name };
      bad.push({ start, hole: { ...column, chunk: index, from, to, ...flawOf(error, path) } });
    }
    index++;
  }
  return { name, array, bad, whole: index - bad.length };
}

function regionOf(
  shape: readonly number[],
  chunkShape: readonly number[],
  start: readonly number[],
): Selection {
  return start.map((from, i) => ({
    start: from,
    stop: Math.min(at(shape, i), from + at(chunkShape, i)),
    step: 1,
  }));
}

/** Copies the node, and makes what cannot be read chunks that are not stored. Resolves with the rows that read as fill values. */
async function repairZarrInto(
  store: ReadableStore,
  path: string,
  surveys: readonly ZarrSurvey[],
  into: { readonly store: WritableStore; readonly path: string },
): Promise<{ readonly filled: readonly RowSpan[]; readonly bad: readonly Hole[] }> {
  for await (const _ of into.store.list(into.path))
    throw new SuperchunkError("CONFLICT", "the destination exists; name another", {
      path: into.store.describe(into.path),
    });
  await copyBelow(store, path, into.store, into.path);
  const left: Hole[] = [];
  for (const { name, bad } of surveys) {
    if (bad.length === 0) continue;
    const array = await openZarrWriter(into.store, joinKey(into.path, name));
    const { chunkShape = array.shape, shardShape } = await array.summary();
    for (const { start, hole } of bad) {
      const region = regionOf(array.shape, chunkShape, start);
      if (shardShape !== undefined && (await isBack(array, region, start, shardShape))) continue;
      left.push(hole);
      try {
        await array.fill(region);
      } catch (error) {
        const outer = shardShape ?? chunkShape;
        if (!isFlaw(error) || !isAllBad(array.shape, chunkShape, outer, bad, start)) throw error;
        // Nothing of the object can be read: without it, its chunks are chunks that are not stored.
        await into.store.delete(array.model.chunkKey(positionIn(start, outer)));
      }
    }
    await array.flush();
  }
  return { filled: mergeSpans(left), bad: left };
}

function positionIn(start: readonly number[], outer: readonly number[]): number[] {
  return start.map((from, i) => Math.floor(from / at(outer, i)));
}

/** True where no chunk of the object that holds the one at `start` can be read. */
function isAllBad(
  shape: readonly number[],
  chunkShape: readonly number[],
  outer: readonly number[],
  bad: readonly BadChunk[],
  start: readonly number[],
): boolean {
  const position = positionIn(start, outer).join();
  const held = bad.filter((each) => positionIn(each.start, outer).join() === position).length;
  const needed = positionIn(start, outer).reduce((product, place, i) => {
    const length = at(outer, i);
    return product * Math.ceil(Math.min(length, at(shape, i) - place * length) / at(chunkShape, i));
  }, 1);
  return held === needed;
}

/** True where the shard's last whole index brings a chunk back. */
async function isBack(
  array: WritableZarrArray,
  region: Selection,
  start: readonly number[],
  shardShape: readonly number[],
): Promise<boolean> {
  const position = positionIn(start, shardShape);
  try {
    await recoverShard(array, position);
  } catch (error) {
    if (!isFlaw(error) && !(error instanceof SuperchunkError && error.code === "NOT_FOUND")) throw error;
  }
  try {
    await array.getBytes(region);
    return (await array.store.stat(array.model.chunkKey(position))) !== undefined;
  } catch (error) {
    if (isFlaw(error)) return false;
    throw error;
  }
}

const PIECE = 8 << 20;

async function copyBelow(
  store: ReadableStore,
  from: string,
  target: WritableStore,
  to: string,
): Promise<void> {
  for await (const { name, kind } of store.list(from)) {
    const [source, copy] = [joinKey(from, name), joinKey(to, name)];
    if (kind === "folder") {
      await copyBelow(store, source, target, copy);
      continue;
    }
    const size = (await store.stat(source))?.size ?? 0;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let offset = 0; offset < size; offset += PIECE) {
        const bytes = await store.getRange(source, { offset, length: Math.min(PIECE, size - offset) });
        if (bytes !== undefined) yield bytes;
      }
    }
    await target.put(copy, pieces());
  }
}
