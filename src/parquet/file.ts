/**
 * Builds a Parquet file from its pages: page headers, row groups, the page index and the footer.
 *
 * Pages are passed on as they come. The footer's facts are kept, a few bytes for each page. Must not know where pages come
 * from. @see docs/parquet-format.md [PF]
 */
import { at } from "../bytes/arrays.ts";
import type { PageEncoding } from "./blosc-pages.ts";
import type { JoinableCodec } from "./join-streams.ts";
import { type ColumnSchema, type Leaf, physicalType, schemaElements, type ValueKind } from "./schema.ts";
import { compareBounds, encodeBound, mergeStatistics, type ValueStatistics } from "./statistics.ts";
import { ThriftStruct } from "./thrift.ts";

const TEXT = new TextEncoder();
const MAGIC = TEXT.encode("PAR1");
const DATA_PAGE = 0;
const ENCODING = { plain: 0, rle: 3, split: 9 } as const;
const CODEC: { readonly [codec in JoinableCodec]: number } = { snappy: 1, zstd: 6, lz4: 7 };
const FLOATS: readonly ValueKind[] = ["half", "float", "double"];
const ORDER = { none: 0, ascending: 1 } as const;

/** The package's version: Java readers ignore statistics of strings if they cannot parse a file's producer. */
export const PRODUCER_VERSION = "0.1.0";

/** A data page of one column. */
export interface Page {
  /** Includes nulls. */
  readonly values: number;
  readonly rows: number;
  readonly encoding: PageEncoding;
  /** Bytes of the decoded body. */
  readonly length: number;
  readonly body: Uint8Array;
  readonly statistics: ValueStatistics | undefined;
}

/** The header of a page. It does not depend on the page's place. */
export function pageHeader(page: Page): Uint8Array {
  const description = new ThriftStruct()
    .i32(1, page.values)
    .i32(2, ENCODING[page.encoding])
    .i32(3, ENCODING.rle)
    .i32(4, ENCODING.rle);
  return new ThriftStruct()
    .i32(1, DATA_PAGE)
    .i32(2, page.length)
    .i32(3, page.body.length)
    .struct(5, description)
    .encode();
}

/** A column chunk being written. */
interface OpenChunk {
  readonly leaf: number;
  readonly codec: JoinableCodec;
  readonly start: number;
  readonly encodings: Set<PageEncoding>;
  readonly locations: Uint8Array[];
  readonly statistics: (ValueStatistics | undefined)[];
  values: number;
  rows: number;
  /** Uncompressed bytes, including headers. */
  length: number;
}

/** A finished column chunk. */
interface DoneChunk {
  readonly start: number;
  readonly size: number;
  readonly length: number;
  /** Without statistics, which are added at the end of the file. */
  readonly metadata: ThriftStruct;
  readonly statistics: ValueStatistics | undefined;
  readonly columnIndex: Uint8Array | undefined;
  readonly offsetIndex: Uint8Array;
  readonly isAscending: boolean;
}

interface RowGroup {
  readonly rows: number;
  readonly chunks: readonly DoneChunk[];
}

/** Writes one file. Each call returns the next bytes. */
export class ParquetFile {
  readonly #columns: readonly ColumnSchema[];
  readonly #leaves: readonly Leaf[];
  readonly #groups: RowGroup[] = [];
  #chunks: DoneChunk[] = [];
  #open: OpenChunk | undefined;
  #offset = MAGIC.length;

  constructor(columns: readonly ColumnSchema[]) {
    this.#columns = columns;
    this.#leaves = columns.flatMap(({ leaves }) => leaves);
  }

  start(): Uint8Array {
    return MAGIC;
  }

  /** Begins the column chunk of leaf number `leaf` in the row group. */
  beginColumn(leaf: number, codec: JoinableCodec): void {
    this.#open = {
      leaf,
      codec,
      start: this.#offset,
      encodings: new Set(),
      locations: [],
      statistics: [],
      values: 0,
      rows: 0,
      length: 0,
    };
  }

  /** Returns the header of a page; the caller writes the body after it. */
  page(page: Page): Uint8Array {
    const chunk = this.#chunk();
    const header = pageHeader(page);
    const size = header.length + page.body.length;
    chunk.locations.push(new ThriftStruct().i64(1, this.#offset).i32(2, size).i64(3, chunk.rows).encode());
    chunk.encodings.add(page.encoding);
    chunk.statistics.push(page.statistics);
    chunk.values += page.values;
    chunk.rows += page.rows;
    chunk.length += header.length + page.length;
    this.#offset += size;
    return header;
  }

  endColumn(): void {
    const chunk = this.#chunk();
    const leaf = at(this.#leaves, chunk.leaf);
    const pages = chunk.statistics.filter((page) => page !== undefined);
    const known = pages.length === chunk.statistics.length ? mergeStatistics(pages) : undefined;
    const size = this.#offset - chunk.start;
    const encodings = [...chunk.encodings].map((encoding) => ENCODING[encoding]);
    this.#chunks.push({
      start: chunk.start,
      size,
      length: chunk.length,
      metadata: new ThriftStruct()
        .i32(1, physicalType(leaf))
        .i32s(2, [...encodings, ENCODING.rle])
        .binaries(3, leaf.path)
        .i32(4, CODEC[chunk.codec])
        .i64(5, chunk.values)
        .i64(6, chunk.length)
        .i64(7, size)
        .i64(9, chunk.start),
      statistics: known,
      columnIndex: known === undefined ? undefined : columnIndex(leaf, pages, chunk.values),
      offsetIndex: new ThriftStruct().structs(1, chunk.locations).encode(),
      // Rows are sorted by a column, not by parts of one.
      isAscending: known?.isAscending === true && leaf.path.length === 1,
    });
    this.#open = undefined;
  }

  endRowGroup(rows: number): void {
    this.#groups.push({ rows, chunks: this.#chunks });
    this.#chunks = [];
  }

  /**
   * The page index and the footer, which end the file.
   *
   * @param notText string leaves with values that are not UTF-8
   */
  end(metadata: ReadonlyMap<string, string>, notText: ReadonlySet<Leaf>): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    const place = (bytes: Uint8Array | undefined): readonly [offset?: number, length?: number] => {
      if (bytes === undefined) return [];
      pieces.push(bytes);
      this.#offset += bytes.length;
      return [this.#offset - bytes.length, bytes.length];
    };
    const placeAll = (kind: "columnIndex" | "offsetIndex") =>
      this.#groups.map(({ chunks }) => chunks.map((chunk) => place(chunk[kind])));
    const [columnPlaces, offsetPlaces] = [placeAll("columnIndex"), placeAll("offsetIndex")];
    const sorted = this.#leaves.findIndex((_, i) =>
      isSorted(this.#groups.map(({ chunks }) => at(chunks, i))),
    );
    // DataFusion takes the bounds of some row groups for those of all.
    const hasNaN = this.#leaves.map(
      ({ kind }, i) =>
        FLOATS.includes(kind) && this.#groups.some(({ chunks }) => chunks[i]?.statistics?.isOpen),
    );
    const groups = this.#groups.map(({ rows, chunks }, group) => {
      const columns = chunks.map((chunk, i) => {
        const [offset, length] = at(at(offsetPlaces, group), i);
        const [column, columnLength] = at(at(columnPlaces, group), i);
        const { metadata, statistics } = chunk;
        const leaf = at(this.#leaves, i);
        const known = statistics && statisticsStruct(leaf, statistics, hasNaN[i] !== true);
        return new ThriftStruct()
          .i64(2, 0)
          .struct(3, metadata.struct(12, known))
          .i64(4, offset)
          .i32(5, length)
          .i64(6, column)
          .i32(7, columnLength);
      });
      const sorting = new ThriftStruct().i32(1, sorted).bool(2, false).bool(3, false);
      const length = sum(chunks, (chunk) => chunk.length);
      const size = sum(chunks, (chunk) => chunk.size);
      return new ThriftStruct()
        .structs(1, columns)
        .i64(2, length)
        .i64(3, rows)
        .structs(4, sorted < 0 ? undefined : [sorting])
        .i64(5, chunks[0]?.start)
        .i64(6, size)
        .i16(7, group < 0x8000 ? group : undefined);
    });
    const nodes = this.#columns.flatMap((column) => column.nodes);
    const rows = sum(this.#groups, (group) => group.rows);
    const footer = new ThriftStruct()
      .i32(1, 2)
      .structs(2, schemaElements(nodes, notText))
      .i64(3, rows)
      .structs(4, groups)
      .structs(
        5,
        [...metadata].map(([key, value]) => new ThriftStruct().binary(1, key).binary(2, value)),
      )
      .binary(6, `superchunk version ${PRODUCER_VERSION} (build 0)`)
      .structs(
        7,
        this.#leaves.map(() => new ThriftStruct().struct(1, new ThriftStruct())),
      )
      .encode();
    const end = new Uint8Array(8);
    new DataView(end.buffer).setUint32(0, footer.length, true);
    end.set(MAGIC, 4);
    return [...pieces, footer, end];
  }

  #chunk(): OpenChunk {
    if (this.#open === undefined) throw new RangeError("no column chunk is open");
    return this.#open;
  }
}

/** True if values never decrease from one row group to the next, either: DataFusion takes the order in row groups for that of the file. */
function isSorted(chunks: readonly DoneChunk[]): boolean {
  return chunks.every(({ isAscending, statistics }, i) => {
    const [before, own] = [chunks[i - 1]?.statistics?.greatest, statistics?.least];
    const follows = before !== undefined && own !== undefined && compareBounds(before, own) <= 0;
    return isAscending && (i === 0 || follows);
  });
}

function statisticsStruct(leaf: Leaf, { nulls, ...own }: ValueStatistics, isBounded: boolean): ThriftStruct {
  const { least, greatest } = isBounded ? own : { least: undefined, greatest: undefined };
  return new ThriftStruct()
    .i64(3, nulls)
    .binary(5, greatest === undefined ? undefined : encodeBound(leaf, greatest))
    .binary(6, least === undefined ? undefined : encodeBound(leaf, least));
}

/** Bounds of all pages; undefined if a page has values but no bounds. */
function columnIndex(leaf: Leaf, pages: readonly ValueStatistics[], values: number): Uint8Array | undefined {
  const isNull = pages.map(({ least, isOpen, nulls }) => least === undefined && !isOpen && nulls > 0);
  if (values === 0 || pages.some(({ least }, i) => least === undefined && !at(isNull, i))) return undefined;
  const bounded = pages.filter(({ least }) => least !== undefined);
  const isAscending = bounded.every(({ least, greatest }, i) => {
    const before = bounded[i - 1];
    if (before?.least === undefined || before.greatest === undefined) return true;
    if (least === undefined || greatest === undefined) return true;
    return compareBounds(before.least, least) <= 0 && compareBounds(before.greatest, greatest) <= 0;
  });
  const bytesOf = (bound: ValueStatistics["least"]): Uint8Array =>
    bound === undefined ? new Uint8Array(0) : encodeBound(leaf, bound);
  const leasts = pages.map(({ least }) => bytesOf(least));
  const greatests = pages.map(({ greatest }) => bytesOf(greatest));
  const nullCounts = pages.map(({ nulls }) => nulls);
  return new ThriftStruct()
    .bools(1, isNull)
    .binaries(2, leasts)
    .binaries(3, greatests)
    .i32(4, isAscending ? ORDER.ascending : ORDER.none)
    .i64s(5, nullCounts)
    .encode();
}

function sum<T>(list: readonly T[], of: (item: T) => number): number {
  return list.reduce((total, item) => total + of(item), 0);
}
