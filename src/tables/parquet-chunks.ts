/**
 * Builds Blosc chunks from the pages of a Parquet file without recompressing: a page becomes a block with one stream.
 *
 * Works only if pages end where chunks do, and for codecs and encodings that Blosc has. Must not know who writes the chunks.
 * @see docs/parquet-format.md [PR]
 */
import { type ColumnMetaData, type ParquetScan, parquetSchema } from "hyparquet";
import { deserializeTCompactProtocol } from "hyparquet/src/thrift.js";
import { at, joinBytes } from "../bytes/arrays.ts";
import {
  encodeHeader,
  FLAG,
  HEADER_LENGTH,
  type HeaderFields,
  MAX_BLOCKSIZE,
  MAX_NBYTES,
} from "../codec/header.ts";
import { decodeStreamSync, decodeSync, prepare } from "../codec/index.ts";
import { isSuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import { pageLevels } from "../parquet/levels.ts";
import { attempt } from "../parquet/page-checks.ts";
import { withoutPrefix } from "../parquet/without-prefix.ts";
import type { ReadableStore } from "../store/types.ts";
import type { MadeChunk } from "./table-file.ts";

/** The codecs that Blosc has too, with their numbers in a chunk's flags. */
const CODECS = {
  LZ4_RAW: { name: "lz4", number: 1 },
  SNAPPY: { name: "snappy", number: 2 },
  ZSTD: { name: "zstd", number: 4 },
} as const;
/** Kinds of pages, and encodings of their values. */
const [DATA, DATA_V2] = [0, 3];
const [PLAIN, SPLIT] = [0, 9];
const WIDTHS: { readonly [type: string]: number } = { INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8 };
/** Most bytes of a column chunk to hold in memory. */
const MOST_BYTES = 256 << 20;
/** Approximate chunk size in bytes if no page marks the end of a chunk. */
const CHUNK_BYTES = 1 << 18;
const OVERHEAD = 16;

interface ValuePage {
  /** First row in the file. */
  readonly row: number;
  readonly rows: number;
  readonly isSplit: boolean;
  /** The stream of the values; undefined if some are null, or the values cannot be separated from their levels. */
  readonly body: Uint8Array | undefined;
}

/** The facts of a page header. Levels are compressed together with the values, or (version 2) their length is given. */
interface StoredPage {
  readonly rows: number;
  readonly decoded: unknown;
  readonly levels: unknown;
  readonly nulls: unknown;
}

/** A column of nullable values. */
const ALL_THERE = { lists: [], nullable: true } as const;

/** A column whose pages can become blocks. */
export class PageColumn {
  readonly #column: number;
  readonly #size: number;
  readonly #isNullable: boolean;
  readonly #scan: ParquetScan;
  readonly #file: { readonly store: ReadableStore; readonly key: string };
  #group: { readonly index: number; readonly pages: readonly ValuePage[] } | undefined;

  private constructor(
    scan: ParquetScan,
    file: { readonly store: ReadableStore; readonly key: string },
    own: { readonly column: number; readonly size: number; readonly isNullable: boolean },
  ) {
    this.#scan = scan;
    this.#isNullable = own.isNullable;
    this.#file = file;
    this.#column = own.column;
    this.#size = own.size;
  }

  /** Undefined for a column whose values Parquet stores in another form than numpy. */
  static of(
    scan: ParquetScan,
    file: { readonly store: ReadableStore; readonly key: string },
    name: string,
    dtype: DType,
  ): PageColumn | undefined {
    const leaf = parquetSchema(scan.metadata).children.find(({ element }) => element.name === name)?.element;
    const isNullable = leaf?.repetition_type === "OPTIONAL";
    const isFlat = isNullable || leaf?.repetition_type === "REQUIRED";
    const width = isFlat ? WIDTHS[leaf.type ?? ""] : undefined;
    const isSame = width === dtype.itemSize && !("byteOrder" in dtype && dtype.byteOrder === "big");
    const columns = scan.metadata.row_groups[0]?.columns ?? [];
    const index = columns.findIndex(({ meta_data: own }) => own?.path_in_schema.join("\0") === name);
    if (!isSame || index < 0) return undefined;
    return new PageColumn(scan, file, { column: index, size: width, isNullable });
  }

  /** Rows after which chunks may end, from the first row group; undefined if its pages cannot be blocks. */
  async period(): Promise<{ readonly rows: number; readonly page: number } | undefined> {
    const pages = await this.#pages(0);
    const [first] = pages;
    if (first === undefined || first.rows === 0) return undefined;
    const short = pages.findIndex(({ rows }) => rows !== first.rows);
    const many = Math.max(1, Math.floor(CHUNK_BYTES / this.#size / first.rows));
    // The last page of a row group may be short, however chunks are cut.
    if (short < 0 || short === pages.length - 1) return { rows: many * first.rows, page: first.rows };
    const last = at(pages, short);
    // A shorter page ends a chunk; a longer one belongs to the next.
    const rows = last.rows < first.rows ? last.row + last.rows : last.row;
    return { rows, page: rows };
  }

  /** The chunk of rows `[first, end)`; undefined if it cannot be built from pages. @throws the codes of damaged chunks */
  async chunk(first: number, end: number): Promise<MadeChunk | undefined> {
    const { row_groups: groups } = this.#scan.metadata;
    const index = this.#scan.ranges.findIndex(({ rowStart, rowEnd }) => first >= rowStart && end <= rowEnd);
    const codec = CODECS[groups[index]?.columns[this.#column]?.meta_data?.codec as keyof typeof CODECS];
    if (index < 0 || codec === undefined) return undefined;
    const pages = (await this.#pages(index)).filter(({ row, rows }) => row < end && row + rows > first);
    const [one] = pages;
    const last = pages.at(-1);
    if (one === undefined || last === undefined || one.row !== first || last.row + last.rows !== end)
      return undefined;
    const isEven = pages.every(
      ({ rows, isSplit }, i) =>
        isSplit === one.isSplit && (rows === one.rows || (i === pages.length - 1 && rows < one.rows)),
    );
    const nbytes = (end - first) * this.#size;
    const blocksize = one.rows * this.#size;
    if (!isEven || blocksize > MAX_BLOCKSIZE || nbytes > MAX_NBYTES) return undefined;
    await prepare(codec.name);
    try {
      return this.#chunkOf(pages, codec, nbytes, blocksize);
    } catch (error) {
      // A stream may refer to the removed levels before its values.
      if (this.#isNullable && isSuperchunkError(error, "BAD_CHUNK")) return undefined;
      throw error;
    }
  }

  #chunkOf(
    pages: readonly ValuePage[],
    codec: (typeof CODECS)[keyof typeof CODECS],
    nbytes: number,
    blocksize: number,
  ): MadeChunk | undefined {
    const streams: Uint8Array[] = [];
    for (const { rows, body } of pages) {
      if (body === undefined) return undefined;
      const length = rows * this.#size;
      // Blosc takes a stream as long as its block for a stored one.
      if (body.length < length) streams.push(body);
      else if (codec.name === "snappy") return undefined;
      else streams.push(decodeStreamSync(codec.name, body, length));
    }
    const flags = (pages[0]?.isSplit === true ? FLAG.shuffle : 0) | FLAG.notSplit | (codec.number << 5);
    const chunk = chunkOfStreams({ flags, typesize: this.#size, nbytes, blocksize }, streams);
    const items = decodeSync(chunk);
    if (chunk.length <= nbytes + OVERHEAD) return { chunk, items };
    const head = { flags: FLAG.memcpyed | (codec.number << 5), typesize: this.#size, nbytes, blocksize };
    return { chunk: joinBytes([encodeHeader({ ...head, ctbytes: nbytes + HEADER_LENGTH }), items]), items };
  }

  /** The pages of a row group; none if one of them does not hold values. */
  async #pages(index: number): Promise<readonly ValuePage[]> {
    if (this.#group?.index === index) return this.#group.pages;
    const meta = this.#scan.metadata.row_groups[index]?.columns[this.#column]?.meta_data;
    const pages =
      meta === undefined ? [] : await this.#readPages(meta, this.#scan.ranges[index]?.rowStart ?? 0);
    this.#group = { index, pages };
    return pages;
  }

  async #readPages(meta: ColumnMetaData, start: number): Promise<readonly ValuePage[]> {
    const length = Number(meta.total_compressed_size);
    if (meta.dictionary_page_offset || !(meta.codec in CODECS) || length > MOST_BYTES) return [];
    const { store, key } = this.#file;
    const bytes = await store.getRange(key, { offset: Number(meta.data_page_offset), length });
    if (bytes?.length !== length) return [];
    const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, length), offset: 0 };
    const pages: ValuePage[] = [];
    let row = start;
    while (reader.offset < length) {
      const header = attempt(() => deserializeTCompactProtocol(reader)) ?? {};
      const { field_1: kind, field_2: decoded, field_3: size, field_5: one, field_8: two } = header;
      const rows: unknown = kind === DATA ? one?.field_1 : two?.field_1;
      const encoding: unknown = kind === DATA ? one?.field_2 : two?.field_4;
      const isValues = kind === DATA || (kind === DATA_V2 && two?.field_7 !== false);
      const isKnown = encoding === PLAIN || encoding === SPLIT;
      const end = reader.offset + Number(size);
      if (!isValues || !isKnown || typeof rows !== "number" || !(end <= length) || !(end > reader.offset))
        return [];
      const stored = { rows, decoded, levels: two?.field_5, nulls: two?.field_2 };
      const body = this.#valuesOf(bytes.subarray(reader.offset, end), stored, meta);
      if (body === undefined && !this.#isNullable) return [];
      pages.push({ row, rows, isSplit: encoding === SPLIT, body });
      reader.offset = end;
      row += rows;
    }
    return pages;
  }

  /** The stream of a page's values, without the levels. */
  #valuesOf(
    body: Uint8Array,
    { rows, decoded, levels, nulls }: StoredPage,
    { codec }: ColumnMetaData,
  ): Uint8Array | undefined {
    const length = Number(decoded) - rows * this.#size;
    if (!this.#isNullable) return length === 0 ? body : undefined;
    if (levels !== undefined) return nulls === 0 && length === levels ? body.subarray(length) : undefined;
    const prefix = pageLevels(ALL_THERE, rows, undefined);
    const { name } = CODECS[codec as keyof typeof CODECS];
    return length === prefix.length ? withoutPrefix(name, body, prefix) : undefined;
  }
}

/** The number of rows for the chunks of all columns that lets most of them be built from pages; undefined if there is none. */
export async function chunkRowsOf(columns: readonly PageColumn[]): Promise<number | undefined> {
  const periods = (await Promise.all(columns.map((column) => column.period()))).filter(
    (period) => period !== undefined,
  );
  const fits = (rows: number): number =>
    periods.filter((period) => rows % period.rows === 0 || (rows % period.page === 0 && rows > 0)).length;
  const wishes = [...new Set(periods.map(({ rows }) => rows))].sort((a, b) => fits(b) - fits(a) || b - a);
  return wishes[0];
}

/** A chunk of blocks with one stream each. */
function chunkOfStreams(head: Omit<HeaderFields, "ctbytes">, streams: readonly Uint8Array[]): Uint8Array {
  const sizes = streams.map(({ length }) => 4 + length);
  const starts = new DataView(new ArrayBuffer(4 * streams.length));
  let offset = HEADER_LENGTH + starts.byteLength;
  for (const [i, size] of sizes.entries()) {
    starts.setUint32(4 * i, offset, true);
    offset += size;
  }
  const pieces = streams.flatMap((stream) => {
    const size = new DataView(new ArrayBuffer(4));
    size.setInt32(0, stream.length, true);
    return [new Uint8Array(size.buffer), stream];
  });
  return joinBytes([encodeHeader({ ...head, ctbytes: offset }), new Uint8Array(starts.buffer), ...pieces]);
}
