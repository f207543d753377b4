import { at } from "../../bytes/at.ts";
import { textDigest } from "../../bytes/checksum.ts";
import { isSuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { mapAhead, runPooled } from "../../store/pool.ts";
import type { WritableStore } from "../../store/types.ts";
import { consolidate, encodeDocument, groupDocument } from "../../zarr/document/metadata-v3.ts";
import type { Renaming } from "../../zarr/document/node-names.ts";
import { failureOf } from "../failure.ts";
import type {
  ConvertEntry,
  ConvertOptions,
  ConvertResult,
  Destination,
  NodeFailure,
  Place,
  SourceItem,
  SourceResult,
  SourceRun,
  Target,
} from "../pipeline.ts";
import { BatchPublisher, hiddenKey, publishDirectly } from "./conversion-store.ts";
import {
  type ConversionIdentity,
  ConversionRecord,
  conflict,
  deleteTree,
  emptyDestination,
  recordKey,
} from "./destination.ts";
import {
  deleteAt,
  type Kept,
  type RunContext,
  restreamedIn,
  runSource,
  type SourceOutcome,
} from "./run-source.ts";

/** Sources of a hierarchy that are converted at a time: for small ones most of the time is waiting for the disk. */
const SOURCES_AT_ONCE = 4;
/** Sources that are opened ahead: a process may have no more than some hundred files open. */
const OPENED_AHEAD = 32;
/** Places are recorded as ours in steps of so many parts of those before. */
const STEPS = 20;
/** Above this many nodes their documents are not repeated in the root's: it would no longer fit in memory. */
export const MOST_CONSOLIDATED = 5000;

/** The sources of a conversion. */
export interface Sources {
  readonly items: readonly SourceItem[];
  /** What makes the conversion the same one. */
  readonly names: readonly string[];
  /** True where several may be found, each of which may fail without the others. */
  readonly isTree: boolean;
}

/** Where one of so many sources goes. */
export function placeAt(
  { path = "", node: inHierarchy = "", isInGroup = false }: Omit<Destination, "store">,
  node: string,
  sources: number,
): Place {
  const isMember = isInGroup || sources > 1;
  return { destination: path, node, key: joinKey(path, node), inHierarchy, isMember };
}

/** A source that is planned, and what changes when the source does. */
export interface PlannedSource {
  readonly run: SourceRun;
  readonly fingerprint: string;
}

/** Opens and plans a source. Throws a refusal, and what opening and planning throw. */
export async function planItem(
  item: SourceItem,
  place: Place,
  target: Target,
  options: ConvertOptions,
): Promise<PlannedSource> {
  const run = await target.plan(await item.open(options.signal), place, options);
  if (run.refusal !== undefined) throw run.refusal;
  const facts = await (target.isHierarchy ? run.fingerprint() : (item.fingerprint?.() ?? run.fingerprint()));
  return { run, fingerprint: await digestOf(facts) };
}

/** A source that is planned, or why it is not. */
interface Prepared {
  readonly index: number;
  readonly item: SourceItem;
  readonly planned?: PlannedSource;
  readonly error?: unknown;
}

/** One run of `convert`. */
export class Conversion {
  readonly #target: Target;
  readonly #store: WritableStore;
  readonly #path: string;
  readonly #destination: Destination;
  readonly #sources: Sources;
  readonly #options: ConvertOptions;
  readonly #context: RunContext;
  readonly #batch: BatchPublisher | undefined;
  /** In the order in which they end, each with the number of its source. */
  readonly #entries: (readonly [index: number, entry: ConvertEntry])[] = [];
  readonly #failures: NodeFailure[] = [];
  readonly #lost: string[] = [];
  readonly #renamed: Renaming[] = [];
  readonly #documents = new Map<string, JsonObject>();
  readonly #fractions = new Map<number, number>();
  #items: readonly SourceItem[] = [];
  #authorised = 0;
  #done = 0;
  #folders = 0;
  #bytes = 0;
  #nodes = 0;

  constructor(target: Target, destination: Destination, sources: Sources, options: ConvertOptions) {
    const { store, path = "" } = destination;
    this.#target = target;
    this.#store = store;
    this.#path = path;
    this.#destination = destination;
    this.#sources = sources;
    this.#options = sources.isTree ? { ...options, skipFailed: true } : options;
    const isBatch = sources.isTree && target.isHierarchy && store.sync !== undefined;
    this.#batch = isBatch ? new BatchPublisher(store) : undefined;
    this.#context = {
      target,
      store,
      options: this.#options,
      publisher: this.#batch ?? publishDirectly(store),
    };
  }

  async convert(isTaken: boolean): Promise<void> {
    const { isTree, names, items } = this.#sources;
    this.#items = items;
    const [item] = items;
    // What cannot be planned must not cost what lies at the destination.
    const only = isTree || item === undefined ? undefined : await this.#plan(0, item);
    const identity = {
      sources: names,
      options: { ...this.#target.settings(this.#options), ...damagedSetting(this.#options) },
    };
    const record = await this.#takeDestination(isTaken, identity, only);
    const prepared =
      only === undefined
        ? mapAhead(items.entries(), OPENED_AHEAD, ([index, each]) => this.#prepare(index, each))
        : [only];
    try {
      await runPooled(
        prepared,
        this.#target.isHierarchy ? (this.#options.jobs ?? SOURCES_AT_ONCE) : 1,
        (each, signal) => this.#convertOne(each, record, signal),
        this.#options.signal,
      );
    } catch (error) {
      const isOver = !this.#target.isHierarchy && !isTree && isSkippable(error, this.#options.signal);
      // What was done is recorded for the run that goes on. The first error is the one that counts.
      if (!this.#target.isHierarchy) await (isOver ? record.end() : record.write()).catch(() => undefined);
      throw error;
    }
    await this.#batch?.finish(this.#options.signal);
    if (isTree && this.#target.isHierarchy) await this.#publishFolders();
    await record.end();
  }

  /** Makes the destination ready, and leaves the record there. Throws `CONFLICT`. */
  async #takeDestination(
    isTaken: boolean,
    identity: ConversionIdentity,
    only: Prepared | undefined,
  ): Promise<ConversionRecord> {
    const { isHierarchy } = this.#target;
    const { resume = false, overwrite = false, signal } = this.#options;
    const [store, path] = [this.#store, this.#path];
    const key = recordKey(path, isHierarchy);
    if (!isHierarchy && !resume && !overwrite && (await store.stat(key, { signal })) !== undefined)
      throw conflict(
        store.describe(path),
        "an unfinished conversion lies there; resume (--resume) goes on with it, overwrite (--overwrite) replaces it",
      );
    const record = await ConversionRecord.open(store, key, identity, { resume, destination: path });
    if (isHierarchy) {
      if (isTaken && resume && !record.isResumed)
        throw conflict(
          store.describe(path),
          "no unfinished conversion lies there that --resume could go on with; the destination was finished, or made by something else",
        );
      const fingerprint = only?.planned?.fingerprint;
      if (fingerprint !== undefined) record.beginOnly(fingerprint, store.describe(path));
      if (isTaken && !resume) await emptyDestination(store, path, signal);
      await record.write({ signal });
    }
    return record;
  }

  async #plan(index: number, item: SourceItem): Promise<Prepared> {
    const place = placeAt(this.#destination, item.node, this.#sources.items.length);
    return { index, item, planned: await planItem(item, place, this.#target, this.#options) };
  }

  async #prepare(index: number, item: SourceItem): Promise<Prepared> {
    try {
      return await this.#plan(index, item);
    } catch (error) {
      return { index, item, error };
    }
  }

  async #convertOne(prepared: Prepared, record: ConversionRecord, signal: AbortSignal): Promise<void> {
    const { index, item, planned, error } = prepared;
    const { path, node, notes, renamedFrom } = item;
    this.#lost.push(...notes);
    if (renamedFrom !== undefined) this.#renamed.push({ from: renamedFrom, to: node });
    try {
      if (!this.#target.isHierarchy) await this.#authorise(index, record);
      if (planned === undefined) throw error;
      const { run, fingerprint } = planned;
      if (record.isDone(node, fingerprint, path)) this.#entries.push([index, { path, node, status: "kept" }]);
      else {
        const { result, failed } = this.#target.isHierarchy
          ? await this.#convertInHierarchy(prepared, run, record, signal)
          : await this.#convertBeside(prepared, run, record, signal);
        if (!this.#target.isHierarchy) record.finish(node, fingerprint);
        this.#entries.push([index, { path, node, status: "converted", result }]);
        for (const each of failed) {
          const failure = { path: each.source, node: each.path, ...failureOf(each.error, each.source) };
          this.#failures.push(failure);
          this.#entries.push([index, { ...failure, node: joinKey(node, each.path), status: "failed" }]);
        }
        if (this.#target.isHierarchy && this.#sources.isTree)
          this.#remember(node, [...run.described(new Set(failed.map((each) => each.path)))]);
      }
    } catch (failure) {
      this.#options.signal?.throwIfAborted();
      if (!this.#sources.isTree) throw failure;
      this.#entries.push([index, { path, node, status: "failed", ...failureOf(failure, path) }]);
    }
    this.#done++;
    this.#fractions.delete(index);
    await this.#batch?.flushIfFull(signal);
    if (this.#sources.isTree) this.#progress(path);
  }

  /** A source in a hierarchy of which all is ours. An abort leaves the objects for a later run; damage of one of many leaves nothing. */
  async #convertInHierarchy(
    { index, item, planned }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    const { node } = item;
    const key = joinKey(this.#path, node);
    let keep: Kept = "nothing";
    const fingerprint = planned?.fingerprint ?? "";
    if (record.isResumed) {
      // Objects of a batch may be there without their bytes, after a power loss: only documents prove it.
      if (record.isBegun(node, fingerprint)) keep = this.#batch === undefined ? "tasks" : "arrays";
      else await this.#discard(key);
    }
    record.begin(node, fingerprint);
    if (this.#sources.isTree && record.isDue) await record.write({ durable: false, signal });
    const settings = {
      keep,
      discard: (path: string) => this.#discard(joinKey(key, path)),
      signal,
      onProgress: this.#progressOf(index),
    };
    try {
      return await runSource(run, this.#context, settings);
    } catch (error) {
      if (this.#sources.isTree && !signal.aborted && isSuperchunkError(error)) await this.#discard(key);
      throw error;
    }
  }

  /** A source that gets a file or folder of its own, of which nothing is left where it fails. */
  async #convertBeside(
    { index, item }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    if (record.isLeftover(item.node)) {
      for (const { root } of run.arrays)
        for (const key of [root, hiddenKey(root)]) await deleteAt(this.#store, key);
      record.clear(item.node);
    }
    const made = (await run.claim?.(this.#store)) ?? [];
    const settings = {
      keep: "nothing",
      discard: (path: string) => this.#discard(path),
      signal,
      onProgress: this.#progressOf(index),
    } as const;
    try {
      return await runSource(run, this.#context, settings);
    } catch (error) {
      // The first error is the one that counts.
      for (const key of made) await deleteAt(this.#store, key).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Records for this source and the next ones that what lies at their places from now on is ours, where nothing does now:
   * a later run may delete what this one leaves halfway. In steps that grow, so that the record of many sources is not written
   * for each.
   */
  async #authorise(index: number, record: ConversionRecord): Promise<void> {
    // The next one too: it may be begun before this one's end is recorded.
    if (index + 1 < this.#authorised || this.#authorised === this.#items.length) return;
    const end = Math.min(this.#items.length, index + 1 + Math.max(1, Math.floor(index / STEPS)));
    const { ending = "" } = this.#target;
    for (const { node } of this.#items.slice(this.#authorised, end)) {
      const key = joinKey(this.#path, node);
      const isOurs =
        record.isLeftover(node) ||
        !(
          (await isTaken(this.#store, key)) ||
          (node !== "" && ending !== "" && (await isTaken(this.#store, `${key}${ending}`)))
        );
      if (isOurs) record.begin(node, "");
    }
    this.#authorised = end;
    await record.write();
  }

  async #discard(key: string): Promise<void> {
    this.#batch?.forget(key);
    await deleteTree(this.#store, key, new Set());
  }

  #progressOf(index: number): (done: number, total: number, label: string) => void {
    const { onProgress } = this.#options;
    if (!this.#sources.isTree) return (done, total, label) => onProgress?.({ done, total, label });
    const { path } = at(this.#items, index);
    // Files and folders count as wholes.
    if (!this.#target.isHierarchy) return () => undefined;
    return (done, total) => {
      // A source counts as done only when it is published.
      this.#fractions.set(index, total === 0 ? 0 : Math.min(done / total, 0.999));
      this.#progress(path);
    };
  }

  #progress(label: string): void {
    const under = [...this.#fractions.values()].reduce((total, fraction) => total + fraction, 0);
    this.#options.onProgress?.({
      done: this.#done + under,
      total: this.#items.length,
      label,
      unit: "archives",
    });
  }

  /** Keeps the documents for the root's, as long as they are few. */
  #remember(node: string, documents: readonly (readonly [path: string, document: JsonObject])[]): void {
    this.#nodes += documents.length;
    if (this.#nodes > MOST_CONSOLIDATED) this.#documents.clear();
    else for (const [path, document] of documents) this.#documents.set(joinKey(node, path), document);
  }

  /** A group for each folder that a source was converted in, the innermost first, the root last. */
  async #publishFolders(): Promise<void> {
    const nodes = this.#entries.flatMap(([, { node, status }]) => (status === "failed" ? [] : [node]));
    const described = this.#nodes <= MOST_CONSOLIDATED ? this.#documents : undefined;
    for (const [node, document] of folderDocuments(nodes, described))
      await this.#publishGroup(node, document);
  }

  async #publishGroup(node: string, document: JsonObject): Promise<void> {
    const key = joinKey(this.#path, node, "zarr.json");
    const { size } = await this.#store.put(key, encodeDocument(document), { signal: this.#options.signal });
    this.#folders++;
    this.#bytes += size;
  }

  result(seconds: number): ConvertResult {
    const { isTree } = this.#sources;
    return sumResults({
      entries: this.#entries.sort(([a], [b]) => a - b).map(([, entry]) => entry),
      failures: this.#failures,
      notes: this.#lost,
      renamed: this.#renamed,
      isNamed: isTree && this.#target.isHierarchy,
      nodes: this.#nodes,
      folders: this.#folders,
      folderBytes: this.#bytes,
      verified: this.#options.verify === true,
      seconds,
    });
  }
}

/** A group for each folder that nodes lie in, the innermost first, the root last. The root's document repeats those in `described`. */
export function folderDocuments(
  nodes: Iterable<string>,
  described: ReadonlyMap<string, JsonObject> | undefined,
): (readonly [node: string, document: JsonObject])[] {
  const folders = new Set<string>();
  for (const node of nodes) {
    const parts = node.split("/");
    for (let depth = 1; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join("/"));
  }
  const inner = [...folders]
    .sort((a, b) => b.length - a.length)
    .map((folder) => [folder, groupDocument({})] as const);
  const root = groupDocument({});
  return [
    ...inner,
    ["", described === undefined ? root : consolidate(root, new Map([...described, ...inner]))],
  ];
}

/** What a conversion's result is made of. */
interface ResultParts extends Pick<ConvertResult, "entries" | "failures" | "notes" | "renamed"> {
  /** True where notes begin with the path of their source. */
  readonly isNamed: boolean;
  /** Nodes that the root's document could have repeated. */
  readonly nodes: number;
  /** Groups for folders, and the bytes of their documents. */
  readonly folders: number;
  readonly folderBytes: number;
  readonly verified: boolean;
  readonly seconds: number;
}

/** The sums over the sources that were converted. */
export function sumResults({ entries, failures, isNamed, nodes, ...parts }: ResultParts): ConvertResult {
  const results = entries.flatMap(({ node, path, result }) =>
    result === undefined ? [] : [{ node, path, result }],
  );
  const sum = (pick: (result: SourceResult) => number): number =>
    results.reduce((total, { result }) => total + pick(result), 0);
  const countOf = (status: ConvertEntry["status"]): number =>
    entries.filter((entry) => entry.status === status).length;
  const limits =
    nodes > MOST_CONSOLIDATED
      ? [`metadata is not consolidated: ${nodes} nodes are more than ${MOST_CONSOLIDATED}`]
      : [];
  return {
    arrays: sum(({ arrays }) => arrays),
    groups: sum(({ groups }) => groups) + parts.folders,
    chunksCopied: sum(({ chunksCopied }) => chunksCopied),
    chunksPadded: sum(({ chunksPadded }) => chunksPadded),
    chunksRecoded: sum(({ chunksRecoded }) => chunksRecoded),
    ...restreamedIn(sum(({ chunksRestreamed = 0 }) => chunksRestreamed)),
    shards: sum(({ shards }) => shards),
    shardsKept: sum(({ shardsKept }) => shardsKept),
    bytesWritten: sum(({ bytesWritten }) => bytesWritten) + parts.folderBytes,
    nbytes: sum(({ nbytes }) => nbytes),
    seconds: parts.seconds,
    verified: parts.verified,
    notes: [
      ...parts.notes,
      ...results.flatMap(({ path, result }) =>
        result.notes.map((note) => (isNamed ? `${path}: ${note}` : note)),
      ),
      ...limits,
    ],
    renamed: [
      ...parts.renamed,
      ...results.flatMap(({ node, result }) =>
        result.renamed.map(({ from, to }) => ({ from, to: joinKey(node, to) })),
      ),
    ],
    converted: results.length,
    kept: countOf("kept"),
    failed: countOf("failed"),
    entries,
    failures,
  };
}

/** True for the failure of a source; false for what ends a conversion that a later run may go on with. */
function isSkippable(error: unknown, signal: AbortSignal | undefined): boolean {
  return (
    signal?.aborted !== true &&
    isSuperchunkError(error) &&
    error.code !== "NO_SPACE" &&
    error.code !== "READ_ONLY"
  );
}

export function digestOf(facts: JsonValue): Promise<string> {
  return textDigest(stringifyJson(facts));
}

/** Rows that are skipped or filled make another result: a conversion goes on only with the same choice. */
function damagedSetting({ damaged = "stop" }: ConvertOptions): { readonly damaged?: string } {
  return damaged === "stop" ? {} : { damaged };
}
