/**
 * Sets values. Changes are collected by chunk. When they are committed, or take too much memory, the affected chunks are
 * rewritten, in order, and become patches; only the blocks and streams that a change touches are encoded again. Plans on an
 * {@link ArrayWriter} with nothing else planned.
 */

import { LayoutIndex } from "../../archive/places/layout-files.ts";
import type { FetchedChunk } from "../../archive/read/chunk-fetch.ts";
import { at } from "../../bytes/arrays.ts";
import type { ByteEdit } from "../../codec/types.ts";
import { placedError } from "../../errors.ts";
import { withoutSpan } from "../../format/layout.ts";
import { type Extent, resolveSelection, type Selection } from "../../values/selection.ts";
import { type ChangeCost, touchedChunks } from "../editable.ts";
import {
  applyEdits,
  collectItems,
  columnEdits,
  editsOf,
  isCovered,
  MAX_EDITS,
  WaitingEdits,
} from "../rows/edits.ts";
import type { ArrayWriter } from "./array-writer.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/** Most bytes of collected changes. */
const MAX_BYTES = 32 << 20;

/** The changes since the last commit. */
export class ValueSetter {
  readonly #writer: ArrayWriter;
  readonly #edits = new WaitingEdits();

  constructor(writer: ArrayWriter) {
    this.#writer = writer;
    writer.edition++;
    writer.isDirty = true;
  }

  /** Sets the selected values: one for each, or one for all. Throws `BAD_ARGUMENT`. */
  async set(selection: Selection | null | undefined, values: unknown): Promise<void> {
    const writer = this.#writer;
    const { dtype, rowShape, chunklen } = writer.settings;
    const shape = [writer.rows, ...rowShape];
    const extents = resolveSelection(selection, shape);
    const items = await collectItems(values, dtype, extents);
    if (writer.rowBytes === 0 || extents.some(({ count }) => count === 0)) return;
    this.#noteSet(extents, rowShape);
    const bytes = { shape, itemSize: dtype.itemSize, chunkBytes: chunklen * writer.rowBytes };
    for (const edit of editsOf(bytes, extents, items)) {
      this.#edits.add(edit);
      if (this.#edits.bytes > MAX_BYTES || this.#edits.count > MAX_EDITS) await this.#spill(false);
    }
  }

  /** Makes patches of all changed chunks. */
  async finish(): Promise<void> {
    await this.#spill(true);
  }

  /** Rows that are set as a whole no longer count as filled by a repair. */
  #noteSet([rows, ...others]: readonly Extent[], rowShape: readonly number[]): void {
    const writer = this.#writer;
    if (rows === undefined || !others.every(({ count }, i) => count === rowShape[i])) return;
    const step = Math.abs(rows.step);
    const last = rows.start + (rows.count - 1) * rows.step;
    const [first, end] = [Math.min(rows.start, last), Math.max(rows.start, last) + 1];
    if (step === 1) writer.filled = withoutSpan(writer.filled, { from: first, to: end });
    else
      for (let row = first; row < end && writer.filled.length > 0; row += step)
        writer.filled = withoutSpan(writer.filled, { from: row, to: row + 1 });
  }

  async #spill(isLast: boolean): Promise<void> {
    const writer = this.#writer;
    await writer.drain(); // chunks of earlier patches are read
    const { chunks: indices } = this.#edits;
    const whole = indices.filter((index) => index < writer.wholeChunks);
    const { superchunklen, chunklen } = writer.settings;
    const chunkBytes = chunklen * writer.rowBytes;
    const covered = new Set(whole.filter((index) => isCovered(this.#editsOf(index), chunkBytes)));
    const source = writer.source();
    const read = whole.filter((index) => !covered.has(index));
    const columns = writer.columns.map((_, i) => source.fetchedEach(i, read));
    let group = new PatchGroup(writer);
    try {
      for (const index of whole) {
        const chunks = await (covered.has(index)
          ? this.#encodeNew(index)
          : this.#encodeChanged(index, columns));
        if ((await writer.changes?.take(index, chunks, writer)) === true) continue;
        group.add(index, chunks);
        if (group.length < superchunklen) continue;
        await group.publish();
        group = new PatchGroup(writer);
      }
    } finally {
      for (const column of columns) await column.return(undefined);
    }
    const short = writer.wholeChunks;
    if (indices.includes(short)) {
      const parts = writer.columns.map((_, i) => writer.buffer.column(i).slice());
      for (const [i, part] of parts.entries()) applyEdits(this.#editsOf(short, i), part);
      await writer.replaceTail(parts);
    }
    if (isLast) await group.takeSmaller();
    await group.publish();
    this.#edits.clear();
  }

  /** The changes of a chunk, in whole items or in a column. */
  #editsOf(index: number, column?: number): readonly ByteEdit[] {
    const edits = this.#edits.of(index);
    const layout = column === undefined ? undefined : this.#writer.columns[column];
    return layout === undefined ? edits : columnEdits(edits, layout, this.#writer.settings.dtype.itemSize);
  }

  /** A chunk that is replaced completely. */
  async #encodeNew(index: number): Promise<StoredChunk[]> {
    const writer = this.#writer;
    const chunks: StoredChunk[] = [];
    for (const [i, { rowBytes }] of writer.columns.entries()) {
      const data = new Uint8Array(writer.settings.chunklen * rowBytes);
      applyEdits(this.#editsOf(index, i), data);
      chunks.push(await writer.next(i, data));
    }
    return chunks;
  }

  /** A chunk with its changes applied. The next chunk of each of `columns` is the one to change. */
  async #encodeChanged(
    index: number,
    columns: readonly AsyncGenerator<FetchedChunk>[],
  ): Promise<StoredChunk[]> {
    const { chunks: maker, columns: layouts, root } = this.#writer;
    const chunks: StoredChunk[] = [];
    for (const [i, column] of columns.entries()) {
      const next = await column.next();
      if (next.done === true) continue;
      try {
        chunks.push(await maker.replaced(next.value, this.#editsOf(index, i), at(layouts, i).itemSize));
      } catch (error) {
        const { place } = next.value;
        throw placedError(error, root.store.describe(place.key), place);
      }
    }
    return chunks;
  }
}

/** Changed chunks that become one patch. */
class PatchGroup {
  readonly #writer: ArrayWriter;
  readonly #chunks: number[] = [];
  readonly #columns: StoredChunk[][];

  constructor(writer: ArrayWriter) {
    this.#writer = writer;
    this.#columns = writer.columns.map(() => []);
  }

  get length(): number {
    return this.#chunks.length;
  }

  add(index: number, chunks: readonly StoredChunk[]): void {
    this.#chunks.push(index);
    for (const [i, chunk] of chunks.entries()) this.#columns[i]?.push(chunk);
  }

  /** Merges the last patches that are not larger, as far as they still count, so that the number of patches stays bounded. */
  async takeSmaller(): Promise<void> {
    if (this.length === 0) return;
    const writer = this.#writer;
    for (let at = writer.patches.length - 1; at >= 0; at--) {
      const live = (writer.patches[at]?.chunks ?? []).filter(
        (chunk) => chunk >= 0 && !this.#chunks.includes(chunk),
      );
      if (live.length > this.length || live.length + this.length > writer.settings.superchunklen) break;
      for (const index of live) {
        const chunks: StoredChunk[] = [];
        for (let i = 0; i < writer.columns.length; i++)
          chunks.push(...(await writer.copied(i, index, index + 1)));
        this.add(index, chunks);
      }
    }
  }

  async publish(): Promise<void> {
    if (this.length > 0) await this.#writer.publishPatch(this.#chunks, this.#columns);
  }
}

/** What setting values in these rows costs, and the superchunks that hold one. */
export function planSetting(
  { rows: length, rowBytes, settings: { chunklen }, committed }: ArrayWriter,
  rows: Extent | undefined,
): ChangeCost & { readonly superchunks: ReadonlySet<number> } {
  const chunks = rows === undefined || rowBytes === 0 ? [] : [...touchedChunks(rows, chunklen)];
  const rewritten = chunks.reduce((sum, chunk) => sum + Math.min(chunklen, length - chunk * chunklen), 0);
  const index = new LayoutIndex(committed.layout);
  // Rows that no commit has named are not in a superchunk yet.
  const stored = chunks.filter((chunk) => chunk < index.nchunks);
  const superchunks = new Set(stored.map((chunk) => index.find(chunk).number));
  return { chunksRewritten: chunks.length, nbytesRewritten: rewritten * rowBytes, superchunks };
}
