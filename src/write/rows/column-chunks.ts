/**
 * The chunks that a writer puts into superchunks, column by column: encoded, changed, or copied from the last commit.
 * Must not know where they go.
 */

import type { FetchedChunk } from "../../archive/read/chunk-fetch.ts";
import { isReady, prepare } from "../../codec/index.ts";
import type { ByteEdit } from "../../codec/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ArrayRoot } from "../array/root.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import type { BegunChunk, ChunkMaker } from "./chunk-maker.ts";
import type { ChunkSource } from "./chunk-source.ts";

/** What of a writer the chunks depend on, as it is at the time. */
interface Owner {
  readonly root: ArrayRoot;
  readonly columns: readonly ColumnLayout[];
  /** The committed chunks. */
  source(): ChunkSource;
}

/** The writer's `prepare` must have been awaited. */
export class ColumnChunks {
  readonly #maker: ChunkMaker;
  readonly #owner: Owner;

  constructor(maker: ChunkMaker, owner: Owner) {
    this.#maker = maker;
    this.#owner = owner;
  }

  #itemSize(column: number): number {
    return this.#owner.columns[column]?.itemSize ?? 1;
  }

  /** Begins to encode a chunk that goes into the next superchunk to be published. */
  begin(column: number, data: Uint8Array): Promise<BegunChunk> {
    return this.#maker.begin(data, this.#itemSize(column));
  }

  /** Encodes a chunk that goes into the next superchunk or patch to be published. */
  next(column: number, data: Uint8Array): StoredChunk | Promise<StoredChunk> {
    return this.#maker.next(data, this.#itemSize(column));
  }

  /** The same for a stored chunk with some of its decoded bytes replaced. */
  async replaced(column: number, chunk: FetchedChunk, edits: readonly ByteEdit[]): Promise<StoredChunk> {
    const { bytes, header, place } = chunk;
    if (!isReady(header.compressor)) await prepare(header.compressor);
    try {
      return await this.#maker.nextReplaced(bytes, header.nbytes, edits, this.#itemSize(column));
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      const path = this.#owner.root.store.describe(place.key);
      throw error.inObject({ path, chunk: place.index, offset: place.offset });
    }
  }

  /** Copies committed chunks `[first, end)` of a column for the next superchunk or patch to be published. */
  async copied(column: number, first: number, end: number): Promise<StoredChunk[]> {
    const chunks: StoredChunk[] = [];
    if (first === end) return chunks;
    for await (const { bytes, digest, header } of this.#owner.source().fetched(column, first, end))
      chunks.push(this.#maker.copy(bytes, digest, header.nbytes));
    return chunks;
  }

  /** An encoded chunk with the digest that the array's chunks have. */
  withDigest(bytes: Uint8Array, nbytes: number): StoredChunk {
    return this.#maker.withDigest(bytes, nbytes);
  }

  /** Encodes items of the given size as one chunk, with its digest, in memory of its own. */
  encode(data: Uint8Array, typesize: number): Promise<StoredChunk> {
    return this.#maker.encode(data, typesize);
  }
}
