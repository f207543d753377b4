/** Chooses the chunks and blocks of a frame for an array, and what is copied into them. Reads only the header of the first chunk. */
import { at, elementsOf, roundUp } from "../bytes/arrays.ts";
import { decodeHeader, HEADER_LENGTH } from "../codec/header.ts";
import type { ChunkHeader } from "../codec/types.ts";
import { type BlockKind, kindOf } from "../codec2/chunk-builder.ts";
import type { Column } from "../convert/sources/columns.ts";
import { whyNotBlosc, zarrTypesize } from "../convert/sources/offered-chunks.ts";
import { SuperchunkError } from "../errors.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { blockShape } from "./blocks.ts";

/** Most bytes of a block that is encoded here: a Blosc1 chunk of this size can always be one block. */
const BLOCK_BYTES = 256 << 10;
/** Bytes of a chunk if the source does not give a size. */
const CHUNK_BYTES = 4 << 20;
const MAX_CHUNK = 0x7fff_ffff - 64;
/** Longest block of c-blosc2, and the most dimensions of b2nd. */
const MAX_BLOCK = 536_866_816;
const MAX_DIMENSIONS = 16;

/** The chunks and blocks of a frame, in items, and what becomes its blocks. */
export interface B2ndLayout {
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  readonly blocks: readonly number[];
  readonly blockBytes: number;
  /** Bytes of a chunk, including the padding to whole blocks. */
  readonly chunkBytes: number;
  /** Number of chunks along each dimension. */
  readonly grid: readonly number[];
  /**
   * `inner`: the inner chunks of shards, each one Blosc1 block, become blocks; `chunk`: the blocks of a chunk stay its blocks; `values`:
   * everything is encoded.
   */
  readonly mode: "inner" | "chunk" | "values";
  /** Reason for encoding everything. */
  readonly reason?: string;
  /** Kind of the blocks, for chunks that do not determine it. */
  readonly kind: BlockKind;
}

/** Why a column's chunks cannot be copied, as far as its metadata show; undefined if they can. */
export function whyColumnEncoded(column: Column): string | undefined {
  const { zarr, archive, chunks, order, shape, settings, whyRecoded } = column;
  if (settings.cname === "snappy") return "Blosc2 has no codec snappy; chunks are lz4";
  if (zarr !== undefined) {
    if (zarr.model.axes.some(({ lengths }) => lengths.length > 1)) return "chunks are of unequal length";
    return whyNotBlosc(zarr);
  }
  if (archive === undefined) return whyRecoded ?? "its chunks are read as values";
  if (chunks === undefined) return whyRecoded ?? "its chunks cannot be copied";
  if (order === "F" && shape.length > 1) return "values are stored in Fortran order";
  return chunks.chunkLength === undefined ? "chunks do not end on rows" : undefined;
}

/** @throws UNSUPPORTED for more than 16 dimensions, or items of more bytes than a block has */
export async function layOut(column: Column, signal: AbortSignal | undefined): Promise<B2ndLayout> {
  const { shape, dtype, zarr, path, chunks } = column;
  if (shape.length > MAX_DIMENSIONS || dtype.itemSize > MAX_BLOCK || dtype.itemSize === 0)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `b2nd has at most ${MAX_DIMENSIONS} dimensions and items of 1 to ${MAX_BLOCK} bytes`,
      { path, field: "shape", found: shape.length },
    );
  const reason = whyColumnEncoded(column) ?? (column.nbytes === 0 ? "it has no values" : undefined);
  if (reason !== undefined) return valueLayout(column, reason);
  const found = zarr === undefined ? await firstOfArchive(column) : await firstOfZarr(zarr, signal);
  // The only chunk of a short array has its rows alone.
  const [rows = 1, ...row] = shape;
  const cut = zarr?.chunkShape ?? [Math.min(chunks?.chunkLength ?? 1, rows), ...row].slice(0, shape.length);
  if (typeof found === "string") return valueLayout(column, found);
  const { header, isSingle } = found;
  const bytes = elementsOf(cut) * dtype.itemSize;
  if (header.nbytes !== bytes && zarr !== undefined)
    return valueLayout(column, `chunks of ${header.nbytes} bytes instead of ${bytes}`);
  const typesize = zarrTypesize(dtype);
  if (header.typesize !== typesize && header.shuffle !== "noshuffle")
    return valueLayout(column, `chunks were compressed as items of ${header.typesize} bytes`);
  const shard = zarr?.shardShape;
  const kind = kindOf(header, header.blocksize) ?? defaultKind(column, header.blocksize);
  const shardBytes = shard === undefined ? 0 : elementsOf(shard) * dtype.itemSize;
  if (shard !== undefined && isSingle && shardBytes <= MAX_CHUNK && bytes <= MAX_BLOCK)
    return layoutOf(shape, { chunks: shard, blocks: cut, itemSize: dtype.itemSize, mode: "inner", kind });
  const blocks = blockShape(cut, header.blocksize / dtype.itemSize);
  if (blocks === undefined || bytes > MAX_CHUNK || header.blocksize > MAX_BLOCK)
    return valueLayout(column, "blocks of the chunks are not boxes of the array");
  return layoutOf(shape, { chunks: cut, blocks, itemSize: dtype.itemSize, mode: "chunk", kind });
}

interface Cut extends Pick<B2ndLayout, "chunks" | "blocks" | "mode" | "kind"> {
  readonly itemSize: number;
  readonly reason?: string;
}

function layoutOf(shape: readonly number[], cut: Cut): B2ndLayout {
  const { chunks, blocks, itemSize, mode, kind, reason } = cut;
  const blockBytes = elementsOf(blocks) * itemSize;
  const padded = chunks.map((length, d) => roundUp(length, at(blocks, d)));
  const isEmpty = shape.includes(0);
  return {
    shape,
    chunks,
    blocks,
    blockBytes,
    chunkBytes: elementsOf(padded) * itemSize,
    grid: shape.map((length, d) => (isEmpty ? 0 : Math.ceil(length / at(chunks, d)))),
    mode,
    kind: { ...kind, blocksize: blockBytes },
    ...(reason === undefined ? {} : { reason }),
  };
}

/** The layout for encoding values: the chunks of the source, in blocks that each fit in one block of Blosc1. */
function valueLayout(column: Column, reason: string): B2ndLayout {
  const { shape, dtype, zarr, chunks } = column;
  const { itemSize } = dtype;
  const whole = shape.map((length) => Math.max(1, length));
  const rowBytes = elementsOf(whole.slice(1)) * itemSize;
  const rows = chunks?.chunkLength ?? Math.max(1, Math.round(CHUNK_BYTES / rowBytes));
  const inner = zarr?.chunkShape.map((length, d) => Math.min(length, at(whole, d)));
  let cut = inner ?? (whole.length === 0 ? [] : [Math.min(rows, at(whole, 0)), ...whole.slice(1)]);
  if (elementsOf(cut) * itemSize > MAX_CHUNK) cut = halved(cut, CHUNK_BYTES / itemSize);
  const blocks = halved(cut, BLOCK_BYTES / itemSize);
  const kind = defaultKind(column, elementsOf(blocks) * itemSize);
  return layoutOf(shape, { chunks: cut, blocks, itemSize, mode: "values", kind, reason });
}

/** Halves the first dimensions of a box until it has at most `most` items. */
function halved(box: readonly number[], most: number): number[] {
  const out = [...box];
  for (let d = 0; d < out.length && elementsOf(out) > most; )
    if (at(out, d) > 1) out[d] = Math.ceil(at(out, d) / 2);
    else d++;
  return out;
}

function defaultKind({ settings, dtype }: Column, blocksize: number): BlockKind {
  const { cname = "lz4", shuffle = "shuffle" } = settings;
  const compressor = cname === "lz4hc" || cname === "snappy" ? "lz4" : cname;
  return { compressor, shuffle, typesize: zarrTypesize(dtype), split: false, blocksize };
}

interface FirstChunk {
  readonly header: ChunkHeader;
  /** True if it has one block. */
  readonly isSingle: boolean;
}

async function firstOfArchive({ archive }: Column): Promise<FirstChunk | string> {
  for await (const { bytes } of archive?.encodedChunks(0, 1, {}) ?? []) {
    const header = decodeHeader(bytes);
    return { header, isSingle: header.nblocks === 1 };
  }
  return "it has no chunks";
}

async function firstOfZarr(array: ZarrArray, signal: AbortSignal | undefined): Promise<FirstChunk | string> {
  let stored: ChunkHeader | undefined;
  let looked = 0;
  for await (const chunk of array.listChunks({ signal })) {
    const range = { offset: chunk.offset, length: HEADER_LENGTH };
    const head = await array.store.getRange(chunk.key, range, { signal });
    if (head === undefined) break;
    const header = decodeHeader(head, Number.MAX_SAFE_INTEGER);
    if (!header.memcpyed) return { header, isSingle: header.nblocks <= 1 };
    // Stored chunks do not show the block size of others, so a few of them are skipped.
    stored ??= header;
    if (++looked === 16) break;
  }
  return stored === undefined ? "no chunk is stored" : { header: stored, isSingle: stored.nblocks <= 1 };
}
