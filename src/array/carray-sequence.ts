/** The chunk sequence of a carray folder: `data/__N.blp` from 0, one chunk each behind a 16-byte header. */
import { carrayChunkName, parseCarrayChunkName } from "../format/naming.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk } from "./sequence.ts";

/** Length of the version 1 file header in front of the chunk. @see FORMAT.md [FA] */
export const PROLOGUE = 16;

/**
 * Bytes that the chunk files hold, of which `held` count. The last file can hold more rows: an append or a trim was
 * broken off between it and `meta/sizes`, or is under way. [FA-10]
 */
export async function measureHeld(
  store: ReadableStore,
  path: string,
  held: number,
  chunkBytes: number,
  rowBytes: number,
  signal?: AbortSignal,
): Promise<number> {
  if (chunkBytes === 0 || rowBytes === 0 || held % chunkBytes === 0) return held;
  const last = Math.floor(held / chunkBytes);
  const key = joinKey(path, "data", carrayChunkName(last));
  const head = await store.getRange(key, { offset: 0, length: PROLOGUE + 8 }, { signal });
  if (head === undefined || head.length < PROLOGUE + 8) return held; // reported where the chunk is read
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const found = view.getUint32(PROLOGUE + 4, true);
  const isLonger = found > held % chunkBytes && found <= chunkBytes && found % rowBytes === 0;
  return isLonger ? last * chunkBytes + found : held;
}

export class CarraySequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean = false;
  readonly #folder: string;
  /** Bytes that the chunks hold; more than `nbytes` where a table's shorter column, or `meta/sizes`, cuts this one. */
  readonly #held: number;

  /** `nbytes` to show, of `held` bytes in chunks of `chunkBytes` under the folder `path`. */
  constructor(store: ReadableStore, path: string, nbytes: number, held: number, chunkBytes: number) {
    this.store = store;
    this.nbytes = nbytes;
    this.#held = held;
    this.chunkBytes = chunkBytes;
    this.nchunks = chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);
    this.#folder = joinKey(path, "data");
  }

  placeNow(index: number): PlacedChunk {
    return {
      index,
      key: joinKey(this.#folder, carrayChunkName(index)),
      offset: PROLOGUE,
      nbytes: nbytesOfChunk(index, this.#held, this.chunkBytes),
      ctbytes: undefined,
      available: Number.POSITIVE_INFINITY,
      checksum: "None",
      prologue: PROLOGUE,
    };
  }

  async places(first: number, end: number): Promise<readonly PlacedChunk[]> {
    return Array.from({ length: end - first }, (_, i) => this.placeNow(first + i));
  }

  async *keys(): AsyncIterable<string> {
    for (let i = 0; i < this.nchunks; i++) yield this.placeNow(i).key;
  }

  async leftovers(signal?: AbortSignal): Promise<readonly string[]> {
    const stale: string[] = [];
    for await (const entry of this.store.list(this.#folder, { signal })) {
      const index = parseCarrayChunkName(entry.name);
      if (index === undefined || index >= this.nchunks) stale.push(joinKey(this.#folder, entry.name));
    }
    return stale.sort();
  }
}
