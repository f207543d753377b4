/**
 * Items whose bytes must change on the way to Zarr: big-endian complex numbers, structs with padding or with
 * fields of both byte orders. Whole items in, whole items out. Must not know chunks or codecs.
 */
import type { ByteOrder, DType, Field } from "../format/types.ts";

/** A change of every item. */
export interface ItemTransform {
  /** Why chunks cannot be copied, in words. */
  readonly reason: string;
  /** The dtype of the items that come out. */
  readonly target: DType;
  /** Transforms whole items; the result is fresh. */
  apply(items: Uint8Array): Uint8Array;
}

/** Bytes of an item that are copied together, reversed where they change byte order. */
interface Run {
  readonly from: number;
  readonly to: number;
  readonly length: number;
  readonly reverse: boolean;
}

/** Big-endian complex numbers as little-endian ones. */
export function swapParts(dtype: DType & { kind: "complex" }): ItemTransform {
  const half = dtype.itemSize / 2;
  const runs = [0, half].map((at): Run => ({ from: at, to: at, length: half, reverse: true }));
  return {
    reason: "readers disagree about big-endian complex numbers",
    target: { ...dtype, byteOrder: "little" },
    apply: (items) => applyRuns(items, dtype.itemSize, dtype.itemSize, runs),
  };
}

/** A struct without padding; its fields little-endian where `toLittle`. */
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
    return swap ? ({ ...dtype, byteOrder: "little" satisfies ByteOrder } as DType) : dtype;
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
    for (const { from, to, length, reverse } of runs) {
      for (let i = 0; i < length; i++) {
        out[target + to + i] = items[source + from + (reverse ? length - 1 - i : i)] as number;
      }
    }
  }
  return out;
}
