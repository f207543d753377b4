/**
 * The pages of a column of a Parquet file, for a run of rows: unchanged Blosc blocks if possible, else values that are decoded
 * and encoded again.
 *
 * Chooses for each block; must not know how a file is assembled.
 */

import { at, Room, stepsOf } from "../../bytes/arrays.ts";
import type { DecodeLease } from "../../codec/decode/lease.ts";
import { decodeHeader, decodeSync, leaseDecoder, prepare, prepareEncode } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { placedError } from "../../errors.ts";
import {
  type BloscPage,
  encodePage,
  joinPage,
  type PageHeader,
  pagesOfChunk,
  whyNotPages,
} from "../../parquet/blosc-pages.ts";
import type { Page } from "../../parquet/file.ts";
import type { JoinableCodec } from "../../parquet/join-streams.ts";
import { pageLevels } from "../../parquet/levels.ts";
import type { Leaf } from "../../parquet/schema.ts";
import { statisticsOf } from "../../parquet/statistics.ts";
import { isText, leafValues } from "../../parquet/values.ts";
import type { TaskContext } from "../pipeline.ts";
import type { StoredChunks } from "../sources/offered-chunks.ts";
import type { SchemaColumn } from "./table-columns.ts";

/** Approximate bytes of values in a page that is encoded here. */
const PAGE_BYTES = 262_144;
/** Approximate bytes of the rows read at a time. */
const READ_BYTES = 8 << 20;

export interface FileColumn extends SchemaColumn {
  readonly codec: JoinableCodec;
  /** The chunks whose blocks are pages, if their streams can be copied. */
  readonly stored: StoredChunks | undefined;
  /** False if values of the leaf must not be split into byte streams. */
  readonly mayBeSplit: boolean;
  readonly hasStatistics: boolean;
  /** String leaves with a value that was not UTF-8. */
  readonly notText: Set<Leaf>;
  /** The only leaf whose pages are wanted; default all. */
  readonly only?: number;
}

export interface PageContext extends Omit<TaskContext, "store" | "note"> {
  /** If set, the body of a page that is not a promise is lent until the next one is requested; default: the caller owns bodies. */
  readonly memory?: PageMemory;
}

/** Memory that the columns of a file use one after the other. */
export class PageMemory {
  /** Buffers for stored chunks. */
  readonly chunks: Uint8Array[] = [];
  /** A decoded chunk. */
  readonly items: Room = new Room();
  /** The streams of a page that is encoded again. */
  readonly streams: Room = new Room();
  readonly body: Room = new Room();
}

/** Number of rows of a file: the same for all columns. An array without dimensions is one row. */
export function rowCount([first]: readonly FileColumn[]): number {
  const [rows = 1] = first?.column.shape ?? [];
  return rows;
}

export interface LeafPage {
  /** Number of the leaf in its column. */
  readonly leaf: number;
  readonly page: Page | Promise<Page>;
}

/** The pages of rows `[first, end)`, in order for each leaf. */
export async function* pagesOf(
  file: FileColumn,
  [first, end]: readonly [number, number],
  context: PageContext,
): AsyncGenerator<LeafPage> {
  if (first >= end) return;
  if (file.stored === undefined) {
    // Whole chunks at a time if there are any.
    for (const [from, to] of stepsOf(first, end, readingStep(file))) {
      yield* encodedPages(file, await file.column.rows(from, to, context.signal), context);
      context.counts.recoded += countChunks(file, from, to);
    }
    return;
  }
  const { stored, rowBytes, column } = file;
  const { skip = 0 } = column;
  const range = [first + skip, end + skip] as const;
  const [firstChunk, endChunk] = chunksOfRows(stored, range[0] * rowBytes, range[1] * rowBytes);
  const { chunks } = context.memory ?? new PageMemory();
  for await (const { place, bytes } of stored.encodedChunks(firstChunk, endChunk, {
    signal: context.signal,
    buffers: chunks,
  })) {
    const start = startOf(stored, place.index) / rowBytes;
    try {
      const header = decodeHeader(bytes);
      await prepare(header.compressor);
      if (header.compressor === "blosclz") await prepareEncode();
      // One by one, because each page uses the memory of the one before.
      yield* chunkPages(file, { chunk: bytes, header, start }, range, context);
    } catch (error) {
      throw placedError(error, stored.store.describe(place.key), place);
    }
  }
}

/** A chunk and its first row. */
interface ChunkAtRow {
  readonly chunk: Uint8Array;
  readonly header: ChunkHeader;
  readonly start: number;
}

/** Why no block of a chunk is a page unchanged; undefined if blocks are. */
export function whyNotRestream(
  { schema, mayBeSplit, codec }: FileColumn,
  header: PageHeader,
): string | undefined {
  const [leaf, ...others] = schema.leaves;
  if (leaf === undefined || others.length > 0) return "a struct becomes several columns";
  if (leaf.whyConverted !== undefined) return leaf.whyConverted;
  const isSplit = header.shuffle === "shuffle" && header.typesize > 1 && !header.memcpyed;
  if (isSplit && !mayBeSplit) return "not all readers know BYTE_STREAM_SPLIT";
  return whyNotPages(header, leaf.itemSize, codec);
}

function* chunkPages(
  file: FileColumn,
  stored: ChunkAtRow,
  [first, end]: readonly [number, number],
  context: PageContext,
): Generator<LeafPage> {
  const { chunk, header, start } = stored;
  const { rowBytes, schema, hasStatistics } = file;
  const from = Math.max(first, start);
  const to = Math.min(end, start + Math.floor(header.nbytes / rowBytes));
  if (to <= from) return;
  context.advance((to - from) * rowBytes);
  let items: Uint8Array | undefined;
  const rowsAt = (a: number, b: number): Uint8Array => {
    items ??= decodeSync(chunk, { out: context.memory?.items.take(header.nbytes) });
    return items.subarray((a - start) * rowBytes, (b - start) * rowBytes);
  };
  // A chunk in two row groups counts once.
  const count = from === start || first === (file.column.skip ?? 0) ? 1 : 0;
  if (whyNotRestream(file, header) !== undefined) {
    context.counts.recoded += count;
    yield* encodedPages(file, rowsAt(from, to), context, false);
    return;
  }
  context.counts.restreamed = (context.counts.restreamed ?? 0) + count;
  // Blocks that do not end on rows are collected with the following ones, and encoded again.
  let waiting = from;
  const isDecoded = hasStatistics || schema.leaves.some(({ nullable }) => nullable);
  const lease = isDecoded ? leaseDecoder(chunk.length) : undefined;
  try {
    lease?.input.set(chunk);
    for (const block of pagesOfChunk(chunk, header, rowBytes, context.memory?.streams.take)) {
      const blockStart = start + block.start / rowBytes;
      const blockEnd = blockStart + block.length / rowBytes;
      const isWhole =
        Number.isInteger(blockStart) && Number.isInteger(blockEnd) && blockStart >= from && blockEnd <= to;
      const page = isWhole ? restreamedPage(file, block, lease, context.memory) : undefined;
      if (page === undefined) continue;
      if (waiting < blockStart) yield* encodedPages(file, rowsAt(waiting, blockStart), context, false);
      yield { leaf: 0, page };
      waiting = blockEnd;
    }
  } finally {
    lease?.release();
  }
  if (waiting < to) yield* encodedPages(file, rowsAt(waiting, to), context, false);
}

/** A block as a page; undefined if some of its values are null, which Parquet leaves out. */
function restreamedPage(
  { schema: { leaves }, rowBytes, codec, hasStatistics }: FileColumn,
  block: BloscPage,
  lease: DecodeLease | undefined,
  memory: PageMemory | undefined,
): Page | undefined {
  const [leaf] = leaves;
  if (leaf === undefined) return undefined;
  const rows = lease?.decodeRange(block.start, block.length);
  const known = rows === undefined ? undefined : leafValues(leaf, rows, rowBytes);
  if (known?.present !== undefined) return undefined;
  const values = block.length / leaf.itemSize;
  const levels = pageLevels(leaf, values, undefined);
  return {
    values,
    rows: block.length / rowBytes,
    encoding: block.encoding,
    length: levels.length + block.length,
    body: joinPage(codec, levels, block.pieces, memory?.body.take, lease?.lastSequences.values()),
    statistics: hasStatistics && known !== undefined ? statisticsOf(leaf, known) : undefined,
  };
}

function* encodedPages(
  file: FileColumn,
  rows: Uint8Array,
  context: PageContext,
  advances = true,
): Generator<LeafPage> {
  const { schema, rowBytes } = file;
  const count = rows.length / rowBytes;
  const perPage = Math.max(1, Math.floor(PAGE_BYTES / rowBytes));
  if (advances) context.advance(rows.length);
  for (let from = 0; from < count; from += perPage) {
    const part = rows.subarray(from * rowBytes, Math.min(count, from + perPage) * rowBytes);
    for (const [leaf, each] of schema.leaves.entries())
      if ((file.only ?? leaf) === leaf) yield { leaf, page: encodedPage(file, each, part, context) };
  }
}

function encodedPage(file: FileColumn, leaf: Leaf, rows: Uint8Array, context: PageContext): Promise<Page> {
  const { rowBytes, hasStatistics, codec, mayBeSplit } = file;
  const { cname, clevel = 5 } = file.column.settings;
  const found = leafValues(leaf, rows, rowBytes);
  const statistics = hasStatistics ? statisticsOf(leaf, found) : undefined;
  if (found.texts?.every(isText) === false) file.notText.add(leaf);
  const count = found.present?.length ?? found.count;
  const levels = pageLevels(leaf, count, found.present);
  const page = {
    values: count,
    rows: rows.length / rowBytes,
    length: levels.length + found.bytes.length,
    statistics,
  };
  const settings = {
    codec,
    clevel: cname === "zlib" ? ZLIB_AS_ZSTD : Math.max(1, clevel),
    typesize: leaf.width !== undefined && mayBeSplit && leaf.width <= 255 ? leaf.width : 1,
  };
  // Encoders may still use the values when the rows' memory is reused.
  const encoded = encodePage(levels, found.bytes.slice(), settings, context.encoder);
  return encoded.then((body) => ({ ...page, ...body }));
}

/** The zstd level that replaces zlib: about the same ratio, and faster. */
const ZLIB_AS_ZSTD = 3;

function readingStep({ column, rowBytes }: FileColumn): number {
  const length = column.chunks?.chunkLength ?? 1;
  return Math.max(1, Math.floor(READ_BYTES / rowBytes / length)) * length;
}

/** True if a run of rows from here on has the same pages as the rest of any longer run: a chunk or a reading step begins. */
export function beginsAfresh(file: FileColumn, row: number): boolean {
  const { stored, rowBytes, column } = file;
  if (stored === undefined) return row % readingStep(file) === 0;
  const first = (row + (column.skip ?? 0)) * rowBytes;
  const [chunk] = chunksOfRows(stored, first, first + 1);
  return startOf(stored, chunk) === first;
}

/** How many chunks count for some rows: in proportion to the rows, so that the counts of all rows add up to the number of chunks. */
function countChunks({ column: { chunks, shape } }: FileColumn, from: number, to: number): number {
  const [rows = 1] = shape;
  const before = (row: number): number => Math.ceil((row * (chunks?.stored.nchunks ?? 0)) / rows);
  return before(to) - before(from);
}

function startOf({ chunkStarts, chunkBytes }: StoredChunks, index: number): number {
  return chunkStarts === undefined ? index * chunkBytes : at(chunkStarts, index);
}

/** The chunks that hold decoded bytes `[first, end)`. */
function chunksOfRows(stored: StoredChunks, first: number, end: number): readonly [number, number] {
  const { nchunks, chunkBytes, chunkStarts } = stored;
  if (chunkStarts === undefined)
    return [Math.floor(first / chunkBytes), Math.min(nchunks, Math.ceil(end / chunkBytes))];
  let from = 0;
  while (from + 1 < nchunks && startOf(stored, from + 1) <= first) from++;
  let to = from;
  while (to < nchunks && startOf(stored, to) < end) to++;
  return [from, to];
}
