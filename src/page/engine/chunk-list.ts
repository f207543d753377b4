/** The chunks of a column: their places, sizes and content. */

import type {
  BytesArchive,
  ChunkedArchive,
  EncodedChunk,
  ReadableArray,
  ReadableChunk,
} from "../../archive/kinds/types.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { decode } from "../../codec/decode/decode.ts";
import { decodeHeader, headLength } from "../../codec/header.ts";
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import { slice } from "../../values/selection.ts";
import { withoutServer } from "../text.ts";
import { cellText } from "./cells.ts";
import {
  type BlockFacts,
  boxOf,
  type ChunkBatch,
  type ChunkDetail,
  indicesOf,
  MADE,
  MOST_CHUNKS,
  STATE,
  type Watch,
} from "./protocol.ts";
import { chunkShapeOf, cutsOf, runOf } from "./sources.ts";

type Column = ReadableArray | BytesArchive;

/** Chunks that are posted together, and milliseconds after which fewer are. */
const BATCH = 16_384;
const BATCH_MS = 150;
/** Damaged chunks after which a list ends: a file that is not an archive could have any number of them. */
const MOST_DAMAGED = 1000;
/** Most blocks of a chunk to show. */
const MOST_BLOCKS = 4096;
/** Values of a chunk to show. */
const FIRST_VALUES = 8;

/** Lists at most {@link MOST_CHUNKS} chunks, in batches. Resolves with the reason if a problem ended the list, else undefined. */
export async function listChunks(
  column: Column,
  { signal, onProgress }: Watch<ChunkBatch>,
): Promise<string | undefined> {
  const lot = new Lot((batch) => onProgress?.(batch));
  const { store } = column;
  let next = 0;
  let listed = 0;
  let problem: string | undefined;
  for (let damaged = 0; ; damaged++) {
    try {
      const options = next === 0 ? { signal } : { signal, first: next };
      for await (const chunk of column.listChunks(options)) {
        const { key, slot, nbytes }: ReadableChunk = chunk;
        // A page does not compress chunks that are made.
        const made = { offset: -1, key: MADE, ctbytes: nbytes, compressor: "" };
        lot.add(store.filePlace ? { ...chunk, ...((await store.filePlace(key, slot)) ?? made) } : chunk);
        next = chunk.index + 1;
        if (++listed >= MOST_CHUNKS) break;
      }
      break;
    } catch (error) {
      if (!isSuperchunkError(error) || signal?.aborted) throw error;
      problem ??= error.message;
      // Only archives can continue after a chunk that cannot be read.
      const bad = Math.max(next, error.details.chunk ?? next);
      if (!("encodedChunks" in column) || damaged >= MOST_DAMAGED || bad >= column.nchunks) break;
      const { path = "", offset = -1, found } = error.details;
      lot.addWithout(bad, withoutServer(path), offset, found === "nothing" ? STATE.missing : STATE.damaged);
      next = bad + 1;
      if (next >= column.nchunks) break;
    }
  }
  lot.flush();
  return problem;
}

/** Chunks that are not posted yet. */
class Lot {
  readonly #post: (batch: ChunkBatch) => void;
  readonly #words: string[] = [];
  readonly #numbers = new Map<string, number>();
  #chunks: Omit<ReadableChunk, "typesize" | "blocksize" | "shuffle" | "memcpyed" | "checksum">[] = [];
  #state: number[] = [];
  #due: number = performance.now() + BATCH_MS;

  constructor(post: (batch: ChunkBatch) => void) {
    this.#post = post;
  }

  add(chunk: ReadableChunk): void {
    this.#chunks.push(chunk);
    this.#state.push(STATE.unknown);
    if (this.#chunks.length >= BATCH || (this.#chunks.length % 64 === 0 && performance.now() > this.#due))
      this.flush();
  }

  /** A chunk whose header could not be read. */
  addWithout(index: number, key: string, offset: number, state: number): void {
    this.#chunks.push({ index, key, offset, nbytes: 0, ctbytes: 0, compressor: "", digest: undefined });
    this.#state.push(state);
  }

  flush(): void {
    const chunks = this.#chunks;
    if (chunks.length === 0) return;
    this.#post({
      index: Float64Array.from(chunks, ({ index }) => index),
      offset: Float64Array.from(chunks, ({ offset }) => offset),
      nbytes: Float64Array.from(chunks, ({ nbytes }) => nbytes),
      cbytes: Float64Array.from(chunks, ({ ctbytes }) => ctbytes),
      file: Uint32Array.from(chunks, ({ key }) => this.#numberOf(key)),
      codec: Uint32Array.from(chunks, ({ compressor }) =>
        this.#numberOf(compressor.replace("none", "not compressed")),
      ),
      digest: chunks.map(({ digest }) => digest),
      words: this.#words.slice(),
      state: Uint8Array.from(this.#state),
    });
    this.#chunks = [];
    this.#state = [];
    this.#due = performance.now() + BATCH_MS;
  }

  #numberOf(word: string): number {
    const known = this.#numbers.get(word);
    if (known !== undefined) return known;
    const number = this.#words.push(word) - 1;
    this.#numbers.set(word, number);
    return number;
  }
}

/** Reads and decodes a chunk, and describes its content. */
export async function readChunk(
  column: Column,
  index: number,
  signal: AbortSignal | undefined,
): Promise<ChunkDetail> {
  const began = performance.now();
  const box =
    column.kind === "bytes"
      ? [bytesOf(column, index)]
      : boxOf({ shape: column.shape, chunkShape: chunkShapeOf(column), cuts: cutsOf(column) }, index);
  const run = column.kind === "array" ? runOf(column) : undefined;
  let found: ReturnType<typeof blocksOf> = { blocks: [], nblocks: 0 };
  let values: readonly string[] = [];
  let failure: SuperchunkError | undefined;
  try {
    if ("encodedChunks" in column)
      for await (const chunk of (column as ChunkedArchive).encodedChunks(index, index + 1, { signal })) {
        found = blocksOf(chunk);
        // Only a few values of a run are read below, so the chunk is decoded here to find damage.
        if (run !== undefined) await decode(chunk.bytes);
      }
    if (run !== undefined) values = await valuesOfRun(column as ReadableArray, run, index, signal);
    else if (box !== undefined) values = await firstValues(column, box, signal);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    failure = error;
  }
  const isDamaged = failure !== undefined && failure.code !== "UNSUPPORTED";
  const start =
    run === undefined
      ? box?.map(([first]) => first)
      : indicesOf((column as ReadableArray).shape, run.order, index * run.length);
  const took = performance.now() - began;
  return { index, took, start, ...found, values, error: failure?.message, isDamaged };
}

function bytesOf(
  { chunkStarts, chunkBytes, nbytes }: BytesArchive,
  index: number,
): readonly [first: number, end: number] {
  const first = chunkStarts?.at(index) ?? index * chunkBytes;
  return [first, chunkStarts?.at(index + 1) ?? Math.min(nbytes, first + chunkBytes)];
}

/** Decodes the whole chunk, so that decoding errors are found. */
async function firstValues(
  column: Column,
  box: readonly (readonly [first: number, end: number])[],
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const [first = 0, end = 0] = box[0] ?? [];
  if (column.kind === "bytes") {
    const bytes = await column.readBytes(first, end, { signal });
    return Array.from(bytes.subarray(0, 2 * FIRST_VALUES), (byte) => byte.toString(16).padStart(2, "0"));
  }
  if (end <= first) return [];
  const parts = box.map(([from, to]) => slice(from, to));
  const found = await column.get(parts, { signal });
  const texts: string[] = [];
  for (const value of (found as { readonly data: Iterable<unknown> }).data) {
    if (texts.length >= FIRST_VALUES) break;
    texts.push(cellText(value, column.dtype));
  }
  return texts;
}

async function valuesOfRun(
  array: ReadableArray,
  { length, order }: NonNullable<ReturnType<typeof runOf>>,
  index: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const total = elementsOf(array.shape);
  const first = index * length;
  const texts: string[] = [];
  for (let i = first; i < Math.min(total, first + Math.min(length, FIRST_VALUES)); i++) {
    const parts = indicesOf(array.shape, order, i).map((at) => slice(at, at + 1));
    const { data } = (await array.get(parts, { signal })) as { readonly data: Iterable<unknown> };
    for (const value of data) texts.push(cellText(value, array.dtype));
  }
  return texts;
}

/** The blocks of a Blosc chunk and their streams. Multithreaded compressors write blocks in any order. */
function blocksOf({ bytes }: EncodedChunk): { readonly blocks: BlockFacts[]; readonly nblocks: number } {
  const header = decodeHeader(bytes);
  const { nbytes, blocksize, nblocks, ctbytes, memcpyed, split, typesize } = header;
  const head = headLength(header);
  if (head > bytes.length) return { blocks: [], nblocks };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = Array.from({ length: nblocks }, (_, block) =>
    memcpyed ? head + block * blocksize : view.getInt32(16 + 4 * block, true),
  );
  const sorted = [...starts, ctbytes].sort((a, b) => a - b);
  const after = new Map(sorted.map((start, i) => [start, sorted.at(i + 1) ?? ctbytes]));
  const blocks = starts.slice(0, MOST_BLOCKS).map((offset, block) => {
    const length = Math.min(blocksize, nbytes - block * blocksize);
    const cbytes = (after.get(offset) ?? offset) - offset;
    const streams: number[] = [];
    // The short last block is never split.
    const count = split && length === blocksize ? typesize : 1;
    for (let at = offset; !memcpyed && streams.length < count && at >= 0 && at + 4 <= bytes.length; ) {
      const stored = view.getInt32(at, true);
      if (stored < 0) break;
      streams.push(stored);
      at += 4 + stored;
    }
    return { offset, nbytes: length, cbytes, streams: memcpyed ? [length] : streams };
  });
  return { blocks, nblocks };
}
