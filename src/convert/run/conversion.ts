import { isSuperchunkError, SuperchunkError, unpackError } from "../../errors.ts";
import { recordKey } from "../../format/naming.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { mapAhead, runPooled } from "../../store/pool.ts";
import { deleteTree, walkKeys } from "../../store/tree.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { assertApart } from "../../write/layout/columns.ts";
import {
  type ConvertOptions,
  type ConvertResult,
  type Destination,
  failureOf,
  isSkippable,
  type SourceItem,
  type SourceRun,
  type Target,
} from "../pipeline.ts";
import { metadataVersions } from "../sources/items.ts";
import { conflictOf, guardWrites, whileAlone } from "./alone.ts";
import { BatchPublisher, hiddenKey, publishDirectly } from "./conversion-store.ts";
import {
  ConversionRecord,
  conflict,
  EXISTS,
  emptyDestination,
  isMark,
  refuseExisting,
  UNFINISHED,
} from "./destination.ts";
import {
  HANDED,
  type HandedOutcome,
  type Helpers,
  nextToHand,
  parseDescribed,
  type SharedSources,
} from "./helpers.ts";
import { ConversionProgress, convertedOf, Outcomes } from "./outcomes.ts";
import {
  deleteAt,
  type PlannedSource,
  placeAt,
  planItem,
  type RunContext,
  runMember,
  runSource,
  type SourceOutcome,
} from "./run-source.ts";

/** Sources of a hierarchy converted, or compared, at a time. Small ones mostly wait for the disk. */
export const SOURCES_AT_ONCE = 4;
/** Sources opened ahead: a process may have only some hundred files open. */
const OPENED_AHEAD = 32;
/** Places are recorded as ours in steps: each covers 1/STEPS of the sources before it. */
const STEPS = 20;

export interface SourceList {
  readonly items: readonly SourceItem[];
  /** Identifies the conversion: the same names mean the same conversion. */
  readonly names: readonly string[];
  /** True if there may be several sources, each of which may fail without the others. */
  readonly isTree: boolean;
}

/** A planned source, or why it could not be planned. */
interface Prepared {
  readonly index: number;
  readonly item: SourceItem;
  readonly planned?: PlannedSource;
  readonly error?: unknown;
  /** True if an earlier conversion made its result. It is then not planned. */
  readonly isFound?: true;
}

/** True if a key has what a conversion makes there: a file with the ending, a folder of such files, or without an ending an archive. */
export async function holdsResult(store: ReadableStore, key: string, ending?: string): Promise<boolean> {
  if (ending === undefined) return Object.keys(await metadataVersions(store, key)).length > 0;
  if ((await store.stat(`${key}${ending}`)) !== undefined) return true;
  for await (const each of walkKeys(store, key)) if (each.endsWith(ending)) return true;
  return false;
}

/** One run of `convert`. */
export class Conversion {
  readonly #target: Target;
  /** The store of the destination without guards, for the record. */
  readonly #stored: WritableStore;
  readonly #destination: Destination;
  readonly #sources: SourceList;
  readonly #options: ConvertOptions;
  readonly #helpers: Helpers | undefined;
  /** Publishes the documents of many small sources together; undefined if each is published alone. */
  readonly #batch: BatchPublisher | undefined;
  readonly #context: RunContext;
  readonly #outcomes = new Outcomes();
  readonly #progress: ConversionProgress;
  #record: ConversionRecord | undefined;
  /** False if a helper may not have made all that it wrote durable. */
  #isSynced = true;
  /** Sources whose places are recorded as ours, if they were free. */
  #authorised = 0;
  /** Why the places of some of them could not be looked at. */
  readonly #unseen = new Map<number, unknown>();
  /** Files that an earlier run may have left half written. */
  readonly #leftover: string[] = [];

  /** `helpers` are other threads, which take a share of very many sources. */
  constructor(
    target: Target,
    destination: Destination,
    sources: SourceList,
    asked: ConvertOptions,
    helpers?: Helpers,
  ) {
    const store = guardWrites(destination.store, {
      record: () => this.#record,
      isDocument: target.isDocument,
      replaces: () => this.#replaces,
    });
    const { isTree } = sources;
    const isBatched = isTree && target.isHierarchy && store.sync !== undefined;
    this.#target = target;
    this.#stored = destination.store;
    this.#destination = { ...destination, store };
    this.#sources = sources;
    this.#options = isTree ? { ...asked, skipFailed: true } : asked;
    this.#helpers = helpers;
    this.#batch = isBatched ? new BatchPublisher(store) : undefined;
    const publisher = this.#batch ?? publishDirectly(store);
    this.#context = { target, store, options: this.#options, publisher };
    this.#progress = new ConversionProgress(sources, asked.onProgress);
  }

  /** The folder of a hierarchy, or the file or folder of the only source. */
  get #root(): string {
    return this.#destination.path ?? "";
  }

  /** `join` makes the result known to groups above it; resolves with its notes. */
  async convert(isTaken: boolean, join?: () => Promise<readonly string[]>): Promise<readonly string[]> {
    const { items, isTree } = this.#sources;
    // A source that cannot be planned must not cost what is at the destination.
    const only = isTree || items[0] === undefined ? undefined : await this.#plan(0, items[0]);
    const work = (): Promise<readonly string[]> => this.#convertAlone(isTaken, only, join);
    return whileAlone(this.#stored, this.#root, work, this.#options);
  }

  async #convertAlone(
    isTaken: boolean,
    only: Prepared | undefined,
    join: (() => Promise<readonly string[]>) | undefined,
  ): Promise<readonly string[]> {
    const { isHierarchy } = this.#target;
    const { isTree } = this.#sources;
    const record = await this.#takeDestination(isTaken, only);
    try {
      await this.#convertAll(only, record);
      if (isTree && isHierarchy && !this.#outcomes.areAllFailed) await this.#publishFolders();
    } catch (error) {
      // What it cannot find any more, or finds changed, may be the other's work.
      await record.assertOurs(true);
      const isOver = !isTree && this.#options.signal?.aborted !== true && isSkippable(error);
      // Record what was done for a resumed run. Only the first error is thrown.
      if (!isHierarchy) await (isOver ? record.end() : record.write()).catch(() => undefined);
      else if (isOver) await record.endUnused(this.#root).catch(() => undefined);
      if (isTree && isSuperchunkError(error, "NO_SPACE")) throw await this.#endFull(error, record);
      throw conflictOf(error);
    }
    // Before the record ends: a run that is killed here can be resumed.
    const notes = (await join?.()) ?? [];
    await record.end(this.#leftover, isHierarchy ? this.#root : undefined);
    if (isHierarchy && this.#outcomes.areAllFailed) await record.endUnused(this.#root);
    return notes;
  }

  /**
   * Keeps what is complete when the destination is full: failed puts have left room for documents. Resolves with the error to throw, which
   * says what is there.
   */
  async #endFull({ summary, details }: SuperchunkError, record: ConversionRecord): Promise<SuperchunkError> {
    const root = this.#stored.describe(this.#root);
    const isRecord = details.path === this.#stored.describe(record.key);
    const place = isRecord ? { ...details, path: root } : details;
    try {
      if (this.#target.isHierarchy) await this.#keepComplete(record);
    } catch {
      return new SuperchunkError("NO_SPACE", summary, place); // only the first error is thrown
    }
    const { there } = this.#outcomes;
    const count = `${there} of ${this.#sources.items.length} archives are complete in ${root}`;
    return new SuperchunkError("NO_SPACE", `${summary}; ${count}`, place);
  }

  /** Records that what is written is durable, and publishes what waits. Gives up small objects if these have taken all the room. */
  async #keepComplete(record: ConversionRecord): Promise<void> {
    for (let count = 8; ; count *= 2) {
      try {
        await this.#batch?.recover();
        await record.write({ synced: this.#isSynced });
        return await this.#batch?.finish();
      } catch (error) {
        if (!isSuperchunkError(error, "NO_SPACE") || count > 256) throw error;
      }
      await this.#batch?.dropLast(count);
    }
  }

  result(seconds: number): ConvertResult {
    const { items, isTree } = this.#sources;
    const isNamed = isTree && this.#target.isHierarchy;
    return this.#outcomes.result(items, { isNamed, verified: this.#options.verify === true, seconds });
  }

  /** What data that is put may replace. */
  get #replaces(): "nothing" | "present" | "anything" {
    if (this.#target.ending !== undefined) return "present";
    // A resumed conversion makes the same objects again.
    return this.#record?.isResumed === true ? "anything" : "nothing";
  }

  /** Prepares the destination, and writes the record there. Throws `CONFLICT`. */
  async #takeDestination(isTaken: boolean, only: Prepared | undefined): Promise<ConversionRecord> {
    const { isHierarchy } = this.#target;
    const { store } = this.#destination;
    const { resume = false, overwrite = false, signal } = this.#options;
    const root = this.#root;
    const key = recordKey(root, isHierarchy);
    if (!isHierarchy && !resume && !overwrite && (await store.stat(key, { signal })) !== undefined)
      throw conflict(store.describe(root), UNFINISHED, "overwrite");
    const settings = {
      ...this.#target.settings(this.#options),
      ...ConversionRecord.damagedSetting(this.#options),
    };
    const identity = { sources: this.#sources.names, options: settings };
    const asked = { resume, overwrites: overwrite && !isHierarchy, destination: root };
    const record = await ConversionRecord.open(this.#stored, key, identity, asked);
    this.#record = record;
    if (!isHierarchy) {
      await this.#authorise(0, record);
      return record;
    }
    if (isTaken && resume && !record.isResumed)
      throw conflict(
        store.describe(root),
        "found no unfinished conversion for {resume: true}; the destination was finished, or something else made it",
      );
    const fingerprint = only?.planned?.fingerprint;
    if (fingerprint !== undefined) record.beginOnly(fingerprint, store.describe(root));
    if (isTaken && !resume) await emptyDestination(store, root, signal, () => record.mark({ signal }));
    await record.write({ signal });
    // Another conversion may have begun and ended since the destination was looked at.
    if (isTaken || (await store.stat(joinKey(root, "zarr.json"), { signal })) === undefined) return record;
    await record.end();
    throw conflict(store.describe(root), EXISTS, "overwrite");
  }

  /** Converts the sources: in this thread, and very many also by helpers. */
  async #convertAll(only: Prepared | undefined, record: ConversionRecord): Promise<void> {
    const { items } = this.#sources;
    const { jobs = SOURCES_AT_ONCE, signal } = this.#options;
    const { count, leastSources } = this.#helpers ?? { count: 0, leastSources: 0 };
    const helperCount = this.#batch !== undefined && items.length >= leastSources ? count : 0;
    const most = this.#target.isHierarchy ? jobs : 1;
    const atOnce = Math.ceil(most / (helperCount + 1));
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
    const hands = Array.from({ length: helperCount + 1 }, (_, hand) => async (inner: AbortSignal) => {
      // This thread does what a helper cannot, with the same concurrency.
      if (hand > 0 && (await this.#handOut({ queue, left }, record, inner))) return;
      await here(prepare(queue), atOnce, inner);
      await this.#batch?.finish(inner);
    });
    await runPooled(hands, hands.length, (work, inner) => work(inner), signal);
    await here(prepare(left), most, signal);
  }

  /** Hands sources to a helper until none are left. Returns false if it takes few. */
  async #handOut(sources: SharedSources, record: ConversionRecord, signal: AbortSignal): Promise<boolean> {
    const { left } = sources;
    const helper = await this.#helpers?.start(record.isResumed);
    if (helper === undefined) return false;
    let isOver = false;
    let isWorthIt = true;
    const hand = async (_: number, inner: AbortSignal): Promise<void> => {
      while (!isOver && isWorthIt && !inner.aborted) {
        const handed = nextToHand(sources);
        isOver ||= handed.length < HANDED;
        const asked = handed.map(({ item: { node }, found }) => ({
          node,
          found,
          begun: record.begunAs(node),
        }));
        const outcomes = await helper.run(asked, this.#outcomes.isConsolidated, inner);
        let taken = 0;
        // Before a failure ends the conversion: what the others have written is ours.
        for (const [place, { item }] of handed.entries()) {
          const { fingerprint } = outcomes[place] ?? {};
          if (fingerprint !== undefined) record.begin(item.node, fingerprint);
        }
        for (const [place, { index, item }] of handed.entries())
          if (this.#takeOutcome(index, item, outcomes[place] ?? {})) taken++;
          else left.push([index, item]);
        isWorthIt &&= 2 * taken >= HANDED;
        if (record.isDue) await record.write({ durable: false, signal: inner });
      }
    };
    // A second hand waits at the helper while this thread takes the outcomes of the first.
    try {
      await runPooled([1, 2], 2, hand, signal);
    } catch (error) {
      // It publishes what is complete. Only the first error is thrown.
      if (isSuperchunkError(error, "NO_SPACE"))
        await helper.finish(new AbortController().signal).catch(() => {
          this.#isSynced = false;
        });
      throw error;
    }
    await helper.finish(signal);
    return isOver;
  }

  /** Takes what became of a source at a helper; false if it was left to this thread. */
  #takeOutcome(index: number, item: SourceItem, { done, error }: HandedOutcome): boolean {
    if (error !== undefined) this.#fail(index, item, unpackError(error));
    else if (done === undefined) return false;
    else this.#outcomes.addConverted(index, item, { ...done, described: parseDescribed(done.described) });
    this.#progress.advance(index);
    return true;
  }

  async #plan(index: number, item: SourceItem): Promise<Prepared> {
    const place = placeAt(this.#destination, item.node, this.#sources.items.length);
    return { index, item, planned: await planItem(item, place, this.#target, this.#options) };
  }

  async #prepare(index: number, item: SourceItem): Promise<Prepared> {
    try {
      if (await this.#isFound(item.node)) return { index, item, isFound: true };
      return await this.#plan(index, item);
    } catch (error) {
      return { index, item, error };
    }
  }

  async #convertOne(prepared: Prepared, record: ConversionRecord, signal: AbortSignal): Promise<void> {
    const { isHierarchy } = this.#target;
    const { index, item, planned, error, isFound } = prepared;
    const { path, node } = item;
    try {
      if (!isHierarchy) await this.#authorise(index, record);
      if (this.#unseen.has(index)) throw this.#unseen.get(index);
      if (isFound === true) this.#outcomes.addFound(index, item);
      else if (planned === undefined) throw error;
      else if (record.isDone(node, planned.fingerprint, path))
        this.#outcomes.add(index, { path, node, status: "kept" });
      else {
        const { run, fingerprint } = planned;
        const outcome = isHierarchy
          ? await this.#convertInHierarchy(prepared, planned, record, signal)
          : await this.#convertBeside(prepared, run, record, signal);
        if (!isHierarchy) record.finish(node, fingerprint);
        const done = convertedOf(run, outcome);
        const isListed = isHierarchy && this.#sources.isTree;
        this.#outcomes.addConverted(index, item, isListed ? done : { ...done, described: [], nodes: 0 });
      }
    } catch (failure) {
      this.#fail(index, item, failure);
    }
    await this.#batch?.flushIfFull();
    this.#progress.advance(index);
  }

  /** Records the failure of one source of many; throws errors that end the conversion. */
  #fail(index: number, { path, node }: SourceItem, failure: unknown): void {
    this.#options.signal?.throwIfAborted();
    if (!this.#sources.isTree) throw failure;
    this.#outcomes.add(index, { path, node, status: "failed", ...failureOf(failure, path) });
  }

  /**
   * Converts a source in a hierarchy that belongs wholly to this conversion. If one of many sources is damaged, nothing of it
   * is left.
   */
  async #convertInHierarchy(
    { index, item: { node } }: Prepared,
    { run, fingerprint }: PlannedSource,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    const { isTree } = this.#sources;
    const before = !record.isResumed ? "nothing" : record.begunAs(node) === fingerprint ? "ours" : "other";
    record.begin(node, fingerprint);
    if (isTree && record.isDue) await record.write({ durable: false, signal });
    return runMember(run, this.#context, {
      key: joinKey(this.#root, node),
      batch: this.#batch,
      before,
      isSynced: record.isSynced,
      signal,
      isLeftOut: isTree,
      onProgress: this.#progress.of(index, true),
    });
  }

  /** Converts a source to its own file or folder; if it fails, nothing of it is left. */
  async #convertBeside(
    { index, item: { node } }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    const { store } = this.#destination;
    const keys = run.arrays.flatMap(({ root }) => [root, hiddenKey(root)]);
    if (this.#options.overwrite === true || record.isResumed) this.#leftover.push(...keys);
    if (record.isLeftover(node)) {
      for (const key of keys) await deleteAt(store, key);
      record.clear(node);
    }
    if (this.#target.ending !== undefined && this.#options.overwrite !== true)
      for (const { root } of run.arrays)
        await refuseExisting(store, root, { signal, isMany: this.#sources.isTree });
    const made = (await run.claim?.(store)) ?? [];
    try {
      await assertApart(store, run.folders?.() ?? []).catch(async (error: unknown) => {
        for (const { root } of run.arrays) await deleteTree(store, root);
        throw error;
      });
      const outcome = await runSource(run, this.#context, {
        keep: "nothing",
        discard: (key) => deleteTree(store, key),
        signal,
        onProgress: this.#progress.of(index, false),
      });
      for (const key of made.filter(isMark)) await store.delete(key);
      return outcome;
    } catch (error) {
      for (const key of made) await deleteAt(store, key).catch(() => undefined); // only the first error is thrown
      throw error;
    }
  }

  /**
   * Records for this and the next sources that anything at their places from now on is ours, if nothing is there now: a later run
   * may then delete what this one leaves unfinished. The steps grow, so that with many sources the record is not written for each.
   */
  async #authorise(index: number, record: ConversionRecord): Promise<void> {
    const { items } = this.#sources;
    // Includes the next source: it may begin before the end of this one is recorded.
    if (index + 1 < this.#authorised || this.#authorised === items.length) return;
    const end = Math.min(items.length, index + 1 + Math.max(1, Math.floor(index / STEPS)));
    for (const [i, { node }] of items.slice(this.#authorised, end).entries())
      try {
        if (record.isLeftover(node) || !(await this.#isTaken(node))) record.begin(node, "");
      } catch (error) {
        if (!this.#sources.isTree || !isSkippable(error)) throw error;
        this.#unseen.set(this.#authorised + i, error);
      }
    this.#authorised = end;
    await record.write();
  }

  /** True if `resume` finds what a conversion that ended has made of one of many sources. */
  async #isFound(node: string): Promise<boolean> {
    if (this.#options.resume !== true || !this.#sources.isTree || this.#target.isHierarchy) return false;
    if (this.#record?.knows(node) === true) return false;
    return holdsResult(this.#destination.store, joinKey(this.#root, node), this.#target.ending);
  }

  /** True if something is at the place of a source, with or without the ending of the format. */
  async #isTaken(node: string): Promise<boolean> {
    const { store } = this.#destination;
    const { ending = "" } = this.#target;
    const key = joinKey(this.#root, node);
    if (await isTaken(store, key)) return true;
    return node !== "" && ending !== "" && (await isTaken(store, `${key}${ending}`));
  }

  /** Publishes what waits, and a group for each folder that contains a converted source; the root last. */
  #publishFolders(): Promise<void> {
    const { signal } = this.#options;
    const direct = publishDirectly(this.#destination.store);
    return this.#outcomes.publishFolders(async (node, document) => {
      if (node === "") await this.#batch?.finish(signal);
      const publisher = node === "" ? direct : this.#context.publisher;
      return publisher.putDocument(joinKey(this.#root, node, "zarr.json"), document, signal);
    });
  }
}
