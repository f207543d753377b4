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
import type { ChunkPlace } from "../write/array/superchunk-file.ts";
import type { PublishPolicy } from "../write/editable.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { ColumnView, rowsOf, type ViewPlace } from "./column-shards.ts";
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

export class LiveView implements ArrayMirror {
  readonly #writer: ArrayWriter;
  readonly #policy: PublishPolicy;
  readonly #costs: MirrorCosts;
  readonly #looksAtAll: boolean;
  readonly #place: ViewPlace;
  #documents: LiveDocuments;
  #columns: readonly ColumnView[];
  /** True while the array's settings change: the view stays as it is. */
  #isPaused = false;
  #attrs: JsonObject;
  #state: LiveState;
  /** Undefined until everything was compared. */
  #published: PublishedView | undefined;
  /** True if the documents must be written again. */
  #isOutdated = false;
  #publishedAt = Number.NEGATIVE_INFINITY;

  constructor(writer: ArrayWriter, attrs: JsonObject, state: LiveState, options: LiveViewOptions) {
    const { root, settings, columns } = writer;
    this.#writer = writer;
    this.#attrs = attrs;
    this.#state = state;
    this.#policy = options.publish ?? "flush";
    this.#costs = options.costs ?? { bytes: 0, shards: 0, publications: 0 };
    this.#looksAtAll = options.all === true;
    this.#documents = new LiveDocuments(root, settings, columns);
    this.#place = {
      store: root.store,
      path: root.path,
      files: options.files,
      encode: (column, data) => writer.chunks.encode(data, at(writer.columns, column).itemSize),
      high: () => this.#state.high,
      raiseHigh: (high) => this.#putState({ ...this.#state, high }),
      noteWritten: (bytes) => {
        this.#costs.bytes += bytes;
      },
    };
    this.#columns = this.#viewColumns();
  }

  /** Reads what earlier writers left, and makes every committed row visible. */
  async start(): Promise<void> {
    const { committed } = this.#writer;
    if (showsCommit(this.#state, committed.layout) && !this.#looksAtAll) {
      this.#published = this.#publishAll(committed, committed.rows);
      return;
    }
    await this.#removeLeftovers();
    await this.#writer.prepare(); // padded copies may have to be made
    await this.#publish(committed, committed.rows);
  }

  makeTail(places: readonly ChunkPlace[]): Promise<Uint8Array> {
    return indexOfPlaces(places);
  }

  async beforeCommit(next: Committed): Promise<void> {
    if (this.#isPaused) return;
    const rows = this.#due(next);
    if (rows !== undefined && this.#published !== undefined && next.rows > this.#published.rows)
      await this.#publish(next, rows);
  }

  async afterCommit(now: Committed): Promise<void> {
    if (this.#isPaused) return;
    const rows = this.#due(now);
    if (rows !== undefined) await this.#publish(now, rows);
  }

  noteMoved(before: Committed, now: Committed): void {
    this.#published = followMove(this.#published, before, now);
  }

  async setAttributes(attrs: JsonObject, now: Committed): Promise<void> {
    this.#attrs = attrs;
    this.#isOutdated = true;
    const view = this.#published;
    if (view === undefined) return this.#publish(now, now.rows);
    // The visible rows stay. If this fails, everything is compared again.
    this.#published = undefined;
    await this.#noteWork();
    await this.#putDocuments(view.rows);
    this.#published = view;
    this.#isOutdated = false;
    this.#costs.publications++;
  }

  async admit(settings: ArraySettings, isFree = false): Promise<ArraySettings> {
    const { root } = this.#writer;
    const published = this.#documents.forms;
    const admitted = await admitForms(root, settings, { published, old: this.#state.forms, isFree });
    if (admitted.forms.length > Math.max(1, this.#state.forms.length))
      await this.#putState({ ...this.#state, forms: admitted.forms });
    return admitted.settings;
  }

  async change(step: () => Promise<void>): Promise<void> {
    const { settings } = this.#writer;
    this.#isPaused = true;
    try {
      await step();
    } finally {
      this.#isPaused = false;
      if (this.#writer.settings !== settings) this.#layOutAgain();
    }
    await this.afterCommit(this.#writer.committed);
  }

  /** The array has other chunks or columns: everything will be compared. */
  #layOutAgain(): void {
    const { root, settings, columns } = this.#writer;
    this.#published = undefined;
    this.#documents = new LiveDocuments(root, settings, columns);
    this.#columns = this.#viewColumns();
  }

  #viewColumns(): readonly ColumnView[] {
    return this.#documents.columns.map((column) => new ColumnView(this.#place, column));
  }

  async close(now: Committed): Promise<void> {
    await this.#publish(now, now.rows);
    const { id, generation } = now.layout;
    if (!showsCommit(this.#state, now.layout))
      await this.#putState({ ...this.#state, published: { id, generation } });
  }

  /** Number of rows to make visible now; undefined if the view stays as it is. */
  #due(now: Committed): number | undefined {
    const { rows } = now;
    const view = this.#published;
    if (isPublished(view, now, rows)) return undefined;
    if (this.#policy === "flush" || view === undefined) return rows;
    if (this.#policy === "full") {
      const { chunklen, superchunklen } = this.#writer.settings;
      const full = rows - (rows % (chunklen * superchunklen));
      return full > view.rows ? full : undefined;
    }
    const seconds = (performance.now() - this.#publishedAt) / 1000;
    return seconds >= this.#policy.everySeconds ? rows : undefined;
  }

  async #publish(next: Committed, rows: number): Promise<void> {
    const before = this.#published;
    if (isPublished(before, next, rows) && !this.#isOutdated) return;
    await this.#noteWork();
    const shrinks = before !== undefined && rows < before.rows;
    // If this fails, the next publication compares everything again.
    this.#published = undefined;
    if (before === undefined)
      await removeUnlikeDocuments(this.#place, this.#documents.list(rows, this.#attrs));
    if (shrinks) await this.#putDocuments(rows);
    await this.#putShards(before, next, rows);
    if (!shrinks) await this.#putDocuments(rows);
    await this.#removeShards(before, rows);
    if (before === undefined) await removeOldNodes(this.#place, this.#state.forms, this.#documents.columns);
    this.#published = this.#publishAll(next, rows);
    this.#isOutdated = false;
    this.#publishedAt = performance.now();
    this.#costs.publications++;
  }

  async #putShards(before: PublishedView | undefined, next: Committed, rows: number): Promise<void> {
    const { root, columns, settings } = this.#writer;
    const { chunklen, superchunklen } = settings;
    const view = rowsOf(root, columns, chunklen, next, rows);
    let shard = -1;
    let chunks: number[] = [];
    const putShard = async (): Promise<void> => {
      if (chunks.length === 0) return;
      for (const column of this.#columns)
        if (await column.update(shard, chunks, view, this.#looksAtAll)) this.#costs.shards++;
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

  #publishAll(committed: Committed, rows: number): PublishedView {
    return publishAll(committed, rows, this.#writer.settings.chunklen);
  }

  /** Writes the documents that changed, the root's last. */
  async #putDocuments(rows: number): Promise<void> {
    const { store } = this.#writer.root;
    for (const [key, bytes] of this.#documents.list(rows, this.#attrs)) {
      const stored = await store.get(key);
      if (!isEqual(stored, bytes)) await store.put(key, bytes, { durable: true });
    }
  }

  /** Removes shards that no longer have rows. */
  async #removeShards(before: PublishedView | undefined, rows: number): Promise<void> {
    const count = this.#shards(rows);
    for (const column of this.#columns) {
      const numbers = before === undefined ? await column.list() : range(count, this.#shards(before.rows));
      for (const shard of numbers) if (shard >= count) await column.remove(shard);
    }
  }

  #shards(rows: number): number {
    const { chunklen, superchunklen } = this.#writer.settings;
    return Math.ceil(rows / (chunklen * superchunklen));
  }

  /** Removes what interrupted writes left. */
  async #removeLeftovers(): Promise<void> {
    const { store, path } = this.#writer.root;
    await store.removeLeftovers?.(path);
    for (const view of this.#columns) {
      const { node, dimensions } = view.column;
      await store.removeLeftovers?.(joinKey(path, node));
      await store.removeLeftovers?.(joinKey(path, node, "c"));
      if (dimensions === 0) continue;
      for (const shard of await view.list()) await store.removeLeftovers?.(splitKey(view.key(shard)).folder);
    }
  }

  /** Records that the view no longer shows the last commit, even if this writer is killed. */
  async #noteWork(): Promise<void> {
    if (this.#state.published !== undefined) await this.#putState({ ...this.#state, published: undefined });
  }

  async #putState(state: LiveState): Promise<void> {
    const { store, path } = this.#writer.root;
    await store.put(joinKey(path, LIVE_STATE), encodeLiveState(state), { durable: true });
    this.#state = state;
  }
}

function range(first: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
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
  if (view === undefined || view.committed.layout.epoch !== layout.epoch) return numbersTo(end);
  const { committed, known, stale } = view;
  const changed = changedChunks(committed.layout, known, layout, end);
  return stale.length === 0 ? changed : joinNumbers(stale, [...changed], end);
}

function joinNumbers(a: readonly number[], b: readonly number[], end: number): number[] {
  return [...new Set([...a, ...b])].filter((chunk) => chunk < end).sort((one, other) => one - other);
}

function* numbersTo(end: number): Generator<number> {
  for (let i = 0; i < end; i++) yield i;
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
