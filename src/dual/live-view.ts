/**
 * Keeps the Zarr view of an array correct while the array is written.
 *
 * When rows are added: shards, documents, then the commit. When rows are removed: the commit, documents, then shards.
 * At every step the visible Zarr array is correct, at the old or the new length; a change of several shards becomes
 * visible shard by shard. A writer finds out what is published by comparing, so a killed writer leaves nothing to undo.
 * When chunks or columns are replaced, the commit comes first while the view stays as it was; then the documents are
 * removed, the shards change one by one, and the documents are written again. @see FORMAT.md [FY]
 */

import { at, isEqual } from "../bytes/arrays.ts";
import { LIVE_STATE } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey, splitKey } from "../store/key.ts";
import type { ArrayWriter } from "../write/array/array-writer.ts";
import type { ArrayMirror } from "../write/array/publisher.ts";
import type { Committed } from "../write/array/root.ts";
import type { PublishPolicy } from "../write/editable.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { refuseSnappy } from "../zarr/write/node-document.ts";
import { ColumnView, type ViewPlace, viewRowsOf } from "./column-shards.ts";
import { admitForms, LiveDocuments, removeOldNodes, removeUnlikeDocuments } from "./documents.ts";
import {
  followMove,
  groupByShard,
  isPublished,
  type PublishedView,
  publishAll,
  range,
  unpublishedChunks,
} from "./published-view.ts";
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

/** Publishes an array as Zarr whenever its writer commits. {@link start} comes first. */
export class LiveView implements ArrayMirror {
  readonly makeTail: ArrayMirror["makeTail"] = indexOfPlaces;
  readonly #writer: ArrayWriter;
  readonly #policy: PublishPolicy;
  readonly #costs: MirrorCosts;
  readonly #looksAtAll: boolean;
  readonly #place: ViewPlace;
  #attributes: JsonObject;
  #state: LiveState;
  #documents: LiveDocuments;
  #columns: readonly ColumnView[];
  /** What is visible; undefined until everything was compared. */
  #published: PublishedView | undefined;
  #publishedAt = Number.NEGATIVE_INFINITY;
  /** True if the documents must be written again. */
  #isOutdated = false;
  /** True while the array's settings change: the view stays as it is. */
  #isPaused = false;

  constructor(writer: ArrayWriter, attributes: JsonObject, state: LiveState, options: LiveViewOptions) {
    const { root, settings, columns } = writer;
    this.#writer = writer;
    this.#attributes = attributes;
    this.#state = state;
    this.#policy = options.publish ?? "flush";
    this.#costs = options.costs ?? { bytes: 0, shards: 0, publications: 0 };
    this.#looksAtAll = options.all === true;
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
    this.#documents = new LiveDocuments(root, settings, columns);
    this.#columns = this.#viewColumns();
  }

  /** Looks at what earlier writers left, and makes every committed row visible. */
  async start(): Promise<void> {
    const { committed } = this.#writer;
    if (showsCommit(this.#state, committed.layout) && !this.#looksAtAll) {
      this.#published = this.#wholeView(committed, committed.rows);
      return;
    }
    await this.#removeLeftovers();
    await this.#writer.prepare(); // padded copies may have to be made
    await this.#publish(committed, committed.rows);
  }

  async beforeCommit(next: Committed): Promise<void> {
    if (this.#isPaused) return;
    const rows = this.#rowsDue(next);
    const visible = this.#published;
    if (rows !== undefined && visible !== undefined && next.rows > visible.rows)
      await this.#publish(next, rows);
  }

  async afterCommit(now: Committed): Promise<void> {
    if (this.#isPaused) return;
    const rows = this.#rowsDue(now);
    if (rows !== undefined) await this.#publish(now, rows);
  }

  noteMoved(before: Committed, now: Committed): void {
    this.#published = followMove(this.#published, before, now);
  }

  async setAttributes(attributes: JsonObject, now: Committed): Promise<void> {
    this.#attributes = attributes;
    this.#isOutdated = true;
    const visible = this.#published;
    if (visible === undefined) return this.#publish(now, now.rows);
    // The visible rows stay. If this fails, everything is compared again.
    this.#published = undefined;
    await this.#noteWork();
    await this.#putDocuments(visible.rows);
    this.#published = visible;
    this.#isOutdated = false;
    this.#costs.publications++;
  }

  async admit(settings: ArraySettings, isFree = false): Promise<ArraySettings> {
    refuseSnappy(this.#writer.root, settings.cname, this.#writer.settings.cname);
    const published = this.#documents.forms;
    const { forms: old } = this.#state;
    const admitted = await admitForms(this.#writer.root, settings, { published, old, isFree });
    if (admitted.forms.length > Math.max(1, old.length))
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

  async close(now: Committed): Promise<void> {
    await this.#publish(now, now.rows);
    const { id, generation } = now.layout;
    if (!showsCommit(this.#state, now.layout))
      await this.#putState({ ...this.#state, published: { id, generation } });
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

  /** Number of rows to make visible now; undefined if the view stays as it is. */
  #rowsDue(now: Committed): number | undefined {
    const { rows } = now;
    const visible = this.#published;
    if (isPublished(visible, now, rows)) return undefined;
    if (this.#policy === "flush" || visible === undefined) return rows;
    if (this.#policy === "full") {
      const full = rows - (rows % this.#rowsOfShard);
      return full > visible.rows ? full : undefined;
    }
    const seconds = (performance.now() - this.#publishedAt) / 1000;
    return seconds >= this.#policy.everySeconds ? rows : undefined;
  }

  /** Makes the first `rows` of a commit visible. If it fails, the next publication compares everything again. */
  async #publish(next: Committed, rows: number): Promise<void> {
    const before = this.#published;
    if (isPublished(before, next, rows) && !this.#isOutdated) return;
    await this.#noteWork();
    const shrinks = before !== undefined && rows < before.rows;
    this.#published = undefined;
    if (before === undefined)
      await removeUnlikeDocuments(this.#place, this.#documents.list(rows, this.#attributes));
    if (shrinks) await this.#putDocuments(rows);
    await this.#putShards(before, next, rows);
    if (!shrinks) await this.#putDocuments(rows);
    await this.#removeShards(before, rows);
    if (before === undefined) await removeOldNodes(this.#place, this.#state.forms, this.#documents.columns);
    this.#published = this.#wholeView(next, rows);
    this.#isOutdated = false;
    this.#publishedAt = performance.now();
    this.#costs.publications++;
  }

  async #putShards(before: PublishedView | undefined, next: Committed, rows: number): Promise<void> {
    const { root, columns, settings } = this.#writer;
    const { chunklen, superchunklen } = settings;
    const view = viewRowsOf(root, columns, chunklen, next, rows);
    const changed = unpublishedChunks(before, next, view.chunks);
    for (const [shard, chunks] of groupByShard(changed, superchunklen))
      for (const column of this.#columns)
        if (await column.update(shard, chunks, view, this.#looksAtAll)) this.#costs.shards++;
  }

  #wholeView(committed: Committed, rows: number): PublishedView {
    return publishAll(committed, rows, this.#writer.settings.chunklen);
  }

  /** Writes the documents that changed, the root's last. */
  async #putDocuments(rows: number): Promise<void> {
    const { store } = this.#writer.root;
    for (const [key, bytes] of this.#documents.list(rows, this.#attributes)) {
      const stored = await store.get(key);
      if (!isEqual(stored, bytes)) await store.put(key, bytes, { durable: true });
    }
  }

  /** Removes shards that no longer have rows. */
  async #removeShards(before: PublishedView | undefined, rows: number): Promise<void> {
    const count = Math.ceil(rows / this.#rowsOfShard);
    for (const column of this.#columns) {
      const numbers =
        before === undefined ? await column.list() : range(count, Math.ceil(before.rows / this.#rowsOfShard));
      for (const shard of numbers) if (shard >= count) await column.remove(shard);
    }
  }

  get #rowsOfShard(): number {
    const { chunklen, superchunklen } = this.#writer.settings;
    return chunklen * superchunklen;
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
