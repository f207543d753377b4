/** Runs `convert`: from flags to the library's options, from its results to lines and JSON. */
import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { stringifyJson } from "../../src/format/json.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { locateTarget } from "../../src/node/index.ts";
import type { WritableStore } from "../../src/store/types.ts";
import {
  assertApart,
  type ConversionPlan,
  type ConvertOptions,
  type ConvertResult,
  convertArchive,
  convertJoined,
  convertZarr,
  type PlannedArray,
  planConversion,
  planJoinedConversion,
  planZarrConversion,
  type ZarrConvertResult,
} from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { type Found, findAt } from "../input/opening.ts";
import { openInOrder } from "../input/ordered-archives.ts";
import { formatCount, formatPlural, formatSize } from "../input/units.ts";
import { resultLine, toOptions, writeReport } from "../output/convert-report.ts";
import { noteFailures, tellFailures } from "../output/failed-archives.ts";
import { alignRows, shapeText } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";
import { convertMany, isOneArchive } from "./tree-conversion.ts";

/** Converts one archive, or several and whole trees, as typed. */
export async function convertTo(
  sources: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  for (const source of sources) await refuseOverlap(source, destination);
  const [only] = sources;
  if (only === undefined) return;
  if (flags.concat === true) return concatenate(sources, destination, flags, context);
  const found = sources.length > 1 ? undefined : await findOne(only, context.signal);
  if (found === undefined) return convertMany(sources, destination, flags, context);
  const { archive, node } = found;
  try {
    if (node !== undefined) refuseLayout(flags);
    const conversion: OneConversion =
      archive === undefined
        ? {
            plan: (options) => planZarrConversion(node, options),
            run: (target, options) => convertZarr(node, target, "", { ...options, skipFailed: true }),
          }
        : {
            plan: (options) => planConversion(archive, options),
            run: (target, options) => convertArchive(archive, target, "", options),
          };
    await convertOne(conversion, only, destination, flags, context);
  } finally {
    await (archive === undefined ? node.store.close?.() : archive.close());
  }
}

/** Undefined for a folder in which archives may lie. */
async function findOne(source: string, signal: AbortSignal): Promise<Found | undefined> {
  try {
    return await findAt(source, { signal });
  } catch (error) {
    if (/^https?:/i.test(source) || !isSuperchunkError(error)) throw error;
    if (error.code === "UNSUPPORTED" && !(await isOneArchive(source))) return undefined;
    throw error;
  }
}

/** Options that cut an archive's chunks, for which an array of Zarr has no use: its chunks stay as they are. */
const LAYOUT = {
  shardSize: "--shard-size",
  chunksPerShard: "--chunks-per-shard",
  grid: "--grid",
  portable: "--portable",
  dtype: "--dtype",
  shape: "--shape",
  dimensionNames: "--dimension-names",
  column: "--column",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

function refuseLayout(flags: ConvertFlags): void {
  for (const [name, option] of Object.entries(LAYOUT)) {
    if (flags[name as keyof typeof LAYOUT] === undefined) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${option} is for archives; chunks of Zarr stay as they are when they become Zarr v3`,
      { field: option },
    );
  }
}

/** What becomes one array or one group. */
interface OneConversion {
  plan(options: ConvertOptions): Promise<ConversionPlan>;
  run(target: WritableStore, options: ConvertOptions): Promise<ConvertResult & Partial<ZarrConvertResult>>;
}

/** Converts archives, joined along the first dimension. */
async function concatenate(
  sources: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const { archives, close } = await openInOrder(sources, context.signal);
  try {
    const conversion: OneConversion = {
      plan: (options) => planJoinedConversion(archives, options),
      run: (target, options) => convertJoined(archives, target, "", options),
    };
    await convertOne(conversion, sources.join(", "), destination, flags, context);
  } finally {
    await close();
  }
}

async function convertOne(
  conversion: OneConversion,
  source: string,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  if (flags.dryRun === true)
    return printPlan(await conversion.plan(toOptions(flags, context)), flags, context);
  const { store: target } = locateTarget(destination);
  const bar = startProgress(context.io, "convert");
  try {
    const result = await conversion.run(target, {
      ...toOptions(flags, context),
      onProgress: bar.onProgress,
    });
    bar.finish();
    const entry = { path: source, node: "", status: "converted", result };
    const { failures = [] } = result;
    const failed = failures.map((failure) => ({ ...failure, status: "failed" }));
    if (flags.report !== undefined) await writeReport(flags.report, [entry, ...failed]);
    noteFailures(failures, context);
    if (flags.json === true) await context.json({ source, destination, ...result });
    else await printResult(result, context);
  } catch (error) {
    if (flags.report !== undefined && isSuperchunkError(error)) {
      const { code, message } = error;
      await writeReport(flags.report, [{ path: source, node: "", status: "failed", code, message }]);
    }
    throw error;
  } finally {
    bar.finish();
    await target.close?.();
  }
}

/** Throws `CONFLICT` where the destination is the source, lies in it, or contains it. */
export async function refuseOverlap(source: string, destination: string): Promise<void> {
  const [from, to] = await Promise.all([source, destination].map(realLocation));
  if (from !== undefined && to !== undefined) assertApart(from, to);
}

/** The absolute path without symbolic links, also of what does not exist yet; of an address, that without settings. */
async function realLocation(path: string): Promise<string> {
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(path)) return path.replace(/\?.*$/s, "").replace(/\/+$/, "");
  const full = resolve(path);
  try {
    return await realpath(full);
  } catch {
    const parent = dirname(full);
    return parent === full ? full : join(await realLocation(parent), basename(full));
  }
}

/** The one line that a conversion ends with, and above it what is worth knowing. */
async function printResult(
  result: ConvertResult & Partial<ZarrConvertResult>,
  context: Context,
): Promise<void> {
  for (const { from, to } of result.renamed) context.message(`note: ${from} is named ${to}`);
  for (const note of result.notes) context.message(`note: ${note}`);
  const { failures = [] } = result;
  tellFailures(failures, "not converted", context);
  const failed = failures.length > 0 ? `, ${formatPlural(failures.length, "array")} not converted` : "";
  await context.out.line(`${resultLine(result)}${failed}`);
}

/** What `--dry-run` prints. Refusals are noted as failures: the conversion would end with one. */
async function printPlan(plan: ConversionPlan, flags: ConvertFlags, context: Context): Promise<void> {
  if (plan.arrays.some((array) => array.action === "refuse")) context.note(EXIT.failed);
  if (flags.json === true) return context.json(plan);
  const header = ["array", "action", "shape", "chunks", "shards", "size", "data type"];
  const rows = plan.arrays.map((array) => [
    array.node === "" ? "/" : `/${printable(array.node)}`,
    array.action,
    array.shape === undefined ? "-" : shapeText(array.shape),
    formatCount(array.chunks),
    formatCount(array.shards),
    formatSize(array.nbytes),
    dataTypeText(array),
  ]);
  for (const line of alignRows([header, ...rows], new Set([3, 4, 5]), context.out.columns))
    await context.out.line(line);
  for (const { node, reason, notes } of plan.arrays) {
    const name = node === "" ? "" : `${printable(node)}: `;
    const told = reason === undefined || notes.some((note) => note.includes(reason));
    for (const remark of [...(told ? [] : [reason]), ...notes])
      await context.out.line(`${name}${printable(remark)}`);
  }
}

function dataTypeText({ dataType }: PlannedArray): string {
  if (dataType === undefined) return "-";
  if (typeof dataType === "string") return printable(dataType);
  const name = (dataType as { readonly name?: JsonValue } | null)?.name;
  return printable(typeof name === "string" ? name : stringifyJson(dataType));
}
