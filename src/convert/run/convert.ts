/**
 * Converts any format to any other: finds the sources, lets the target plan them, and runs the plans.
 *
 * Knows sources and targets; must not know formats.
 */

import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { B2ND } from "../../blosc2/b2nd-target.ts";
import { joinBytes } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { recordKey } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { ArrowOptions } from "../../scan/arrow-batches.ts";
import type { ScanArray, ScannedColumn, ScanTable } from "../../scan/columns.ts";
import { joinKey } from "../../store/key.ts";
import { MemoryStore } from "../../store/memory.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { resolveSelection } from "../../values/selection.ts";
import { ZarrArray } from "../../zarr/read/array.ts";
import { ZarrGroup } from "../../zarr/read/group.ts";
import {
  type ColumnArray,
  type ColumnTable,
  type ConvertFormat,
  type ConvertOptions,
  type ConvertResult,
  type ConvertSource,
  type Destination,
  failureOf,
  type OpenedSource,
  type PlanEntry,
  type SourceItem,
  type SourceLocation,
  type SourceRun,
  type Target,
} from "../pipeline.ts";
import {
  archiveItem,
  collectSources,
  findColumns,
  findNodes,
  isArchive,
  notesOnArchive,
  zarrItems,
} from "../sources/items.ts";
import { ARROW } from "../targets/arrow.ts";
import { BCOLZ } from "../targets/bcolz.ts";
import { BLOSCPACK } from "../targets/bloscpack.ts";
import { columnTarget } from "../targets/column-target.ts";
import { NPY } from "../targets/npy.ts";
import { PARQUET } from "../targets/parquet.ts";
import { BLZ } from "../targets/superchunks.ts";
import { TRANSFORMER } from "../targets/transformer.ts";
import { ZARR } from "../targets/zarr.ts";
import { Conversion, holdsResult, SOURCES_AT_ONCE, type SourceList } from "./conversion.ts";
import {
  checkDestination,
  type RunOptions,
  readRecord,
  refuseExisting,
  refuseOverlapping,
} from "./destination.ts";
import type { Helpers } from "./helpers.ts";
import { ConversionProgress, Outcomes } from "./outcomes.ts";
import { compareArrays, placeAt, planSource } from "./run-source.ts";

/**
 * Implements the exported `convert`. `helpers` are other threads, which convert a share of very many sources; `join` makes the result, or a
 * node in it, known to groups above.
 */
export async function convert(
  source: ConvertSource,
  destination: Destination,
  options: RunOptions = {},
  helpers?: Helpers,
  join?: (node?: string) => Promise<readonly string[]>,
): Promise<ConvertResult> {
  const started = performance.now();
  const target = targetOf(options.to);
  const { store, path = "" } = destination;
  for (const each of placesOf(source)) if (each.store === store) refuseOverlapping(each.path, path);
  if (options.verifyOnly === true)
    return verifyResult(target, destination, await sourcesOf(source, target, options, path), options);
  // A folder of a million archives takes minutes to walk.
  const isMany = !isList(source) && !("kind" in source);
  const isTaken =
    target.isHierarchy && (await checkDestination(store, path, { ...options, isMany })) === "taken";
  if (!target.isHierarchy) await refuseExisting(store, path, options);
  const sources = await sourcesOf(source, target, options, path);
  if (isTaken && options.resume === true && sources.isTree) {
    const completed = await completeHierarchy(target, destination, sources.items, options, join);
    if (completed !== undefined) return completed;
  }
  const run = new Conversion(target, destination, sources, options, helpers);
  const notes = await run.convert(isTaken, join);
  const result = run.result((performance.now() - started) / 1000);
  return { ...result, notes: [...result.notes, ...notes] };
}

/** True if there is a Zarr v3 node that no conversion has left unfinished. */
async function isFinished(store: ReadableStore, key: string, options: StoreOptions = {}): Promise<boolean> {
  if ((await store.stat(recordKey(key, true), options)) !== undefined) return false;
  return (await store.stat(joinKey(key, "zarr.json"), options)) !== undefined;
}

/**
 * Converts the sources that the result of a conversion that ended lacks, each alone at its place: a source that failed leaves nothing there. What
 * is there is not touched. Undefined if it has not ended, and if none of the sources is there, because something else made it.
 */
async function completeHierarchy(
  target: Target,
  destination: Destination,
  items: readonly SourceItem[],
  options: ConvertOptions,
  join: (node: string) => Promise<readonly string[]> = async (node) => {
    const { joinHierarchy } = await import("../../zarr/write/node-document.ts"); // few conversions need it
    const { store, path = "" } = destination;
    await joinHierarchy(store, path, joinKey(path, node), options);
    return [];
  },
): Promise<ConvertResult | undefined> {
  const started = performance.now();
  const { store, path: root = "" } = destination;
  const { signal, verify = false } = options;
  if (!(await isFinished(store, root, options))) return undefined;
  const progress = new ConversionProgress({ items, isTree: true }, options.onProgress);
  const outcomes = new Outcomes();
  const missing: [number, SourceItem][] = [];
  for (const [index, item] of items.entries())
    if (await isFinished(store, joinKey(root, item.node), { signal })) {
      outcomes.addFound(index, item);
      progress.advance(index);
    } else missing.push([index, item]);
  if (missing.length === items.length) return undefined;
  const notes: string[] = [];
  for (const [index, item] of missing) {
    const { path, node } = item;
    const place = { ...destination, path: joinKey(root, node), isInGroup: true };
    try {
      const resume = (await store.stat(recordKey(place.path, true), { signal })) !== undefined;
      const own = { ...options, resume, onProgress: undefined };
      const isTaken = (await checkDestination(store, place.path, own)) === "taken";
      const alone = { items: [{ ...item, node: "" }], names: [path], isTree: false };
      const run = new Conversion(target, place, alone, own);
      notes.push(...(await run.convert(isTaken, () => join(node))));
      outcomes.addResult(index, node, run.result(0));
    } catch (error) {
      signal?.throwIfAborted();
      outcomes.add(index, { path, node, status: "failed", ...failureOf(error, path) });
    }
    progress.advance(index);
  }
  const seconds = (performance.now() - started) / 1000;
  const result = outcomes.result(items, { isNamed: true, verified: verify, seconds });
  return { ...result, notes: [...result.notes, ...notes] };
}

/** Finds out which sources an earlier run has converted, as far as that needs no source. */
async function keptBefore(
  { isHierarchy, ending }: Target,
  store: ReadableStore,
  root: string,
): Promise<(node: string) => Promise<boolean>> {
  if (isHierarchy) return (node) => isFinished(store, joinKey(root, node));
  const { done = {}, begun = {} } = (await readRecord(store, recordKey(root, false))) ?? {};
  const isIn = (nodes: JsonValue, node: string): boolean => Object.hasOwn(nodes as JsonObject, node);
  return async (node) =>
    isIn(done, node) || (!isIn(begun, node) && (await holdsResult(store, joinKey(root, node), ending)));
}

/** Implements the exported `planConversion`. */
export async function* planConversion(
  source: ConvertSource,
  destination: Partial<Destination> = {},
  options: ConvertOptions = {},
): AsyncGenerator<PlanEntry> {
  const target = targetOf(options.to);
  const sources = await sourcesOf(source, target, options, destination.path);
  const { items, isTree } = sources;
  const own = isTree ? { ...options, skipFailed: true } : options;
  const { store, path: root = "" } = destination;
  const isResumed = options.resume === true && isTree && store !== undefined;
  const isKept = isResumed ? await keptBefore(target, store, root) : undefined;
  for (const item of items) {
    const { path, node, notes } = item;
    const where = { path, node, notes };
    if ((await isKept?.(node)) === true) {
      yield { ...where, kept: true };
      continue;
    }
    try {
      const run = await planSource(item, placeAt(destination, node, items.length), target, own);
      const noted = { ...where, notes: [...notes, ...run.notes] };
      yield* splitPlan(noted, (await run.detailed?.()) ?? run.plan, isTree ? run.failed : []);
    } catch (error) {
      if (!isTree) throw error;
      yield { ...where, ...failureOf(error, path) };
    }
  }
}

/** In the conversion of a folder, skipped nodes of a group become entries of their own. */
function* splitPlan(
  where: PlanEntry,
  plan: NonNullable<PlanEntry["plan"]>,
  failed: SourceRun["failed"],
): Generator<PlanEntry> {
  const arrays = plan.arrays.filter(({ action }) => action !== "refuse");
  if (arrays.length === 0 || failed.length === 0) {
    yield { ...where, plan };
    return;
  }
  yield { ...where, plan: { ...plan, arrays } };
  for (const { path, source, error } of failed)
    yield { path: source, node: joinKey(where.node, path), notes: [], ...failureOf(error, source) };
}

// Compares what an earlier conversion made with its sources: each is planned again, and what a conversion compares before it publishes
// is compared in what is at the place.

/** Compares all sources; what differs fails. Throws if the only source cannot be planned, and errors that are not an archive's. */
async function verifyResult(
  target: Target,
  destination: Destination,
  { items, isTree }: SourceList,
  options: ConvertOptions,
): Promise<ConvertResult> {
  const started = performance.now();
  const { store } = destination;
  const { jobs = SOURCES_AT_ONCE, onProgress } = options;
  const progress = new ConversionProgress({ items, isTree }, onProgress);
  const outcomes = new Outcomes();
  let [arrays, nbytes] = [0, 0];
  const compare = async ([index, item]: [number, SourceItem], signal: AbortSignal): Promise<void> => {
    const { path, node } = item;
    const own = { ...options, signal, ...(isTree && { skipFailed: true }) };
    try {
      const run = await planSource(item, placeAt(destination, node, items.length), target, own);
      if (run.refusal !== undefined) throw run.refusal;
      const compared = await compareArrays(run, store, signal, progress.of(index, true));
      arrays += compared.arrays;
      nbytes += compared.nbytes;
      for (const each of compared.failed)
        outcomes.add(index, { ...each, node: joinKey(node, each.node), status: "failed" });
      if (compared.failed.length === 0) outcomes.add(index, { path, node, status: "kept" });
    } catch (error) {
      signal.throwIfAborted();
      if (!isTree) throw error;
      outcomes.add(index, { path, node, status: "failed", ...failureOf(error, path) });
    }
    progress.advance(index);
  };
  await runPooled(items.entries(), jobs, compare, options.signal);
  const seconds = (performance.now() - started) / 1000;
  const result = outcomes.result(items, { isNamed: false, verified: true, seconds });
  return { ...result, verified: result.failed === 0, arrays, nbytes };
}

function placesOf(source: ConvertSource): readonly SourceLocation[] {
  if (isList(source)) return source;
  if ("items" in source) return [];
  if ("kind" in source && source.kind === "joined") return source.archives;
  return [source];
}

function isList(source: ConvertSource): source is readonly Archive[] {
  return Array.isArray(source);
}

/**
 * All sources to convert, each with its place below `destination`. A destination with the name of a file is that file, also for the only
 * array in a group, which then is not a table.
 */
export async function sourcesOf(
  source: ConvertSource,
  target: Target,
  options: ConvertOptions,
  destination = "",
): Promise<SourceList> {
  const sources = await findSources(source, target, options);
  const [item, ...others] = sources.items;
  const { ending, format } = target;
  if (ending === undefined || !destination.endsWith(ending) || item === undefined) return sources;
  const holdsOne = ONE_ARRAY.includes(format);
  if (others.length > 0 && holdsOne)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `there are ${sources.items.length} archives, and a file ${ending} holds one array: convert one of them, or name a folder, without ${ending}, and the format, {to: "${format}"}`,
      { path: sources.names.join(", "), field: "destination", found: destination },
    );
  const isOnly = others.length === 0 && (holdsOne || item.found?.isZarr === true);
  if (!isOnly) return sources;
  return { ...sources, items: [{ ...item, node: "" }], isTree: false };
}

/** Formats whose files hold one array. A folder of the others may have the name of a file, as other programs write it. */
const ONE_ARRAY: readonly ConvertFormat[] = ["npy", "bloscpack", "b2nd"];

async function findSources(
  source: ConvertSource,
  target: Target,
  options: ConvertOptions,
): Promise<SourceList> {
  if (isList(source)) return findSources({ kind: "joined", archives: source }, target, options);
  const listOf = async (items: AsyncIterable<SourceItem>, name: string): Promise<SourceList> => {
    const nothing = target.isHierarchy
      ? "the folder holds no archive"
      : "found neither an archive nor a Zarr array to convert";
    const missing = new SuperchunkError("NOT_FOUND", nothing, { path: name, field: "src" });
    const found = await collectSources(items, missing);
    return { items: found, names: [name], isTree: found.length > 1 || found[0]?.node !== "" };
  };
  if ("items" in source) {
    const found = await listOf(source.items, source.names[0] ?? "");
    return { ...found, names: source.names, isTree: true };
  }
  if ("kind" in source && source.kind === "joined")
    return oneSource(source, source.archives.map(describe).join(", "));
  const name = describe(source);
  const { signal, onProgress, columns } = options;
  if (!("kind" in source)) {
    const { store, path } = source;
    if (await isArchive(store, path, { signal }))
      return findSources(await open(store, path, openOptions(options)), target, options);
    const onFound = (total: number, label: string): void =>
      onProgress?.({ done: 0, total, label, unit: "archives", isOpen: true });
    const opening = { ...openOptions(options), onFound };
    const found = target.isHierarchy
      ? findNodes(source, opening)
      : findColumns(source, { ...opening, columns });
    return listOf(found, name);
  }
  if (source instanceof ZarrArray || source instanceof ZarrGroup) {
    const { store, path } = source;
    if (!target.isHierarchy)
      return listOf(
        zarrItems({ store, path, node: "", columns }, async () => source),
        name,
      );
    refuseLayout(options);
    return oneSource(source, name);
  }
  if (!("dialect" in source)) return oneSource(source, name);
  const notes = source.kind === "bytes" ? [] : await notesOnArchive(source, signal);
  const item = archiveItem(source.store, source.path, "", async () => source, notes);
  return { items: [item], names: [name], isTree: false };
}

function openOptions({ signal, damaged, onDamage, openPlace }: ConvertOptions): OpenOptions {
  return { signal, damaged, onDamage, openPlace };
}

function oneSource(source: OpenedSource, path: string): SourceList {
  const item = { path, node: "", notes: [], open: async () => source };
  return { items: [item], names: [path], isTree: false };
}

function describe({ store, path }: SourceLocation): string {
  return store.describe(path);
}

/** Options that cut an archive's chunks; they do not apply to what is read as Zarr arrays. */
const LAYOUT = {
  shardSize: "--shard-size",
  chunksPerShard: "--chunks-per-shard",
  grid: "--grid",
  portable: "--portable",
  dtype: "--dtype",
  shape: "--shape",
  columns: "--column",
} as const satisfies Partial<Record<keyof ConvertOptions, string>>;

/** Refuses options that only apply to archives. Throws `BAD_ARGUMENT`. */
function refuseLayout(options: ConvertOptions): void {
  for (const [name, flag] of Object.entries(LAYOUT)) {
    if (options[name as keyof typeof LAYOUT] === undefined) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${name} (${flag}) is for Bloscpack, BLZ and bcolz archives: from Zarr, HDF5 and Blosc2, chunks and types are carried over as they are. Leave it out`,
      { field: name },
    );
  }
}

const TARGETS: { readonly [format in ConvertFormat]: Target } = {
  zarr: ZARR,
  "zarr3-transformer": TRANSFORMER,
  npy: columnTarget(NPY),
  bloscpack: columnTarget(BLOSCPACK),
  bcolz: columnTarget(BCOLZ),
  blz: columnTarget(BLZ),
  parquet: columnTarget(PARQUET),
  arrow: columnTarget(ARROW),
  b2nd: columnTarget(B2ND),
};

/** The target of a format. Throws `BAD_ARGUMENT` for an unknown one. */
export function targetOf(format: ConvertFormat = "zarr"): Target {
  if (Object.hasOwn(TARGETS, format)) return TARGETS[format];
  throw badArgument("to", `"${format}"`, `one of ${Object.keys(TARGETS).join(", ")}`);
}

/** Most bytes of values in the file; for more, use `convert`. */
const MOST_BYTES = 512 << 20;
const KEY = "rows.parquet";

/** Options of `toParquet`: those of `arrowBatches`, and those that decide the bytes of the file. */
export interface ToParquetOptions extends ArrowOptions {
  readonly parquet?: Omit<NonNullable<ConvertOptions["parquet"]>, "partition"> | undefined;
}

/** Implements the exported `toParquet`. */
export async function toParquet(
  source: ScanTable | ScanArray,
  options: ToParquetOptions = {},
): Promise<Uint8Array> {
  const { SCAN_OPTIONS, scanBytes } = await import("../../scan/scan.ts");
  checkOptions(options, `${SCAN_OPTIONS} parquet strings`);
  const { columns, batches } = await scanBytes(source, options);
  const held = columns.map((): Uint8Array[] => []);
  let [rows, nbytes] = [0, 0];
  for await (const batch of batches) {
    rows += batch.rows.length;
    for (const [i, { bytes }] of batch.columns.entries()) {
      held[i]?.push(bytes.slice());
      nbytes += bytes.length;
    }
    if (nbytes > MOST_BYTES)
      throw new SuperchunkError(
        "LIMIT",
        "these rows do not fit into one file in memory; convert the archive, or take fewer rows or columns",
        { path: source.store.describe(source.path), expected: MOST_BYTES, found: nbytes },
      );
  }
  const arrays = new Map(
    columns.map((column, i) => [column.name, heldArray(column, source, joinBytes(held[i] ?? []), rows)]),
  );
  const table: ColumnTable = {
    kind: "table",
    store: source.store,
    path: source.path,
    attrs: source.attrs,
    names: [...arrays.keys()],
    column(name) {
      const array = arrays.get(name);
      if (array === undefined) throw new RangeError(`${name} was not asked for`);
      return array;
    },
  };
  const store = new MemoryStore();
  const { parquet, strings, signal } = options;
  await convert(table, { store, path: KEY }, { to: "parquet", parquet: { strings, ...parquet }, signal });
  return (await store.get(KEY)) ?? new Uint8Array(0);
}

/** Rows in memory as a column. */
function heldArray(
  { dtype, rowShape, size }: ScannedColumn,
  { store, path }: Pick<ScanTable, "store" | "path">,
  bytes: Uint8Array,
  rows: number,
): ColumnArray {
  return {
    kind: "array",
    store,
    path,
    dtype,
    attrs: {},
    fillValue: undefined,
    shape: [rows, ...rowShape],
    nbytes: bytes.length,
    async *streamBytes() {
      yield bytes;
    },
    async getBytes(selection) {
      const [{ start, count } = { start: 0, count: rows }] = resolveSelection(selection, [rows, ...rowShape]);
      return bytes.subarray(start * size, (start + count) * size);
    },
  };
}
