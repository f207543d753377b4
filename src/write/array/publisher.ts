/** Publishes superchunks while the next ones are made, and keeps those that could not be for another try. */

import { LayoutIndex } from "../../archive/places/layout-files.ts";
import { isSuperchunkError } from "../../errors.ts";
import { FIRST_LOOSE, hasNumber, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { choosePlace } from "../../places/choose.ts";
import { copyObject } from "../../places/copy-object.ts";
import { giveWay } from "../../store/pool.ts";
import { type ColumnLayout, superchunkKeys } from "../layout/columns.ts";
import { removedNumbers } from "../layout/runs.ts";
import type { ArraySettings } from "../layout/settings.ts";
import type { FilledBlocks } from "../rows/chunk-maker.ts";
import type { ArrayRoot, Committed } from "./root.ts";
import {
  type ChunkPlace,
  chunkPlaces,
  type StoredChunk,
  type SuperchunkFacts,
  superchunkPieces,
  totalLength,
} from "./superchunk-file.ts";

/** A superchunk on its way: for each column its chunks. */
export interface Segment {
  readonly number: number;
  /** The first chunk of the array that is in it. */
  readonly first: number;
  readonly columns: readonly (readonly StoredChunk[])[];
}

/** A segment with what becomes of it. */
interface Publication {
  readonly segment: Segment;
  /** Where its chunks lie, to be used again. */
  readonly blocks: FilledBlocks;
  /** Under way; never rejects. Undefined: to be tried again. */
  publishing: Promise<void> | undefined;
  failure: { readonly error: unknown } | undefined;
}

/**
 * Superchunks that are being published while the next one is made, and their bytes where they are more than one: what bounds
 * the memory. Of full superchunks (32 MiB before they are compressed) that is mostly one.
 */
const MAX_WAITING = 2;
const MAX_BYTES = 24 << 20;

export class Publisher {
  readonly #publish: (segment: Segment) => Promise<void>;
  readonly #giveBack: (blocks: FilledBlocks) => void;
  readonly #waiting = new Set<Publication>();
  #deferred: { readonly error: unknown } | undefined;

  /** `publish` puts a segment and takes note of it; `giveBack` gets the memory of those that were. */
  constructor(publish: (segment: Segment) => Promise<void>, giveBack: (blocks: FilledBlocks) => void) {
    this.#publish = publish;
    this.#giveBack = giveBack;
  }

  /** Starts to publish; waits where too many are under way. What goes wrong waits for {@link throwDeferred}. */
  async add(segment: Segment, blocks: FilledBlocks): Promise<void> {
    const publication = { segment, blocks, publishing: undefined, failure: undefined };
    this.#waiting.add(publication);
    this.#start(publication);
    await this.attempt(() => this.drain(this.#bytes > MAX_BYTES ? 1 : MAX_WAITING));
  }

  /** Lets what is under way go on, now and then: to be called within long calculations. */
  giveWay(): Promise<void> | undefined {
    return this.#waiting.size > 0 ? giveWay() : undefined;
  }

  get #bytes(): number {
    let sum = 0;
    for (const { segment } of this.#waiting)
      for (const chunks of segment.columns) for (const { bytes } of chunks) sum += bytes.length;
    return sum;
  }

  /** Runs a step; what goes wrong waits for {@link throwDeferred}. */
  async attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#deferred ??= { error };
    }
  }

  /** Throws what went wrong, once what was under way is in order. */
  throwDeferred(): void {
    const deferred = this.#deferred;
    this.#deferred = undefined;
    if (deferred !== undefined) throw deferred.error;
  }

  /** Waits until at most `left` are under way. Throws what went wrong; then it can be tried again. */
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

  /** Waits for what is under way, and lets all that failed be tried again: the next call tells only what fails from then on. */
  async #settle(): Promise<void> {
    for (const publication of this.#waiting) {
      await publication.publishing;
      publication.failure = undefined;
    }
  }

  /** Gives up what waits, after what is under way. */
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

// The superchunk files of an array that is being written: which numbers are free, how large the files are, and which of
// them no commit has named yet. Must not know which rows are in them. @see FORMAT.md [FG-03] [FG-10]

/** Names that are tried for one superchunk. */
const MAX_NUMBERS = 1000;

export class SuperchunkFiles {
  readonly #root: ArrayRoot;
  /** No file has this number or a higher one. */
  next: number = FIRST_LOOSE;
  /** The highest number below {@link FIRST_LOOSE} that was used in this epoch. */
  plain = 0;
  /** Bytes published in this session, all columns. */
  sessionBytes = 0;
  /** False while all is made walkable. */
  keepsReserve = true;
  /** Keeps another format of the rows right. */
  mirror: ArrayMirror | undefined;
  readonly #bytes = new Map<number, number>();
  readonly #uncommitted = new Set<number>();
  #index: { readonly layout: StoredLayout; readonly index: LayoutIndex } | undefined;

  constructor(root: ArrayRoot) {
    this.#root = root;
  }

  /** Takes over what a layout says of the numbers; none is taken back. */
  noteLayout({ next, plain }: Pick<StoredLayout, "next" | "plain">): void {
    this.next = Math.max(this.next, next);
    this.plain = Math.max(this.plain, plain);
  }

  /** A number that has no place. */
  takeLoose(): number {
    return this.next++;
  }

  /** The number of the superchunk at a place: its own, if that was never used in this epoch. */
  takeName(place: number): number {
    const own = place + 1;
    if (own <= this.plain || own >= FIRST_LOOSE) return this.takeLoose();
    this.plain = own;
    return own;
  }

  /** Publishes one superchunk, in all columns, of an array as `committed` has it. The number that it got: another one where that is taken. */
  async publish(
    segment: Segment,
    columns: readonly ColumnLayout[],
    settings: ArraySettings,
    committed: StoredLayout,
  ): Promise<number> {
    let { number } = segment;
    const place = await this.#placeOf(segment, settings, committed);
    for (let tries = 0; ; tries++) {
      // Whoever has the name may commit it yet; after a commit of ours he cannot, and it is removed.
      this.#uncommitted.add(number);
      this.#root.placed?.assign(number, place);
      try {
        const bytes = await this.#putColumns(number, segment, columns, settings);
        this.#bytes.set(number, bytes);
        this.sessionBytes += bytes;
        return number;
      } catch (error) {
        if (!isSuperchunkError(error, "CONFLICT") || tries >= MAX_NUMBERS) throw error;
        number = this.takeLoose();
      }
    }
  }

  /** The place of a superchunk: that of the one in whose place it is written, else by the rule. */
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

  /** Copies a superchunk, in all columns, to a place under a new number; what is read back there is the same. */
  async copy(
    from: number,
    place: string | undefined,
    columns: readonly ColumnLayout[],
    signal: AbortSignal | undefined,
  ): Promise<{ readonly number: number; readonly bytes: number }> {
    const { placed } = this.#root;
    if (placed === undefined) throw new RangeError("an array without places has no place to copy to");
    for (let tries = 0; ; tries++) {
      const number = this.takeLoose();
      placed.assign(number, place);
      this.#uncommitted.add(number);
      try {
        let bytes = 0;
        for (const { folder } of columns) {
          const to = placed.at(place, `${folder}/${superchunkName(number)}`);
          const source = placed.at(placed.placeOf(from), `${folder}/${superchunkName(from)}`);
          bytes += await copyObject(source, to, { signal });
        }
        this.#bytes.set(number, bytes);
        this.sessionBytes += bytes;
        return { number, bytes };
      } catch (error) {
        if (!isSuperchunkError(error, "CONFLICT") || tries >= MAX_NUMBERS) throw error;
      }
    }
  }

  async #putColumns(
    number: number,
    segment: Segment,
    columns: readonly ColumnLayout[],
    { chunklen, checksum, superchunklen, reserve: wished }: ArraySettings,
  ): Promise<number> {
    const reserve = this.keepsReserve ? wished : undefined;
    let bytes = 0;
    for (const [i, { folder, rowBytes, itemSize }] of columns.entries()) {
      const facts = { chunkBytes: chunklen * rowBytes, checksum, itemSize, superchunklen, reserve };
      const pieces = await this.makePieces(segment.columns[i] ?? [], facts);
      await this.#root.publish(`${folder}/${superchunkName(number)}`, pieces);
      bytes += totalLength(pieces);
    }
    return bytes;
  }

  /** The bytes of a superchunk of one column, with what a mirror has behind full ones. */
  async makePieces(chunks: readonly StoredChunk[], facts: SuperchunkFacts): Promise<Uint8Array[]> {
    const pieces = superchunkPieces(chunks, facts);
    const isFull = chunks.length === facts.superchunklen && chunks.at(-1)?.nbytes === facts.chunkBytes;
    if (isFull && this.mirror !== undefined)
      pieces.push(await this.mirror.makeTail(chunkPlaces(chunks, facts)));
    return pieces;
  }

  /** A file that was put under another name than {@link publish} would. */
  adopt(number: number, bytes: number): void {
    this.#uncommitted.add(number);
    this.#bytes.set(number, bytes);
  }

  /** Bytes of the files of a number, all columns. */
  async bytesOf(number: number, columns: readonly ColumnLayout[]): Promise<number> {
    const known = this.#bytes.get(number);
    if (known !== undefined) return known;
    let bytes = 0;
    for (const key of superchunkKeys(columns, [number]))
      bytes += (await this.#root.store.stat(key))?.size ?? 0;
    return bytes;
  }

  /** What a commit of `after` in place of `before` changes: bytes that count more, and numbers that nothing names any more. `grown`: bytes by which files grow. */
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

  /** All that was published is named by a commit now, or superfluous. */
  noteCommit(): void {
    this.#uncommitted.clear();
  }

  /** Removes, in the background, what was published for a commit that never will be. */
  discard(columns: readonly ColumnLayout[]): void {
    // A number without bytes was not ours to publish.
    const made = [...this.#uncommitted].filter((number) => this.#bytes.has(number));
    for (const number of made) this.#uncommitted.delete(number);
    this.remove(made, columns);
  }

  /** Removes the superchunks of these numbers, in the background. */
  remove(numbers: readonly number[], columns: readonly ColumnLayout[]): void {
    for (const number of numbers) this.#bytes.delete(number);
    this.#root.remove(superchunkKeys(columns, numbers));
  }
}

// What a writer tells the keeper of another format of the same rows, so that both stay right. Types only.

/** Keeps another format of an array's rows right while the array is written. */
export interface ArrayMirror {
  /** What a full superchunk gets behind its chunks, which lie at these places in the file. */
  makeTail(places: readonly ChunkPlace[]): Promise<Uint8Array>;
  /** Rows are about to be committed. Their superchunks are durable. Where it throws, nothing is committed. */
  beforeCommit(next: Committed): Promise<void>;
  /** Rows are committed. May be called again for the same ones; where it throws, that will be tried again. */
  afterCommit(now: Committed): Promise<void>;
  /** The same rows lie in other superchunks than before. */
  noteMoved(before: Committed, now: Committed): void;
  /** The attributes have changed. */
  setAttributes(attrs: JsonObject, now: Committed): Promise<void>;
  /**
   * Looks whether the array can be shown with other settings, and takes note of them, durably. Resolves with these; where
   * `isFree`, with another superchunklen if readers that know the former one could take shards for others.
   *
   * @throws UNSUPPORTED for what the other format cannot show, or not under names that readers know; CONFLICT if something
   * is in the way
   */
  admit(settings: ArraySettings, isFree?: boolean): Promise<ArraySettings>;
  /** Lets a change be made of the settings that were admitted, and shows it. Where showing fails, that will be tried again. */
  change(step: () => Promise<void>): Promise<void>;
  /** Nothing more will be written. */
  close(now: Committed): Promise<void>;
}
