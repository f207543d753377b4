/** Runs `convert`: finds what is typed, hands it to the library with the options, and prints what became of it. */

import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import {
  type Archive,
  findArchives,
  isSuperchunkError,
  type OpenOptions,
  openArchive as open,
  type ReadableStore,
  SuperchunkError,
} from "../../src/index.ts";
import { decoderOf, type Location, locate, locateTarget } from "../../src/node/index.ts";
import { locateFileTarget } from "../../src/node/locate.ts";
import { type Mount, MountedStore } from "../../src/store/mounted.ts";
import {
  assertApart,
  type ConvertResult,
  type ConvertSource,
  convert,
  isArchive,
  planConversion,
} from "../../src/zarr.ts";
import type { ConvertFlags } from "../commands/convert.ts";
import type { Context } from "../context.ts";
import { type Found, findAt } from "../input/opening.ts";
import { damageOf, printPlans, printResult, toOptions, writeReport } from "../output/convert-report.ts";
import { noteFailures } from "../output/failed-archives.ts";
import { startProgress } from "../output/progress.ts";

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

/** Options of `convert` that only Zarr v3 has a use for. */
const ZARR_ONLY = {
  shardSize: "--shard-size",
  chunksPerShard: "--chunks-per-shard",
  grid: "--grid",
  portable: "--portable",
  dimensionNames: "--dimension-names",
  concat: "--concat",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

/** Options of `convert` that hierarchies of the older transformer have no use for. */
const NOT_TRANSFORMER = {
  shardSize: "--shard-size",
  grid: "--grid",
  portable: "--portable",
  dtype: "--dtype",
  shape: "--shape",
  dimensionNames: "--dimension-names",
  concat: "--concat",
  dryRun: "--dry-run",
  resume: "--resume",
  overwrite: "--overwrite",
  report: "--report",
} as const satisfies Partial<Record<keyof ConvertFlags, string>>;

/** Converts one source, or several and whole trees, as typed. */
export async function convertTo(
  paths: readonly string[],
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  refuseFlags(paths, flags);
  for (const path of paths) await refuseOverlap(path, destination);
  const found = await openSources(paths, flags, context);
  try {
    if (flags.dryRun === true) await plan(found, destination, flags, context);
    else await run(found, destination, flags, context);
  } finally {
    await found.close();
  }
}

/** Refuses what the format has no use for. Throws `BAD_ARGUMENT`. */
function refuseFlags(paths: readonly string[], flags: ConvertFlags): void {
  const { to } = flags;
  if (to === "zarr") return;
  if (to === "zarr3-transformer") {
    if (paths.length > 1)
      throw new SuperchunkError("BAD_ARGUMENT", "--to zarr3-transformer takes one archive at a time", {
        field: "src",
      });
    refuseAll(flags, NOT_TRANSFORMER, (option) => `${option} is not for --to zarr3-transformer`);
    return;
  }
  refuseAll(flags, ZARR_ONLY, (option) => `${option} is for --to zarr, not for --to ${to}`);
}

function refuseAll(
  flags: ConvertFlags,
  options: Partial<Record<keyof ConvertFlags, string>>,
  message: (option: string) => string,
): void {
  for (const [name, option] of Object.entries(options)) {
    if (flags[name as keyof ConvertFlags] !== undefined)
      throw new SuperchunkError("BAD_ARGUMENT", message(option), { field: option });
  }
}

/** What is converted, and what releases it. */
interface FoundSources {
  readonly source: ConvertSource;
  /** How results name it. */
  readonly name: string;
  /** True for folders in which several may be found. */
  readonly isTree: boolean;
  close(): Promise<void>;
}

/** One archive or node as it is; folders and several sources as all that lies in them; with `--concat`, all as one. */
async function openSources(
  paths: readonly string[],
  flags: ConvertFlags,
  { signal }: Context,
): Promise<FoundSources> {
  const name = paths.join(", ");
  if (flags.concat === true) {
    const { archives, store } = await openInOrder(paths, { signal, ...flags.reading });
    return { source: archives, name, isTree: false, close: () => store.close() };
  }
  const [only] = paths;
  const found = paths.length > 1 || only === undefined ? undefined : await findOne(only, flags, signal);
  if (found !== undefined) {
    const { archive, node } = found;
    if (node !== undefined && flags.to === "zarr")
      refuseAll(
        flags,
        LAYOUT,
        (option) => `${option} is for archives; chunks of Zarr stay as they are when they become Zarr v3`,
      );
    if (archive !== undefined) return { source: archive, name, isTree: false, close: () => archive.close() };
    return { source: node, name, isTree: false, close: async () => node.store.close?.() };
  }
  const { store, path } = await locateAll(paths);
  const isHierarchy = flags.to === "zarr";
  return {
    source: { store, path },
    name: isHierarchy ? store.describe(path) : name,
    isTree: true,
    close: async () => store.close?.(),
  };
}

/** Undefined for a folder in which archives may lie. */
async function findOne(
  path: string,
  { to, reading }: ConvertFlags,
  signal: AbortSignal,
): Promise<Found | undefined> {
  try {
    return await findAt(path, { signal, ...reading, ...(to === "zarr" ? {} : { decoder: decoderOf({}) }) });
  } catch (error) {
    if (to === "zarr3-transformer" || !isSuperchunkError(error, "UNSUPPORTED") || /^https?:/i.test(path))
      throw error;
    if (to !== "zarr") return undefined;
    const { store, path: key } = await locate(path);
    try {
      if (await isArchive(store, key)) throw error;
      return undefined;
    } finally {
      await store.close?.();
    }
  }
}

/** One folder as it is; several sources as the entries of one folder, under their own names. */
async function locateAll(paths: readonly string[]): Promise<Location> {
  const [only] = paths;
  if (paths.length === 1 && only !== undefined) return locate(only);
  const mounts = new Map<string, Mount>();
  for (const path of paths) {
    const name = nameOf(path);
    if (mounts.has(name)) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `two sources have the name "${name}", under which each would be in the result; convert them one by one`,
        { path, field: "src" },
      );
    }
    mounts.set(name, await locate(path));
  }
  return { store: new MountedStore(mounts), path: "" };
}

function nameOf(path: string): string {
  if (!/^(?:https?|s3):\/\//i.test(path)) return basename(resolve(path));
  return decodeURIComponent(new URL(path).pathname.split("/").findLast((part) => part !== "") ?? "archive");
}

/** Opens the archives as they are typed, and those of a folder in the order of their names, all in one store. */
async function openInOrder(
  paths: readonly string[],
  { signal, ...reading }: OpenOptions,
): Promise<{
  readonly archives: readonly Archive[];
  readonly store: ReadableStore & { close(): Promise<void> };
}> {
  const mounts = new Map<string, Mount>();
  // Names may be the same: archives of one name for each year, in a folder each.
  for (const [i, path] of paths.entries()) mounts.set(`${i}`, await locate(path));
  const store = new MountedStore(mounts);
  try {
    const archives: Archive[] = [];
    for (const name of mounts.keys()) {
      const keys: string[] = [];
      if (await isArchive(store, name, { signal })) keys.push(name);
      else
        for await (const { path, error } of findArchives(store, name, { signal })) {
          if (error !== undefined) throw error;
          keys.push(path);
        }
      if (keys.length === 0)
        throw new SuperchunkError("NOT_FOUND", "there is no archive in the folder", {
          path: store.describe(name),
        });
      for (const key of keys.sort())
        archives.push(await open(store, key, { signal, ...reading, decoder: decoderOf() }));
    }
    return { archives, store };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function plan(
  { source, isTree }: FoundSources,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const path = flags.to === "zarr" ? "" : locateFileTarget(destination).path;
  const entries = planConversion(source, { path }, toOptions(flags, context));
  await printPlans(entries, { destination, isTree, flags }, context);
}

async function run(
  { source, name, isTree }: FoundSources,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const { report, to, json } = flags;
  const isFolder = to === "zarr" || to === "zarr3-transformer";
  const target = isFolder ? locateTarget(destination) : locateFileTarget(destination);
  const bar = startProgress(context.io, "convert", isTree ? { unit: "archives" } : {});
  try {
    const options = { ...toOptions(flags, context), skipFailed: true, onProgress: bar.onProgress };
    const done = await convert(source, target, options);
    bar.finish();
    const result = to === "zarr" && !isTree ? named(done, name) : done;
    if (report !== undefined) await writeReport(report, result.entries);
    noteFailures(result.entries, context);
    if (json === true) {
      const { chunksCopied: copied, chunksPadded: padded } = result;
      const counts = to === "zarr3-transformer" ? { copied, padded } : {};
      await context.json({ source: name, destination, format: to, ...result, ...counts, ...damageOf(flags) });
    } else await printResult(result, { to, isTree }, context);
  } catch (error) {
    if (report !== undefined && !isTree && isSuperchunkError(error)) {
      const { code, message } = error;
      await writeReport(report, [{ path: name, node: "", status: "failed", code, message }]);
    }
    throw error;
  } finally {
    bar.finish();
    await target.store.close?.();
  }
}

/** The only source is named as it was typed. */
function named(result: ConvertResult, name: string): ConvertResult {
  const [first, ...others] = result.entries;
  return first === undefined ? result : { ...result, entries: [{ ...first, path: name }, ...others] };
}

/** Throws `CONFLICT` where the destination is the source, lies in it, or contains it. */
async function refuseOverlap(source: string, destination: string): Promise<void> {
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
