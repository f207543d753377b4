/**
 * A whole folder of archives into one Zarr hierarchy: every archive at the path that it has in the folder.
 *
 * One damaged archive does not stop the others. Names stay as they are, extensions included, but for what Zarr
 * reserves (see `node-names.ts`). Knows how conversions are put side by side; must not know chunks.
 */
import { findArchives } from "../array/discover.ts";
import { open } from "../array/open.ts";
import type { Archive } from "../array/types.ts";
import { type ErrorCode, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { stringifyJson } from "../format/json.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { type ConversionJobs, describeJobs, planJobs } from "./conversion-jobs.ts";
import { assertConvertible, runJobs } from "./convert.ts";
import type { ConversionPlan, ConvertOptions, ConvertResult } from "./convert-options.ts";
import { assertApart, deleteTree, finishDestination, prepareDestination } from "./destination.ts";
import { fingerprintSource, recordOptions } from "./fingerprint.ts";
import { namePaths } from "./node-names.ts";
import { runPooled } from "./pool.ts";
import { consolidate, groupDocument } from "./zarr-metadata.ts";

/** Archives that are converted at a time: for small ones most of the time is waiting for the disk. */
const ARCHIVES_AT_ONCE = 4;
/** Above this many nodes their documents are not repeated in the root's: it would no longer fit in memory. */
const MOST_CONSOLIDATED = 5000;

/** What became of one archive. */
export interface TreeEntry {
  /** How messages name the archive. */
  readonly path: string;
  /** Its path in the destination, below the conversion's own. */
  readonly node: string;
  readonly status: "converted" | "failed";
  readonly code?: ErrorCode;
  readonly message?: string;
  readonly result?: ConvertResult;
}

/** What became of all of them: sums over those that were converted, and an entry for each. */
export interface TreeResult extends ConvertResult {
  readonly converted: number;
  readonly failed: number;
  /** In the order of their paths. */
  readonly entries: readonly TreeEntry[];
}

/** What would become of an archive: its plan, or why it has none. */
export interface TreePlanEntry {
  readonly path: string;
  readonly node: string;
  readonly plan?: ConversionPlan;
  readonly code?: ErrorCode;
  readonly message?: string;
}

/** True where `path` is an archive itself; false for a folder of archives. Needs a store that can list for folders. */
export async function isArchive(
  store: ReadableStore,
  path: string,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<boolean> {
  if (path !== "" && (await store.stat(path, options)) !== undefined) return true;
  for await (const found of findArchives(store, path, options)) return found.path === path;
  return false;
}

/** What {@link convertTree} would do, archive by archive, without writing. */
export async function* planTree(
  store: ReadableStore,
  path: string,
  options: ConvertOptions = {},
): AsyncGenerator<TreePlanEntry> {
  for (const [key, node] of await nameTree(store, path, options)) {
    const where = { path: store.describe(key), node };
    try {
      yield { ...where, plan: describeJobs(await planAt(store, key, options)) };
    } catch (error) {
      yield { ...where, ...failureOf(error) };
    }
  }
}

/**
 * Converts every archive below `path` of a store into one hierarchy at `prefix` of another. `onProgress` counts
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
  const nodes = await nameTree(store, path, options);
  if (nodes.size === 0)
    throw new SuperchunkError("NOT_FOUND", "there is no archive in the folder", {
      path: store.describe(path),
    });
  const record = {
    source: { location: store.describe(path), kind: "tree" },
    options: recordOptions(options),
  };
  const state = await prepareDestination(target, prefix, record, options);
  const run = new TreeRun(store, target, prefix, state === "unfinished", nodes.size, options);
  await runPooled(
    nodes,
    ARCHIVES_AT_ONCE,
    ([key, node], signal) => run.convert(key, node, signal),
    options.signal,
  );
  await run.publishGroups();
  await run.finish();
  const renamed = [...nodes]
    .map(([key, to]) => ({ from: key.slice(path === "" ? 0 : path.length + 1), to }))
    .filter(({ from, to }) => from !== to);
  return { ...run.sum((performance.now() - started) / 1000), renamed: [...renamed, ...run.renamed()] };
}

/** Node path of every archive, by its key, in the order of the keys. */
async function nameTree(
  store: ReadableStore,
  path: string,
  { signal }: ConvertOptions,
): Promise<Map<string, string>> {
  const keys: string[] = [];
  for await (const found of findArchives(store, path, { signal })) {
    if (found.path === path)
      throw new SuperchunkError("BAD_ARGUMENT", "this is an archive, not a folder of archives", {
        path: store.describe(path),
      });
    keys.push(found.path);
  }
  const below = (key: string): string => (path === "" ? key : key.slice(path.length + 1));
  const named = namePaths(keys.map(below));
  return new Map(keys.sort().map((key) => [key, named.get(below(key)) ?? below(key)]));
}

async function planAt(store: ReadableStore, key: string, options: ConvertOptions): Promise<ConversionJobs> {
  const archive: Archive = await open(store, key, { signal: options.signal });
  return planJobs(archive, options);
}

function failureOf(error: unknown): { code: ErrorCode; message: string } {
  if (!isSuperchunkError(error) || error.code === "NO_SPACE" || error.code === "READ_ONLY") throw error;
  return { code: error.code, message: error.message };
}

class TreeRun {
  readonly #store: ReadableStore;
  readonly #target: WritableStore;
  readonly #prefix: string;
  readonly #resumed: boolean;
  readonly #count: number;
  readonly #options: ConvertOptions;
  readonly #entries: TreeEntry[] = [];
  readonly #documents = new Map<string, JsonObject>();
  readonly #fractions = new Map<string, number>();
  #groups = 0;
  #bytes = 0;
  #nodes = 0;

  constructor(
    store: ReadableStore,
    target: WritableStore,
    prefix: string,
    resumed: boolean,
    count: number,
    options: ConvertOptions,
  ) {
    this.#store = store;
    this.#target = target;
    this.#prefix = prefix;
    this.#resumed = resumed;
    this.#count = count;
    this.#options = options;
  }

  async convert(key: string, node: string, signal: AbortSignal): Promise<void> {
    const where = { path: this.#store.describe(key), node };
    try {
      const result = await this.#convertOne(key, node, signal);
      this.#entries.push({ ...where, status: "converted", result });
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      this.#entries.push({ ...where, status: "failed", ...failureOf(error) });
    }
    this.#fractions.delete(key);
    this.#progress(where.path);
  }

  async #convertOne(key: string, node: string, signal: AbortSignal): Promise<ConvertResult> {
    const prefix = joinKey(this.#prefix, node);
    const jobs = await planAt(this.#store, key, { ...this.#options, signal });
    assertConvertible(jobs);
    const record = {
      source: await fingerprintSource(jobs, { signal }),
      options: recordOptions(this.#options),
    };
    // Kept until all is done: it tells a finished archive from one whose source has changed since.
    const state = await prepareDestination(this.#target, prefix, record, {
      resume: this.#resumed,
      durable: false,
      signal,
    });
    const onProgress = ({ done, total }: { done: number; total: number }): void => {
      this.#fractions.set(key, total === 0 ? 0 : done / total);
      this.#progress(this.#store.describe(key));
    };
    try {
      const result = await runJobs(jobs, this.#target, prefix, state === "unfinished", {
        ...this.#options,
        signal,
        onProgress,
      });
      this.#remember(node, jobs);
      return result;
    } catch (error) {
      // An abort leaves the shards for a later run; damage leaves nothing.
      if (!signal.aborted && isSuperchunkError(error)) await deleteTree(this.#target, prefix, new Set());
      throw error;
    }
  }

  /** Keeps the documents for the root's, as long as they are few. */
  #remember(node: string, jobs: ConversionJobs): void {
    this.#nodes += jobs.arrays.length + jobs.groups.size;
    if (this.#nodes > MOST_CONSOLIDATED) {
      this.#documents.clear();
      return;
    }
    for (const [path, document] of jobs.groups) this.#documents.set(joinKey(node, path), document);
    for (const { node: path, document } of jobs.arrays) this.#documents.set(joinKey(node, path), document);
  }

  /** A group for each folder that an archive was converted in, the innermost first, the root last. */
  async publishGroups(): Promise<void> {
    const folders = new Set<string>();
    for (const { node, status } of this.#entries) {
      if (status === "failed") continue;
      const parts = node.split("/");
      for (let depth = 1; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
    }
    const ordered = [...folders].sort((a, b) => b.length - a.length);
    for (const folder of ordered) {
      await this.#publish(folder, groupDocument({}));
      if (this.#nodes <= MOST_CONSOLIDATED) this.#documents.set(folder, groupDocument({}));
    }
    const below = new Map([...this.#documents].sort(([a], [b]) => (a < b ? -1 : 1)));
    await this.#publish(
      "",
      this.#nodes <= MOST_CONSOLIDATED ? consolidate(groupDocument({}), below) : groupDocument({}),
    );
  }

  async #publish(node: string, document: JsonObject): Promise<void> {
    const bytes = new TextEncoder().encode(stringifyJson(document, { indent: 2 }));
    await this.#target.put(joinKey(this.#prefix, node, "zarr.json"), bytes, { signal: this.#options.signal });
    this.#groups++;
    this.#bytes += bytes.length;
  }

  /** Removes the records, the root's last. */
  async finish(): Promise<void> {
    for (const { node, status } of this.#entries) {
      if (status === "converted") await finishDestination(this.#target, joinKey(this.#prefix, node));
    }
    await finishDestination(this.#target, this.#prefix);
  }

  #progress(label: string): void {
    const under = [...this.#fractions.values()].reduce((total, fraction) => total + fraction, 0);
    this.#options.onProgress?.({ done: this.#entries.length + under, total: this.#count, label });
  }

  renamed(): ConvertResult["renamed"] {
    return this.#results().flatMap(({ node, result }) =>
      result.renamed.map(({ from, to }) => ({ from, to: joinKey(node, to) })),
    );
  }

  #results(): { node: string; path: string; result: ConvertResult }[] {
    return this.#entries.flatMap(({ node, path, result }) =>
      result === undefined ? [] : [{ node, path, result }],
    );
  }

  sum(seconds: number): TreeResult {
    const results = this.#results();
    const total = (
      member:
        | "arrays"
        | "groups"
        | "chunksCopied"
        | "chunksPadded"
        | "chunksRecoded"
        | "shards"
        | "shardsKept"
        | "bytesWritten"
        | "nbytes",
    ): number => results.reduce((sum, { result }) => sum + result[member], 0);
    const notes =
      this.#nodes > MOST_CONSOLIDATED
        ? [`metadata is not consolidated: ${this.#nodes} nodes are more than ${MOST_CONSOLIDATED}`]
        : [];
    return {
      arrays: total("arrays"),
      groups: total("groups") + this.#groups,
      chunksCopied: total("chunksCopied"),
      chunksPadded: total("chunksPadded"),
      chunksRecoded: total("chunksRecoded"),
      shards: total("shards"),
      shardsKept: total("shardsKept"),
      bytesWritten: total("bytesWritten") + this.#bytes,
      nbytes: total("nbytes"),
      seconds,
      verified: this.#options.verify === true,
      notes: [
        ...results.flatMap(({ path, result }) => result.notes.map((note) => `${path}: ${note}`)),
        ...notes,
      ],
      renamed: [],
      converted: results.length,
      failed: this.#entries.length - results.length,
      entries: [...this.#entries].sort((a, b) => (a.path < b.path ? -1 : 1)),
    };
  }
}
