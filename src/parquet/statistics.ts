/**
 * The least and the greatest value of pages and column chunks, which readers use to skip pages.
 *
 * Zeros count as -0 for the least and +0 for the greatest value, as the specification says. Values with NaN or strings of more
 * than 64 bytes have neither. Knows values; must not know pages. @see docs/parquet-format.md [PX]
 */
import { at, fromHex } from "../bytes/arrays.ts";
import type { DecodeKernel } from "../codec/decode/decode-kernel.ts";
import { withBytes } from "../codec/decode/lease.ts";
import { hex } from "../kernels/generated/bounds-kernels.ts";
import { toHalf } from "../values/item-bytes.ts";
import type { Leaf, ValueKind } from "./schema.ts";
import { bytesOf, type LeafValues, widenHalves } from "./values.ts";

/** A value that can be compared: 64-bit integers as bigint, the bytes of strings. */
type Bound = number | bigint | Uint8Array;

/** The facts of some values. */
export interface ValueStatistics {
  readonly nulls: number;
  /** True if a value is too long to be kept, or NaN; the bounds are then meaningless. */
  readonly isOpen: boolean;
  /** Undefined if there are no values, or one is NaN or too long. */
  readonly least: Bound | undefined;
  readonly greatest: Bound | undefined;
  /** True if no value is less than the previous one, and none is null. */
  readonly isAscending: boolean;
}

/** Longest string to keep, in bytes. */
const LONGEST = 64;

export function statisticsOf({ kind, width }: Leaf, values: LeafValues): ValueStatistics {
  const { bytes, count, present, texts } = values;
  const nulls = present === undefined ? 0 : present.length - count;
  const bounds = kind === "bool" ? boundsOfBits(bytes, count) : minMaxOf(kind, width ?? 1, texts ?? bytes);
  return { nulls, ...bounds, isAscending: bounds.isAscending && nulls === 0 };
}

type Bounds = Omit<ValueStatistics, "nulls">;

const NOTHING: Bounds = { isOpen: false, least: undefined, greatest: undefined, isAscending: true };

function minMaxOf(kind: ValueKind, width: number, values: Uint8Array | readonly Uint8Array[]): Bounds {
  if (values.length === 0) return NOTHING;
  if (!(values instanceof Uint8Array)) return boundsOfTexts(values);
  if (kind in NUMBERS) return boundsOfNumbers(kind as NumberKind, values);
  if (kind === "half") return boundsOfNumbers("float", widenHalves(values));
  const length = Math.floor(values.length / width);
  return boundsOfTexts(Array.from({ length }, (_, i) => values.subarray(i * width, (i + 1) * width)));
}

/** Bounds of packed booleans. */
function boundsOfBits(bits: Uint8Array, count: number): Bounds {
  if (count === 0) return NOTHING;
  return boundsOfNumbers(
    "int32",
    bytesOf(Int32Array.from({ length: count }, (_, i) => (at(bits, i >> 3) >> (i & 7)) & 1)),
  );
}

/** The numbers that the kernel compares, in its order. */
const NUMBERS = {
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float: Float32Array,
  double: Float64Array,
} as const;
type NumberKind = keyof typeof NUMBERS;
const KINDS = Object.keys(NUMBERS);

/** The exports of the WebAssembly module. @see src/kernels/assembly/bounds.ts */
type BoundsKernel = { bounds(kind: number, src: number, length: number, out: number): number };

/** Undefined before it is compiled; false if the host does not compile, such as Cloudflare Workers. */
let boundsModule: WebAssembly.Module | false | undefined;
/** The kernels that compare numbers in the memory of decoding kernels. */
const guests = new WeakMap<DecodeKernel, BoundsKernel>();

function boundsOfNumbers(kind: NumberKind, values: Uint8Array): Bounds {
  const { least, greatest, isAscending } = inKernel(kind, values) ?? inScript(kind, values);
  if (Number.isNaN(greatest)) return { ...NOTHING, isOpen: true, isAscending: false };
  const isFloat = kind === "float" || kind === "double";
  const zeros = { least: least === 0 && isFloat ? -0 : least, greatest: greatest === 0 ? 0 : greatest };
  return { isOpen: false, ...zeros, isAscending };
}

type Compared = { least: number | bigint; greatest: number | bigint; isAscending: boolean };

function inKernel(kind: NumberKind, values: Uint8Array): Compared | undefined {
  try {
    boundsModule ??= new WebAssembly.Module(fromHex(hex));
  } catch {
    boundsModule = false;
  }
  const module = boundsModule;
  if (module === false) return undefined;
  return withBytes(values, (kernel, address) => {
    const env = { memory: kernel.calls.memory };
    const guest =
      guests.get(kernel) ?? (new WebAssembly.Instance(module, { env }).exports as unknown as BoundsKernel);
    guests.set(kernel, guest);
    const out = kernel.streams; // Unused between two calls.
    const isAscending = guest.bounds(KINDS.indexOf(kind), address, values.length, out) !== 0;
    const found = new NUMBERS[kind](kernel.memory.bytes.slice(out, out + 32).buffer);
    const lanes = found.length / 2;
    const least = at<number | bigint>([...found.subarray(0, lanes).sort()], 0);
    const greatest = at<number | bigint>([...found.subarray(lanes).sort()], lanes - 1);
    return { least, greatest, isAscending };
  });
}

function inScript(kind: NumberKind, values: Uint8Array): Compared {
  const numbers = Array.from<number | bigint>(new NUMBERS[kind](values.slice().buffer));
  let [least, greatest, isAscending]: [number | bigint, number | bigint, boolean] = [
    Infinity,
    -Infinity,
    true,
  ];
  for (const [i, value] of numbers.entries()) {
    if (i > 0 && !(value >= at(numbers, i - 1))) isAscending = false;
    if (value < least) least = value;
    if (value > greatest || Number.isNaN(value)) greatest = value;
  }
  return { least, greatest, isAscending };
}

function boundsOfTexts(values: readonly Uint8Array[]): Bounds {
  let before = at(values, 0);
  let [least, greatest, isAscending] = [before, before, true];
  for (const value of values) {
    if (compareBytes(value, before) < 0) isAscending = false;
    if (compareBytes(value, least) < 0) least = value;
    if (compareBytes(value, greatest) > 0) greatest = value;
    before = value;
  }
  const isOpen = values.some(({ length }) => length > LONGEST);
  if (isOpen) return { ...NOTHING, isOpen, isAscending };
  return { isOpen, least: least.slice(), greatest: greatest.slice(), isAscending };
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const order = (a[i] as number) - (b[i] as number);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Negative, 0 or positive, in the order of the leaf's values. -0 is less than 0. */
export function compareBounds(a: Bound, b: Bound): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compareBytes(a, b);
  if (a < b) return -1;
  if (a > b) return 1;
  return Object.is(a, -0) && Object.is(b, 0) ? -1 : Object.is(a, 0) && Object.is(b, -0) ? 1 : 0;
}

/** Merges the statistics of all pages of a column chunk. */
export function mergeStatistics(pages: readonly ValueStatistics[]): ValueStatistics {
  let [nulls, isAscending, isOpen] = [0, true, false];
  let least: Bound | undefined;
  let greatest: Bound | undefined;
  for (const page of pages) {
    nulls += page.nulls;
    isAscending &&= page.isAscending;
    isOpen ||= page.isOpen;
    if (page.least === undefined || page.greatest === undefined) continue;
    if (greatest !== undefined && compareBounds(page.least, greatest) < 0) isAscending = false;
    if (least === undefined || compareBounds(page.least, least) < 0) least = page.least;
    if (greatest === undefined || compareBounds(page.greatest, greatest) > 0) greatest = page.greatest;
  }
  return isOpen
    ? { ...NOTHING, nulls, isOpen, isAscending }
    : { nulls, isOpen, least, greatest, isAscending };
}

export function encodeBound({ kind }: Leaf, bound: Bound): Uint8Array {
  if (bound instanceof Uint8Array) return bound;
  if (kind === "bool") return Uint8Array.of(Number(bound));
  if (kind === "half") return bytesOf(Uint16Array.of(toHalf(Number(bound))));
  return bytesOf(Reflect.construct(NUMBERS[kind as NumberKind], [[bound]]));
}
