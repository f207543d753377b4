/** The facts of chunks as text, and their table below the map. Knows chunks; must not know how they are read. */
import { boxOf, type ColumnFacts } from "../engine/protocol.ts";
import { formatCount, formatRatio } from "../text.ts";
import { VirtualTable } from "../virtual-table.ts";
import type { ChunkData } from "./chunk-data.ts";

/** Indexed by the state of a chunk. */
export const STATES: readonly string[] = [
  "not checked",
  "whole",
  "damaged",
  "filled by a repair",
  "missing: its file is gone",
  "not stored: every value is the fill value",
];
const COLUMNS = ["rows", "file", "offset", "stored", "values", "ratio", "codec", "digest", "state"];
const NUMBERS = ["offset", "stored", "values", "ratio"];

/** The values in a chunk: its rows, or for a grid its range along each dimension. */
export function placeText(column: ColumnFacts, index: number): string | undefined {
  const box = boxOf(column, index);
  if (box === undefined || box.length === 0) return undefined;
  const texts = box.map(
    ([first, end]) => `${formatCount(first)} to ${formatCount(Math.max(first, end - 1))}`,
  );
  const isCutByRows = box.every(([first, end], d) => d === 0 || (first === 0 && end === column.shape[d]));
  return isCutByRows ? `rows ${texts[0]}` : `values [${texts.join(", ")}]`;
}

/** All chunks, in the order of the map. */
export function chunkTable(
  data: ChunkData,
  column: ColumnFacts,
  choose: (row: number) => void,
  signal: AbortSignal,
): HTMLElement {
  const textsOf = (cell: number): string[] => {
    const [offset, stored, decoded] = [data.offset, data.cbytes, data.nbytes].map((of) => of[cell] as number);
    return [
      placeText(column, data.index[cell] as number)?.replace(/^[a-z]+ /, "") ?? "",
      data.words[data.file[cell] as number] ?? "",
      String(offset).replace("-1", ""),
      String(stored),
      String(decoded),
      formatRatio(decoded as number, stored as number),
      data.words[data.codec[cell] as number] ?? "",
      data.digests.get(cell) ?? "",
      STATES[data.state[cell] as number] ?? "",
    ];
  };
  const table = new VirtualTable(
    {
      label: "Chunks",
      rows: data.count,
      columns: COLUMNS.map((title) => ({ title, isNumeric: NUMBERS.includes(title) })),
      rowLabel: (row) => String(data.index[row]),
      fetch: async (first, end) => {
        const rows = Array.from({ length: end - first }, (_, i) => textsOf(first + i));
        return COLUMNS.map((_, i) => rows.map((texts) => texts[i] ?? ""));
      },
      onChoose: choose,
    },
    0,
    signal,
  );
  return table.element;
}
