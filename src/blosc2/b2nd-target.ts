/**
 * Frames of Blosc2 with dimensions (`.b2nd`), one for each array or column, as python-blosc2 opens them.
 *
 * Streams are copied if the layouts allow it: an inner chunk of a shard becomes a block, or a Blosc1 chunk becomes a chunk with the same
 * blocks. Otherwise values are encoded, block by block. @see docs/blosc2.md
 */
import { at, elementsOf, positionsOf } from "../bytes/arrays.ts";
import { decodeHeader, prepareEncode } from "../codec/index.ts";
import { repeatedChunk } from "../codec2/as-blosc2.ts";
import { type BlockKind, ChunkBuilder, kindOf } from "../codec2/chunk-builder.ts";
import { compareValues } from "../convert/run/compare.ts";
import type { Column } from "../convert/sources/columns.ts";
import { type ListedChunk, storedBytes } from "../convert/sources/offered-chunks.ts";
import { type ColumnFormat, noteLost, type PieceContext } from "../convert/targets/column-target.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType, pythonDType } from "../format/dtype.ts";
import { stringifyJson } from "../format/json.ts";
import { keepFloats } from "../format/json-float.ts";
import { repeatItem, swapItems } from "../values/copy-items.ts";
import type { StoredChunk } from "../write/array/superchunk-file.ts";
import { scratchBeside, spoolChunks } from "../write/bloscpack/chunk-spool.ts";
import { withByteOrder } from "../zarr/document/data-type.ts";
import type { ZarrArray, ZarrChunk } from "../zarr/read/array.ts";
import { type B2ndLayout, layOut, whyColumnEncoded } from "./b2nd-layout.ts";
import { cutBlock } from "./blocks.ts";
import { frameAround, isLayerName, isLayerValue } from "./frame-writer.ts";
import { openBlosc2 } from "./open.ts";
import { DIMENSIONS } from "./zarr-view.ts";

/** `.b2nd` files. */
export const B2ND: ColumnFormat = {
  format: "b2nd",
  ending: ".b2nd",
  whyRecoded: () => undefined,
  describe(column) {
    const reason = whyColumnEncoded(column);
    return reason === undefined ? { action: "restream" } : { action: "recode", reason };
  },

  async write({ key, columns }, context) {
    const column = at(columns, 0);
    const { signal, overwrite, recode } = context.options;
    const layout = await layOut(column, signal);
    if (layout.reason !== undefined && recode === false && column.nbytes > 0)
      throw new SuperchunkError("UNSUPPORTED", `nothing may be recoded: ${layout.reason}`, {
        path: column.path,
      });
    if (layout.reason !== undefined && column.nbytes > 0)
      context.note(`${column.path}: ${layout.reason}; encoded again`);
    const attrs = attributesOf(column, context);
    const work = { column, layout, context, encoded: 0 };
    const spool = await spoolChunks(storedChunks(work), scratchBeside(context.store, key));
    try {
      const { settings, dtype } = column;
      const isEmpty = spool.sizes.length === 0;
      const { head, tail } = frameAround(
        {
          ...layout,
          // c-blosc2 writes chunk length 0 if there are no chunks.
          blockBytes: isEmpty ? 0 : layout.blockBytes,
          chunkBytes: isEmpty ? 0 : layout.chunkBytes,
          typesize: dtype.itemSize,
          cname: settings.cname === "lz4hc" ? "lz4hc" : layout.kind.compressor,
          clevel: settings.clevel ?? 5,
          shuffle: layout.kind.shuffle,
          dtype: dtype.kind === "struct" ? pythonDType(dtype) : String(formatDType(dtype)),
          attrs,
        },
        spool.sizes,
      );
      async function* pieces(): AsyncGenerator<Uint8Array> {
        yield head;
        yield* spool.pieces();
        yield tail;
      }
      if (work.encoded > 0)
        context.note(
          `${column.path}: ${work.encoded} blocks are encoded again: short ones, which were padded, and those of another kind`,
        );
      await context.store.put(key, pieces(), { ifAbsent: overwrite !== true, signal });
    } finally {
      await spool.dispose();
    }
  },

  async compare({ key, columns }, { store, signal }) {
    const found = await openBlosc2(store, key, { signal });
    const column = at(columns, 0);
    if (found?.kind === "array")
      return compareValues(column, inOrderOf(column, found), store.describe(key), signal);
    throw new SuperchunkError("BAD_FIELD", "the frame cannot be opened. Report it", {
      path: store.describe(key),
    });
  },
};

/** The array in the byte order of the column, because items read through Zarr are little-endian. */
function inOrderOf({ dtype }: Column, array: ZarrArray): Pick<ZarrArray, "dtype" | "shape" | "streamBytes"> {
  const swapped = withByteOrder(array.dtype, "big");
  const [wanted, stored, big] = [dtype, array.dtype, swapped].map((type) => stringifyJson(formatDType(type)));
  if (stored === wanted || big !== wanted) return array;
  return {
    dtype: swapped,
    shape: array.shape,
    async *streamBytes(options) {
      for await (const bytes of array.streamBytes(options)) yield swapItems(bytes, array.dtype);
    },
  };
}

/** The attributes that fit in a frame. Dimension names are added as xarray stores them. */
function attributesOf(column: Column, context: PieceContext): Column["attrs"] {
  const names = column.zarr?.dimensionNames;
  const attrs =
    names?.some((name) => name !== null) === true && column.attrs[DIMENSIONS] === undefined
      ? keepFloats({ ...column.attrs, [DIMENSIONS]: [...names] }, column.attrs)
      : column.attrs;
  const noteLeft = (why: string, left: readonly string[]): void => {
    if (left.length > 0)
      context.note(`${column.path}: attributes not carried over, because ${why}: ${left.join(", ")}`);
  };
  const given = Object.entries(attrs);
  noteLeft(
    "names have 1 to 31 bytes",
    given.flatMap(([name]) => (isLayerName(name) ? [] : [name])),
  );
  noteLeft(
    "integers in them have 64 bits",
    given.flatMap(([name, value]) => (isLayerName(name) && !isLayerValue(value) ? [name] : [])),
  );
  noteLost(context, column, { name: "a frame of Blosc2", holdsAttributes: true });
  return attrs;
}

/** State of writing one frame. */
interface Work {
  readonly column: Column;
  readonly layout: B2ndLayout;
  readonly context: PieceContext;
  /** Blocks that were encoded in chunks whose other blocks were copied. */
  encoded: number;
}

const NO_BYTES = new Uint8Array(0);

async function* storedChunks(work: Work): AsyncGenerator<StoredChunk> {
  const { column, layout, context } = work;
  const count = elementsOf(layout.grid);
  const items = column.nbytes / Math.max(1, count);
  for await (const bytes of chunksOf(work)) {
    yield { bytes, digest: NO_BYTES, nbytes: layout.chunkBytes };
    context.advance(items);
  }
}

function chunksOf(work: Work): AsyncIterable<Uint8Array> {
  const { column, layout } = work;
  if (column.nbytes === 0) return (async function* () {})();
  if (layout.mode === "values") return encodedChunks(work);
  return column.zarr === undefined ? archiveChunks(work) : zarrChunks(column.zarr, work);
}

/** Counts a chunk: with streams of the source, or encoded. */
function count({ counts }: PieceContext, isCopied: boolean): void {
  if (isCopied) counts.restreamed = (counts.restreamed ?? 0) + 1;
  else counts.recoded++;
}

function finish(builder: ChunkBuilder, work: Work): Uint8Array {
  const isCopied = builder.encoded === 0 || builder.copied > 0;
  count(work.context, isCopied);
  if (isCopied) work.encoded += builder.encoded;
  return builder.finish();
}

async function* archiveChunks(work: Work): AsyncGenerator<Uint8Array> {
  const {
    column: { archive, path },
    layout,
    context,
  } = work;
  const wanted = elementsOf(layout.grid);
  let found = 0;
  for await (const { bytes } of archive?.encodedChunks(0, wanted, { signal: context.signal }) ?? []) {
    found++;
    yield await chunkOfBlocks(bytes, work);
  }
  if (found !== wanted)
    throw new SuperchunkError("INCOMPLETE", `chunks counted: ${wanted}; found: ${found}`, {
      path,
      expected: wanted,
      found,
    });
}

/** A Blosc1 chunk as a Blosc2 chunk, with as many blocks as the frame's chunks have. */
async function chunkOfBlocks(bytes: Uint8Array, work: Work): Promise<Uint8Array> {
  const { blockBytes, chunkBytes, kind: usual } = work.layout;
  const stored = decodeHeader(bytes);
  const isAlike = stored.memcpyed || stored.blocksize === blockBytes || stored.nblocks <= 1;
  const nblocks = Math.ceil(stored.nbytes / blockBytes);
  const header = isAlike ? { ...stored, blocksize: blockBytes, nblocks } : stored;
  const kind = kindOf({ ...header, typesize: usual.typesize }, blockBytes) ?? usual;
  await prepareEncode(kind.compressor);
  const builder = new ChunkBuilder({ ...kind, blocksize: blockBytes });
  for (let block = 0; block < Math.min(chunkBytes / blockBytes, nblocks); block++)
    if (isAlike) builder.addBlock(bytes, header, block);
    else builder.addRange(bytes, block * blockBytes, header);
  while (builder.length < chunkBytes / blockBytes) builder.addZeros();
  return finish(builder, work);
}

/** The chunks of a Zarr array, by their grid positions. */
async function* zarrChunks(array: ZarrArray, work: Work): AsyncGenerator<Uint8Array> {
  const { layout, context } = work;
  const { signal } = context;
  const inner = layout.mode === "inner";
  const perChunk = layout.chunks.map((length, d) => (inner ? length / at(array.chunkShape, d) : 1));
  const fill = array.model.fillItem;
  const listed = new ListedInOrder(array, signal);
  try {
    for (const position of positionsOf(layout.grid)) {
      const members: (ZarrChunk | undefined)[] = [];
      for (const member of positionsOf(perChunk))
        members.push(await listed.take(member.map((index, d) => at(position, d) * at(perChunk, d) + index)));
      if (members.every((member) => member === undefined)) {
        // c-blosc2 does not open a frame that stores a chunk of zeros: the index must mark it instead.
        const isZero = fill.every((byte) => byte === 0);
        yield isZero
          ? NO_BYTES
          : repeatedChunk(fill, { ...layout.kind, nbytes: layout.chunkBytes, cname: "lz4" });
        count(context, true);
        continue;
      }
      const bytes = await readMembers(array, members, signal);
      yield await (inner ? chunkOfInner(bytes, fill, work) : chunkOfBlocks(bytes[0] ?? NO_BYTES, work));
    }
  } finally {
    await listed.end();
  }
}

/** The stored chunks of an array by their grid positions. Keeps those of a row of shards only: there can be millions. */
class ListedInOrder {
  readonly #array: ZarrArray;
  readonly #listed: AsyncGenerator<ZarrChunk>;
  readonly #kept = new Map<string, ZarrChunk>();
  #next: IteratorResult<ZarrChunk, void> | undefined;

  constructor(array: ZarrArray, signal: AbortSignal | undefined) {
    this.#array = array;
    this.#listed = array.listChunks({ signal });
  }

  /** The chunk at a position; undefined if it is not stored. Positions must be in C order, or in that of the shards. */
  async take(position: readonly number[]): Promise<ZarrChunk | undefined> {
    const { chunkShape } = this.#array;
    const shard = this.#shardOf(position.map((index, d) => index * at(chunkShape, d)));
    this.#next ??= await this.#listed.next();
    // Shards are listed in C order, and their chunks in any.
    while (this.#next.done !== true && this.#shardOf(this.#next.value.start) <= shard) {
      const { value } = this.#next;
      this.#kept.set(value.start.map((first, d) => first / at(chunkShape, d)).join(), value);
      this.#next = await this.#listed.next();
    }
    const found = this.#kept.get(position.join());
    this.#kept.delete(position.join());
    return found;
  }

  /** The number of the shard, or of the chunk without shards, that has an item. */
  #shardOf(item: readonly number[]): number {
    const { shape, chunkShape, shardShape = chunkShape } = this.#array;
    return item.reduce(
      (number, index, d) =>
        number * Math.ceil(at(shape, d) / at(shardShape, d)) + Math.floor(index / at(shardShape, d)),
      0,
    );
  }

  async end(): Promise<void> {
    await this.#listed.return(undefined);
  }
}

/** Makes one chunk with inner chunks as its blocks. */
async function chunkOfInner(
  members: readonly (Uint8Array | undefined)[],
  fill: Uint8Array,
  work: Work,
): Promise<Uint8Array> {
  const { blockBytes, kind: usual } = work.layout;
  const headers = members.map((bytes) => bytes && decodeHeader(bytes));
  const kinds = headers.flatMap(
    (header) => (header && kindOf({ ...header, typesize: usual.typesize }, blockBytes)) ?? [],
  );
  const kind = kinds[0] ?? usual;
  await prepareEncode(kind.compressor);
  const builder = new ChunkBuilder({ ...kind, blocksize: blockBytes });
  const isZero = fill.every((byte) => byte === 0);
  for (const [i, bytes] of members.entries()) {
    const header = headers[i];
    if (bytes === undefined || header === undefined) {
      if (isZero) builder.addZeros();
      else builder.addValues(repeatItem(fill, new Uint8Array(blockBytes)));
    } else if (header.nbytes !== blockBytes)
      throw new SuperchunkError(
        "BAD_FIELD",
        `nbytes at byte 4 of a chunk is ${header.nbytes}, but by the array's metadata it should be ${blockBytes}; run "superchunk verify"`,
        { field: "nbytes", expected: blockBytes, found: header.nbytes },
      );
    else if (header.nblocks === 1 || header.memcpyed) {
      builder.addBlock(bytes, { ...header, blocksize: blockBytes, nblocks: 1 }, 0);
    } else builder.addRange(bytes, 0, header);
  }
  return finish(builder, work);
}

/** The stored bytes of inner chunks, or of a chunk; undefined for those that are not stored. */
async function readMembers(
  array: ZarrArray,
  members: readonly (ZarrChunk | undefined)[],
  signal: AbortSignal | undefined,
): Promise<(Uint8Array | undefined)[]> {
  const found = new Map<ListedChunk, Uint8Array>();
  const stored = members
    .filter((chunk) => chunk !== undefined)
    .sort((a, b) => (a.key === b.key ? a.offset - b.offset : a.key < b.key ? -1 : 1));
  for await (const { chunk, bytes } of storedBytes(array, stored, signal)) found.set(chunk, bytes);
  return members.map((chunk) => chunk && found.get(chunk));
}

/** Encodes chunks from values. Each block is first a Blosc1 chunk, which threads can encode. */
async function* encodedChunks({ column, layout, context }: Work): AsyncGenerator<Uint8Array> {
  const { chunks, blocks, blockBytes, grid, shape, kind } = layout;
  const { itemSize } = column.dtype;
  const { cname = kind.compressor, clevel = 5 } = column.settings;
  const settings = {
    cname: cname === "snappy" ? ("lz4" as const) : cname,
    clevel,
    shuffle: kind.shuffle,
    typesize: kind.typesize,
    blocksize: blockBytes,
  };
  await prepareEncode(kind.compressor);
  for (const position of positionsOf(grid)) {
    const origin = position.map((index, d) => index * at(chunks, d));
    const box = origin.map((start, d) => Math.min(at(chunks, d), at(shape, d) - start));
    const bytes = await valuesOf(column, origin, box, context.signal);
    const grid = chunks.map((length, d) => Math.ceil(length / at(blocks, d)));
    const values = Array.from(positionsOf(grid), (block) =>
      cutBlock(
        { bytes, shape: box },
        { shape: blocks, origin: block.map((index, d) => index * at(blocks, d)) },
        itemSize,
      ),
    );
    const encoded = await Promise.all(
      values.map((block) => (isZero(block) ? undefined : context.encoder.encode(block, settings))),
    );
    const first = encoded
      .map((chunk) => chunk && kindOf(decodeHeader(chunk), blockBytes))
      .find((each) => each !== undefined);
    const builder = new ChunkBuilder({ ...(first ?? kind), blocksize: blockBytes } satisfies BlockKind);
    for (const [i, chunk] of encoded.entries()) {
      if (chunk === undefined) builder.addZeros();
      else {
        const header = decodeHeader(chunk);
        if (header.nblocks === 1 || header.memcpyed)
          builder.addBlock(chunk, { ...header, blocksize: blockBytes, nblocks: 1 }, 0);
        else builder.addValues(at(values, i));
      }
    }
    count(context, false);
    yield builder.finish();
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

async function valuesOf(
  column: Column,
  origin: readonly number[],
  box: readonly number[],
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const ranges = origin.map((start, d) => ({ start, stop: start + at(box, d), step: 1 }));
  if (column.zarr !== undefined) return column.zarr.getBytes(ranges, { signal });
  const [rows] = ranges;
  if (rows === undefined) return column.rows(0, 1, signal);
  return column.rows(rows.start, rows.stop, signal);
}
