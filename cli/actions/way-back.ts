/** Runs `convert --to npy|bloscpack|bcolz|blz`: finds what is converted and where it goes, says what was done. */

import { zarrJobs } from "../../src/convert/sources/back-sources.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { decoderOf, encoderOf } from "../../src/node/index.ts";
import { locateFileTarget } from "../../src/node/locate.ts";
import {
  type BackFormat,
  type BackJob,
  type BackPlan,
  type BackTreeResult,
  convertBackTree,
  findBackJobs,
  planBackTree,
} from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { findAt } from "../input/opening.ts";
import { formatCount, formatDuration, formatPlural, formatSize } from "../input/units.ts";
import { writeReport } from "../output/convert-report.ts";
import { noteFailures, tellFailures } from "../output/failed-archives.ts";
import { alignRows, shapeText } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";
import { refuseOverlap } from "./conversion.ts";
import { locateAll } from "./tree-conversion.ts";

/** Options of `convert` that only Zarr has a use for. */
const ZARR_ONLY = {
  shardSize: "--shard-size",
  chunksPerShard: "--chunks-per-shard",
  grid: "--grid",
  portable: "--portable",
  dimensionNames: "--dimension-names",
  concat: "--concat",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

/** Converts archives, Zarr arrays and groups, and folders of them. */
export async function convertBackTo(
  sources: readonly string[],
  destination: string,
  format: BackFormat,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  for (const [name, option] of Object.entries(ZARR_ONLY)) {
    if (flags[name as keyof typeof ZARR_ONLY] === undefined) continue;
    throw new SuperchunkError("BAD_ARGUMENT", `${option} is for --to zarr, not for --to ${format}`, {
      field: option,
    });
  }
  for (const source of sources) await refuseOverlap(source, destination);
  const { jobs, close } = await findSources(sources, context);
  const { store: target, path: key } = locateFileTarget(destination);
  const options = {
    columns: flags.column,
    dtype: flags.dtype === undefined ? undefined : parseDType(flags.dtype, "--dtype"),
    shape: flags.shape,
    recode: flags.recode,
    verify: flags.verify,
    overwrite: flags.overwrite,
    resume: flags.resume,
    encoder: encoderOf({}),
    signal: context.signal,
  };
  const bar = startProgress(context.io, "convert", { unit: "archives" });
  try {
    if (flags.dryRun === true) {
      await printPlans(planBackTree(jobs, key, format, options), destination, format, flags, context);
      return;
    }
    const all = { ...options, sources, onProgress: bar.onProgress };
    const result = await convertBackTree(jobs, target, key, format, all);
    bar.finish();
    if (flags.report !== undefined) await writeReport(flags.report, result.entries);
    noteFailures(result.entries, context);
    if (flags.json === true)
      await context.json({ source: sources.join(", "), destination, format, ...result });
    else await printResult(result, context);
  } catch (error) {
    if (flags.report !== undefined && isSuperchunkError(error)) {
      const { code, message } = error;
      await writeReport(flags.report, [{ path: sources.join(", "), status: "failed", code, message }]);
    }
    throw error;
  } finally {
    bar.finish();
    await close();
    await target.close?.();
  }
}

/** What is converted, and what releases it. */
interface Sources {
  readonly jobs: AsyncIterable<BackJob>;
  close(): Promise<void>;
}

/** One archive or node as it is; folders and several sources as all that lies in them. */
async function findSources(sources: readonly string[], { signal }: Context): Promise<Sources> {
  const [only] = sources;
  const options = { signal, decoder: decoderOf({}) };
  if (sources.length === 1 && only !== undefined) {
    try {
      const { archive, node } = await findAt(only, options);
      if (archive !== undefined) {
        const { store, path } = archive;
        return { jobs: findBackJobs(store, path, options, archive), close: () => archive.close() };
      }
      const { store, path } = node;
      return { jobs: zarrJobs(store, path, "", async () => node), close: async () => store.close?.() };
    } catch (error) {
      if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
      // A folder that is no archive may hold some.
    }
  }
  const { store, path } = await locateAll(sources);
  return { jobs: findBackJobs(store, path, options), close: async () => store.close?.() };
}

async function printPlans(
  plans: AsyncIterable<BackPlan>,
  destination: string,
  format: BackFormat,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const all: BackPlan[] = [];
  for await (const plan of plans) all.push(plan);
  noteFailures(all, context);
  if (all.some(({ arrays }) => arrays.some(({ action }) => action === "refuse"))) context.note(EXIT.failed);
  if (flags.json === true) return context.json({ destination, format, entries: all });
  const header = ["source", "action", "shape", "chunks", "size", "destination"];
  const rows = all.flatMap(({ path, arrays, code, message }) =>
    code === undefined
      ? arrays.map(({ source, action, shape, chunks, nbytes, node }) => [
          printable(source),
          action,
          shapeText(shape ?? []),
          formatCount(chunks),
          formatSize(nbytes),
          printable(node),
        ])
      : [[printable(path), "refuse", "-", "-", "-", `${code}: ${printable(message ?? "")}`]],
  );
  for (const line of alignRows([header, ...rows], new Set([3, 4]), context.out.columns))
    await context.out.line(line);
  for (const { arrays, notes } of all) {
    for (const { source, reason } of arrays)
      if (reason !== undefined) await context.out.line(`${printable(source)}: ${printable(reason)}`);
    for (const note of notes) await context.out.line(printable(note));
  }
  if (all.length === 0) throw new SuperchunkError("NOT_FOUND", "there is no archive and no Zarr array");
}

async function printResult(result: BackTreeResult, context: Context): Promise<void> {
  const { arrays, nbytes, chunksCopied, chunksRecoded, seconds, notes, kept, failed, verified } = result;
  for (const note of notes) context.message(`note: ${note}`);
  tellFailures(
    result.entries.filter(({ status }) => status === "failed"),
    "not converted",
    context,
  );
  const words = [
    formatPlural(arrays, "array"),
    formatSize(nbytes),
    ...(chunksCopied + chunksRecoded === 0
      ? []
      : [`${formatPlural(chunksCopied, "chunk")} copied`, `${formatCount(chunksRecoded)} compressed anew`]),
    formatDuration(seconds),
    ...(verified ? ["verified"] : []),
    ...(kept > 0 ? [`${formatCount(kept)} kept of an earlier run`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} failed`] : []),
  ];
  await context.out.line(`converted ${words.join(", ")}`);
}
