/** Arrays of bytes: made, joined and compared. Knows no format. */
import { badArgument, SuperchunkError } from "../errors.ts";
import type { Exactly } from "./check-options.ts";

/** Joins pieces in a new array, or in memory that `take` returns for their length. */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer>;
export function joinBytes(pieces: readonly Uint8Array[], take: (length: number) => Uint8Array): Uint8Array;
export function joinBytes(
  pieces: readonly Uint8Array[],
  take: (length: number) => Uint8Array = (length) => new Uint8Array(length),
): Uint8Array {
  const whole = take(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** A checksum of 32 bits as 8 hexadecimal digits. */
export function hex32(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/** Units of sizes, for people. */
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes in units of 1024, with three digits, as the command writes them. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = value < 999.5 ? value.toPrecision(3) : value.toFixed(0);
  return `${unit === 0 ? value : digits} ${bytes === 1 ? "byte" : UNITS[unit]}`;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** True if both have the same bytes; false if the first is undefined. */
export function isEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  if (a === undefined || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** True if the machine is little-endian, as typed arrays show. */
export const IS_LITTLE_ENDIAN: boolean = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** The bytes that hexadecimal digits stand for. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

/** True for a list of lengths: whole numbers, 0 or more. */
export function isShape(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0);
}

/** The element at `index` of a list. Throws a `RangeError` if there is none, which is a bug, never a fault of the input. */
export function at<T>(list: ArrayLike<T>, index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`no element ${index} in a list of ${list.length}`);
  return found;
}

/** How many of the first `count` elements `holds` is true for; once it is false, it must stay so. */
export function countLeading(count: number, holds: (index: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The parts into which multiples of `step` cut the range `[first, end)`. */
export function* stepsOf(
  first: number,
  end: number,
  step: number,
): Generator<readonly [from: number, to: number]> {
  for (let from = first; from < end; ) {
    const to = Math.min(end, (Math.floor(from / step) + 1) * step);
    yield [from, to];
    from = to;
  }
}

/** Throws `BAD_ARGUMENT` for anything but bytes: elements of other types would be cut to their last byte. Returns them. */
export function checkBytes(name: string, bytes: Uint8Array): Uint8Array {
  if (bytes?.BYTES_PER_ELEMENT === 1) return bytes;
  throw badArgument(name, `of ${bytes?.constructor?.name}`, "a Uint8Array, such as new Uint8Array(buffer)");
}

/**
 * Throws `BAD_ARGUMENT` for an option that is not among `known`, names separated by spaces: without types, a slip would pass. Smaller than
 * `checkOptions`, which also checks values, for pages that only decode.
 */
export function checkOptionNames<Options extends object, const Known extends string>(
  options: Options,
  known: Known & Exactly<Options, Known>,
): void {
  for (const [name, value] of Object.entries(options)) {
    if (!known.split(" ").includes(name))
      throw new SuperchunkError("BAD_ARGUMENT", `unknown option "${name}"; expected one of ${known}`, {
        field: name,
      });
    if (name.endsWith("Nbytes") && typeof (value ?? 0) !== "number")
      throw badArgument(name, value, "a number of bytes");
  }
}

/** The options of decoding a chunk. */
export const DECODE_OPTIONS = "expectedNbytes maxNbytes out";

/** Sets an entry of a map as its last one, and drops the first ones over `most`. */
export function keepLast<K, V>(map: Map<K, V>, key: K, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}

/** Adds an entry of a map, unless there is one for the key or no value; drops the first ones over `most`. */
export function keepFirst<K, V>(map: Map<K, V>, key: K, value: V | undefined, most: number): void {
  if (value !== undefined && !map.has(key)) keepLast(map, key, value, most);
}

/** Adds a value to the list of a key, in a map of lists. */
export function addTo<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** Appends many items. Engines limit the arguments of a call, so `push` cannot take a list of any length. */
export function pushAll<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}

/** The members of an object that are not undefined. */
export function defined<T extends object>(
  members: T,
): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  const known = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as { readonly [K in keyof T]?: Exclude<T[K], undefined> };
}

/** The first multiple of `step` that is not below a length. */
export function roundUp(length: number, step: number): number {
  return Math.ceil(length / step) * step;
}

/** The position of a number in a grid of this shape, counted in C order. */
export function unravel(index: number, shape: readonly number[]): number[] {
  let rest = index;
  const reversed = [...shape].reverse().map((length) => {
    const place = rest % length;
    rest = Math.floor(rest / length);
    return place;
  });
  return reversed.reverse();
}

/** All positions of a grid in C order, one at a time: a grid can have millions, and a document can promise more than memory holds. */
export function* positionsOf(counts: readonly number[]): Generator<number[]> {
  const total = elementsOf(counts);
  for (let index = 0; index < total; index++) yield unravel(index, counts);
}

/** All combinations of one entry from each list, the last list fastest. */
export function* combine<T>(lists: readonly (readonly T[])[]): Generator<T[]> {
  for (const position of positionsOf(lists.map(({ length }) => length)))
    yield lists.map((list, d) => list[at(position, d)] as T);
}

// Memory for results. A failed allocation is an error with a code, and large memory can be prepared.

/** Bytes of a result from which on its memory is prepared; below that, preparing takes as long as it saves. */
const LARGE = 32 << 20;

/**
 * Prepares memory that has not been touched yet and that only its reader uses. Must not read or write it, nor throw. The
 * returned function is called when the reader gives the memory up.
 */
export type PrepareMemory = (bytes: Uint8Array) => Promise<(() => void) | undefined>;

/** Kind and purpose of the memory. */
export interface Allocation {
  /** Path of the archive, for errors. */
  readonly path?: string | undefined;
  /** True for a `SharedArrayBuffer`. */
  readonly shared?: boolean | undefined;
  /** Prepares large memory; the decoder supplies it. */
  readonly prepare?: PrepareMemory | undefined;
}

/** Allocates memory for a result. Throws `LIMIT` if the engine has none, `UNSUPPORTED` if it has no shared memory. */
export function allocate(length: number, { path, shared = false }: Allocation = {}): Uint8Array {
  const place = path === undefined ? {} : { path };
  if (shared && typeof SharedArrayBuffer === "undefined")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "this engine has no shared memory (browsers allow it only for cross-origin isolated pages); read without shared",
      { ...place, field: "shared" },
    );
  try {
    return shared ? new Uint8Array(new SharedArrayBuffer(length)) : new Uint8Array(length);
  } catch (cause) {
    throw new SuperchunkError(
      "LIMIT",
      `a result of ${length} bytes does not fit in memory; read a smaller selection, or chunk by chunk`,
      { ...place, found: length, cause },
    );
  }
}

/**
 * Allocates memory for a result, which `fill` fills from the first byte to the last. Throws as {@link allocate}, and what `fill`
 * throws.
 */
export async function fillResult(
  length: number,
  allocation: Allocation,
  fill: (bytes: Uint8Array) => Promise<void>,
): Promise<Uint8Array> {
  const bytes = allocate(length, allocation);
  const handOver = length >= LARGE ? await allocation.prepare?.(bytes) : undefined;
  try {
    await fill(bytes);
  } finally {
    handOver?.();
  }
  return bytes;
}

/** Moves a buffer's memory to a new buffer. Views of the old one that a caller still has become empty. */
export function takeBack(buffer: ArrayBuffer): ArrayBuffer {
  const { transfer } = buffer as ArrayBuffer & { transfer?: () => ArrayBuffer };
  if (transfer !== undefined) return transfer.call(buffer);
  return structuredClone(buffer, { transfer: [buffer] }); // before Node 21
}

/** Memory that is reused for one result after another: allocating takes longer than filling. */
export class Room {
  #bytes = new Uint8Array(0);

  /** Returns `length` bytes with any content. The previously taken bytes become invalid. */
  readonly take = (length: number): Uint8Array => {
    if (this.#bytes.length < length) this.#bytes = new Uint8Array(length + (length >> 3));
    return this.#bytes.subarray(0, length);
  };
}

/** Buffers for reuse: allocating memory takes longer than decoding into it. */

/** Bytes that a shelf keeps. */
const MAX_KEPT = 32 << 20;

export class BufferShelf<B extends ArrayBufferLike = ArrayBuffer> {
  readonly #most: number;
  readonly #kept: B[] = [];
  #bytes = 0;

  /** `most`: bytes that it keeps. */
  constructor(most: number = MAX_KEPT) {
    this.#most = most;
  }

  /** A buffer of at least that length, with any content; undefined if there is none. */
  take(length: number): B | undefined {
    const at = this.#kept.findIndex((buffer) => buffer.byteLength >= length);
    const [buffer] = at < 0 ? [] : this.#kept.splice(at, 1);
    this.#bytes -= buffer?.byteLength ?? 0;
    return buffer;
  }

  /** Keeps a free buffer, or drops it if enough are kept. */
  put(buffer: B): void {
    if (buffer.byteLength === 0 || this.#bytes + buffer.byteLength > this.#most) return;
    this.#bytes += buffer.byteLength;
    this.#kept.push(buffer);
  }
}
