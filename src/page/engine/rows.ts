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

/** Cells of rows of several columns, or of a plane of one array: column by column. */
export async function readCells(
  columns: readonly Column[],
  request: RowsRequest,
  signal: AbortSignal | undefined,
): Promise<RowCells> {
  const { first, end } = request;
  const lists = await Promise.all(
    columns.map(async (column, i) => {
      try {
        const cells = await cellsOf(column, request, signal);
        const isTime =
          request.json !== true &&
          column.kind === "array" &&
          holdsSeconds(request.columns[i] ?? "", column.dtype);
        return isTime ? cells.map(({ texts }) => ({ texts: asDates(texts) })) : cells;
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        return [{ texts: [], error: error.message }];
      }
    }),
  );
  return { first, end, columns: lists.flat() };
}

async function cellsOf(
  column: Column,
  { first, end, fixed, across, json }: RowsRequest,
  signal: AbortSignal | undefined,
): Promise<RowCells["columns"]> {
  if (column.kind === "bytes") return bytesCells(column, first, end, signal);
  const { shape, dtype } = column;
  const text = json === true ? cellJson : cellText;
  if (shape.length === 0) {
    const value = await column.get([], { signal });
    const data = (value as { readonly data?: Iterable<unknown> }).data ?? [value];
    return [{ texts: Array.from(data, (each) => text(each, dtype)).slice(0, 1) }];
  }
  const [from, to] = shape.length === 1 ? [0, 1] : [across[0], Math.min(across[1], shape.at(-1) ?? 0)];
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
  return Array.from({ length: to - from }, (_, c) => ({
    texts: Array.from({ length: end - first }, (_, r) => text(at(r * down + c * aside), dtype)),
  }));
}

/** A row of plain bytes: sixteen in hexadecimal, and as characters. */
async function bytesCells(
  column: BytesArchive,
  first: number,
  end: number,
  signal: AbortSignal | undefined,
): Promise<RowCells["columns"]> {
  const start = first * BYTES_IN_ROW;
  const bytes = await column.readBytes(start, Math.min(column.nbytes, end * BYTES_IN_ROW), { signal });
  const rows = Array.from({ length: end - first }, (_, r) =>
    Array.from(bytes.subarray(r * BYTES_IN_ROW, (r + 1) * BYTES_IN_ROW)),
  );
  return [
    { texts: rows.map((row) => row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")) },
    {
      texts: rows.map((row) =>
        row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join(""),
      ),
    },
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
