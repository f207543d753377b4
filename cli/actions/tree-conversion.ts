/** Runs `convert` for several archives and for folders of them: one hierarchy, and a report of what failed. */
import { basename, resolve } from "node:path";
import { SuperchunkError } from "../../src/errors.ts";
import { type Location, locate, locateTarget } from "../../src/node/index.ts";
import { type Mount, MountedStore } from "../../src/store/mounted.ts";
import { convertTree, isArchive, planTree, type TreePlanEntry, type TreeResult } from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { formatCount, formatPlural, formatSize } from "../input/units.ts";
import { resultLine, toOptions, writeReport } from "../output/convert-report.ts";
import { noteFailures, tellFailures } from "../output/failed-archives.ts";
import { JsonArray } from "../output/json-array.ts";
import { startProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";

/** True where a typed path is one archive, false for a folder in which archives may lie. */
export async function isOneArchive(source: string): Promise<boolean> {
  if (/^https?:/i.test(source)) return true;
  const { store, path } = await locate(source);
  try {
    return await isArchive(store, path);
  } finally {
    await store.close?.();
  }
}

/** Converts, or with `--dry-run` plans, everything that lies below the sources. */
export async function convertMany(
  sources: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const { store, path } = await locateAll(sources);
  try {
    if (flags.dryRun === true)
      await printPlans(planTree(store, path, toOptions(flags, context)), flags, context);
    else await convertBelow({ store, path }, destination, flags, context);
  } finally {
    await store.close?.();
  }
}

/** One folder as it is; several sources as the entries of one folder, under their own names. */
export async function locateAll(sources: readonly string[]): Promise<Location> {
  const [only] = sources;
  if (sources.length === 1 && only !== undefined) return locate(only);
  const mounts = new Map<string, Mount>();
  for (const source of sources) {
    const name = nameOf(source);
    if (mounts.has(name)) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `two sources have the name "${name}", under which each would be in the result; convert them one by one`,
        {
          path: source,
          field: "src",
        },
      );
    }
    mounts.set(name, await locate(source));
  }
  return { store: new MountedStore(mounts), path: "" };
}

function nameOf(source: string): string {
  if (!isUrl(source)) return basename(resolve(source));
  return decodeURIComponent(new URL(source).pathname.split("/").findLast((part) => part !== "") ?? "archive");
}

function isUrl(source: string): boolean {
  return /^(?:https?|s3):\/\//i.test(source);
}

async function convertBelow(
  from: Location,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const { store: target } = locateTarget(destination);
  const bar = startProgress(context.io, "convert", { unit: "archives" });
  try {
    const options = { ...toOptions(flags, context), onProgress: bar.onProgress };
    const result = await convertTree(from.store, from.path, target, "", options);
    bar.finish();
    if (flags.report !== undefined) await writeReport(flags.report, result.entries);
    noteFailures(result.entries, context);
    if (flags.json === true)
      await context.json({ source: from.store.describe(from.path), destination, ...result });
    else await printTree(result, context);
  } finally {
    bar.finish();
    await target.close?.();
  }
}

/** Failures on stderr, at the end, a line each; then the one line of the result. */
async function printTree(result: TreeResult, context: Context): Promise<void> {
  const { notes, renamed, entries } = result;
  if (notes.length > 0) context.message(`${formatPlural(notes.length, "note")}: --json lists them`);
  if (renamed.length > 0)
    context.message(`${formatPlural(renamed.length, "name")} changed: --json lists them`);
  const failed = entries.filter((entry) => entry.status === "failed");
  tellFailures(failed, "not converted", context);
  const failures = failed.length > 0 ? `, ${formatCount(failed.length)} failed` : "";
  await context.out.line(
    `${formatPlural(result.converted, "archive")} converted${failures}: ${resultLine(result)}`,
  );
}

async function printPlans(
  plans: AsyncIterable<TreePlanEntry>,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const list = flags.json === true ? new JsonArray(context.out) : undefined;
  let count = 0;
  for await (const entry of plans) {
    count++;
    noteFailures([entry], context);
    if (entry.plan?.arrays.some((array) => array.action === "refuse") === true) context.note(EXIT.failed);
    await (list === undefined ? context.out.line(planLine(entry)) : list.add(entry));
  }
  await list?.end();
  if (count === 0) throw new SuperchunkError("NOT_FOUND", "there is no archive in the folder");
}

/** `copy    22.1 MiB  prices.blp -> /prices.blp`, with the reason for all that is not copied. */
function planLine({ path, node, plan, code, message }: TreePlanEntry): string {
  const names = `${printable(path)} -> /${printable(node)}`;
  if (plan === undefined)
    return `${"refuse".padEnd(7)} ${"-".padStart(10)}  ${names}: ${printable(message ?? "")} (${code})`;
  const actions = new Set(plan.arrays.map((array) => array.action));
  const action =
    (["refuse", "recode", "mixed", "copy", "empty"] as const).find((each) => actions.has(each)) ?? "empty";
  const reasons = new Set(plan.arrays.flatMap((array) => (array.reason === undefined ? [] : [array.reason])));
  const why = reasons.size === 0 ? "" : `: ${printable([...reasons].join("; "))}`;
  return `${action.padEnd(7)} ${formatSize(plan.nbytes).padStart(10)}  ${names}${why}`;
}
