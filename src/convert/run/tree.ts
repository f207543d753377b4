/**
 * A whole folder of archives into one Zarr hierarchy: every archive at the path that it has in the folder.
 *
 * One damaged archive does not stop the others. Names stay as they are, extensions included, but for what Zarr
 * reserves (see `node-names.ts`). Knows how conversions are put side by side; must not know chunks.
 */
import { type FoundArchive, findArchives } from "../../archive/open/discover.ts";
import { open } from "../../archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { isZarrFolder } from "../../open/find-readables.ts";
import { joinKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { namePaths } from "../../zarr/document/node-names.ts";
import { openZarr } from "../../zarr/read/open.ts";
import { describeJobs, planJobs } from "../plan/conversion-jobs.ts";
import type { ConvertOptions } from "../plan/convert-options.ts";
import { recordOptions } from "../plan/fingerprint.ts";
import { planZarrNodes, type ZarrPlan } from "../plan/zarr-jobs.ts";
import { assertApart, checkDestination, prepareDestination } from "./destination.ts";
import { failureOf } from "./failure.ts";
import { TreeRun, type TreeSource } from "./tree-run.ts";
import type { TreePlanEntry, TreeResult } from "./tree-types.ts";

/** Archives that are converted at a time: for small ones most of the time is waiting for the disk. */
const ARCHIVES_AT_ONCE = 4;

/** True where `path` is an archive itself; false for a folder of archives. Needs a store that can list for folders. */
export async function isArchive(
  store: ReadableStore,
  path: string,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<boolean> {
  if (path !== "" && (await store.stat(path, options)) !== undefined) return true;
  try {
    for await (const found of findArchives(store, path, options)) return found.path === path;
  } catch (error) {
    // Stores that cannot list, as HTTP's, hold no folders of archives that could be found.
    if (isSuperchunkError(error, "UNSUPPORTED")) return true;
    throw error;
  }
  return false;
}

/** What {@link convertTree} would do, archive by archive, without writing. */
export async function* planTree(
  store: ReadableStore,
  path: string,
  options: ConvertOptions = {},
): AsyncGenerator<TreePlanEntry> {
  for (const { key, node, isZarr, error } of await nameTree(store, path, options)) {
    const where = { path: store.describe(key), node };
    try {
      if (error !== undefined) throw error;
      if (isZarr) {
        const root = await openZarr(store, key, { signal: options.signal });
        yield* splitPlan(await planZarrNodes(root, options), where);
      } else
        yield {
          ...where,
          plan: describeJobs(await planJobs(await open(store, key, { signal: options.signal }), options)),
        };
    } catch (error) {
      yield { ...where, ...failureOf(error, where.path) };
    }
  }
}

/**
 * Converts every archive and Zarr node below `path` of a store into one hierarchy at `prefix` of another. `onProgress` counts
 * archives, with fractions for those under way. Damaged and refused archives become failed entries, and nothing
 * of them is left at the destination; a full or read-only destination and an abort end all. Throws `NOT_FOUND`
 * where there is no archive, `CONFLICT` as `convertArchive` does.
 */
export async function convertTree(
  store: ReadableStore,
  path: string,
  target: WritableStore,
  prefix: string,
  options: ConvertOptions = {},
): Promise<TreeResult> {
  const started = performance.now();
  if (store === target) assertApart(path, prefix);
  // A source of a million archives takes minutes to walk.
  await checkDestination(target, prefix, options);
  const nodes = await nameTree(store, path, options);
  if (nodes.length === 0)
    throw new SuperchunkError("NOT_FOUND", "there is no archive in the folder", {
      path: store.describe(path),
    });
  const record = {
    source: { location: store.describe(path), kind: "tree" },
    options: recordOptions(options),
  };
  const state = await prepareDestination(target, prefix, record, options);
  const run = new TreeRun(store, target, prefix, state === "unfinished", nodes.length, options);
  await runPooled(nodes, ARCHIVES_AT_ONCE, (found, signal) => run.convert(found, signal), options.signal);
  await run.publishGroups();
  await run.finish();
  const renamed = nodes
    .map(({ key, node: to }) => ({ from: key.slice(path === "" ? 0 : path.length + 1), to }))
    .filter(({ from, to }) => from !== to);
  return { ...run.sum((performance.now() - started) / 1000), renamed: [...renamed, ...run.renamed()] };
}

/** A Zarr node as one entry, and those of its arrays that are left out as entries of their own. */
function* splitPlan(
  { plan, failed }: ZarrPlan,
  where: { readonly path: string; readonly node: string },
): Generator<TreePlanEntry> {
  const arrays = plan.arrays.filter(({ action }) => action !== "refuse");
  if (arrays.length === 0 || failed.length === 0) {
    yield { ...where, plan };
    return;
  }
  yield { ...where, plan: { ...plan, arrays } };
  for (const { path, source, error } of failed)
    yield { path: source, node: joinKey(where.node, path), ...failureOf(error, source) };
}

/** Every archive and every outermost Zarr node with its path in the result, in the order of the keys. */
async function nameTree(
  store: ReadableStore,
  path: string,
  { signal }: ConvertOptions,
): Promise<TreeSource[]> {
  const found = new Map<string, FoundArchive>();
  for await (const each of findArchives(store, path, { signal, isOther: isZarrFolder })) {
    if (each.path === path)
      throw new SuperchunkError("BAD_ARGUMENT", "this is an archive, not a folder of archives", {
        path: store.describe(path),
      });
    found.set(each.path, each);
  }
  const below = (key: string): string => (path === "" ? key : key.slice(path.length + 1));
  const named = namePaths([...found.keys()].map(below));
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, { kind, error }]) => ({
      key,
      node: named.get(below(key)) ?? below(key),
      isZarr: kind === "other",
      ...(error === undefined ? {} : { error }),
    }));
}
