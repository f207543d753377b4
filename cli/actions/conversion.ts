/** Runs `convert`: passes the arguments to the library, and prints the result. */
import { resolve } from "node:path";
import { isSuperchunkError } from "../../src/index.ts";
import { convert, planConversion } from "../../src/node/index.ts";
import type { ConvertFormat, ConvertResult } from "../../src/zarr.ts";
import type { Context } from "../context.ts";
import { describeFailure, optionOf, wrongUse } from "../failure.ts";
import { refuseOther } from "../input/input.ts";
import { isAddress } from "../input/units.ts";
import {
  type ConvertFlags,
  damageOf,
  noteFailures,
  printPlans,
  printResult,
  toOptions,
  writeReport,
} from "../output/convert-report.ts";
import { withProgress } from "../output/progress.ts";
import { quoted } from "../values/cell-text.ts";
import { adviseLeftOut, withConversionAdvice } from "./salvage.ts";

/** Options of `convert` that only apply to Zarr v3. */
const ZARR_ONLY: readonly (keyof ConvertFlags)[] = [
  "shardSize",
  "chunksPerShard",
  "grid",
  "portable",
  "dimensionNames",
  "concat",
  "jobs",
];

/** Options of `convert` that do not apply to hierarchies of the older transformer. */
const NOT_TRANSFORMER: readonly (keyof ConvertFlags)[] = [
  "shardSize",
  "grid",
  "portable",
  "dtype",
  "shape",
  "dimensionNames",
  "concat",
  "jobs",
  "dryRun",
  "resume",
  "overwrite",
  "report",
];

/** Options of `convert` that only apply to Parquet. */
const PARQUET_ONLY: readonly (keyof ConvertFlags)[] = [
  "statistics",
  "compatible",
  "rowGroupRows",
  "partition",
];

/** Options of `convert` that only apply to Parquet and Arrow. */
const TABLES_ONLY: readonly (keyof ConvertFlags)[] = ["strings", "zipline", "prices"];

/** Converts one source, or several and whole trees; with `--dry-run` only plans. */
export async function convertTo(
  paths: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  checkConversion(paths, flags);
  if (flags.report !== undefined) await refuseOther(flags.report);
  const options = { ...toOptions(flags, context), skipFailed: true };
  if (flags.dryRun === true)
    return printPlans(planConversion(paths, destination, options), destination, flags, context);
  try {
    const result = await withProgress(context.io, "convert", {}, (onProgress) =>
      convert(paths, destination, { ...options, onProgress }),
    );
    await report(result, { paths, destination, flags }, context);
  } catch (failure) {
    const error = await withConversionAdvice(failure, paths, stopsAtDamage(flags), context);
    if (flags.report !== undefined && isSuperchunkError(error)) {
      const { code, message } = error;
      const entry = { path: paths.join(", "), node: "", status: "failed", code, message };
      await writeReport(flags.report, [entry]).catch((other: unknown) =>
        context.message(describeFailure(other)),
      );
    }
    throw error;
  }
}

interface Typed {
  readonly paths: readonly string[];
  readonly destination: string;
  readonly flags: ConvertFlags;
}

async function report(
  done: ConvertResult,
  { paths, destination, flags }: Typed,
  context: Context,
): Promise<void> {
  const { to, json } = flags;
  const [first, ...others] = done.entries;
  // A single source is named as typed; archives found in a folder by their own paths.
  const isOne = to === "zarr" && first?.node === "";
  const source = isOne || to !== "zarr" ? paths.join(", ") : paths.map(fullPath).join(", ");
  const result = isOne ? { ...done, entries: [{ ...first, path: source }, ...others] } : done;
  // A report that cannot be written must not cost the outcome.
  const [written] = await Promise.allSettled([flags.report && writeReport(flags.report, result.entries)]);
  noteFailures(result.entries, context);
  const again = (path: string, node: string): string => commandFor(path, node, destination, to);
  // A comparison converts nothing.
  const leftOut = flags.verifyOnly === true ? [] : result.entries;
  const advice = await adviseLeftOut(leftOut, stopsAtDamage(flags) ? again : undefined, context);
  if (json !== true) {
    await printResult(result, { destination, flags }, context);
    if (advice !== undefined) context.message(advice);
    const isRetried = !isOne && leftOut.some(({ status }) => status === "failed");
    if (isRetried)
      context.message("once what failed is mended, the same command with --resume tries it again");
  } else {
    const { chunksCopied: copied, chunksPadded: padded } = result;
    const counts = to === "zarr3-transformer" ? { copied, padded } : {};
    await context.json({ source, destination, format: to, ...result, ...counts, ...damageOf(flags), advice });
  }
  if (written.status === "rejected") throw written.reason;
}

function stopsAtDamage({ damaged = "stop" }: ConvertFlags): boolean {
  return damaged === "stop";
}

/** The command that converts one of many archives alone: in Zarr, to its place in the hierarchy. */
function commandFor(path: string, node: string, destination: string, to: ConvertFormat): string {
  if (to !== "zarr") return `superchunk convert ${quoted(path)} DST --to ${to}`;
  const [base = "", query] = isAddress(destination) ? destination.split("?") : [destination];
  const settings = query === undefined ? "" : `?${query}`;
  // A name such as prices.blp would choose another format.
  const chosen = /\.[a-z0-9]+$/i.test(node) ? " --to zarr" : "";
  return `superchunk convert ${quoted(path)} ${quoted(`${base.replace(/\/+$/, "")}/${node}${settings}`)}${chosen}`;
}

function fullPath(path: string): string {
  return isAddress(path) ? path : resolve(path);
}

/** Refuses options that do not apply to the format. Throws `BAD_ARGUMENT`. */
export function checkConversion(paths: readonly string[], flags: ConvertFlags): void {
  const { to } = flags;
  if (to !== "parquet")
    refuseAll(flags, PARQUET_ONLY, (option) => `${option} is for --to parquet, not for --to ${to}`);
  if (to !== "parquet" && to !== "arrow")
    refuseAll(flags, TABLES_ONLY, (option) => `${option} is for --to parquet and arrow, not for --to ${to}`);
  if (to === "zarr") return;
  if (to === "zarr3-transformer") {
    if (paths.length > 1) throw wrongUse("src", "--to zarr3-transformer takes one archive at a time");
    refuseAll(flags, NOT_TRANSFORMER, (option) => `${option} is not for --to zarr3-transformer`);
    return;
  }
  // Parts of rows are sized like shards.
  const own = flags.partition === "rows" ? ZARR_ONLY.filter((name) => name !== "shardSize") : ZARR_ONLY;
  refuseAll(flags, own, (option) => `${option} is for --to zarr, not for --to ${to}`);
}

function refuseAll(
  flags: ConvertFlags,
  names: readonly (keyof ConvertFlags)[],
  message: (option: string) => string,
): void {
  for (const name of names) {
    const option = optionOf(name);
    if (flags[name] !== undefined) throw wrongUse(option, message(option));
  }
}
