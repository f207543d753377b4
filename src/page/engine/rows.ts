/** Rows as cells of text. */
import type { BytesArchive, ReadableArray } from "../../archive/kinds/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import { type Selection, slice } from "../../values/selection.ts";
import { dateText } from "../text.ts";
import { cellJson, cellText, isSecond, isTimeName } from "./cells.ts";
import type { RowCells, RowsRequest } from "./protocol.ts";

type Column = ReadableArray | BytesArchive;

const BYTES_IN_ROW = 16;

/** In place of values of damaged or missing chunks, also in what is copied. */
const UNREADABLE = "cannot be read";

/** Cells of rows of several columns, or of a plane of one array: column by column. */
export async function readCells(
  columns: readonly Column[],
  request: RowsRequest,
  signal: AbortSignal | undefined,
): Promise<RowCells> {
  const { first, end, as } = request;
  const mark = as === "json" ? JSON.stringify(UNREADABLE) : UNREADABLE;
  const lists = await Promise.all(
    columns.map(async (column, i) => {
      const isTime =
        as !== "json" && column.kind === "array" && holdsSeconds(request.columns[i] ?? "", column.dtype);
      const found = Array.from({ length: widthOf(column, request) }, (): string[] => []);
      let error: string | undefined;
      const lose = (why: string, rows: number): void => {
        error ??= why;
        for (const texts of found) texts.push(...Array<string>(rows).fill(mark));
      };
      const read = async (from: number, to: number): Promise<void> => {
        const cells = await cellsOf(column, { ...request, first: from, end: to }, signal);
        for (const [c, texts] of cells.entries()) found[c]?.push(...(isTime ? asDates(texts) : texts));
      };
      try {
        const isCutByRows = column.kind === "array" && column.shape.length <= 2;
        await eachPart([first, end], isCutByRows ? column.chunkLength : undefined, read, lose);
      } catch (failure) {
        if (!isSuperchunkError(failure)) throw failure;
        lose(failure.message, end - first - (found[0]?.length ?? 0));
      }
      return found.map((texts) => ({ texts, error }));
    }),
  );
  return { first, end, columns: lists.flat() };
}

/** Reads a run of rows; if a chunk in it is damaged or missing, chunk by chunk. Passes on why rows are lost, and how many. */
export async function eachPart(
  [first, end]: readonly [number, number],
  chunkLength: number | undefined,
  read: (first: number, end: number) => Promise<void>,
  lose: (why: string, rows: number) => void,
): Promise<void> {
  try {
    await read(first, end);
  } catch (error) {
    if (!isSuperchunkError(error) || !(error.isDamage || error.code === "NOT_FOUND")) throw error;
    const step = chunkLength ?? 0;
    const next = step > 0 ? Math.min(end, (Math.floor(first / step) + 1) * step) : end;
    if (next >= end) return lose(error.message, end - first);
    for (let from = first, to = next; from < end; from = to, to = Math.min(end, to + step))
      await eachPart([from, to], chunkLength, read, lose);
  }
}

/** Number of columns that a column is shown as. */
function widthOf(column: Column, { across }: RowsRequest): number {
  if (column.kind === "bytes") return 2;
  return column.shape.length < 2 ? 1 : Math.min(across[1], column.shape.at(-1) ?? 0) - across[0];
}

async function cellsOf(
  column: Column,
  request: RowsRequest,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly string[])[]> {
  const { first, end, fixed, across, as } = request;
  if (column.kind === "bytes") return bytesCells(column, first, end, signal);
  const { shape, dtype } = column;
  const text = (value: unknown): string =>
    as === "json" ? cellJson(value, dtype) : cellText(value, dtype, as === "csv" ? Infinity : undefined);
  if (shape.length === 0) {
    const value = await column.get([], { signal });
    const data = (value as { readonly data?: Iterable<unknown> }).data ?? [value];
    return [Array.from(data, text).slice(0, 1)];
  }
  const [from] = shape.length === 1 ? [0] : across;
  const to = from + widthOf(column, request);
  const plane: Selection = [
    ...fixed.slice(0, Math.max(0, shape.length - 2)),
    slice(first, end),
    ...(shape.length === 1 ? [] : [slice(from, to)]),
  ];
  const { data, stride } = (await column.get(plane, { signal })) as {
    readonly data: ArrayLike<unknown> | { get(index: number): unknown };
    readonly stride: readonly number[];
  };
  const at = "get" in data ? (i: number) => data.get(i) : (i: number) => data[i];
  const [down = 1, aside = 1] = stride;
  return Array.from({ length: to - from }, (_, c) =>
    Array.from({ length: end - first }, (_, r) => text(at(r * down + c * aside))),
  );
}

/** A row of plain bytes: sixteen in hexadecimal, and as characters. */
async function bytesCells(
  column: BytesArchive,
  first: number,
  end: number,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly string[])[]> {
  const start = first * BYTES_IN_ROW;
  const bytes = await column.readBytes(start, Math.min(column.nbytes, end * BYTES_IN_ROW), { signal });
  const rows = Array.from({ length: end - first }, (_, r) =>
    Array.from(bytes.subarray(r * BYTES_IN_ROW, (r + 1) * BYTES_IN_ROW)),
  );
  return [
    rows.map((row) => row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")),
    rows.map((row) =>
      row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join(""),
    ),
  ];
}

function holdsSeconds(name: string, { kind, itemSize }: DType): boolean {
  return (kind === "int" || kind === "uint") && itemSize >= 4 && isTimeName(name);
}

/** Seconds as dates, if all of them can be. */
function asDates(texts: readonly string[]): readonly string[] {
  const seconds = texts.map(Number);
  if (!seconds.every((each) => each === 0 || isSecond(each))) return texts;
  return seconds.map((each) => (each === 0 ? "0" : dateText(each)));
}
