import type { DType, Field } from "../format/types.ts";
import { fieldSize, swapBytes } from "./values.ts";

/**
 * Copies items between strided layouts: the only place where values of chunks move into results and back.
 *
 * Pure. A transposed array only has its strides in another order, so nothing is ever transposed in memory.
 */

/** Items of an n-dimensional array in a buffer. `offset` and `strides` are in items, one stride for each dimension. */
export interface ItemView {
  readonly bytes: Uint8Array;
  readonly offset: number;
  readonly strides: readonly number[];
}

interface Axis {
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/** Copies `counts` items of `itemSize` bytes from one view to another; both have the dimensions of `counts`. */
export function copyItems(from: ItemView, to: ItemView, counts: readonly number[], itemSize: number): void {
  if (counts.includes(0) || itemSize === 0) return;
  const axes = mergeAxes(from.strides, to.strides, counts);
  const inner = axes.pop() ?? { count: 1, from: 1, to: 1 };
  const contiguous = inner.from === 1 && inner.to === 1;
  const copyRun = contiguous ? undefined : laneCopier(from.bytes, to.bytes, itemSize);
  const at = axes.map(() => 0);
  let source = from.offset;
  let target = to.offset;
  for (;;) {
    if (copyRun === undefined) {
      const start = source * itemSize;
      to.bytes.set(from.bytes.subarray(start, start + inner.count * itemSize), target * itemSize);
    } else copyRun(source, target, inner);
    let d = axes.length - 1;
    for (; d >= 0; d--) {
      const axis = axes[d];
      if (axis === undefined) break;
      const next = (at[d] as number) + 1;
      source += axis.from;
      target += axis.to;
      at[d] = next;
      if (next < axis.count) break;
      source -= axis.from * axis.count;
      target -= axis.to * axis.count;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

/** Writes one item to all places of a view. */
export function fillItems(item: Uint8Array, to: ItemView, counts: readonly number[]): void {
  copyItems({ bytes: item, offset: 0, strides: counts.map(() => 0) }, to, counts, item.length);
}

/** Repeats an item over a whole buffer. */
export function repeatItem(item: Uint8Array, bytes: Uint8Array): Uint8Array {
  const first = item[0] as number;
  if (item.every((byte) => byte === first)) return bytes.fill(first);
  bytes.set(item.subarray(0, bytes.length));
  for (let done = item.length; done < bytes.length; done *= 2)
    bytes.copyWithin(done, 0, Math.min(done, bytes.length - done));
  return bytes;
}

/** Drops dimensions of one item, and merges adjacent dimensions that are one run in both layouts. */
function mergeAxes(from: readonly number[], to: readonly number[], counts: readonly number[]): Axis[] {
  const axes = counts
    .map((count, d): Axis => ({ count, from: from[d] as number, to: to[d] as number }))
    .filter((axis) => axis.count > 1)
    .sort((a, b) => b.to - a.to);
  const merged: Axis[] = [];
  for (const axis of axes) {
    const last = merged.at(-1);
    if (last !== undefined && last.from === axis.from * axis.count && last.to === axis.to * axis.count) {
      merged[merged.length - 1] = { count: last.count * axis.count, from: axis.from, to: axis.to };
    } else merged.push(axis);
  }
  return merged;
}

type RunCopier = (source: number, target: number, axis: Axis) => void;

/** Copies strided runs as words if size and alignment allow it. Words are integers, so NaN payloads are kept. */
function laneCopier(from: Uint8Array, to: Uint8Array, itemSize: number): RunCopier {
  const width = itemSize % 4 === 0 ? 4 : itemSize % 2 === 0 ? 2 : 1;
  const aligned = from.byteOffset % width === 0 && to.byteOffset % width === 0;
  const lane = aligned ? width : 1;
  const source = lanesOf(from, lane);
  const target = lanesOf(to, lane);
  const per = itemSize / lane;
  if (per === 1)
    return (s, t, { count, from: stepFrom, to: stepTo }) => {
      for (let i = 0, a = s, b = t; i < count; i++, a += stepFrom, b += stepTo)
        target[b] = source[a] as number;
    };
  return (s, t, { count, from: stepFrom, to: stepTo }) => {
    for (let i = 0; i < count; i++) {
      const a = (s + i * stepFrom) * per;
      const b = (t + i * stepTo) * per;
      for (let lane = 0; lane < per; lane++) target[b + lane] = source[a + lane] as number;
    }
  };
}

function lanesOf(bytes: Uint8Array, width: number): Uint8Array | Uint16Array | Uint32Array {
  const length = Math.floor(bytes.byteLength / width);
  if (width === 4) return new Uint32Array(bytes.buffer, bytes.byteOffset, length);
  if (width === 2) return new Uint16Array(bytes.buffer, bytes.byteOffset, length);
  return bytes;
}

// Converts items between byte orders. Knows dtypes; must not know chunks.

interface Lane {
  readonly at: number;
  readonly width: number;
  readonly length: number;
}

/** Reverses the bytes of every number of every item in place, which converts between little-endian and big-endian. */
export function swapItems(bytes: Uint8Array, dtype: DType): Uint8Array {
  if (dtype.kind !== "struct") {
    swapBytes(bytes, widthOf(dtype));
    return bytes;
  }
  const lanes = lanesOfItem(dtype, 0);
  for (let item = 0; item < bytes.length; item += dtype.itemSize)
    for (const { at, width, length } of lanes)
      swapBytes(bytes.subarray(item + at, item + at + length), width);
  return bytes;
}

/** Bytes of a number; 1 if the type has no byte order. */
function widthOf(dtype: DType): number {
  if (dtype.kind === "struct" || dtype.byteOrder === "none") return 1;
  if (dtype.kind === "complex") return dtype.itemSize / 2;
  return dtype.kind === "unicode" ? 4 : dtype.itemSize;
}

function lanesOfItem(dtype: DType, base: number): Lane[] {
  if (dtype.kind !== "struct") {
    const width = widthOf(dtype);
    return width > 1 ? [{ at: base, width, length: dtype.itemSize }] : [];
  }
  return dtype.fields.flatMap((field) => {
    const count = fieldSize(field) / Math.max(1, field.dtype.itemSize);
    return Array.from({ length: count }, (_, i) =>
      lanesOfItem(field.dtype, base + field.offset + i * field.dtype.itemSize),
    ).flat();
  });
}

// Items whose bytes must change for Zarr: big-endian complex numbers, structs with padding or with fields of both byte
// orders. Works on whole items. Must not know chunks or codecs.

/** A change of every item. */
export interface ItemTransform {
  /** Why chunks cannot be copied, as text. */
  readonly reason: string;
  /** The dtype of the transformed items. */
  readonly target: DType;
  /** Transforms whole items; returns a new array. */
  apply(items: Uint8Array): Uint8Array;
}

/** Bytes of an item that are copied together, reversed if they change byte order. */
interface Run {
  readonly from: number;
  readonly to: number;
  readonly length: number;
  readonly reverse: boolean;
}

/** Converts big-endian complex numbers to little-endian ones. */
export function swapParts(dtype: DType & { kind: "complex" }): ItemTransform {
  const half = dtype.itemSize / 2;
  const runs = [0, half].map((at): Run => ({ from: at, to: at, length: half, reverse: true }));
  return {
    reason: "readers disagree about big-endian complex numbers",
    target: { ...dtype, byteOrder: "little" },
    apply: (items) => applyRuns(items, dtype.itemSize, dtype.itemSize, runs),
  };
}

/** Removes the padding of a struct; with `toLittle`, also makes its fields little-endian. */
export function packFields(
  dtype: DType & { kind: "struct" },
  toLittle: boolean,
  reason: string,
): ItemTransform {
  const runs: Run[] = [];
  const target = pack(dtype, 0, 0, toLittle, runs);
  return { reason, target, apply: (items) => applyRuns(items, dtype.itemSize, target.itemSize, runs) };
}

function pack(dtype: DType, from: number, to: number, toLittle: boolean, runs: Run[]): DType {
  if (dtype.kind !== "struct") {
    const swap = toLittle && "byteOrder" in dtype && dtype.byteOrder === "big";
    const width = !swap
      ? dtype.itemSize
      : dtype.kind === "complex"
        ? dtype.itemSize / 2
        : dtype.kind === "unicode"
          ? 4
          : dtype.itemSize;
    for (let at = 0; at < dtype.itemSize; at += width)
      runs.push({ from: from + at, to: to + at, length: width, reverse: swap });
    return swap ? { ...dtype, byteOrder: "little" } : dtype;
  }
  const fields: Field[] = [];
  let size = 0;
  for (const field of dtype.fields) {
    const packed = pack(field.dtype, from + field.offset, to + size, toLittle, runs);
    fields.push({ ...field, dtype: packed, offset: size });
    size += packed.itemSize;
  }
  return { ...dtype, itemSize: size, fields };
}

function applyRuns(
  items: Uint8Array,
  sourceSize: number,
  targetSize: number,
  runs: readonly Run[],
): Uint8Array {
  const count = Math.floor(items.length / sourceSize);
  const out = new Uint8Array(count * targetSize);
  for (let item = 0; item < count; item++) {
    const source = item * sourceSize;
    const target = item * targetSize;
    for (const { from, to, length, reverse } of runs)
      for (let i = 0; i < length; i++)
        out[target + to + i] = items[source + from + (reverse ? length - 1 - i : i)] as number;
  }
  return out;
}

/** Where a field is in an item: bytes. */
interface FieldPlace {
  readonly offset: number;
  readonly fieldBytes: number;
}

/** Copies one field of whole items to its column, which begins at byte `at` of `target`. */
export function splitField(
  items: Uint8Array,
  itemSize: number,
  { offset, fieldBytes }: FieldPlace,
  target: Uint8Array,
  at: number,
): void {
  if (fieldBytes === itemSize) target.set(items, at);
  else
    for (let from = offset, to = at; from < items.length; from += itemSize, to += fieldBytes)
      for (let b = 0; b < fieldBytes; b++) target[to + b] = items[from + b] as number;
}

/** Copies a column's bytes into the fields of whole items. */
export function joinField(
  source: Uint8Array,
  { offset, fieldBytes }: FieldPlace,
  items: Uint8Array,
  itemSize: number,
): void {
  for (let to = offset, from = 0; to < items.length; to += itemSize, from += fieldBytes)
    for (let b = 0; b < fieldBytes; b++) items[to + b] = source[from + b] as number;
}
