/** The chunk sequence of a carray folder: `data/__N.blp` from 0, one chunk each behind a 16-byte header. */
import { carrayChunkName, parseCarrayChunkName } from "../../format/naming.ts";
import { joinKey, showListed } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkSequence, PlacedChunk } from "./sequence.ts";

/** Length of the version 1 file header in front of the chunk. @see FORMAT.md [FA] */
export const PROLOGUE = 16;

/** What the metadata say of the bytes of a carray. */
export interface CarrayBytes {
  /** Bytes to show: fewer than are counted where a table's shorter column cuts this one. */
  readonly nbytes: number;
  /** Bytes that `meta/sizes` counts. */
  readonly counted: number;
  readonly chunkBytes: number;
  readonly rowBytes: number;
}

export class CarraySequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean = false;
  readonly hasObjectForEach: boolean = true;
  readonly #folder: string;
  readonly #bytes: CarrayBytes;
  /** Decoded bytes of the last counted chunk, where it is known: the file can hold more rows. [FA-10] */
  #lastBytes: number | undefined;

  /** The chunks under the folder `path`. */
  constructor(store: ReadableStore, path: string, bytes: CarrayBytes) {
    const { nbytes, counted, chunkBytes } = bytes;
    this.store = store;
    this.nbytes = nbytes;
    this.chunkBytes = chunkBytes;
    this.nchunks = chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);
    this.#folder = joinKey(path, "data");
    this.#bytes = bytes;
    if (chunkBytes === 0 || counted % chunkBytes === 0) this.#lastBytes = chunkBytes;
  }

  placeNow(index: number): PlacedChunk | undefined {
    const { counted, chunkBytes } = this.#bytes;
    const isLast = (index + 1) * chunkBytes > counted;
    const nbytes = isLast ? this.#lastBytes : chunkBytes;
    return nbytes === undefined ? undefined : this.#placeOf(index, nbytes);
  }

  async places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]> {
    const places: PlacedChunk[] = [];
    for (let index = first; index < end; index++)
      places.push(this.placeNow(index) ?? this.#placeOf(index, await this.#measureLast(index, signal)));
    return places;
  }

  async *keys(): AsyncIterable<string> {
    for (let i = 0; i < this.nchunks; i++) yield this.#key(i);
  }

  async leftovers(signal?: AbortSignal): Promise<readonly string[]> {
    const stale: string[] = [];
    for await (const entry of this.store.list(this.#folder, { signal })) {
      const index = parseCarrayChunkName(entry.name);
      if (index === undefined || index >= this.nchunks) stale.push(showListed(this.#folder, entry.name));
    }
    return stale.sort();
  }

  #key(index: number): string {
    return joinKey(this.#folder, carrayChunkName(index));
  }

  #placeOf(index: number, nbytes: number): PlacedChunk {
    return {
      index,
      key: this.#key(index),
      offset: PROLOGUE,
      nbytes,
      ctbytes: undefined,
      available: Number.POSITIVE_INFINITY,
      checksum: "None",
      prologue: PROLOGUE,
    };
  }

  /**
   * Decoded bytes of the last counted chunk by its own header. It can hold more rows than are counted: an append or a
   * trim was broken off between the file and `meta/sizes`, or is under way. [FA-10]
   */
  async #measureLast(index: number, signal: AbortSignal | undefined): Promise<number> {
    const { counted, chunkBytes, rowBytes } = this.#bytes;
    const length = counted - index * chunkBytes;
    const head = await this.store.getRange(this.#key(index), { offset: 0, length: PROLOGUE + 8 }, { signal });
    if (head === undefined || head.length < PROLOGUE + 8) return length; // reported where the chunk is read
    const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
    const found = view.getUint32(PROLOGUE + 4, true);
    const isLonger = found > length && found <= chunkBytes && found % rowBytes === 0;
    this.#lastBytes = isLonger ? found : length;
    return this.#lastBytes;
  }
}
