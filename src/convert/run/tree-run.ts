/**
 * The state of the conversion of a folder of archives: what was converted, what failed, what is left to publish.
 */
import { open } from "../../archive/open/open.ts";
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { consolidate, encodeDocument, groupDocument } from "../../zarr/document/zarr-metadata.ts";
import { openZarr } from "../../zarr/read/open.ts";
import { planJobs } from "../plan/conversion-jobs.ts";
import type { ConvertOptions, ConvertResult } from "../plan/convert-options.ts";
import { fingerprintSource, recordOptions } from "../plan/fingerprint.ts";
import { planZarrJobs } from "../plan/zarr-jobs.ts";
import { assertConvertible, runJobs } from "./convert.ts";
import {
  type ConversionRecord,
  compareRecord,
  deleteTree,
  finishDestination,
  putRecord,
} from "./destination.ts";
import { failureOf } from "./failure.ts";
import { BatchPublisher, type Publisher, publishDirectly } from "./publisher.ts";
import type { TreeEntry, TreeResult } from "./tree-types.ts";
import { runZarrJobs, type ZarrConvertResult } from "./zarr-convert.ts";

/** Above this many nodes their documents are not repeated in the root's: it would no longer fit in memory. */
export const MOST_CONSOLIDATED = 5000;

/** What is converted, and to which path. */
export interface TreeSource {
  readonly key: string;
  readonly node: string;
  /** A Zarr array or group, all of which is converted; else an archive. */
  readonly isZarr: boolean;
  /** Set for what cannot be opened. */
  readonly error?: SuperchunkError;
}

/** One run of `convertTree`. */
export class TreeRun {
  readonly #store: ReadableStore;
  readonly #target: WritableStore;
  readonly #prefix: string;
  readonly #resumed: boolean;
  readonly #count: number;
  readonly #options: ConvertOptions;
  readonly #batch: BatchPublisher | undefined;
  readonly #publisher: Publisher;
  readonly #entries: TreeEntry[] = [];
  readonly #documents = new Map<string, JsonObject>();
  readonly #fractions = new Map<string, number>();
  #done = 0;
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
    this.#batch = target.sync === undefined ? undefined : new BatchPublisher(target);
    this.#publisher = this.#batch ?? publishDirectly(target);
  }

  async convert({ key, node, isZarr, error }: TreeSource, signal: AbortSignal): Promise<void> {
    const where = { path: this.#store.describe(key), node };
    try {
      if (error !== undefined) throw error;
      if (isZarr) {
        const { failures, ...result } = await this.#convertZarr(key, node, signal);
        this.#entries.push({ ...where, status: "converted", result });
        for (const failure of failures)
          this.#entries.push({ ...failure, node: joinKey(node, failure.node), status: "failed" });
      } else {
        const result = await this.#convertOne(key, node, signal);
        this.#entries.push({ ...where, status: "converted", result });
      }
    } catch (failure) {
      this.#options.signal?.throwIfAborted();
      this.#entries.push({ ...where, status: "failed", ...failureOf(failure, where.path) });
    }
    this.#done++;
    this.#fractions.delete(key);
    await this.#batch?.flushIfFull(signal);
    this.#progress(where.path);
  }

  async #convertOne(key: string, node: string, signal: AbortSignal): Promise<ConvertResult> {
    const prefix = joinKey(this.#prefix, node);
    const jobs = await planJobs(await open(this.#store, key, { signal }), { ...this.#options, signal });
    assertConvertible(jobs);
    const record = {
      source: await fingerprintSource(jobs, { signal }),
      options: recordOptions(this.#options),
    };
    const keep = await this.#takePlace(prefix, record, signal);
    const place = { target: this.#target, prefix, publisher: this.#publisher, keep };
    const onProgress = this.#progressOf(key);
    const result = await this.#orDelete(prefix, signal, () =>
      runJobs(jobs, place, { ...this.#options, signal, onProgress }),
    );
    this.#remember(node, [
      ...jobs.groups,
      ...jobs.arrays.map(({ node: path, document }) => [path, document] as const),
    ]);
    return result;
  }

  async #convertZarr(key: string, node: string, signal: AbortSignal): Promise<ZarrConvertResult> {
    const prefix = joinKey(this.#prefix, node);
    const skipping = { ...this.#options, signal, skipFailed: true };
    const jobs = await planZarrJobs(await openZarr(this.#store, key, { signal }), skipping);
    const record = { source: jobs.source, options: recordOptions(this.#options) };
    const keep = (await this.#takePlace(prefix, record, signal)) !== "nothing";
    const options = { ...skipping, onProgress: this.#progressOf(key) };
    const result = await this.#orDelete(prefix, signal, () =>
      runZarrJobs(jobs, this.#target, prefix, keep, options),
    );
    const failed = new Set(result.failures.map(({ node: path }) => path));
    this.#remember(
      node,
      jobs.nodes.flatMap(({ path, document }) => (failed.has(path) ? [] : [[path, document] as const])),
    );
    return result;
  }

  #progressOf(key: string): (progress: { done: number; total: number }) => void {
    return ({ done, total }) => {
      this.#fractions.set(key, total === 0 ? 0 : done / total);
      this.#progress(this.#store.describe(key));
    };
  }

  /** An abort leaves the shards for a later run; damage leaves nothing. */
  async #orDelete<T>(prefix: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!signal.aborted && isSuperchunkError(error)) {
        this.#batch?.forget(prefix);
        await deleteTree(this.#target, prefix, new Set());
      }
      throw error;
    }
  }

  /**
   * Leaves the archive's record, and tells what of an earlier run may be kept. Records stay until all is done: they
   * tell a finished archive from one whose source has changed since, which is converted anew.
   */
  async #takePlace(
    prefix: string,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<"nothing" | "arrays" | "shards"> {
    if (this.#resumed) {
      // Shards of a batch may be there without their bytes, after a power loss: only documents tell.
      if ((await compareRecord(this.#target, prefix, record, signal)) === "same")
        return this.#batch ? "arrays" : "shards";
      await deleteTree(this.#target, prefix, new Set(), signal);
    }
    await putRecord(this.#target, prefix, record, { durable: false, signal });
    return "nothing";
  }

  /** Keeps the documents for the root's, as long as they are few. */
  #remember(node: string, documents: readonly (readonly [path: string, document: JsonObject])[]): void {
    this.#nodes += documents.length;
    if (this.#nodes > MOST_CONSOLIDATED) {
      this.#documents.clear();
      return;
    }
    for (const [path, document] of documents) this.#documents.set(joinKey(node, path), document);
  }

  /** A group for each folder that an archive was converted in, the innermost first, the root last. */
  async publishGroups(): Promise<void> {
    await this.#batch?.finish(this.#options.signal);
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
    const root = groupDocument({});
    await this.#publish("", this.#nodes <= MOST_CONSOLIDATED ? consolidate(root, this.#documents) : root);
  }

  async #publish(node: string, document: JsonObject): Promise<void> {
    const key = joinKey(this.#prefix, node, "zarr.json");
    const { size } = await this.#target.put(key, encodeDocument(document), { signal: this.#options.signal });
    this.#groups++;
    this.#bytes += size;
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
    this.#options.onProgress?.({ done: this.#done + under, total: this.#count, label });
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
