/**
 * A Parquet file that is made while it is read: any byte range, directly from the archive.
 *
 * All pages are made once to learn their sizes, statistics and checksums; they are not kept. Later reads make them again and
 * compare them with these checksums, so that bytes of two states of the archive are never mixed.
 */

import { at, countLeading, joinBytes, toHex } from "../../bytes/arrays.ts";
import { crc32c, digest } from "../../bytes/checksum.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { type Page, ParquetFile, pageHeader } from "../../parquet/file.ts";
import type { ConvertOptions, OpenedSource } from "../pipeline.ts";
import { pieceOf } from "./column-target.ts";
import { fileColumns, fileEnd, PARQUET, rowGroups, settled } from "./parquet.ts";
import { beginsAfresh, type FileColumn, type PageContext, pagesOf, rowCount } from "./parquet-pages.ts";
import { metadataOf } from "./table-columns.ts";

/** Minimum bytes of pages that are made together. */
const PART_BYTES = 1 << 18;

/** Consecutive pages of one column, made from rows `[first, end)`. */
interface Part {
  readonly column: FileColumn;
  readonly first: number;
  readonly end: number;
  readonly offset: number;
  readonly size: number;
  readonly crc: number;
}

export interface PartsContext {
  readonly encoder: ChunkEncoder;
  readonly signal?: AbortSignal | undefined;
}

/** A file whose layout is known. */
export class ParquetParts {
  readonly size: number;
  /** Of the content, 64 hexadecimal digits. */
  readonly sha256: string;
  /** Approximate memory in bytes. */
  readonly weight: number;
  readonly #path: string;
  readonly #parts: readonly Part[];
  readonly #start: Uint8Array;
  readonly #end: Uint8Array;

  private constructor(
    path: string,
    parts: readonly Part[],
    ends: readonly [Uint8Array, Uint8Array],
    sha256: string,
  ) {
    this.#path = path;
    this.#parts = parts;
    [this.#start, this.#end] = ends;
    this.size = endOf(parts, this.#start) + this.#end.length;
    this.sha256 = sha256;
    this.weight = this.#end.length + 128 * parts.length;
  }

  /** Makes all pages of an archive once. @throws errors of planning and running its conversion */
  static async plan(
    source: OpenedSource,
    options: ConvertOptions,
    { encoder, signal }: PartsContext,
  ): Promise<ParquetParts> {
    const piece = await pieceOf(PARQUET, source, options);
    const columns = fileColumns(piece, options);
    const context = pageContext({ encoder, signal });
    const file = new ParquetFile(columns.map(({ schema }) => schema));
    const start = file.start();
    const parts: Part[] = [];
    for (const range of rowGroups(columns, rowCount(columns), options)) {
      let leaf = 0;
      for (const column of columns)
        for (const only of column.schema.leaves.keys()) {
          file.beginColumn(leaf++, column.codec);
          const own = { ...column, only };
          for await (const { pages, first, end } of runs(own, range, context)) {
            const pieces = pages.flatMap((page) => [file.page(page), page.body]);
            const size = pieces.reduce((sum, { length }) => sum + length, 0);
            const crc = await crc32c(...pieces);
            parts.push({ column: own, first, end, offset: endOf(parts, start), size, crc });
          }
          file.endColumn();
        }
      file.endRowGroup(range[1] - range[0]);
    }
    const end = joinBytes(fileEnd(file, columns, metadataOf(piece, options)));
    const sums = Uint32Array.from(parts, ({ crc }) => crc);
    const sha256 = await digest("sha256", joinBytes([new Uint8Array(sums.buffer), end]));
    return new ParquetParts(piece.columns[0]?.path ?? "", parts, [start, end], toHex(sha256));
  }

  /**
   * Yields bytes `[first, end)`, in pieces.
   * @throws STALE if the archive has changed; the codes of reading
   */
  async *read(first: number, end: number, context: PartsContext): AsyncGenerator<Uint8Array> {
    const cut = (bytes: Uint8Array, offset: number): Uint8Array =>
      bytes.subarray(Math.max(0, first - offset), Math.max(0, end - offset));
    if (first < this.#start.length) yield cut(this.#start, 0);
    for (let i = this.#partAt(first); i < this.#parts.length; i++) {
      const part = at(this.#parts, i);
      if (part.offset >= end) return;
      yield cut(await this.#make(part, context), part.offset);
    }
    if (end > this.size - this.#end.length) yield cut(this.#end, this.size - this.#end.length);
  }

  /** The first part that ends after an offset. */
  #partAt(offset: number): number {
    return countLeading(this.#parts.length, (i) => {
      const part = at(this.#parts, i);
      return part.offset + part.size <= offset;
    });
  }

  async #make({ column, first, end, size, crc }: Part, context: PartsContext): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    const task = pageContext(context);
    for await (const { page } of settled(pagesOf(column, [first, end], task), context.encoder.parallel))
      pieces.push(pageHeader(page), page.body);
    const bytes = joinBytes(pieces);
    if (bytes.length === size && (await crc32c(bytes)) === crc) return bytes;
    throw new SuperchunkError("STALE", "the archive was changed while it was read as Parquet", {
      path: this.#path,
    });
  }
}

/** The pages of a column in a row group, in runs that can each be made again separately. */
async function* runs(
  column: FileColumn,
  [first, end]: readonly [number, number],
  context: PageContext,
): AsyncGenerator<{ readonly pages: readonly Page[]; readonly first: number; readonly end: number }> {
  let pages: Page[] = [];
  let size = 0;
  let [from, row] = [first, first];
  for await (const { page } of settled(pagesOf(column, [first, end], context), context.encoder.parallel)) {
    if (size >= PART_BYTES && beginsAfresh(column, row)) {
      yield { pages, first: from, end: row };
      [pages, size, from] = [[], 0, row];
    }
    pages.push(page);
    size += page.body.length;
    row += page.rows;
  }
  if (pages.length > 0) yield { pages, first: from, end };
}

function endOf(parts: readonly Part[], start: Uint8Array): number {
  const last = parts.at(-1);
  return last === undefined ? start.length : last.offset + last.size;
}

/** The context of a task without progress. */
function pageContext({ encoder, signal }: PartsContext): PageContext {
  const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  return { encoder, signal, counts, advance: () => undefined };
}
