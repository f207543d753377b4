/**
 * Parquet files: one for each table, or for an array by itself.
 *
 * Pages are Blosc blocks wherever Parquet has their compressor and filter; then streams are copied, and only decompressed to
 * compute statistics. Row groups have about a million rows, and end where chunks do. @see docs/parquet-format.md
 */

import { schemaMessage, schemaTable } from "../../arrow/schema.ts";
import { at, defined, joinBytes, stepsOf } from "../../bytes/arrays.ts";
import { badArgument } from "../../errors.ts";
import { joinableCodec } from "../../parquet/blosc-pages.ts";
import { type Page, ParquetFile } from "../../parquet/file.ts";
import type { JoinableCodec } from "../../parquet/join-streams.ts";
import type { ChunkRun, ConvertOptions } from "../pipeline.ts";
import type { Column } from "../sources/columns.ts";
import type { ColumnFormat, Piece, PieceContext } from "./column-target.ts";
import {
  type FileColumn,
  type PageContext,
  PageMemory,
  pagesOf,
  rowCount,
  whyNotRestream,
} from "./parquet-pages.ts";
import { PARTS, partitionsOf, rowPartsOf } from "./partitions.ts";
import {
  metadataOf,
  notesOn,
  notesOnTable,
  notTextNote,
  pandasMetadata,
  tableColumn,
  typeSettings,
  whyNoTable,
  withMinutes,
} from "./table-columns.ts";

/** Rows of a group, as far as chunks allow, unless the caller sets them. */
const GROUP_ROWS = 1 << 20;
/** Pieces smaller than this are joined before they go to the store … */
const SMALL = 8192;
/** … in pieces of this many bytes. */
const PIECE = 1 << 20;
export const PARQUET: ColumnFormat = {
  format: "parquet",
  ending: ".parquet",
  holdsTables: true,
  settings(options) {
    const { statistics = true, compatible = false, rowGroupRows, partition } = options.parquet ?? {};
    const sized = partition === "rows" ? { shardSize: options.shardSize ?? null } : {};
    const own = { statistics, compatible, ...defined({ rowGroupRows, partition }), ...sized };
    return { ...own, ...typeSettings(options) };
  },
  notes: notesOnTable,
  whyRefused: whyNoTable,
  whyRecoded: () => undefined,
  async arrange(piece, options) {
    const whole = await withMinutes(piece, options);
    const { partition } = options.parquet ?? {};
    if (partition === undefined) return [whole];
    if (partition !== "rows") return partitionsOf(whole, options);
    const columns = fileColumns(whole, options);
    return rowPartsOf(whole, { rows: rowCount(columns), ...groupSizes(columns, options) }, options);
  },
  isPart: (path) => PARTS.test(path),
  describe: describePlan,
  describeRuns,

  async write(piece, context) {
    const { options, store } = context;
    const columns = fileColumns(piece, options);
    for (const { schema } of columns) for (const note of notesOn(schema, piece)) context.note(note);
    const bytes = fileBytes(columns, metadataOf(piece, options), context);
    await store.put(piece.key, bytes, { ifAbsent: options.overwrite !== true, signal: context.signal });
  },

  async compare(piece, { store, options, signal }) {
    const { compareFile } = await import("./parquet-compare.ts");
    await compareFile(fileColumns(piece, options), store, piece.key, signal);
  },
};

/** The columns as they are written. @throws UNSUPPORTED for a dtype without a Parquet type */
export function fileColumns(piece: Piece, options: ConvertOptions): FileColumn[] {
  return piece.columns.map((column) => fileColumn(column, piece, options));
}

function fileColumn(column: Column, piece: Piece, options: ConvertOptions): FileColumn {
  const { compatible = false, statistics = true } = options.parquet ?? {};
  const { schema, rowBytes } = tableColumn(column, piece, options);
  // Spark before 4.1 refuses BYTE_STREAM_SPLIT; DuckDB supports it for numbers, but not for bytes of fixed length.
  const mayBeSplit = !compatible && schema.leaves.every(({ kind }) => kind !== "half" && kind !== "fixed");
  return {
    column,
    schema,
    rowBytes,
    codec: codecOf(column),
    stored: whyNotByChunks(column, rowBytes) === undefined ? column.stored : undefined,
    mayBeSplit,
    hasStatistics: statistics,
    notText: new Set(),
  };
}

/** The codec of a column's pages: that of its chunks if Parquet has it; lz4 for blosclz, zstd for zlib and others. */
function codecOf({ settings: { cname } }: Column): JoinableCodec {
  if (cname === "lz4hc") return "lz4";
  return (cname === undefined || cname === "zlib" ? undefined : joinableCodec(cname)) ?? "zstd";
}

function whyNotByChunks({ stored, order, shape, whyRecoded }: Column, rowBytes: number): string | undefined {
  if (stored === undefined) return whyRecoded ?? "its chunks are read as values";
  if (order === "F" && shape.length > 1) return "values are stored in Fortran order";
  const isCutByRows =
    stored.chunkStarts === undefined
      ? stored.chunkBytes % rowBytes === 0
      : stored.chunkStarts.every((start) => start % rowBytes === 0);
  return isCutByRows ? undefined : "chunks do not end on rows";
}

/** Treatment of a column, as far as its metadata and its first header show. */
function describePlan(
  column: Column,
  piece: Piece,
  options: ConvertOptions,
): ReturnType<NonNullable<ColumnFormat["describe"]>> {
  const file = fileColumn(column, piece, options);
  const { cname = file.codec, shuffle = "noshuffle", typesize = 1 } = column.settings;
  const compressor = cname === "lz4hc" ? "lz4" : cname;
  const usual = { compressor, shuffle, typesize, memcpyed: false, nbytes: 0, blocksize: 0 };
  const reason =
    file.schema.leaves[0]?.whyConverted ??
    whyNotByChunks(column, file.rowBytes) ??
    whyNotRestream(file, usual);
  const notes = notesOn(file.schema, piece);
  return reason === undefined ? { action: "restream", notes } : { action: "recode", reason, notes };
}

/** What happens to each chunk of an archive, by the headers of all. */
async function describeRuns(
  column: Column,
  piece: Piece,
  options: ConvertOptions,
): Promise<readonly ChunkRun[] | undefined> {
  const file = fileColumn(column, piece, options);
  const [leaf, ...others] = file.schema.leaves;
  // One reason holds for all chunks, whatever their headers say.
  if (leaf === undefined || others.length > 0 || leaf.whyConverted !== undefined) return undefined;
  if (file.stored === undefined || column.archive === undefined) return undefined;
  const runs: ChunkRun[] = [];
  for await (const { index, ...header } of column.archive.listChunks({ signal: options.signal })) {
    const reason = whyNotRestream(file, header);
    const last = runs.at(-1);
    if (last !== undefined && last.reason === reason) runs.splice(-1, 1, { ...last, count: last.count + 1 });
    else if (reason === undefined) runs.push({ first: index, count: 1, action: "restream" });
    else runs.push({ first: index, count: 1, action: "recode", reason });
  }
  return runs;
}

async function* fileBytes(
  columns: readonly FileColumn[],
  metadata: ReadonlyMap<string, string>,
  context: PieceContext,
): AsyncGenerator<Uint8Array> {
  const file = new ParquetFile(columns.map(({ schema }) => schema));
  const lending = { ...context, memory: new PageMemory() };
  const gathered = new Gathered();
  gathered.add(file.start());
  for (const range of rowGroups(columns, rowCount(columns), context.options)) {
    let leaf = 0;
    for (const column of columns) {
      for await (const bytes of columnBytes(file, { column, leaf, range }, lending)) {
        if (bytes.length < SMALL) gathered.add(bytes);
        else {
          // Long bodies need not be copied once more.
          if (gathered.length > 0) yield gathered.take();
          yield bytes;
        }
        if (gathered.length >= PIECE) yield gathered.take();
      }
      leaf += column.schema.leaves.length;
    }
    file.endRowGroup(range[1] - range[0]);
  }
  for (const leaf of columns.flatMap(({ notText }) => [...notText])) context.note(notTextNote(leaf));
  for (const bytes of fileEnd(file, columns, metadata)) gathered.add(bytes);
  yield gathered.take();
}

/** The page index and the footer of a file whose row groups are written. */
export function fileEnd(
  file: ParquetFile,
  columns: readonly FileColumn[],
  metadata: ReadonlyMap<string, string>,
): Uint8Array[] {
  const notText = new Set(columns.flatMap((column) => [...column.notText]));
  const schemas = columns.flatMap(({ schema }) => schema.nodes);
  const described = new Map([...metadata, ["pandas", pandasMetadata(columns, rowCount(columns), notText)]]);
  // pyarrow takes the metadata from this schema, if there is one.
  const message = schemaMessage(schemaTable(schemas, notText, described));
  described.set("ARROW:schema", btoa(Array.from(message, (byte) => String.fromCharCode(byte)).join("")));
  return file.end(described, notText);
}

interface ColumnPart {
  readonly column: FileColumn;
  readonly leaf: number;
  readonly range: readonly [number, number];
}

/** The column chunks of a column's leaves. Those of the first leaf are yielded as they come; those of the others wait for it. */
async function* columnBytes(
  file: ParquetFile,
  { column, leaf, range }: ColumnPart,
  context: PageContext,
): AsyncGenerator<Uint8Array> {
  const waiting = column.schema.leaves.slice(1).map((): Page[] => []);
  file.beginColumn(leaf, column.codec);
  const all = settled(pagesOf(column, range, context), context.encoder.parallel);
  for await (const { leaf: own, page } of all) {
    if (own > 0) at(waiting, own - 1).push(page);
    else yield* [file.page(page), page.body];
  }
  file.endColumn();
  for (const [i, pages] of waiting.entries()) {
    file.beginColumn(leaf + 1 + i, column.codec);
    for (const page of pages) yield* [file.page(page), page.body];
    file.endColumn();
  }
}

/** Pages in order, while up to `parallel` are being encoded. A lent body is passed on without a copy if no page is being encoded. */
export async function* settled(
  pages: AsyncIterable<{ readonly leaf: number; readonly page: Page | Promise<Page> }>,
  parallel: number,
): AsyncGenerator<{ readonly leaf: number; readonly page: Page }> {
  const under: { readonly leaf: number; readonly page: Page | Promise<Page> }[] = [];
  try {
    for await (const each of pages) {
      const { leaf, page } = each;
      if (page instanceof Promise) {
        page.catch(() => undefined); // thrown when its turn comes
        under.push(each);
      } else if (under.length === 0) {
        yield { leaf, page };
        continue;
      } else under.push({ leaf, page: { ...page, body: page.body.slice() } });
      const first = under.length >= Math.max(1, parallel) ? under.shift() : undefined;
      if (first !== undefined) yield { leaf: first.leaf, page: await first.page };
    }
    for (let first = under.shift(); first !== undefined; first = under.shift())
      yield { leaf: first.leaf, page: await first.page };
  } finally {
    await Promise.allSettled(under.map(({ page }) => page));
  }
}

/** Groups of about a million rows, or as many as the options say, which end where the longest chunks do. */
export function rowGroups(
  columns: readonly FileColumn[],
  rows: number,
  options: ConvertOptions,
): Iterable<readonly [number, number]> {
  return stepsOf(0, rows, groupSizes(columns, options).groupRows);
}

/** Rows of the longest chunks and of row groups, which are whole such chunks. @throws BAD_ARGUMENT if the option is not a count */
function groupSizes(
  columns: readonly FileColumn[],
  { parquet }: ConvertOptions,
): Readonly<Record<"chunkRows" | "groupRows", number>> {
  const { rowGroupRows = GROUP_ROWS } = parquet ?? {};
  if (!Number.isSafeInteger(rowGroupRows) || rowGroupRows < 1)
    throw badArgument("rowGroupRows", rowGroupRows, "a positive integer");
  const longest = Math.max(1, ...columns.map(rowsOfChunk));
  return { chunkRows: longest, groupRows: Math.max(1, Math.round(rowGroupRows / longest)) * longest };
}

/** Rows of a chunk; 1 if chunks do not begin with the rows. */
function rowsOfChunk({ column, stored, rowBytes }: FileColumn): number {
  const { chunks, skip } = column;
  if (skip === undefined) return chunks?.chunkLength ?? 1;
  if (stored === undefined || stored.chunkStarts !== undefined) return 1;
  const rows = stored.chunkBytes / rowBytes;
  return skip % rows === 0 ? rows : 1;
}

/** Joins small pieces, in reused memory. */
class Gathered {
  #bytes = new Uint8Array(PIECE + SMALL);
  length = 0;

  add(bytes: Uint8Array): void {
    const end = this.length + bytes.length;
    if (end > this.#bytes.length) this.#bytes = joinBytes([this.#bytes, new Uint8Array(end)]);
    this.#bytes.set(bytes, this.length);
    this.length = end;
  }

  /** Lent until the next piece is added. */
  take(): Uint8Array {
    const out = this.#bytes.subarray(0, this.length);
    this.length = 0;
    return out;
  }
}
