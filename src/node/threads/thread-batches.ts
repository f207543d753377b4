/**
 * Cuts chunks into batches for threads: named by their places, or fetched here. Knows jobs' contents; must not know how
 * they are done.
 */

import type { PlacedChunk } from "../../archive/places/sequence.ts";
import type { DecodeRun } from "../../archive/read/chunk-decoder.ts";
import { fetchChunks } from "../../archive/read/chunk-fetch.ts";
import type { BufferShelf } from "../../bytes/buffer-shelf.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type DecodeBytes, packTogether } from "./thread-messages.ts";

/** Chunks of a batch, at most. */
const MAX_CHUNKS = 512;

/** Some chunks that are decoded together. */
export interface Batch {
  readonly places: readonly PlacedChunk[];
  readonly nbytes: number;
  /** Fetched here; undefined: the thread reads them. */
  readonly fetched: Pick<DecodeBytes, "input" | "sizes"> | undefined;
}

/** Fetches chunks; where one is damaged, those in front of it are handed over, and then it throws. */
export async function* fetchBatches(
  store: ReadableStore,
  places: readonly PlacedChunk[],
  jobBytes: number,
  run: DecodeRun,
  shelf: BufferShelf,
): AsyncGenerator<Batch> {
  let input = new FetchedInput(shelf);
  let failure: { readonly error: unknown } | undefined;
  const chunks = fetchChunks(store, places, { verify: run.verify, signal: run.signal });
  try {
    for await (const { place, bytes } of chunks) {
      input.add(place, bytes);
      if (input.nbytes < jobBytes) continue;
      yield input.finish();
      input = new FetchedInput(shelf);
    }
  } catch (error) {
    failure = { error };
  }
  if (input.count > 0) yield input.finish();
  if (failure !== undefined) throw failure.error;
}

/** Fetched chunks that are put together for one job. */
class FetchedInput {
  readonly #shelf: BufferShelf;
  readonly #places: PlacedChunk[] = [];
  readonly #sizes: number[] = [];
  #buffer = new ArrayBuffer(0);
  #used = 0;
  nbytes = 0;

  constructor(shelf: BufferShelf) {
    this.#shelf = shelf;
  }

  get count(): number {
    return this.#places.length;
  }

  add(place: PlacedChunk, bytes: Uint8Array): void {
    this.#reserve(this.#used + bytes.length);
    new Uint8Array(this.#buffer).set(bytes, this.#used);
    this.#used += bytes.length;
    this.#places.push(place);
    this.#sizes.push(bytes.length, place.nbytes);
    this.nbytes += place.nbytes;
  }

  finish(): Batch {
    const fetched = { input: this.#buffer, sizes: Float64Array.from(this.#sizes) };
    return { places: this.#places, nbytes: this.nbytes, fetched };
  }

  #reserve(needed: number): void {
    if (this.#buffer.byteLength >= needed) return;
    const room = Math.max(needed, 2 * this.#buffer.byteLength);
    const larger = this.#shelf.take(room) ?? new ArrayBuffer(room);
    new Uint8Array(larger).set(new Uint8Array(this.#buffer, 0, this.#used));
    this.#shelf.put(this.#buffer);
    this.#buffer = larger;
  }
}

/** Places in groups of about `jobBytes` decoded bytes that can be packed together. */
export function* groupPlaces(places: readonly PlacedChunk[], jobBytes: number): Generator<PlacedChunk[]> {
  let group: PlacedChunk[] = [];
  let nbytes = 0;
  for (const place of places) {
    const [first] = group;
    if (
      first !== undefined &&
      (nbytes >= jobBytes || group.length >= MAX_CHUNKS || !packTogether(first, place))
    ) {
      yield group;
      group = [];
      nbytes = 0;
    }
    group.push(place);
    nbytes += place.nbytes;
  }
  if (group.length > 0) yield group;
}

/** Decoded bytes of chunks. */
export function bytesOf(places: readonly PlacedChunk[]): number {
  return places.reduce((sum, place) => sum + place.nbytes, 0);
}
