/** Changes of decoded bytes: in whole items of an array, or in one of its columns. Must not know where chunks are. */

import { addTo, at, elementsOf, joinBytes } from "../../bytes/arrays.ts";
import type { ByteEdit } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import { splitField } from "../../values/copy-items.ts";
import { putItem } from "../../values/item-bytes.ts";
import { type Extent, runsOf } from "../../values/selection.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { itemsOf, readRows } from "./rows.ts";

export interface ChunkEdit {
  readonly index: number;
  readonly edit: ByteEdit;
}

/** An array's chunks as one run of bytes. Sizes in bytes. */
export interface EditedBytes {
  readonly shape: readonly number[];
  readonly itemSize: number;
  /** Of every chunk but the last. */
  readonly chunkBytes: number;
}

/** The changes that set the selected items to these: one for each, or one for all. */
export function* editsOf(
  { shape, itemSize, chunkBytes }: EditedBytes,
  extents: readonly Extent[],
  items: Uint8Array,
): Generator<ChunkEdit> {
  const isOne = items.length === itemSize;
  const one = items.slice(0, itemSize);
  for (const batch of runsOf(extents, shape))
    for (let i = 0; i < batch.count; i++) {
      let to = at(batch.source, i) * itemSize;
      let from = at(batch.target, i) * itemSize;
      let left = batch.length * itemSize;
      while (left > 0) {
        const index = Math.floor(to / chunkBytes);
        const inChunk = to - index * chunkBytes;
        const length = Math.min(left, chunkBytes - inChunk);
        // A repeated value must start at its own start, but a chunk that cuts items begins inside one.
        const bytes = isOne ? turned(one, from) : items.slice(from, from + length);
        yield { index, edit: { at: inChunk, bytes, length } };
        to += length;
        from += length;
        left -= length;
      }
    }
}

/** Most changes that wait in memory. */
export const MAX_EDITS: number = 1 << 18;

/** Changes that wait in memory, by chunk, in the order in which they were made. */
export class WaitingEdits {
  readonly #byChunk = new Map<number, ByteEdit[]>();
  count = 0;
  bytes = 0;

  add({ index, edit }: ChunkEdit): void {
    addTo(this.#byChunk, index, edit);
    this.count++;
    this.bytes += edit.bytes.length;
  }

  /** The chunks with changes, in order. */
  get chunks(): readonly number[] {
    return [...this.#byChunk.keys()].sort((a, b) => a - b);
  }

  /** The changes of a chunk. */
  of(index: number): readonly ByteEdit[] {
    return this.#byChunk.get(index) ?? [];
  }

  clear(): void {
    this.#byChunk.clear();
    [this.count, this.bytes] = [0, 0];
  }
}

/** The item rotated to begin at one of its bytes. */
function turned(item: Uint8Array, from: number): Uint8Array {
  const at = from % item.length;
  return at === 0 ? item : joinBytes([item.subarray(at), item.subarray(0, at)]);
}

/**
 * The bytes of the selected items, given flat, in lists of the selection's shape, or as one for all. Throws `BAD_ARGUMENT` for
 * another number of values.
 */
export async function collectItems(
  values: unknown,
  dtype: DType,
  extents: readonly Extent[],
): Promise<Uint8Array> {
  const shape = extents.filter(({ dropped }) => !dropped).map(({ count }) => count);
  const count = elementsOf(shape);
  const facts = { dtype, rowShape: isNested(values, dtype, shape) ? shape.slice(1) : [] };
  let items = itemsOf(values, facts);
  if (
    items === undefined &&
    (isColumns(values, dtype) || isIterable(values)) &&
    !(dtype.kind === "complex" && isPair(values))
  ) {
    const parts: Uint8Array[] = [];
    for await (const part of readRows(values, facts)) parts.push(part);
    items = joinBytes(parts);
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

/** True for `{ name: list }` of a struct's fields, and not for one struct. */
function isColumns(values: unknown, dtype: DType): boolean {
  if (dtype.kind !== "struct" || typeof values !== "object" || values === null || isIterable(values))
    return false;
  return dtype.fields.every(({ name, shape }) => {
    const value = (values as Record<string, unknown>)[name];
    return shape.length === 0 && (Array.isArray(value) || ArrayBuffer.isView(value));
  });
}

function isIterable(value: unknown): boolean {
  return (
    typeof value === "object" && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value)
  );
}

/** True for nested lists of the selection's shape. A struct item or a complex number may be a list itself. */
function isNested(values: unknown, { kind }: DType, shape: readonly number[]): boolean {
  if (shape.length < 2 || !Array.isArray(values) || !Array.isArray(values[0])) return false;
  return (kind !== "struct" && kind !== "complex") || values.length !== elementsOf(shape);
}

function isPair(value: unknown): boolean {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "number");
}

/** Makes the changes, in order. */
export function applyEdits(edits: readonly ByteEdit[], target: Uint8Array): void {
  for (const { at, bytes, length = bytes.length } of edits) {
    target.set(bytes.subarray(0, length), at);
    for (let done = bytes.length; done < length; done *= 2)
      target.copyWithin(at + done, at, at + Math.min(done, length - done));
  }
}

/** The part of whole-item changes that falls into a column. */
export function columnEdits(
  edits: readonly ByteEdit[],
  column: ColumnLayout,
  itemSize: number,
): readonly ByteEdit[] {
  const { fieldBytes } = column;
  if (fieldBytes === itemSize) return edits;
  const scaled = (length: number): number => (length / itemSize) * fieldBytes;
  return edits.map(({ at, bytes, length = bytes.length }) => {
    const part = new Uint8Array(scaled(bytes.length));
    splitField(bytes, itemSize, column, part, 0);
    return { at: scaled(at), bytes: part, length: scaled(length) };
  });
}

/** True if one of the changes covers all `nbytes` bytes. */
export function isCovered(edits: readonly ByteEdit[], nbytes: number): boolean {
  return edits.some(({ at, bytes, length = bytes.length }) => at === 0 && length === nbytes);
}
