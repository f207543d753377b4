/** Publishes superchunks while the next ones are made, and keeps those that failed for another attempt. */

import { LayoutIndex } from "../../archive/places/layout-files.ts";
import { isSuperchunkError } from "../../errors.ts";
import { FIRST_LOOSE, hasNumber, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { copyObject } from "../../places/copy-object.ts";
import { choosePlace } from "../../places/placed-store.ts";
import { sizeOfObjects } from "../../store/key.ts";
import { giveWay } from "../../store/pool.ts";
import { type ColumnLayout, superchunkKeys } from "../layout/columns.ts";
import { removedNumbers } from "../layout/runs.ts";
import type { ArraySettings } from "../layout/settings.ts";
import type { FilledBlocks } from "../rows/chunk-maker.ts";
import type { ArrayRoot, Committed } from "./root.ts";
import {
  type ChunkSpan,
  chunkPlaces,
  formOf,
  type StoredChunk,
  type SuperchunkForm,
  superchunkPieces,
  totalLength,
} from "./superchunk-file.ts";

/** A superchunk to be published: its chunks for each column. */
export interface Segment {
  readonly number: number;
  /** Its first chunk in the array. */
  readonly first: number;
  readonly columns: readonly (readonly StoredChunk[])[];
}

/** A segment, and the state of its publication. */
interface Publication {
  readonly segment: Segment;
  /** The memory of its chunks, to be reused. */
  readonly blocks: FilledBlocks;
  /** In progress; never rejects. Undefined: to be tried again. */
  publishing: Promise<void> | undefined;
  failure: { readonly error: unknown } | undefined;
}

/**
 * Limits of superchunks published while the next one is made: their number, and their bytes if there is more than one. They
 * bound the memory. Of full superchunks (32 MiB before compression) there is usually one.
 */
const MAX_WAITING = 2;
const MAX_BYTES = 24 << 20;

export class Publisher {
  readonly #publish: (segment: Segment) => Promise<void>;
  readonly #giveBack: (blocks: FilledBlocks) => void;
  readonly #waiting = new Set<Publication>();
  #deferred: { readonly error: unknown } | undefined;

  /** `publish` puts a segment and records it; `giveBack` gets the memory of published ones. */
  constructor(publish: (segment: Segment) => Promise<void>, giveBack: (blocks: FilledBlocks) => void) {
    this.#publish = publish;
    this.#giveBack = giveBack;
  }

  /** Starts publishing; waits if too many are in progress. Errors are kept for {@link throwDeferred}. */
  async add(segment: Segment, blocks: FilledBlocks): Promise<void> {
    const publication = { segment, blocks, publishing: undefined, failure: undefined };
    this.#waiting.add(publication);
    this.#start(publication);
    await this.attempt(() => this.drain(this.#bytes > MAX_BYTES ? 1 : MAX_WAITING));
  }

  /** Lets publications proceed from time to time; to be called in long calculations. */
  giveWay(): Promise<void> | undefined {
    return this.#waiting.size > 0 ? giveWay() : undefined;
  }

  get #bytes(): number {
    let sum = 0;
    for (const { segment } of this.#waiting)
      for (const chunks of segment.columns) for (const { bytes } of chunks) sum += bytes.length;
    return sum;
  }

  /** Runs a step; an error is kept for {@link throwDeferred}. */
  async attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#deferred ??= { error };
    }
  }

  /** Throws the first kept error. */
  throwDeferred(): void {
    const deferred = this.#deferred;
    this.#deferred = undefined;
    if (deferred !== undefined) throw deferred.error;
  }

  /** Waits until at most `left` are in progress. Throws errors; then it can be tried again. */
  async drain(left = 0): Promise<void> {
    while (this.#waiting.size > left) {
      for (const publication of this.#waiting) {
        const { failure } = publication;
        if (failure !== undefined) {
          await this.#settle();
          throw failure.error;
        }
        if (publication.publishing === undefined) this.#start(publication);
      }
      await Promise.race([...this.#waiting].map(({ publishing }) => publishing));
    }
  }

  /** Waits for those in progress, and lets all failed ones be tried again: the next call reports only new failures. */
  async #settle(): Promise<void> {
    for (const publication of this.#waiting) {
      await publication.publishing;
      publication.failure = undefined;
    }
  }

  /** Waits for those in progress, then discards all. */
  async clear(): Promise<void> {
    for (const { publishing } of this.#waiting) await publishing;
    for (const { blocks } of this.#waiting) this.#giveBack(blocks);
    this.#waiting.clear();
    this.#deferred = undefined;
  }

  #start(publication: Publication): void {
    publication.publishing = this.#publish(publication.segment).then(
      () => {
        this.#waiting.delete(publication);
        this.#giveBack(publication.blocks);
      },
      (error: unknown) => {
        publication.publishing = undefined;
        publication.failure = { error };
      },
    );
  }
}

// The superchunk files of an array that is being written: which numbers are free, how large the files are, and which of them no
// commit has named yet. Must not know which rows are in them. @see FORMAT.md [FG-03] [FG-10]

/** Names tried for one superchunk. */
const MAX_NUMBERS = 1000;

export class SuperchunkFiles {
  readonly #root: ArrayRoot;
  /** No file has this number or a higher one. */
  next: number = FIRST_LOOSE;
  /** The highest number below {@link FIRST_LOOSE} that was used in this epoch. */
  plain = 0;
  /** Bytes published in this session, all columns. */
  sessionBytes = 0;
  /** False while everything is made walkable. */
  keepsReserve = true;
  /** Keeps another format of the rows up to date. */
  mirror: ArrayMirror | undefined;
  readonly #bytes = new Map<number, number>();
  readonly #uncommitted = new Set<number>();
  #index: { readonly layout: StoredLayout; readonly index: LayoutIndex } | undefined;

  constructor(root: ArrayRoot) {
    this.#root = root;
  }

  /** Takes over what a layout says of the numbers; numbers never decrease. */
  noteLayout({ next, plain }: Pick<StoredLayout, "next" | "plain">): void {
    this.next = Math.max(this.next, next);
    this.plain = Math.max(this.plain, plain);
  }

  /** Takes a number that does not correspond to a position. */
  takeLoose(): number {
    return this.next++;
  }

  /** The number for a superchunk at a position: the matching one if it was never used in this epoch. */
  takeName(place: number): number {
    const own = place + 1;
    if (own <= this.plain || own >= FIRST_LOOSE) return this.takeLoose();
    this.plain = own;
    return own;
  }

  /**
   * Publishes one superchunk, in all columns, of an array as in `committed`. Returns its number, which differs from the planned
   * one if that is taken.
   */
  async publish(
    segment: Segment,
    columns: readonly ColumnLayout[],
    settings: ArraySettings,
    committed: StoredLayout,
  ): Promise<number> {
    const place = await this.#placeOf(segment, settings, committed);
    const { number } = await this.#putUnder(segment.number, place, (name) =>
      this.#putColumns(name, segment, columns, settings),
    );
    return number;
  }

  /** Puts a superchunk under this number, or if that is taken under another one; `put` resolves with its bytes. */
  async #putUnder(
    wished: number,
    place: string | undefined,
    put: (name: string) => Promise<number>,
  ): Promise<{ readonly number: number; readonly bytes: number }> {
    for (let [number, tries] = [wished, 0]; ; number = this.takeLoose(), tries++) {
      // The writer that owns the name may still commit it; after a commit of ours it cannot, and the file is removed.
      this.#uncommitted.add(number);
      this.#root.placed?.table.set(number, place);
      try {
        const bytes = await put(superchunkName(number));
        this.#bytes.set(number, bytes);
        this.sessionBytes += bytes;
        return { number, bytes };
      } catch (error) {
        if (!isSuperchunkError(error, "CONFLICT") || tries >= MAX_NUMBERS) throw error;
      }
    }
  }

  /** The place of a superchunk: that of the one it replaces, else by the rule. */
  async #placeOf(
    { first }: Segment,
    settings: ArraySettings,
    layout: StoredLayout,
  ): Promise<string | undefined> {
    const { placed } = this.#root;
    if (placed === undefined) return undefined;
    if (this.#index?.layout !== layout) this.#index = { layout, index: new LayoutIndex(layout) };
    const { index } = this.#index;
    const before = first < index.nchunks ? index.find(first).number : undefined;
    return choosePlace(placed, settings, first, before);
  }

  /** Copies a superchunk, in all columns, to a place under a new number, and verifies the copy. */
  async copy(
    from: number,
    place: string | undefined,
    columns: readonly ColumnLayout[],
    signal: AbortSignal | undefined,
  ): Promise<{ readonly number: number; readonly bytes: number }> {
    const { placed } = this.#root;
    if (placed === undefined) throw new RangeError("an array without places has no place to copy to");
    return this.#putUnder(this.takeLoose(), place, async (name) => {
      let bytes = 0;
      for (const { folder } of columns) {
        const source = placed.at(placed.table.of(from), `${folder}/${superchunkName(from)}`);
        bytes += await copyObject(source, placed.at(place, `${folder}/${name}`), { signal });
      }
      return bytes;
    });
  }

  async #putColumns(
    name: string,
    segment: Segment,
    columns: readonly ColumnLayout[],
    settings: ArraySettings,
  ): Promise<number> {
    const reserve = this.keepsReserve ? settings.reserve : undefined;
    let bytes = 0;
    for (const [i, column] of columns.entries()) {
      const pieces = await this.makePieces(segment.columns[i] ?? [], {
        ...formOf(column, settings),
        reserve,
      });
      await this.#root.publish(`${column.folder}/${name}`, pieces);
      bytes += totalLength(pieces);
    }
    return bytes;
  }

  /** The bytes of a superchunk of one column; a mirror adds its tail to full ones. */
  async makePieces(chunks: readonly StoredChunk[], facts: SuperchunkForm): Promise<Uint8Array[]> {
    const pieces = superchunkPieces(chunks, facts);
    const isFull = chunks.length === facts.superchunklen && chunks.at(-1)?.nbytes === facts.chunkBytes;
    if (isFull && this.mirror !== undefined)
      pieces.push(await this.mirror.makeTail(chunkPlaces(chunks, facts)));
    return pieces;
  }

  /** Adds a file that was put under another name than {@link publish} would choose. */
  adopt(number: number, bytes: number): void {
    this.#uncommitted.add(number);
    this.#bytes.set(number, bytes);
  }

  /** Bytes of the files of a number, all columns. */
  async bytesOf(number: number, columns: readonly ColumnLayout[]): Promise<number> {
    const keys = superchunkKeys(columns, [number]);
    return this.#bytes.get(number) ?? sizeOfObjects(this.#root.store, keys, undefined);
  }

  /**
   * The effect of replacing commit `before` by `after`: bytes added to the count, and numbers no longer named. `grown`: bytes
   * by which files grow.
   */
  async weigh(
    before: StoredLayout,
    after: StoredLayout,
    columns: readonly ColumnLayout[],
    grown: ReadonlyMap<number, number>,
  ): Promise<{ readonly gain: number; readonly superfluous: readonly number[] }> {
    const superfluous = [...removedNumbers(before, after)];
    let gain = 0;
    for (const [number, bytes] of grown) {
      gain += bytes;
      const known = this.#bytes.get(number);
      if (known !== undefined) this.#bytes.set(number, known + bytes);
    }
    for (const number of superfluous) gain -= await this.bytesOf(number, columns);
    for (const number of this.#uncommitted) {
      if (hasNumber(after, number)) gain += this.#bytes.get(number) ?? 0;
      else superfluous.push(number);
    }
    return { gain, superfluous };
  }

  /** Everything published is now named by a commit, or superfluous. */
  noteCommit(): void {
    this.#uncommitted.clear();
  }

  /** Removes, in the background, what was published for a commit that will not happen. */
  discard(columns: readonly ColumnLayout[]): void {
    // A number without bytes was not published by this writer.
    const made = [...this.#uncommitted].filter((number) => this.#bytes.has(number));
    for (const number of made) this.#uncommitted.delete(number);
    this.remove(made, columns);
  }

  /** Removes these superchunks in the background. */
  remove(numbers: readonly number[], columns: readonly ColumnLayout[]): void {
    for (const number of numbers) this.#bytes.delete(number);
    this.#root.remove(superchunkKeys(columns, numbers));
  }
}

// How a writer informs the keeper of another format of the same rows, so that both stay consistent. Types only.

/** Keeps another format of an array's rows up to date while the array is written. */
export interface ArrayMirror {
  /** The tail of a full superchunk, whose chunks are at these places in the file. */
  makeTail(places: readonly ChunkSpan[]): Promise<Uint8Array>;
  /** Called before rows are committed. Their superchunks are durable. If it throws, nothing is committed. */
  beforeCommit(next: Committed): Promise<void>;
  /** Called after rows are committed. May be called again for the same ones; if it throws, it will be tried again. */
  afterCommit(now: Committed): Promise<void>;
  /** The same rows are now in other superchunks. */
  noteMoved(before: Committed, now: Committed): void;
  /** The attributes have changed. */
  setAttributes(attrs: JsonObject, now: Committed): Promise<void>;
  /**
   * Checks whether the array can be shown with other settings, and durably records them. Resolves with these; with `isFree`,
   * the superchunklen may differ if readers that know the old one could misread shards.
   * @throws UNSUPPORTED for what the other format cannot show, or not under names that readers know; CONFLICT if something is
   * in the way
   */
  admit(settings: ArraySettings, isFree?: boolean): Promise<ArraySettings>;
  /** Runs a change of the admitted settings, and then shows it. If showing fails, it will be tried again. */
  change(step: () => Promise<void>): Promise<void>;
  /** Nothing more will be written. */
  close(now: Committed): Promise<void>;
}
