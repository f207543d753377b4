/** The chunk sequence of an array, or a column of one, whose layout is in `meta/sizes`. @see FORMAT.md [FG] */
import { SuperchunkError } from "../../errors.ts";
import type { StoredLayout } from "../../format/layout.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { LayoutFiles, LayoutIndex, type OpenedFiles } from "./layout-files.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk } from "./sequence.ts";

/** Superchunks that are opened at a time. */
const AT_ONCE = 8;

/** What a sequence is made from. */
export interface LayoutFacts {
  /** Folder of the superchunks. */
  readonly folder: string;
  readonly layout: StoredLayout;
  /** Rows that the chunks hold. */
  readonly heldRows: number;
  /** Rows that are shown: the first ones. */
  readonly rows: number;
  readonly rowBytes: number;
  readonly chunklen: number;
  /** How messages name `meta/sizes`. */
  readonly sizesPath: string;
  readonly opened?: OpenedFiles | undefined;
}

export class LayoutSequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean = true;
  readonly isConfirmed: boolean = true;
  readonly #heldBytes: number;
  readonly #files: LayoutFiles;
  readonly #index: LayoutIndex;

  /** Throws `BAD_FIELD` where the layout counts other chunks than the rows need. [FG-02] */
  constructor(store: ReadableStore, facts: LayoutFacts) {
    const { rows, heldRows, rowBytes, chunklen } = facts;
    this.store = store;
    this.chunkBytes = chunklen * rowBytes;
    this.nbytes = rows * rowBytes;
    this.nchunks = rowBytes === 0 ? 0 : Math.ceil(rows / chunklen);
    this.#heldBytes = heldRows * rowBytes;
    this.#files = new LayoutFiles(store, facts.folder, this.chunkBytes, facts.opened);
    this.#index = new LayoutIndex(facts.layout);
    const needed = rowBytes === 0 ? 0 : Math.ceil(heldRows / chunklen);
    if (rowBytes > 0 && this.#index.nchunks !== needed) {
      throw new SuperchunkError(
        "BAD_FIELD",
        `layout.superchunks counts ${this.#index.nchunks} chunks, but shape and chunklen make ${needed}. The metadata are damaged; run "superchunk repair", or look for another copy`,
        {
          path: facts.sizesPath,
          field: "layout.superchunks",
          expected: needed,
          found: this.#index.nchunks,
        },
      );
    }
  }

  placeNow(index: number): PlacedChunk | undefined {
    return this.#files.placeNow(this.#index.find(index), index, this.#nbytesOf(index));
  }

  async places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]> {
    const placeSoon = (index: number, call: AbortSignal | undefined): Promise<PlacedChunk> =>
      this.#files.place(this.#index.find(index), index, this.#nbytesOf(index), call);
    // A store that waits is asked for several superchunks at a time.
    if (end - first > 1 && this.store.getHead !== undefined) {
      const unknown: number[] = [];
      for (let index = first; index < end; index++)
        if (this.placeNow(index) === undefined) unknown.push(index);
      await runPooled(
        unknown,
        AT_ONCE,
        async (index, call) => {
          await placeSoon(index, call);
        },
        signal,
      );
    }
    const places: PlacedChunk[] = [];
    for (let index = first; index < end; index++)
      places.push(this.placeNow(index) ?? (await placeSoon(index, signal)));
    return places;
  }

  async *keys(): AsyncIterable<string> {
    for (const number of this.#index.numbers()) yield this.#files.key(number);
  }

  /** Files beside the layout's are a writer's work under way, or left over from one: the next writer removes them. */
  async leftovers(): Promise<readonly string[]> {
    return [];
  }

  /** Decoded bytes of a chunk as it is stored: more than are shown where the rows shown end inside of it. */
  #nbytesOf(index: number): number {
    return nbytesOfChunk(index, this.#heldBytes, this.chunkBytes);
  }
}
