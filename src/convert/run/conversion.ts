import { at } from "../../bytes/arrays.ts";
import { isSuperchunkError, unpackError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { mapAhead, runPooled } from "../../store/pool.ts";
import type { WritableStore } from "../../store/types.ts";
import { encodeDocument, MOST_CONSOLIDATED } from "../../zarr/document/make-v3.ts";
import {
  type ConvertEntry,
  type ConvertOptions,
  type ConvertResult,
  type Destination,
  type FoundAt,
  failureOf,
  type NodeFailure,
  type Place,
  type SourceItem,
  type SourceResult,
  type SourceRun,
  type Target,
} from "../pipeline.ts";
import { digestOf } from "../sources/items.ts";
import { BatchPublisher, hiddenKey, publishDirectly } from "./conversion-store.ts";
import {
  type ConversionIdentity,
  ConversionRecord,
  conflict,
  deleteTree,
  emptyDestination,
  recordKey,
} from "./destination.ts";
import { describedIn, HANDED, type Helpers, MANY_SOURCES } from "./helpers.ts";
import {
  deleteAt,
  failuresOf,
  folderDocuments,
  type RunContext,
  runMember,
  runSource,
  type SourceOutcome,
  sumResults,
} from "./run-source.ts";

/** Sources of a hierarchy converted at a time. Small ones mostly wait for the disk. */
const SOURCES_AT_ONCE = 4;
/** Sources opened ahead: a process may have only some hundred files open. */
const OPENED_AHEAD = 32;
/** Places are recorded as ours in steps: each covers 1/STEPS of the sources before it. */
const STEPS = 20;

export interface Sources {
  readonly items: readonly SourceItem[];
  /** Identifies the conversion: the same names mean the same conversion. */
  readonly names: readonly string[];
  /** True if there may be several sources, each of which may fail without the others. */
  readonly isTree: boolean;
}

/** The place of one source, given the number of sources. */
export function placeAt(
  { path = "", node: inHierarchy = "", isInGroup = false }: Omit<Destination, "store">,
  node: string,
  sources: number,
): Place {
  const isMember = isInGroup || sources > 1;
  return { destination: path, node, key: joinKey(path, node), inHierarchy, isMember };
}

/** A planned source, and its fingerprint, which changes when the source does. */
export interface PlannedSource {
  readonly run: SourceRun;
  readonly fingerprint: string;
}

/** Opens and plans a source. Throws a refusal, and errors of opening and planning. */
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

/** A planned source, or why it could not be planned. */
interface Prepared {
  readonly index: number;
  readonly item: SourceItem;
  readonly planned?: PlannedSource;
  readonly error?: unknown;
}

/** The outcome of a converted source. */
interface Converted {
  readonly result: SourceResult;
  readonly failures: readonly NodeFailure[];
  /** Its documents for the root document, and their number. */
  readonly described: readonly (readonly [path: string, document: JsonObject])[];
  readonly nodes: number;
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
  /** In the order of completion, each with the number of its source. */
  readonly #entries: (readonly [index: number, entry: ConvertEntry])[] = [];
  readonly #failures: (readonly [index: number, failure: NodeFailure])[] = [];
  readonly #helpers: Helpers | undefined;
  readonly #documents = new Map<string, JsonObject>();
  readonly #fractions = new Map<number, number>();
  #items: readonly SourceItem[] = [];
  #authorised = 0;
  #done = 0;
  #folders = 0;
  #bytes = 0;
  #nodes = 0;

  /** `helpers` are other threads, which take a share of very many sources. */
  constructor(
    target: Target,
    destination: Destination,
    sources: Sources,
    options: ConvertOptions,
    helpers?: Helpers,
  ) {
    this.#helpers = helpers;
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
    // A source that cannot be planned must not cost what is at the destination.
    const only = isTree || item === undefined ? undefined : await this.#plan(0, item);
    const identity = {
      sources: names,
      options: { ...this.#target.settings(this.#options), ...damagedSetting(this.#options) },
    };
    const record = await this.#takeDestination(isTaken, identity, only);
    try {
      await this.#convertAll(only, record);
    } catch (error) {
      const isOver = !this.#target.isHierarchy && !isTree && isSkippable(error, this.#options.signal);
      // Record what was done for a resumed run. Only the first error is thrown.
      if (!this.#target.isHierarchy) await (isOver ? record.end() : record.write()).catch(() => undefined);
      throw error;
    }
    await this.#batch?.finish(this.#options.signal);
    if (isTree && this.#target.isHierarchy) await this.#publishFolders();
    await record.end();
  }

  /** Converts the sources: in this thread, and very many also by helpers. */
  async #convertAll(only: Prepared | undefined, record: ConversionRecord): Promise<void> {
    const { items } = this.#sources;
    const { jobs = SOURCES_AT_ONCE, signal } = this.#options;
    const isMany = this.#batch !== undefined && items.length >= MANY_SOURCES;
    const { count = 0 } = (isMany ? this.#helpers : undefined) ?? {};
    const most = this.#target.isHierarchy ? jobs : 1;
    const atOnce = Math.ceil(most / (count + 1));
    const prepare = (sources: Iterable<[number, SourceItem]>): AsyncGenerator<Prepared> =>
      mapAhead(sources, OPENED_AHEAD, ([index, each]) => this.#prepare(index, each));
    const here = (
      prepared: Iterable<Prepared> | AsyncIterable<Prepared>,
      limit: number,
      outer: AbortSignal | undefined,
    ): Promise<void> =>
      runPooled(prepared, limit, (each, inner) => this.#convertOne(each, record, inner), outer);
    if (only !== undefined) return here([only], most, signal);
    const queue = items.entries();
    const left: [number, SourceItem][] = [];
    const hands = Array.from({ length: count + 1 }, (_, hand) => async (inner: AbortSignal) => {
      // This thread does what a helper cannot, with the same concurrency.
      if (hand > 0 && (await this.#handOut(queue, left, record, inner))) return;
      await here(prepare(queue), atOnce, inner);
    });
    await runPooled(hands, hands.length, (work, inner) => work(inner), signal);
    await here(prepare(left), most, signal);
  }

  /**
   * Hands sources to a helper until none are left; those that it does not take are added to `left`. Returns false if it takes few.
   */
  async #handOut(
    queue: Iterator<[number, SourceItem]>,
    left: [number, SourceItem][],
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<boolean> {
    const helper = await this.#helpers?.start(record.isResumed);
    if (helper === undefined) return false;
    let isOver = false;
    for (let taken = HANDED; !isOver && 2 * taken >= HANDED && !signal.aborted; ) {
      taken = 0;
      const handed: { readonly index: number; readonly item: SourceItem; readonly found: FoundAt }[] = [];
      while (!isOver && handed.length < HANDED) {
        const { value, done } = queue.next();
        if (done === true) isOver = true;
        else if (value[1].found === undefined) left.push(value);
        else handed.push({ index: value[0], item: value[1], found: value[1].found });
      }
      const sources = handed.map(({ item: { node }, found }) => ({
        ...{ node, found },
        begun: record.begunAs(node),
      }));
      const outcomes = await helper.run(sources, this.#nodes <= MOST_CONSOLIDATED, signal);
      for (const [place, { index, item }] of handed.entries()) {
        const { fingerprint, done, error } = outcomes[place] ?? {};
        if (fingerprint !== undefined) record.begin(item.node, fingerprint);
        if (error !== undefined) this.#fail(index, item, unpackError(error));
        else if (done === undefined) {
          left.push([index, item]);
          continue;
        } else this.#conclude(index, item, { ...done, described: describedIn(done.described) });
        taken++;
        this.#advance(index, item);
      }
      if (record.isDue) await record.write({ durable: false, signal });
    }
    await helper.finish(signal);
    return isOver;
  }

  /** Prepares the destination, and writes the record there. Throws `CONFLICT`. */
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
        "an unfinished conversion is there; {resume: true} continues it, {overwrite: true} replaces it",
      );
    const record = await ConversionRecord.open(store, key, identity, { resume, destination: path });
    if (isHierarchy) {
      if (isTaken && resume && !record.isResumed)
        throw conflict(
          store.describe(path),
          "found no unfinished conversion to --resume; the destination was finished, or something else made it",
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
    const { path, node } = item;
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
        const failures = failuresOf(failed);
        const isListed = this.#target.isHierarchy && this.#sources.isTree;
        const described = isListed ? [...run.described(new Set(failed.map((each) => each.path)))] : [];
        this.#conclude(index, item, { result, failures, described, nodes: described.length });
      }
    } catch (failure) {
      this.#fail(index, item, failure);
    }
    await this.#batch?.flushIfFull(signal);
    this.#advance(index, item);
  }

  /** Records the outcome of a converted source. */
  #conclude(
    index: number,
    { path, node }: SourceItem,
    { result, failures, described, nodes }: Converted,
  ): void {
    this.#entries.push([index, { path, node, status: "converted", result }]);
    for (const failure of failures) {
      this.#failures.push([index, failure]);
      this.#entries.push([index, { ...failure, node: joinKey(node, failure.node), status: "failed" }]);
    }
    this.#remember(node, described, nodes);
  }

  /** Records the failure of one source of many; throws errors that end the conversion. */
  #fail(index: number, { path, node }: SourceItem, failure: unknown): void {
    this.#options.signal?.throwIfAborted();
    if (!this.#sources.isTree) throw failure;
    this.#entries.push([index, { path, node, status: "failed", ...failureOf(failure, path) }]);
  }

  #advance(index: number, { path }: SourceItem): void {
    this.#done++;
    this.#fractions.delete(index);
    if (this.#sources.isTree) this.#progress(path);
  }

  /**
   * Converts a source in a hierarchy that belongs wholly to this conversion. If one of many sources is damaged, nothing of it
   * is left.
   */
  async #convertInHierarchy(
    { index, item, planned }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    const { node } = item;
    const fingerprint = planned?.fingerprint ?? "";
    const before = !record.isResumed ? "nothing" : record.begunAs(node) === fingerprint ? "ours" : "other";
    record.begin(node, fingerprint);
    if (this.#sources.isTree && record.isDue) await record.write({ durable: false, signal });
    return runMember(run, this.#context, {
      ...{ key: joinKey(this.#path, node), batch: this.#batch, before, signal },
      isLeftOut: this.#sources.isTree,
      onProgress: this.#progressOf(index),
    });
  }

  /** Converts a source to its own file or folder; if it fails, nothing of it is left. */
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
      // Only the first error is thrown.
      for (const key of made) await deleteAt(this.#store, key).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Records for this and the next sources that anything at their places from now on is ours, if nothing is there now: a later run
   * may then delete what this one leaves unfinished. The steps grow, so that with many sources the record is not written for each.
   */
  async #authorise(index: number, record: ConversionRecord): Promise<void> {
    // Includes the next source: it may begin before the end of this one is recorded.
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
      // A source counts as done only once it is published.
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

  /** Keeps the documents for the root document, as long as they are few. */
  #remember(node: string, documents: Converted["described"], nodes: number): void {
    this.#nodes += nodes;
    if (this.#nodes > MOST_CONSOLIDATED) this.#documents.clear();
    else for (const [path, document] of documents) this.#documents.set(joinKey(node, path), document);
  }

  /** Writes a group for each folder that contains a converted source, the innermost first, the root last. */
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
      failures: this.#failures.sort(([a], [b]) => a - b).map(([, failure]) => failure),
      notes: this.#items.flatMap(({ notes }) => notes),
      renamed: this.#items.flatMap(({ node, renamedFrom }) =>
        renamedFrom === undefined ? [] : [{ from: renamedFrom, to: node }],
      ),
      isNamed: isTree && this.#target.isHierarchy,
      nodes: this.#nodes,
      folders: this.#folders,
      folderBytes: this.#bytes,
      verified: this.#options.verify === true,
      seconds,
    });
  }
}

/** True for the failure of a source; false for errors that end a conversion and let a later run resume it. */
function isSkippable(error: unknown, signal: AbortSignal | undefined): boolean {
  return (
    signal?.aborted !== true &&
    isSuperchunkError(error) &&
    error.code !== "NO_SPACE" &&
    error.code !== "READ_ONLY"
  );
}

/** Skipped or filled rows change the result, so a conversion resumes only with the same choice. */
function damagedSetting({ damaged = "stop" }: ConvertOptions): { readonly damaged?: string } {
  return damaged === "stop" ? {} : { damaged };
}
