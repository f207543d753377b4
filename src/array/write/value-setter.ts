/**
 * Setting values: the chunks that they fall into are decoded, changed and kept, and become patches when the changes are
 * committed, or when they take too much room. Plans on an {@link ArrayWriter} with nothing else planned.
 */
import { SuperchunkError } from "../../errors.ts";
import { elementsOf, resolveSelection, runsOf } from "../selection.ts";
import type { Selection } from "../types.ts";
import type { ArrayWriter } from "./array-writer.ts";
import { joinField, splitField } from "./columns.ts";
import { putItem } from "./item-bytes.ts";
import { itemsOf, readRows } from "./rows.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/** Decoded bytes of changed chunks that are kept. */
const MAX_KEPT = 48 << 20;

/** The changes since the last commit. */
export class ValueSetter {
  readonly #writer: ArrayWriter;
  /** Changed chunks by index, as items of the array. */
  readonly #chunks = new Map<number, Uint8Array>();
  #keptBytes = 0;

  constructor(writer: ArrayWriter) {
    this.#writer = writer;
    writer.edition++;
    writer.isDirty = true;
  }

  /** Sets the selected values: to as many values, or all to one. Throws `BAD_ARGUMENT`. */
  async set(selection: Selection | null | undefined, values: unknown): Promise<void> {
    const writer = this.#writer;
    const { dtype, rowShape, chunklen } = writer.settings;
    const { itemSize } = dtype;
    const shape = [writer.rows, ...rowShape];
    const extents = resolveSelection(selection, shape);
    const count = elementsOf(extents.map((extent) => extent.count));
    const items = await collectItems(writer, values, count);
    if (count === 0 || writer.rowBytes === 0) return;
    const isOne = items.length === itemSize;
    const chunkBytes = chunklen * writer.rowBytes;
    for (const batch of runsOf(extents, shape)) {
      for (let i = 0; i < batch.count; i++) {
        let at = (batch.source[i] ?? 0) * itemSize;
        let from = (batch.target[i] ?? 0) * itemSize;
        let left = batch.length * itemSize;
        while (left > 0) {
          const index = Math.floor(at / chunkBytes);
          const target = this.#chunks.get(index) ?? (await this.#open(index));
          const inChunk = at - index * chunkBytes;
          const length = Math.min(left, chunkBytes - inChunk);
          if (!isOne) target.set(items.subarray(from, from + length), inChunk);
          else for (let b = 0; b < length; b += itemSize) target.set(items, inChunk + b);
          at += length;
          from += length;
          left -= length;
        }
      }
    }
  }

  /** Makes patches of all changed chunks. */
  async finish(): Promise<void> {
    await this.#spill(true);
  }

  /** The items of a chunk, kept to be changed. */
  async #open(index: number): Promise<Uint8Array> {
    const writer = this.#writer;
    if (this.#keptBytes >= MAX_KEPT) await this.#spill(false);
    const items = index >= writer.wholeChunks ? writer.buffer.items() : await this.#load(index);
    this.#chunks.set(index, items);
    this.#keptBytes += items.length;
    return items;
  }

  async #load(index: number): Promise<Uint8Array> {
    const writer = this.#writer;
    const { chunklen, dtype } = writer.settings;
    const columns = await writer.source().decoded(index);
    const [only] = columns;
    if (writer.columns.length === 1 && only !== undefined) return only;
    const items = new Uint8Array(chunklen * writer.rowBytes);
    writer.columns.forEach((column, i) => {
      joinField(columns[i] ?? new Uint8Array(0), column, items, dtype.itemSize);
    });
    return items;
  }

  async #spill(isLast: boolean): Promise<void> {
    const writer = this.#writer;
    const { superchunklen } = writer.settings;
    let group = new PatchGroup(writer);
    for (const [index, items] of [...this.#chunks].sort(([a], [b]) => a - b)) {
      const columns = this.#split(items);
      if (index >= writer.wholeChunks) {
        writer.buffer.load(columns, items.length / writer.rowBytes);
        continue;
      }
      const chunks: StoredChunk[] = [];
      for (const [i, data] of columns.entries()) chunks.push(await writer.encodeColumn(i, data));
      group.add(index, chunks);
      if (group.length < superchunklen) continue;
      await group.publish();
      group = new PatchGroup(writer);
    }
    if (isLast) await group.takeSmaller();
    await group.publish();
    this.#chunks.clear();
    this.#keptBytes = 0;
  }

  #split(items: Uint8Array): Uint8Array[] {
    const { rowBytes, columns, settings } = this.#writer;
    if (columns.length === 1) return [items];
    const rows = items.length / rowBytes;
    return columns.map((column) => {
      const data = new Uint8Array(rows * column.rowBytes);
      splitField(items, settings.dtype.itemSize, column, data, 0);
      return data;
    });
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

  /** Takes in what still counts of the last patches that are not larger, so that the number of patches stays bounded. */
  async takeSmaller(): Promise<void> {
    if (this.length === 0) return;
    const writer = this.#writer;
    const source = writer.source();
    for (let at = writer.patches.length - 1; at >= 0; at--) {
      const live = (writer.patches[at]?.chunks ?? []).filter(
        (chunk) => chunk >= 0 && !this.#chunks.includes(chunk),
      );
      if (live.length > this.length || live.length + this.length > writer.settings.superchunklen) break;
      for (const index of live) {
        const chunks: StoredChunk[] = [];
        for (let i = 0; i < writer.columns.length; i++)
          for await (const chunk of source.encoded(i, index, index + 1)) chunks.push(chunk);
        this.add(index, chunks);
      }
    }
  }

  async publish(): Promise<void> {
    if (this.length > 0) await this.#writer.publishPatch(this.#chunks, this.#columns);
  }
}

/** The bytes of `count` items, or of one for all. */
async function collectItems(writer: ArrayWriter, values: unknown, count: number): Promise<Uint8Array> {
  const { dtype } = writer.settings;
  const facts = { dtype, rowShape: [] };
  let items = itemsOf(values, facts);
  if (items === undefined && isIterable(values) && !(dtype.kind === "complex" && isPair(values))) {
    const parts: Uint8Array[] = [];
    for await (const part of readRows(values, facts)) parts.push(part);
    items = join(parts);
  }
  if (items === undefined) {
    items = new Uint8Array(dtype.itemSize);
    putItem(new DataView(items.buffer), 0, dtype, values);
  }
  if (items.length === count * dtype.itemSize || items.length === dtype.itemSize) return items;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${items.length / dtype.itemSize} values were given for the ${count} that are selected`,
    { field: "values", expected: count, found: items.length / dtype.itemSize },
  );
}

function isIterable(value: unknown): boolean {
  return (
    typeof value === "object" && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value)
  );
}

function isPair(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "number");
}

function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
