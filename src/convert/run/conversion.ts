import { at } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError, unpackError } from "../../errors.ts";
import { isTaken, joinKey } from "../../store/key.ts";
import { mapAhead, runPooled } from "../../store/pool.ts";
import {
  type ConvertOptions,
  type ConvertResult,
  type Destination,
  type FoundAt,
  failureOf,
  type OpenedSource,
  type SourceItem,
  type SourceRun,
  type Target,
  type TargetPlace,
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
import { HANDED, type Helpers, parseDescribed } from "./helpers.ts";
import {
  deleteAt,
  failuresOf,
  Outcomes,
  type RunContext,
  runMember,
  runSource,
  type SourceOutcome,
} from "./run-source.ts";

/** Sources of a hierarchy converted at a time. Small ones mostly wait for the disk. */
const SOURCES_AT_ONCE = 4;
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

/** The place of one source, given the number of sources. */
export function placeAt(
  { path = "", node: inHierarchy = "", isInGroup = false }: Omit<Destination, "store">,
  node: string,
  sources: number,
): TargetPlace {
  const isMember = isInGroup || sources > 1;
  return { destination: path, node, key: joinKey(path, node), inHierarchy, isMember };
}

/** A planned source, and its fingerprint, which changes when the source does. */
export interface PlannedSource {
  readonly run: SourceRun;
  readonly fingerprint: string;
}

/** Opens and plans a source. Throws errors of opening and planning. */
export async function planSource(
  item: SourceItem,
  place: TargetPlace,
  target: Target,
  options: ConvertOptions,
): Promise<SourceRun> {
  const source = await item.open(options.signal);
  if (options.columns !== undefined && !place.isMember) refuseColumns(source);
  return target.plan(source, place, options);
}

/** Opens and plans a source that is converted. Throws a refusal too. */
export async function planItem(
  item: SourceItem,
  place: TargetPlace,
  target: Target,
  options: ConvertOptions,
): Promise<PlannedSource> {
  const run = await planSource(item, place, target, options);
  if (run.refusal !== undefined) throw run.refusal;
  const facts = await (target.isHierarchy ? run.fingerprint() : (item.fingerprint?.() ?? run.fingerprint()));
  return { run, fingerprint: await digestOf(facts) };
}

/** Throws `BAD_ARGUMENT` for a source of which no columns can be chosen. */
function refuseColumns(source: OpenedSource): void {
  const hasNoColumns =
    source.kind === "bytes" ||
    (source.kind === "array" &&
      source.dtype.kind !== "struct" &&
      !("columnNames" in source && source.columnNames.length > 0));
  if (!hasNoColumns) return;
  const details = { path: source.store.describe(source.path), field: "columns" };
  throw new SuperchunkError("BAD_ARGUMENT", "it has no columns; leave out {columns}", details);
}

/** A planned source, or why it could not be planned. */
interface Prepared {
  readonly index: number;
  readonly item: SourceItem;
  readonly planned?: PlannedSource;
  readonly error?: unknown;
}

/** One run of `convert`. */
export interface Conversion {
  convert(isTaken: boolean): Promise<void>;
  result(seconds: number): ConvertResult;
}

/** `helpers` are other threads, which take a share of very many sources. */
export function conversionOf(
  target: Target,
  destination: Destination,
  sources: SourceList,
  asked: ConvertOptions,
  helpers?: Helpers,
): Conversion {
  const { store, path: root = "" } = destination;
  const { items, isTree } = sources;
  const options = isTree ? { ...asked, skipFailed: true } : asked;
  const batch =
    isTree && target.isHierarchy && store.sync !== undefined ? new BatchPublisher(store) : undefined;
  const direct = publishDirectly(store);
  const context: RunContext = { target, store, options, publisher: batch ?? direct };
  const outcomes = new Outcomes();
  const fractions = new Map<number, number>();
  let [authorised, doneCount] = [0, 0];

  async function convert(isTaken: boolean): Promise<void> {
    const [item] = items;
    // A source that cannot be planned must not cost what is at the destination.
    const only = isTree || item === undefined ? undefined : await plan(0, item);
    const identity = {
      sources: sources.names,
      options: { ...target.settings(options), ...damagedSetting(options) },
    };
    const record = await takeDestination(isTaken, identity, only);
    try {
      await convertAll(only, record);
    } catch (error) {
      const isOver = !target.isHierarchy && !isTree && isSkippable(error, options.signal);
      // Record what was done for a resumed run. Only the first error is thrown.
      if (!target.isHierarchy) await (isOver ? record.end() : record.write()).catch(() => undefined);
      throw error;
    }
    if (isTree && target.isHierarchy && !outcomes.areAllFailed) await publishFolders();
    await record.end();
  }

  /** Converts the sources: in this thread, and very many also by helpers. */
  async function convertAll(only: Prepared | undefined, record: ConversionRecord): Promise<void> {
    const { jobs = SOURCES_AT_ONCE, signal } = options;
    const { count, leastSources } = helpers ?? { count: 0, leastSources: 0 };
    const helperCount = batch !== undefined && items.length >= leastSources ? count : 0;
    const most = target.isHierarchy ? jobs : 1;
    const atOnce = Math.ceil(most / (helperCount + 1));
    const prepare = (sources: Iterable<[number, SourceItem]>): AsyncGenerator<Prepared> =>
      mapAhead(sources, OPENED_AHEAD, ([index, each]) => prepareOne(index, each));
    const here = (
      prepared: Iterable<Prepared> | AsyncIterable<Prepared>,
      limit: number,
      outer: AbortSignal | undefined,
    ): Promise<void> => runPooled(prepared, limit, (each, inner) => convertOne(each, record, inner), outer);
    if (only !== undefined) return here([only], most, signal);
    const queue = items.entries();
    const left: [number, SourceItem][] = [];
    const hands = Array.from({ length: helperCount + 1 }, (_, hand) => async (inner: AbortSignal) => {
      // This thread does what a helper cannot, with the same concurrency.
      if (hand > 0 && (await handOut(queue, left, record, inner))) return;
      await here(prepare(queue), atOnce, inner);
      await batch?.finish(inner);
    });
    await runPooled(hands, hands.length, (work, inner) => work(inner), signal);
    await here(prepare(left), most, signal);
  }

  /**
   * Hands sources to a helper until none are left; those that it does not take are added to `left`. Returns false if it takes few.
   */
  async function handOut(
    queue: Iterator<[number, SourceItem]>,
    left: [number, SourceItem][],
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<boolean> {
    const helper = await helpers?.start(record.isResumed);
    if (helper === undefined) return false;
    let isOver = false;
    let isWorthIt = true;
    const hand = async (_: number, inner: AbortSignal): Promise<void> => {
      while (!isOver && isWorthIt && !inner.aborted) {
        let taken = 0;
        const handed: (readonly [index: number, item: SourceItem, found: FoundAt])[] = [];
        while (!isOver && handed.length < HANDED) {
          const { value, done } = queue.next();
          if (done === true) isOver = true;
          else if (value[1].found === undefined) left.push(value);
          else handed.push([...value, value[1].found]);
        }
        const sources = handed.map(([, { node }, found]) => ({ node, found, begun: record.begunAs(node) }));
        const made = await helper.run(sources, outcomes.isConsolidated, inner);
        for (const [place, [index, item]] of handed.entries()) {
          const { fingerprint, done, error } = made[place] ?? {};
          if (fingerprint !== undefined) record.begin(item.node, fingerprint);
          if (error !== undefined) fail(index, item, unpackError(error));
          else if (done === undefined) {
            left.push([index, item]);
            continue;
          } else outcomes.addConverted(index, item, { ...done, described: parseDescribed(done.described) });
          taken++;
          advance(index, item);
        }
        isWorthIt &&= 2 * taken >= HANDED;
        if (record.isDue) await record.write({ durable: false, signal: inner });
      }
    };
    // A second hand waits at the helper while this thread takes the outcomes of the first.
    await runPooled([1, 2], 2, hand, signal);
    await helper.finish(signal);
    return isOver;
  }

  /** Prepares the destination, and writes the record there. Throws `CONFLICT`. */
  async function takeDestination(
    isTaken: boolean,
    identity: ConversionIdentity,
    only: Prepared | undefined,
  ): Promise<ConversionRecord> {
    const { isHierarchy } = target;
    const { resume = false, overwrite = false, signal } = options;
    const key = recordKey(root, isHierarchy);
    if (!isHierarchy && !resume && !overwrite && (await store.stat(key, { signal })) !== undefined)
      throw conflict(
        store.describe(root),
        "an unfinished conversion is there; {resume: true} continues it, {overwrite: true} replaces it",
      );
    const record = await ConversionRecord.open(store, key, identity, { resume, destination: root });
    if (isHierarchy) {
      if (isTaken && resume && !record.isResumed)
        throw conflict(
          store.describe(root),
          "found no unfinished conversion to --resume; the destination was finished, or something else made it",
        );
      const fingerprint = only?.planned?.fingerprint;
      if (fingerprint !== undefined) record.beginOnly(fingerprint, store.describe(root));
      if (isTaken && !resume) await emptyDestination(store, root, signal);
      await record.write({ signal });
    }
    return record;
  }

  async function plan(index: number, item: SourceItem): Promise<Prepared> {
    const place = placeAt(destination, item.node, items.length);
    return { index, item, planned: await planItem(item, place, target, options) };
  }

  async function prepareOne(index: number, item: SourceItem): Promise<Prepared> {
    try {
      return await plan(index, item);
    } catch (error) {
      return { index, item, error };
    }
  }

  async function convertOne(
    prepared: Prepared,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<void> {
    const { index, item, planned, error } = prepared;
    const { path, node } = item;
    try {
      if (!target.isHierarchy) await authorise(index, record);
      if (planned === undefined) throw error;
      const { run, fingerprint } = planned;
      if (record.isDone(node, fingerprint, path)) outcomes.add(index, { path, node, status: "kept" });
      else {
        const { result, failed } = target.isHierarchy
          ? await convertInHierarchy(prepared, run, record, signal)
          : await convertBeside(prepared, run, record, signal);
        if (!target.isHierarchy) record.finish(node, fingerprint);
        const failures = failuresOf(failed);
        const isListed = target.isHierarchy && isTree;
        const described = isListed ? [...run.described(new Set(failed.map((each) => each.path)))] : [];
        outcomes.addConverted(index, item, { result, failures, described, nodes: described.length });
      }
    } catch (failure) {
      fail(index, item, failure);
    }
    await batch?.flushIfFull();
    advance(index, item);
  }

  /** Records the failure of one source of many; throws errors that end the conversion. */
  function fail(index: number, { path, node }: SourceItem, failure: unknown): void {
    options.signal?.throwIfAborted();
    if (!isTree) throw failure;
    outcomes.add(index, { path, node, status: "failed", ...failureOf(failure, path) });
  }

  function advance(index: number, { path }: SourceItem): void {
    doneCount++;
    fractions.delete(index);
    if (isTree) progress(path);
  }

  /**
   * Converts a source in a hierarchy that belongs wholly to this conversion. If one of many sources is damaged, nothing of it
   * is left.
   */
  async function convertInHierarchy(
    { index, item, planned }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    const { node } = item;
    const fingerprint = planned?.fingerprint ?? "";
    const before = !record.isResumed ? "nothing" : record.begunAs(node) === fingerprint ? "ours" : "other";
    record.begin(node, fingerprint);
    if (isTree && record.isDue) await record.write({ durable: false, signal });
    return runMember(run, context, {
      key: joinKey(root, node),
      batch,
      before,
      signal,
      isLeftOut: isTree,
      onProgress: progressOf(index),
    });
  }

  /** Converts a source to its own file or folder; if it fails, nothing of it is left. */
  async function convertBeside(
    { index, item }: Prepared,
    run: SourceRun,
    record: ConversionRecord,
    signal: AbortSignal,
  ): Promise<SourceOutcome> {
    if (record.isLeftover(item.node)) {
      for (const { root } of run.arrays)
        for (const key of [root, hiddenKey(root)]) await deleteAt(store, key);
      record.clear(item.node);
    }
    const made = (await run.claim?.(store)) ?? [];
    const settings = {
      keep: "nothing",
      discard: (path: string) => discard(path),
      signal,
      onProgress: progressOf(index),
    } as const;
    try {
      return await runSource(run, context, settings);
    } catch (error) {
      // Only the first error is thrown.
      for (const key of made) await deleteAt(store, key).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Records for this and the next sources that anything at their places from now on is ours, if nothing is there now: a later run
   * may then delete what this one leaves unfinished. The steps grow, so that with many sources the record is not written for each.
   */
  async function authorise(index: number, record: ConversionRecord): Promise<void> {
    // Includes the next source: it may begin before the end of this one is recorded.
    if (index + 1 < authorised || authorised === items.length) return;
    const end = Math.min(items.length, index + 1 + Math.max(1, Math.floor(index / STEPS)));
    const { ending = "" } = target;
    for (const { node } of items.slice(authorised, end)) {
      const key = joinKey(root, node);
      const isOurs =
        record.isLeftover(node) ||
        !(
          (await isTaken(store, key)) ||
          (node !== "" && ending !== "" && (await isTaken(store, `${key}${ending}`)))
        );
      if (isOurs) record.begin(node, "");
    }
    authorised = end;
    await record.write();
  }

  async function discard(key: string): Promise<void> {
    await batch?.forget(key);
    await deleteTree(store, key, new Set());
  }

  function progressOf(index: number): (done: number, total: number, label: string) => void {
    const { onProgress } = options;
    if (!isTree) return (done, total, label) => onProgress?.({ done, total, label });
    const { path } = at(items, index);
    // Files and folders count as wholes.
    if (!target.isHierarchy) return () => undefined;
    return (done, total) => {
      // A source counts as done only once it is published.
      fractions.set(index, total === 0 ? 0 : Math.min(done / total, 0.999));
      progress(path);
    };
  }

  function progress(label: string): void {
    const under = [...fractions.values()].reduce((total, fraction) => total + fraction, 0);
    options.onProgress?.({ done: doneCount + under, total: items.length, label, unit: "archives" });
  }

  /** Publishes what waits, and a group for each folder that contains a converted source; the root last. */
  function publishFolders(): Promise<void> {
    const { signal } = options;
    return outcomes.publishFolders(async (node, document) => {
      if (node === "") await batch?.finish(signal);
      const publisher = node === "" ? direct : context.publisher;
      return publisher.putDocument(joinKey(root, node, "zarr.json"), document, signal);
    });
  }

  function result(seconds: number): ConvertResult {
    const isNamed = isTree && target.isHierarchy;
    return outcomes.result(items, { isNamed, verified: options.verify === true, seconds });
  }

  return { convert, result };
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
