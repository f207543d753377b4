/**
 * The chunk sequence of a folder of numbered superchunks: `__1__.bin`, `__2__.bin`, …
 *
 * Foreign folders do not say how many chunks a superchunk holds, and it may differ; so the headers are read in
 * order as far as they are needed, and what was opened is kept within a bound. @see FORMAT.md [FZ]
 */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseSuperchunkName, superchunkName } from "../../format/naming.ts";
import { joinKey, showListed } from "../../store/key.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import { statFile } from "../open/stored-size.ts";
import { placeInFile } from "./bloscpack-sequence.ts";
import { type BlpkFile, openSuperchunk } from "./blpk-file.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk } from "./sequence.ts";

/** Offset tables that are kept, in chunks. */
const KEPT_CHUNKS = 1 << 20;
/** Superchunks whose beginnings are asked for at a time. */
const AHEAD = 16;

export class SuperchunkSequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean = true;
  readonly #folder: string;
  /** Index of the first chunk of each superchunk, as far as the headers have been read; one more entry at the end. */
  readonly #firsts: number[] = [0];
  readonly #open = new Map<number, BlpkFile>();
  #keptChunks = 0;
  #scan: Promise<unknown> = Promise.resolve();

  readonly #isUnsized: boolean;

  /** `isUnsized`: the metadata do not tell the chunks' sizes, so that `nbytes` and `chunkBytes` only count chunks. */
  constructor(
    store: ReadableStore,
    folder: string,
    nbytes: number,
    chunkBytes: number,
    { isUnsized = false }: { readonly isUnsized?: boolean } = {},
  ) {
    this.#isUnsized = isUnsized;
    this.store = store;
    this.nbytes = nbytes;
    this.chunkBytes = chunkBytes;
    this.nchunks = chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);
    this.#folder = folder;
  }

  placeNow(index: number): PlacedChunk | undefined {
    const superchunk = this.#superchunkOf(index);
    const file = superchunk === undefined ? undefined : this.#open.get(superchunk);
    if (superchunk === undefined || file === undefined) return undefined;
    const inFile = index - at(this.#firsts, superchunk);
    return placeInFile(file, inFile, index, nbytesOfChunk(index, this.nbytes, this.chunkBytes));
  }

  async places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]> {
    const places: PlacedChunk[] = [];
    for (let index = first; index < end; index++) {
      let place = this.placeNow(index);
      if (place === undefined) {
        await this.#load(index, signal);
        place = this.placeNow(index);
      }
      if (place === undefined)
        throw missing(this.store, this.#key(this.#firsts.length - 1), index, this.nchunks);
      places.push(place);
    }
    return places;
  }

  async *keys(signal?: AbortSignal): AsyncIterable<string> {
    if (this.nchunks > 0) await this.places(this.nchunks - 1, this.nchunks, signal);
    for (let i = 0; i < this.#firsts.length - 1; i++) yield this.#key(i);
  }

  async leftovers(signal?: AbortSignal): Promise<readonly string[]> {
    const stale: string[] = [];
    for await (const entry of this.store.list(this.#folder, { signal })) {
      const number = parseSuperchunkName(entry.name);
      if (number === undefined || number > this.#firsts.length - 1)
        stale.push(showListed(this.#folder, entry.name));
    }
    return stale.sort();
  }

  #key(superchunk: number): string {
    return joinKey(this.#folder, superchunkName(superchunk + 1));
  }

  /** Position of the superchunk that holds a chunk, as far as the headers have been read. */
  #superchunkOf(index: number): number | undefined {
    const firsts = this.#firsts;
    if (index < 0 || index >= at(firsts, firsts.length - 1)) return undefined;
    let low = 0;
    let high = firsts.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (at(firsts, middle) <= index) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Opens superchunks until the one with chunk `index` is there. One scan at a time. */
  async #load(index: number, signal: AbortSignal | undefined): Promise<void> {
    const turn = this.#scan.then(async () => {
      const known = this.#superchunkOf(index);
      if (known !== undefined) {
        if (!this.#open.has(known)) this.#keep(known, await this.#openFile(known, signal));
        return;
      }
      const asked = new Map<number, Promise<ObjectInfo | undefined>>();
      while (this.#superchunkOf(index) === undefined) {
        signal?.throwIfAborted();
        const superchunk = this.#firsts.length - 1;
        this.#askAhead(asked, index, signal);
        const file = await this.#openFile(superchunk, signal, asked.get(superchunk));
        this.#keep(superchunk, file);
        this.#firsts.push(at(this.#firsts, superchunk) + file.starts.length);
      }
    });
    this.#scan = turn.catch(() => undefined);
    await turn;
  }

  /**
   * Over a network, asks for the beginnings of the next superchunks at the same time: for those that lie before chunk
   * `index` if they are as long as the last one.
   */
  #askAhead(
    asked: Map<number, Promise<ObjectInfo | undefined>>,
    index: number,
    signal: AbortSignal | undefined,
  ): void {
    const next = this.#firsts.length - 1;
    const read = at(this.#firsts, next);
    const length = read - (this.#firsts[next - 1] ?? read);
    if (this.store.getHead === undefined || length === 0) return;
    const count = Math.min(AHEAD, Math.floor((index - read) / length) + 1);
    for (let superchunk = next; superchunk < next + count; superchunk++) {
      if (asked.has(superchunk)) continue;
      const info = statFile(this.store, this.#key(superchunk), { signal });
      info.catch(() => undefined); // reported when its turn comes
      asked.set(superchunk, info);
    }
  }

  #keep(superchunk: number, file: BlpkFile): void {
    this.#open.set(superchunk, file);
    this.#keptChunks += file.starts.length;
    for (const [oldest, other] of this.#open) {
      if (this.#keptChunks <= KEPT_CHUNKS || oldest === superchunk) break;
      this.#open.delete(oldest);
      this.#keptChunks -= other.starts.length;
    }
  }

  async #openFile(
    superchunk: number,
    signal: AbortSignal | undefined,
    asked?: Promise<ObjectInfo | undefined>,
  ): Promise<BlpkFile> {
    const key = this.#key(superchunk);
    const first = at(this.#firsts, superchunk);
    const info = await (asked ?? statFile(this.store, key, { signal }));
    if (info === undefined) throw missing(this.store, key, first, this.nchunks);
    const file = await openSuperchunk(this.store, key, info.size, this.nchunks - first, signal);
    this.#check(file, first);
    return file;
  }

  /** The header's own sizes must be those that the array's metadata promise. */
  #check(file: BlpkFile, first: number): void {
    const { header, path, starts } = file;
    const count = starts.length;
    const fail = (field: string, offset: number, expected: unknown, found: unknown): never => {
      throw new SuperchunkError(
        "BAD_FIELD",
        `${field} at byte ${offset} is ${found}, but meta/sizes and meta/storage make it ${expected}. One of the files is damaged or of another array`,
        { path, offset, field, expected, found },
      );
    };
    if (count === 0) fail("nchunks", 16, "at least 1", 0);
    if (first + count > this.nchunks) fail("nchunks", 16, `at most ${this.nchunks - first}`, count);
    if (this.#isUnsized) return;
    const last = nbytesOfChunk(first + count - 1, this.nbytes, this.chunkBytes);
    if (header.lastChunk >= 0 && header.lastChunk !== last) fail("last-chunk", 12, last, header.lastChunk);
    // A superchunk of one short chunk may give that chunk's size as its chunk-size.
    const chunkSizeFits = header.chunkSize === this.chunkBytes || (count === 1 && header.chunkSize === last);
    if (header.chunkSize >= 0 && !chunkSizeFits) fail("chunk-size", 8, this.chunkBytes, header.chunkSize);
  }
}

function missing(store: ReadableStore, key: string, chunk: number, nchunks: number): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `the file is missing: chunk ${chunk} of ${nchunks} should be in it, as meta/sizes counts. The archive is not whole; look for a whole copy`,
    { path: store.describe(key), field: "superchunk", expected: "a file", found: "nothing" },
  );
}
