/**
 * What lies under the keys of one column's shards, beside what should be in them.
 *
 * Knows one folder of superchunks and one Zarr array; writes nothing. @see FORMAT.md [FY-02]
 */

import { isEqual } from "../../bytes/equal.ts";
import { decode } from "../../codec/index.ts";
import { isSuperchunkError } from "../../errors.ts";
import { countChunks, type Run } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ArrayWriter } from "../../write/array/array-writer.ts";
import type { Committed } from "../../write/array/commit-line.ts";
import type { StoredChunk } from "../../write/array/superchunk-file.ts";
import { ChunkSource } from "../../write/rows/chunk-source.ts";
import type { FileFacts } from "../link/types.ts";
import { type PublishedShard, readPublished } from "./shard-file.ts";
import type { ShardFacts } from "./shard-plan.ts";
import type { MirrorFiles } from "./types.ts";

/** A column, as its mirror needs it. */
export interface MirroredColumn {
  readonly index: number;
  /** Folder of the superchunks. */
  readonly folder: string;
  /** Path of the Zarr array below the archive; `""` is the archive's own folder. */
  readonly node: string;
  /** Dimensions behind the rows: each is a single shard. */
  readonly dimensions: number;
  readonly facts: ShardFacts;
  /** One item of the fill value. */
  readonly fill: Uint8Array;
}

/** The rows that are to be shown. */
export interface ShownRows {
  readonly source: ChunkSource;
  readonly runs: readonly Run[];
  /** Chunks that replace those of the runs. */
  readonly patched: ReadonlySet<number>;
  /** Chunks that are shown. */
  readonly chunks: number;
}

/** A chunk that a shard does not have. */
export interface DifferingChunk {
  readonly slot: number;
  readonly stored: StoredChunk;
  /** The items that the shard shows in its place, at full length; undefined where it shows none, or was not decoded. */
  readonly shown: Uint8Array | undefined;
}

/** What is under a shard's key. */
export interface FoundShard {
  readonly facts: FileFacts;
  /** Undefined where its index is damaged. */
  readonly shard: PublishedShard | undefined;
}

export class ColumnShards {
  readonly column: MirroredColumn;
  readonly #store: ReadableStore;
  readonly #path: string;
  readonly #files: MirrorFiles;

  /** `path` is the key of the archive. */
  constructor(store: ReadableStore, path: string, files: MirrorFiles, column: MirroredColumn) {
    this.column = column;
    this.#store = store;
    this.#path = path;
    this.#files = files;
  }

  /** Key of a shard. */
  key(shard: number): string {
    const { node, dimensions } = this.column;
    return joinKey(this.#path, node, ["c", shard, ...new Array<number>(dimensions).fill(0)].join("/"));
  }

  /** Chunks of a shard, of those that are shown. */
  chunksOf(shard: number, { chunks }: ShownRows): number[] {
    const { capacity } = this.column.facts;
    const first = shard * capacity;
    return Array.from(
      { length: Math.max(0, Math.min(first + capacity, chunks) - first) },
      (_, i) => first + i,
    );
  }

  /** Numbers of the shards that have a key, in ascending order. */
  async list(): Promise<number[]> {
    const numbers: number[] = [];
    for await (const { name } of this.#store.list(joinKey(this.#path, this.column.node, "c")))
      if (/^(0|[1-9]\d{0,14})$/.test(name)) numbers.push(Number(name));
    return numbers.sort((a, b) => a - b);
  }

  /** What is under a key; undefined where nothing is. */
  async look(key: string): Promise<FoundShard | undefined> {
    const facts = await this.#files.inspect({ side: "zarr", key });
    if (facts === undefined) return undefined;
    try {
      return { facts, shard: await readPublished(this.#store, key, facts.size, this.column.facts.capacity) };
    } catch (error) {
      if (isSuperchunkError(error) && error.isDamage) return { facts, shard: undefined };
      throw error;
    }
  }

  /** Key of the superchunk that holds all chunks of a shard, and no others. */
  fullSuperchunk(shard: number, { runs, patched, chunks }: ShownRows): string | undefined {
    const { capacity } = this.column.facts;
    const first = shard * capacity;
    if (first + capacity > chunks) return undefined;
    let at = 0;
    for (const run of runs) {
      const end = at + run.count * run.chunks;
      if (first >= end) {
        at = end;
        continue;
      }
      if (run.chunks !== capacity || (first - at) % capacity !== 0) return undefined;
      for (let chunk = first; chunk < first + capacity; chunk++) if (patched.has(chunk)) return undefined;
      return `${this.column.folder}/${superchunkName(run.first + (first - at) / capacity)}`;
    }
    return undefined;
  }

  /** A superchunk as a shard; undefined where it has no index. */
  async readFull(key: string, size: number): Promise<PublishedShard | undefined> {
    try {
      const shard = await readPublished(this.#store, key, size, this.column.facts.capacity);
      return shard.entries.every((entry) => entry !== undefined) ? shard : undefined;
    } catch (error) {
      if (isSuperchunkError(error) && error.isDamage) return undefined;
      throw error;
    }
  }

  /** The chunks, of those that may, that are not in the shard. */
  async *differing(
    key: string,
    base: PublishedShard | undefined,
    candidates: readonly number[],
    { source }: ShownRows,
  ): AsyncGenerator<DifferingChunk> {
    const { index, facts } = this.column;
    for (const { first, end } of neighbours(candidates)) {
      let chunk = first;
      for await (const stored of source.encoded(index, first, end)) {
        const slot = chunk++ % facts.capacity;
        const entry = base?.entries[slot];
        const bytes =
          entry && (await this.#store.getRange(key, { offset: entry.offset, length: entry.nbytes }));
        if (stored.nbytes === facts.chunkBytes) {
          if (bytes === undefined || !isEqual(bytes, stored.bytes)) yield { slot, stored, shown: undefined };
          continue;
        }
        // A short chunk may have more behind it.
        const shown = bytes && (await this.#itemsOf(bytes));
        const wanted = shown && (await decodeSound(stored.bytes));
        if (shown === undefined || wanted === undefined || !isEqual(shown.subarray(0, wanted.length), wanted))
          yield { slot, stored, shown };
      }
    }
  }

  /** The items of a chunk at full length; undefined where it has others. */
  async #itemsOf(bytes: Uint8Array): Promise<Uint8Array | undefined> {
    const items = await decodeSound(bytes);
    return items?.length === this.column.facts.chunkBytes ? items : undefined;
  }
}

/** Undefined for what is no whole chunk: damage, or the zeros of one that is gone. */
async function decodeSound(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  try {
    return await decode(bytes);
  } catch (error) {
    if (isSuperchunkError(error) && (error.isDamage || error.code === "UNSUPPORTED")) return undefined;
    throw error;
  }
}

/** Ascending numbers as runs of neighbours. */
function* neighbours(chunks: readonly number[]): Generator<{ readonly first: number; readonly end: number }> {
  let first = chunks[0] ?? 0;
  for (const [i, chunk] of chunks.entries()) {
    if (chunks[i + 1] === chunk + 1) continue;
    yield { first, end: chunk + 1 };
    first = chunks[i + 1] ?? 0;
  }
}

/** The first `rows` rows of a commit. */
export function showRows(
  { store, path }: Pick<ArrayWriter["root"], "path"> & { readonly store: ReadableStore },
  columns: ArrayWriter["columns"],
  chunklen: number,
  { layout, rows: heldRows }: Pick<Committed, "layout" | "rows">,
  rows: number,
): ShownRows {
  return {
    source: new ChunkSource(store, path, layout, { columns, rows: heldRows, chunklen }),
    runs: layout.runs,
    patched: new Set(layout.patches.flatMap(({ chunks }) => chunks)),
    chunks: Math.min(countChunks(layout.runs), Math.ceil(rows / chunklen)),
  };
}
