/** The messages between the main thread and its workers. Must not know threads. */
import { checkPrologue, type PlacedChunk } from "../../archive/places/sequence.ts";
import type { DecodeRun } from "../../archive/read/chunk-fetch.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import type { PackedError } from "../../errors.ts";
import type { ChecksumName } from "../../format/types.ts";
import type { WholeShard } from "../../zarr/write/write-settings.ts";
import { borrowMemory, type LentMemory, lendMemory } from "./result-memory.ts";

/** The Blosc that decodes and encodes: this library's kernels, or the system's libblosc. */
export type BloscChoice = "wasm" | "native";

/** Reads chunks from files and decodes them. */
export interface DecodePlaces {
  readonly kind: "places";
  /** Distinguishes stores that were opened at different times, even with the same root. */
  readonly store: number;
  readonly root: string;
  readonly places: PackedPlaces;
  readonly verify: boolean;
}

/** Decodes chunks that the main thread has fetched and checked. */
export interface DecodeBytes {
  readonly kind: "bytes";
  /** The consecutive chunks, at the start of the buffer. */
  readonly input: ArrayBuffer;
  /** ctbytes and nbytes of each, and the bytes that follow it. */
  readonly sizes: Float64Array;
}

/** Decoding of either kind. */
export type DecodeJob = (DecodePlaces | DecodeBytes) & {
  readonly blosc: BloscChoice;
  /** Each chunk gets a separate buffer. */
  readonly own: boolean;
  /** Memory for all chunks, one after the other; undefined: allocate it. */
  readonly output: ArrayBuffer | undefined;
  /** Where the thread writes the chunks instead, if it can; its reply then has no buffers. */
  readonly targets: DirectTargets | undefined;
};

/** Data that become one chunk. */
export interface EncodePiece {
  /** Bytes. */
  readonly length: number;
  readonly options: EncodeOptions;
}

/** Encodes consecutive pieces in `input`, and writes their chunks one after the other into `output`. */
export interface EncodeJob {
  readonly kind: "encode";
  readonly blosc: BloscChoice;
  readonly input: SharedArrayBuffer;
  readonly output: SharedArrayBuffer;
  readonly pieces: readonly EncodePiece[];
}

/** Encodes a whole shard of a Zarr v3 array, and writes it. */
export interface ShardJob extends Pick<WholeShard, "start" | "counts" | "chunkOrder" | "writeEmptyChunks"> {
  readonly kind: "shard";
  readonly blosc: BloscChoice;
  readonly root: string;
  readonly directWrites: boolean;
  /** Mark of the temporary file that the shard is written to. */
  readonly mark: string;
  /** The array's key in the store, and its document as JSON. */
  readonly path: string;
  readonly document: string;
  /** The items in C order and native byte order, from `offset` on. */
  readonly items: SharedArrayBuffer;
  readonly offset: number;
  readonly length: number;
}

export type ThreadJob = DecodeJob | EncodeJob | ShardJob;

/** A message to a thread: to do a job, or to cancel one. The thread answers every job, even a cancelled one. */
export type ThreadOrder =
  | { readonly id: number; readonly job: ThreadJob }
  | { readonly id: number; readonly cancelled: true };

/** The result of a job: for the chunks before the error, if there is one. */
export interface ThreadReply {
  /** Decoded chunks: one buffer for all, or one each. None for encoding and for a shard. */
  readonly buffers: readonly ArrayBuffer[];
  /** nbytes, ctbytes, typesize and `trailing` of each decoded chunk; the length of each encoded one. */
  readonly facts: Float64Array;
  /** The job's input, for reuse. */
  readonly input?: ArrayBuffer | undefined;
  readonly error?: PackedError | undefined;
}

/** Where a piece of an {@link EncodeJob} or its chunk begins after one of `length` bytes: aligned, because engines copy aligned shared memory by words. */
export function nextPlace(place: number, length: number): number {
  return (place + length + 7) & ~7;
}

/** Number of {@link ThreadReply.facts} for each chunk. */
export const FACTS = 4 as const;

/** Places of chunks with the same checksum and prologue, as a few flat arrays. */
interface PackedPlaces {
  /** One for each chunk, or one for all. */
  readonly keys: readonly string[];
  readonly checksum: ChecksumName;
  readonly prologue: number;
  /** index, offset, nbytes, ctbytes (NaN: unknown), available, endsObject (1 or 0) of each. */
  readonly numbers: Float64Array;
}

const NUMBERS = 6;

export function packTogether(a: PlacedChunk, b: PlacedChunk): boolean {
  return a.checksum === b.checksum && a.prologue === b.prologue;
}

/** Packs one or more places that {@link packTogether} accepts. */
export function packPlaces(places: readonly PlacedChunk[]): PackedPlaces {
  const numbers = new Float64Array(places.length * NUMBERS);
  const [first] = places;
  places.forEach((place, i) => {
    const { index, offset, nbytes, ctbytes = Number.NaN, available, endsObject } = place;
    numbers.set([index, offset, nbytes, ctbytes, available, endsObject === true ? 1 : 0], i * NUMBERS);
  });
  const oneKey = places.every((place) => place.key === first?.key);
  const keys = oneKey ? [first?.key ?? ""] : places.map((place) => place.key);
  return { keys, checksum: first?.checksum ?? "None", prologue: first?.prologue ?? 0, numbers };
}

export function unpackPlaces({ keys, checksum, prologue, numbers }: PackedPlaces): PlacedChunk[] {
  const places: PlacedChunk[] = [];
  for (let at = 0; at < numbers.length; at += NUMBERS) {
    const [index = 0, offset = 0, nbytes = 0, ctbytes = 0, available = 0, ends = 0] = numbers.subarray(
      at,
      at + NUMBERS,
    );
    places.push({
      index,
      key: (keys.length === 1 ? keys[0] : keys[at / NUMBERS]) ?? "",
      offset,
      nbytes,
      ctbytes: Number.isNaN(ctbytes) ? undefined : ctbytes,
      available,
      checksum,
      prologue,
      checkPrologue: prologue > 0 ? checkPrologue : undefined,
      endsObject: ends === 1,
    });
  }
  return places;
}

// Where threads write decoded chunks: into the caller's result, if its memory is accessible to them. Knows memory; must not
// know jobs.

/** Places in memory that a thread can write into, one for each chunk. */
interface DirectTargets {
  readonly memory: SharedArrayBuffer | LentMemory;
  /** Offset in the memory, and length of each, in bytes. */
  readonly places: Float64Array;
}

/** The targets of some chunks, and their buffer. */
interface TargetsInBuffer {
  readonly targets: DirectTargets;
  readonly buffer: ArrayBufferLike;
}

/** The places of the chunks, if all are in the same memory and threads can write there; else undefined. */
export function directTargets(places: readonly PlacedChunk[], run: DecodeRun): TargetsInBuffer | undefined {
  if (run.target === undefined || run.hold === "keep") return undefined;
  const numbers: number[] = [];
  let buffer: ArrayBufferLike | undefined;
  let first = Number.POSITIVE_INFINITY;
  let end = 0;
  for (const place of places) {
    const target = run.target(place);
    if (target === undefined || target.length !== place.nbytes) return undefined;
    buffer ??= target.buffer;
    if (target.buffer !== buffer) return undefined;
    first = Math.min(first, target.byteOffset);
    end = Math.max(end, target.byteOffset + target.length);
    numbers.push(target.byteOffset, target.length);
  }
  if (buffer === undefined) return undefined;
  const memory = buffer instanceof SharedArrayBuffer ? buffer : lendMemory(buffer, first, end - first);
  if (memory === undefined) return undefined;
  const base = memory === buffer ? 0 : first;
  const offsets = Float64Array.from(numbers, (number, i) => (i % 2 === 0 ? number - base : number));
  return { targets: { memory, places: offsets }, buffer };
}

/** In the thread: returns a function for the place of each next chunk; undefined if the memory is not accessible. */
export async function openTargets({
  memory,
  places,
}: DirectTargets): Promise<(() => Uint8Array) | undefined> {
  const buffer = "address" in memory ? await borrowMemory(memory) : memory;
  if (buffer === undefined) return undefined;
  let k = 0;
  return () => {
    const [start = 0, length = 0] = places.subarray(k, k + 2);
    k += 2;
    return new Uint8Array(buffer, start, length);
  };
}
