/**
 * Keeps the Zarr view of an array correct while the array is written.
 *
 * When rows are added: shards, documents, then the commit. When rows are removed: the commit, documents, then shards.
 * At every step the visible Zarr array is correct, at the old or the new length; a change of several shards becomes
 * visible shard by shard. A writer finds out what is published by comparing, so a killed writer leaves nothing to undo.
 * When chunks or columns are replaced, the commit comes first while the view stays as it was; then the documents are
 * removed, the shards change one by one, and the documents are written again. @see FORMAT.md [FY]
 */

import { LayoutIndex } from "../archive/places/layout-files.ts";
import { at, isEqual } from "../bytes/arrays.ts";
import { countChunks, type Run, type StoredLayout } from "../format/layout.ts";
import { LIVE_STATE } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, splitKey } from "../store/key.ts";
import type { ArrayWriter } from "../write/array/array-writer.ts";
import type { ArrayMirror } from "../write/array/publisher.ts";
import type { Committed } from "../write/array/root.ts";
import type { PublishPolicy } from "../write/editable.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { ColumnView, type ViewPlace, viewRowsOf } from "./column-shards.ts";
import { admitForms, LiveDocuments, removeOldNodes, removeUnlikeDocuments } from "./documents.ts";
import { indexOfPlaces } from "./shard-file.ts";
import { encodeLiveState, type LiveState, showsCommit } from "./state.ts";
import type { DualFiles } from "./types.ts";

/** Cost of keeping a live view so far. */
export interface MirrorCosts {
  /** Bytes written to separate shard files. */
  bytes: number;
  /** Shards written or linked. */
  shards: number;
  /** Number of publications. */
  publications: number;
}

export interface LiveViewOptions {
  readonly files: DualFiles;
  /** Default `flush`. */
  readonly publish?: PublishPolicy | undefined;
  /** Counts the costs of the view. */
  readonly costs?: MirrorCosts | undefined;
  /** Compare every chunk, whatever the state says (default false). */
  readonly all?: boolean | undefined;
}

/** A view, and what reads what earlier writers left and makes every committed row visible. */
interface StartedView extends ArrayMirror {
  start(): Promise<void>;
}

export function liveView(
  writer: ArrayWriter,
  attrs: JsonObject,
  state: LiveState,
  options: LiveViewOptions,
): StartedView {
  /** True while the array's settings change: the view stays as it is. */
  let isPaused = false;
  /** Undefined until everything was compared. */
  let published: PublishedView | undefined;
  /** True if the documents must be written again. */
  let isOutdated = false;
  let publishedAt = Number.NEGATIVE_INFINITY;
  let attributes = attrs;
  let current = state;
  const { root, columns } = writer;
  const policy = options.publish ?? "flush";
  const costs = options.costs ?? { bytes: 0, shards: 0, publications: 0 };
  const looksAtAll = options.all === true;
  let documents = new LiveDocuments(root, writer.settings, columns);
  const place: ViewPlace = {
    store: root.store,
    path: root.path,
    files: options.files,
    encode: (column, data) => writer.chunks.encode(data, at(writer.columns, column).itemSize),
    high: () => current.high,
    raiseHigh: (high) => putState({ ...current, high }),
    noteWritten: (bytes) => {
      costs.bytes += bytes;
    },
  };
  let views = viewColumns();

  async function start(): Promise<void> {
    const { committed } = writer;
    if (showsCommit(current, committed.layout) && !looksAtAll) {
      published = wholeView(committed, committed.rows);
      return;
    }
    await removeLeftovers();
    await writer.prepare(); // padded copies may have to be made
    await publish(committed, committed.rows);
  }

  async function beforeCommit(next: Committed): Promise<void> {
    if (isPaused) return;
    const rows = due(next);
    if (rows !== undefined && published !== undefined && next.rows > published.rows)
      await publish(next, rows);
  }

  async function afterCommit(now: Committed): Promise<void> {
    if (isPaused) return;
    const rows = due(now);
    if (rows !== undefined) await publish(now, rows);
  }

  function noteMoved(before: Committed, now: Committed): void {
    published = followMove(published, before, now);
  }

  async function setAttributes(attrs: JsonObject, now: Committed): Promise<void> {
    attributes = attrs;
    isOutdated = true;
    const view = published;
    if (view === undefined) return publish(now, now.rows);
    // The visible rows stay. If this fails, everything is compared again.
    published = undefined;
    await noteWork();
    await putDocuments(view.rows);
    published = view;
    isOutdated = false;
    costs.publications++;
  }

  async function admit(settings: ArraySettings, isFree = false): Promise<ArraySettings> {
    const { root } = writer;
    const published = documents.forms;
    const admitted = await admitForms(root, settings, { published, old: current.forms, isFree });
    if (admitted.forms.length > Math.max(1, current.forms.length))
      await putState({ ...current, forms: admitted.forms });
    return admitted.settings;
  }

  async function change(step: () => Promise<void>): Promise<void> {
    const { settings } = writer;
    isPaused = true;
    try {
      await step();
    } finally {
      isPaused = false;
      if (writer.settings !== settings) layOutAgain();
    }
    await afterCommit(writer.committed);
  }

  /** The array has other chunks or columns: everything will be compared. */
  function layOutAgain(): void {
    const { root, settings, columns } = writer;
    published = undefined;
    documents = new LiveDocuments(root, settings, columns);
    views = viewColumns();
  }

  function viewColumns(): readonly ColumnView[] {
    return documents.columns.map((column) => new ColumnView(place, column));
  }

  async function close(now: Committed): Promise<void> {
    await publish(now, now.rows);
    const { id, generation } = now.layout;
    if (!showsCommit(current, now.layout)) await putState({ ...current, published: { id, generation } });
  }

  /** Number of rows to make visible now; undefined if the view stays as it is. */
  function due(now: Committed): number | undefined {
    const { rows } = now;
    const view = published;
    if (isPublished(view, now, rows)) return undefined;
    if (policy === "flush" || view === undefined) return rows;
    if (policy === "full") {
      const { chunklen, superchunklen } = writer.settings;
      const full = rows - (rows % (chunklen * superchunklen));
      return full > view.rows ? full : undefined;
    }
    const seconds = (performance.now() - publishedAt) / 1000;
    return seconds >= policy.everySeconds ? rows : undefined;
  }

  async function publish(next: Committed, rows: number): Promise<void> {
    const before = published;
    if (isPublished(before, next, rows) && !isOutdated) return;
    await noteWork();
    const shrinks = before !== undefined && rows < before.rows;
    // If this fails, the next publication compares everything again.
    published = undefined;
    if (before === undefined) await removeUnlikeDocuments(place, documents.list(rows, attributes));
    if (shrinks) await putDocuments(rows);
    await putShards(before, next, rows);
    if (!shrinks) await putDocuments(rows);
    await removeShards(before, rows);
    if (before === undefined) await removeOldNodes(place, current.forms, documents.columns);
    published = wholeView(next, rows);
    isOutdated = false;
    publishedAt = performance.now();
    costs.publications++;
  }

  async function putShards(before: PublishedView | undefined, next: Committed, rows: number): Promise<void> {
    const { root, columns, settings } = writer;
    const { chunklen, superchunklen } = settings;
    const view = viewRowsOf(root, columns, chunklen, next, rows);
    let shard = -1;
    let chunks: number[] = [];
    const putShard = async (): Promise<void> => {
      if (chunks.length === 0) return;
      for (const column of views) if (await column.update(shard, chunks, view, looksAtAll)) costs.shards++;
      chunks = [];
    };
    for (const chunk of unpublishedChunks(before, next, view.chunks)) {
      const own = Math.floor(chunk / superchunklen);
      if (own !== shard) await putShard();
      shard = own;
      chunks.push(chunk);
    }
    await putShard();
  }

  function wholeView(committed: Committed, rows: number): PublishedView {
    return publishAll(committed, rows, writer.settings.chunklen);
  }

  /** Writes the documents that changed, the root's last. */
  async function putDocuments(rows: number): Promise<void> {
    const { store } = writer.root;
    for (const [key, bytes] of documents.list(rows, attributes)) {
      const stored = await store.get(key);
      if (!isEqual(stored, bytes)) await store.put(key, bytes, { durable: true });
    }
  }

  /** Removes shards that no longer have rows. */
  async function removeShards(before: PublishedView | undefined, rows: number): Promise<void> {
    const count = shards(rows);
    for (const column of views) {
      const numbers = before === undefined ? await column.list() : range(count, shards(before.rows));
      for (const shard of numbers) if (shard >= count) await column.remove(shard);
    }
  }

  function shards(rows: number): number {
    const { chunklen, superchunklen } = writer.settings;
    return Math.ceil(rows / (chunklen * superchunklen));
  }

  /** Removes what interrupted writes left. */
  async function removeLeftovers(): Promise<void> {
    const { store, path } = writer.root;
    await store.removeLeftovers?.(path);
    for (const view of views) {
      const { node, dimensions } = view.column;
      await store.removeLeftovers?.(joinKey(path, node));
      await store.removeLeftovers?.(joinKey(path, node, "c"));
      if (dimensions === 0) continue;
      for (const shard of await view.list()) await store.removeLeftovers?.(splitKey(view.key(shard)).folder);
    }
  }

  /** Records that the view no longer shows the last commit, even if this writer is killed. */
  async function noteWork(): Promise<void> {
    if (current.published !== undefined) await putState({ ...current, published: undefined });
  }

  async function putState(state: LiveState): Promise<void> {
    const { store, path } = writer.root;
    await store.put(joinKey(path, LIVE_STATE), encodeLiveState(state), { durable: true });
    current = state;
  }

  return {
    start,
    makeTail: indexOfPlaces,
    beforeCommit,
    afterCommit,
    noteMoved,
    setAttributes,
    admit,
    change,
    close,
  };
}

function* range(first: number, end: number): Generator<number> {
  for (let i = first; i < end; i++) yield i;
}

/** What is visible as Zarr. */
interface PublishedView {
  /** The first `known` chunks of this commit are visible, except those in `stale`. */
  readonly committed: Committed;
  /** Number of visible rows. */
  readonly rows: number;
  readonly known: number;
  /** Chunks below `known` that are not up to date, in ascending order. */
  readonly stale: readonly number[];
}

/** A view that shows the first rows of a commit completely. */
function publishAll(committed: Committed, rows: number, chunklen: number): PublishedView {
  return { committed, rows, known: Math.ceil(rows / chunklen), stale: [] };
}

/** True if the view shows these rows of a commit. */
function isPublished(view: PublishedView | undefined, { layout }: Committed, rows: number): boolean {
  return view?.committed.layout === layout && view.rows === rows && view.stale.length === 0;
}

/** The same view after chunks moved from their places in `before` to those in `now`. Undefined if nothing is known any longer. */
function followMove(
  view: PublishedView | undefined,
  before: Committed,
  now: Committed,
): PublishedView | undefined {
  if (view === undefined || view.committed === before) return view && { ...view, committed: now };
  if (view.committed.layout.epoch !== before.layout.epoch) return undefined;
  const known = Math.min(view.known, countChunks(before.layout.runs));
  return { committed: now, rows: view.rows, known, stale: [...unpublishedChunks(view, before, known)] };
}

/** Chunks of a commit below `end` that may differ from those of the view, in ascending order. */
function unpublishedChunks(
  view: PublishedView | undefined,
  { layout }: Committed,
  end: number,
): Iterable<number> {
  if (view === undefined || view.committed.layout.epoch !== layout.epoch) return range(0, end);
  const { committed, known, stale } = view;
  const changed = changedChunks(committed.layout, known, layout, end);
  return stale.length === 0 ? changed : joinNumbers(stale, [...changed], end);
}

function joinNumbers(a: readonly number[], b: readonly number[], end: number): number[] {
  return [...new Set([...a, ...b])].filter((chunk) => chunk < end).sort((one, other) => one - other);
}

/**
 * Chunks below `end`, in ascending order, that `after` has and the first `known` chunks of `before` do not have at the
 * same place. They may have changed; some may only have moved.
 */
function* changedChunks(
  before: StoredLayout,
  known: number,
  after: StoredLayout,
  end: number,
): Generator<number> {
  const [old, now] = [new LayoutIndex(before), new LayoutIndex(after)];
  const same = Math.min(sharedChunks(before.runs, after.runs), known, end);
  const patched = new Set<number>();
  for (const { patches } of [before, after])
    for (const { chunks } of patches)
      for (const chunk of chunks) if (chunk >= 0 && chunk < same) patched.add(chunk);
  const isMoved = (chunk: number): boolean => {
    const [a, b] = [old.find(chunk), now.find(chunk)];
    return a.number !== b.number || a.inFile !== b.inFile;
  };
  for (const chunk of [...patched].sort((a, b) => a - b)) if (isMoved(chunk)) yield chunk;
  for (let chunk = same; chunk < end; chunk++) if (chunk >= known || isMoved(chunk)) yield chunk;
}

/** Number of leading chunks that both lists of runs have in the same superchunks. */
function sharedChunks(a: readonly Run[], b: readonly Run[]): number {
  for (const [i, run] of a.entries()) {
    const other = b[i];
    if (
      other !== undefined &&
      other.first === run.first &&
      other.count === run.count &&
      other.chunks === run.chunks
    )
      continue;
    const before = countChunks(a.slice(0, i));
    if (other === undefined || other.first !== run.first || other.chunks !== run.chunks) return before;
    return before + Math.min(run.count, other.count) * run.chunks;
  }
  return countChunks(a);
}
