/** Runs `virtualize`: from flags to plans, from results to lines and JSON. */

import { failureOf } from "../../src/convert/failure.ts";
import { type Archive, SuperchunkError } from "../../src/index.ts";
import { encoderOf, locateTarget, openContainer, writeIcechunk } from "../../src/node/index.ts";
import {
  type FailedArchive,
  joinPlans,
  type KerchunkOptions,
  type PlanOptions,
  planLinkedReferences,
  planReferences,
  type ReferencePlan,
  type ReferenceResult,
  type StreamSettings,
  type ViewEntry,
  writeKerchunk,
} from "../../src/zarr.ts";
import type { VirtualizeFlags } from "../commands/virtualize.ts";
import type { Context } from "../context.ts";
import { commonContainer, containerAt, readContainers } from "../input/reference-containers.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { writeReport } from "../output/convert-report.ts";
import { noteFailures, tellFailures } from "../output/failed-archives.ts";
import { openingLines, zarrShapeOf } from "../output/opening-lines.ts";
import { printable } from "../values/cell-text.ts";
import { locateEntries } from "./served-entries.ts";

/** Writes references to the archives of the typed paths. */
export async function virtualizeTo(
  sources: readonly string[],
  destination: string,
  flags: VirtualizeFlags,
  context: Context,
): Promise<void> {
  checkFlags(flags);
  const { entries, close } = await locateEntries(sources, context.signal);
  const opened: Archive[] = [];
  const failures: FailedArchive[] = [];
  let status: "referenced" | "left out" = "left out";
  const onFailure = (failure: FailedArchive): void => {
    failures.push(failure);
  };
  try {
    const containers = flags.containers === undefined ? undefined : await readContainers(flags.containers);
    // One archive alone, and several as one array, succeed or fail as a whole.
    const settings = entries.length > 1 && flags.concat !== true ? { onFailure } : {};
    const nodes: string[] = [];
    const plans = noteNodes(planAll(entries, flags, opened, settings, context), nodes);
    const own = [...(containers ?? [])];
    const result =
      flags.to === "icechunk"
        ? await writeIcechunk(plans, destination, {
            ...settings,
            containers: own.length > 0 ? own : [commonContainer(entries, sources)],
            update: flags.update,
            renew: flags.overwrite,
            message: flags.message,
          })
        : await writeSet(plans, destination, flags, {
            ...settings,
            containers: own.length > 0 ? own : undefined,
            containerFor: (folder) => containerAt(folder, sources),
            signal: context.signal,
          });
    status = "referenced";
    const isTree = zarrShapeOf(nodes) === "tree";
    await report(result, failures, destination, { ...flags, isTree }, context);
  } catch (error) {
    tellFailures(failures, "not referenced", context);
    throw error;
  } finally {
    if (flags.report !== undefined) await writeReport(flags.report, entriesOf(entries, status, failures));
    for (const archive of opened) if (isRemote(archive)) await archive.close();
    await close();
  }
}

/** Plans as they come, with the paths of their arrays. */
async function* noteNodes(
  plans: AsyncIterable<ReferencePlan>,
  nodes: string[],
): AsyncGenerator<ReferencePlan> {
  for await (const plan of plans) {
    for (const { node } of plan.arrays) nodes.push(node);
    yield plan;
  }
}

function checkFlags(flags: VirtualizeFlags): void {
  const refuse = (field: string, reason: string): SuperchunkError =>
    new SuperchunkError("BAD_ARGUMENT", `--${field} ${reason}`, { field });
  if (flags.to !== "kerchunk" && flags.zarrFormat !== undefined)
    throw refuse("zarr-format", "is for kerchunk JSON: Icechunk has Zarr v3, kerchunk's Parquet Zarr v2");
  if (flags.grid === "rectilinear" && (flags.to === "kerchunk-parquet" || flags.zarrFormat === "2"))
    throw refuse("grid", "rectilinear needs Zarr v3: write Icechunk, or kerchunk JSON of Zarr v3");
  if (flags.shards === true) {
    if (flags.to === "kerchunk-parquet" || flags.zarrFormat === "2")
      throw refuse("shards", "needs Zarr v3: write Icechunk, or kerchunk JSON of Zarr v3");
    for (const [name, other] of [
      ["--portable", flags.portable],
      ["--column", flags.column],
      ["--inline", flags.inline],
      ["--grid rectilinear", flags.grid === "rectilinear" ? true : undefined],
    ] as const)
      if (other !== undefined) throw refuse("shards", `refers to files as they were linked, without ${name}`);
  }
  if (flags.update === true && flags.to !== "icechunk")
    throw refuse(
      "update",
      "is for Icechunk, which keeps commits; write a kerchunk set anew with --overwrite",
    );
  if (flags.overwrite === true && flags.to === "icechunk" && flags.update !== true)
    throw refuse(
      "overwrite",
      "is for kerchunk; an Icechunk repository is added to with --update, and with both all is referenced anew",
    );
}

async function* planAll(
  entries: readonly ViewEntry[],
  flags: VirtualizeFlags,
  opened: Archive[],
  { onFailure }: StreamSettings,
  context: Context,
): AsyncGenerator<ReferencePlan> {
  const options: PlanOptions = {
    rectilinear: flags.grid === "rectilinear",
    inline: flags.inline,
    guard: flags.guard,
    portable: flags.portable,
    dimensionNames: flags.dimensionNames,
    columns: flags.column,
    isMember: entries.length > 1 && flags.concat !== true,
    encoder: encoderOf(),
    signal: context.signal,
  };
  const [only] = entries;
  const joined: ReferencePlan[] = [];
  const planOne = async (entry: ViewEntry): Promise<ReferencePlan> => {
    const archive = await entry.open({ signal: context.signal });
    opened.push(archive);
    const alone = entries.length === 1 || flags.concat === true;
    const node = alone ? nodeOf(archive, (only ?? entry).node) : entry.node;
    return flags.shards === true
      ? planLinkedReferences(archive, { ...options, node })
      : planReferences(archive, { ...options, node });
  };
  for (const entry of entries) {
    let plan: ReferencePlan;
    try {
      plan = await planOne(entry);
    } catch (error) {
      context.signal.throwIfAborted();
      if (onFailure === undefined) throw error;
      onFailure({ path: entry.source, node: entry.node, ...failureOf(error, entry.source) });
      continue;
    }
    if (flags.concat === true) joined.push(plan);
    else yield plan;
  }
  if (flags.concat === true) yield joinPlans(joined, options);
}

/** What `--report` tells of each archive. */
function entriesOf(
  entries: readonly ViewEntry[],
  status: "referenced" | "left out",
  failures: readonly FailedArchive[],
): readonly unknown[] {
  const failed = new Set(failures.map(({ path }) => path));
  return [
    ...entries
      .filter(({ source }) => !failed.has(source))
      .map(({ source, node }) => ({ path: source, node, status })),
    ...failures.map((failure) => ({ ...failure, status: "failed" })),
  ];
}

/** A table alone is the root, as xarray wants it; an array alone has its name, since xarray opens no bare array. */
function nodeOf(archive: Archive, name: string): string {
  return archive.kind === "table" ? "" : (name.split("/").at(-1) ?? name).replace(/\.[^.]+$/, "");
}

async function writeSet(
  plans: AsyncIterable<ReferencePlan>,
  destination: string,
  flags: VirtualizeFlags,
  settings: Pick<KerchunkOptions, "containers" | "containerFor" | "onFailure" | "signal">,
): Promise<ReferenceResult> {
  const { store, path: name } = locateTarget(destination.replace(/\/+(?=\?|$)/, ""), "file");
  try {
    return await writeKerchunk(plans, store, name, {
      form: flags.to === "kerchunk" ? "json" : "parquet",
      format: flags.zarrFormat === undefined ? undefined : flags.zarrFormat === "2" ? 2 : 3,
      openContainer,
      overwrite: flags.overwrite,
      ...settings,
    });
  } finally {
    await store.close?.();
  }
}

function isRemote({ store, path }: Archive): boolean {
  return /^[a-z0-9+.-]+:\/\//i.test(store.describe(path));
}

async function report(
  result: ReferenceResult & { readonly snapshot?: string; readonly kept?: number },
  failures: readonly FailedArchive[],
  destination: string,
  flags: VirtualizeFlags & { readonly isTree: boolean },
  context: Context,
): Promise<void> {
  const lines = openingLines(destination, flags, result.containers);
  noteFailures(failures, context);
  if (flags.json === true)
    return context.json({ destination, form: flags.to, ...result, failures, open: lines });
  tellFailures(failures, "not referenced", context);
  for (const note of result.notes) context.message(`note: ${note}`);
  if (!flags.guard)
    context.message("note: without guards nobody notices when an archive changes, and reads wrong values");
  const stored = result.padded + result.recoded + result.inlined;
  const kept = result.kept === undefined || result.kept === 0 ? "" : `, ${formatCount(result.kept)} kept`;
  const failed = failures.length > 0 ? `, ${formatPlural(failures.length, "archive")} failed` : "";
  await context.out.line(
    `${formatPlural(result.arrays, "array")}${failed}: ${formatPlural(result.virtual, "reference")}${kept}, ` +
      `${formatPlural(stored, "chunk")} stored beside them, ${formatCount(result.sampled)} read back and compared`,
  );
  if (result.snapshot !== undefined) await context.out.line(`commit ${result.snapshot}`);
  for (const [language, text] of Object.entries(lines))
    await context.out.line(`\n${language}:\n${text.replace(/^/gm, "  ")}`);
  for (const { name, prefix } of result.containers)
    await context.out.line(`\ncontainer ${name}: ${printable(prefix)}`);
}
