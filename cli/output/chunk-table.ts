/**
 * The table of an archive's chunks. Column widths are known before the second chunk, so a million chunks can be printed one by
 * one. Knows terminals; must not know archives.
 */
import type { ReadableChunk } from "../../src/index.ts";
import { formatRatio } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import { fitEnd, padEnd, padStart, textWidth } from "./text-width.ts";

export interface ChunkTableFacts {
  readonly nchunks: number;
  /** Decoded bytes of all chunks; offsets are assumed to have no more digits. */
  readonly nbytes: number;
  /** Columns of the terminal; undefined: no limit. */
  readonly columns?: number | undefined;
}

interface Column {
  readonly name: string;
  readonly width: number;
  readonly isRight?: boolean;
  readonly cell: (chunk: ReadableChunk) => string;
}

/** Columns below which the end of a file name says too little. */
const CUT_FILE = 12;
/** Digits of a digest on a separate line. */
const DIGEST_LINE = 64;

/** Where the file (its name up to a width) and the digest of a chunk are printed: on the chunk's line, or on separate ones. */
interface Layout {
  readonly isTight: boolean;
  readonly file: number | undefined;
  readonly hasDigest: boolean;
}

export class ChunkTable {
  readonly #columns: readonly Column[];
  readonly #layout: Layout;
  #file: string | undefined;

  /** `first`: the first chunk of the list. */
  constructor(first: ReadableChunk, facts: ChunkTableFacts) {
    this.#layout = chooseLayout(first, facts);
    this.#columns = columnsOf(first, facts, this.#layout);
  }

  header(): string {
    return joinCells(this.#columns, ({ name }) => name);
  }

  /** The lines of a chunk: one, if everything fits. */
  lines(chunk: ReadableChunk): readonly string[] {
    const { file, hasDigest } = this.#layout;
    const lines = [joinCells(this.#columns, ({ cell }) => cell(chunk))];
    if (file === undefined && chunk.key !== this.#file) lines.unshift(`file ${printable(chunk.key)}`);
    this.#file = chunk.key;
    const { digest } = chunk;
    if (!hasDigest && digest !== undefined)
      for (let at = 0; at < digest.length; at += DIGEST_LINE)
        lines.push(`       ${digest.slice(at, at + DIGEST_LINE)}`);
    return lines;
  }
}

/** The widest layout that fits. */
function chooseLayout(first: ReadableChunk, facts: ChunkTableFacts): Layout {
  const { columns = Number.POSITIVE_INFINITY } = facts;
  const file = Math.max(4, textWidth(printable(first.key)) + String(facts.nchunks).length - 1);
  const over = (layout: Layout): number => widthOf(first, facts, layout) - columns;
  const wide = { isTight: false, file, hasDigest: true };
  if (over(wide) <= 0) return wide;
  for (const hasDigest of [true, false]) {
    const tight = { isTight: true, file, hasDigest };
    const room = file - Math.max(0, over(tight));
    if (room >= Math.min(file, CUT_FILE)) return { ...tight, file: room };
  }
  return { isTight: true, file: undefined, hasDigest: false };
}

/** Width of the header and of the first chunk's line. */
function widthOf(first: ReadableChunk, facts: ChunkTableFacts, layout: Layout): number {
  const columns = columnsOf(first, facts, layout);
  return columns.reduce((total, { width, cell }) => total + 2 + Math.max(width, textWidth(cell(first))), -2);
}

function columnsOf(first: ReadableChunk, facts: ChunkTableFacts, layout: Layout): readonly Column[] {
  const { isTight, file, hasDigest } = layout;
  const digits = String(facts.nchunks).length;
  const narrow = (wide: number, ...needed: readonly number[]): number =>
    isTight ? Math.max(...needed) : wide;
  const start = Math.max(5, (digits + 1) * (first.start?.length ?? 0));
  const offset = Math.max(lengthOf(first.offset), lengthOf(facts.nbytes));
  // An incompressible chunk is stored with its header.
  const stored = lengthOf(first.nbytes + 16);
  // If the first chunk is stored, later ones may have a filter that it does not show.
  const filter = first.memcpyed === true ? 9 : textWidth(first.shuffle ?? "");
  const fileCell = ({ key }: ReadableChunk): string =>
    isTight && file !== undefined ? fitEnd(key, file) : printable(key);
  return [
    { name: "chunk", width: Math.max(5, digits), isRight: true, cell: ({ index }) => String(index) },
    ...(first.start === undefined
      ? []
      : [{ name: "start", width: start, cell: (chunk: ReadableChunk) => (chunk.start ?? []).join(",") }]),
    ...(file === undefined ? [] : [{ name: "file", width: file, cell: fileCell }]),
    {
      name: "offset",
      width: narrow(12, 6, offset),
      isRight: true,
      cell: (chunk) => (chunk.offset < 0 ? "-" : String(chunk.offset)),
    },
    {
      name: "bytes",
      width: narrow(11, 5, lengthOf(first.nbytes)),
      isRight: true,
      cell: (chunk) => String(chunk.nbytes),
    },
    { name: "stored", width: narrow(11, 6, stored), isRight: true, cell: (chunk) => String(chunk.ctbytes) },
    {
      name: "ratio",
      width: narrow(7, 6),
      isRight: true,
      cell: ({ nbytes, ctbytes }) => formatRatio(nbytes, ctbytes),
    },
    {
      name: "codec",
      width: narrow(8, 6, textWidth(first.compressor)),
      cell: ({ memcpyed, compressor }) => (memcpyed === true ? "stored" : compressor),
    },
    {
      name: "filter",
      width: narrow(10, 6, filter),
      cell: ({ memcpyed, shuffle = "-" }) => (memcpyed === true ? "-" : shuffle),
    },
    {
      name: "checksum",
      width: 8,
      cell: ({ checksum, digest = "" }) =>
        checksum === "None" ? "none" : hasDigest ? `${checksum} ${digest}`.trimEnd() : checksum,
    },
  ];
}

function lengthOf(number: number): number {
  return String(number).length;
}

function joinCells(columns: readonly Column[], text: (column: Column) => string): string {
  return columns
    .map((column) => (column.isRight === true ? padStart : padEnd)(text(column), column.width))
    .join("  ")
    .trimEnd();
}
