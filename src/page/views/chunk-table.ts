/** The facts of chunks as text, and their table below the map. Knows chunks; must not know how they are read. */
import { elementsOf } from "../../bytes/arrays.ts";
import { boxOf, type ColumnFacts } from "../engine/protocol.ts";
import { formatCount, formatRatio } from "../text.ts";
import { foldedTable } from "../virtual-table.ts";
import type { ChunkData } from "./chunk-data.ts";

/** Indexed by the state of a chunk. */
export const STATES: readonly string[] = [
  "not checked",
  "no damage found",
  "damaged",
  "filled by a repair",
  "missing: its file is gone",
  "not stored: every value is the fill value",
  "not listed",
];
const COLUMNS = ["rows", "file", "offset", "stored", "values", "ratio", "codec", "digest", "state"];
const NUMBERS = ["offset", "stored", "values", "ratio"];

/** The values in a chunk: its rows, or for a grid its range along each dimension. */
export function placeText(column: ColumnFacts, index: number): string | undefined {
  const { run, shape } = column;
  if (run !== undefined) {
    const total = elementsOf(shape);
    const end = Math.min(total, (index + 1) * run.length);
    const order = run.order === "F" ? "the first index changes fastest" : "row by row";
    return `values ${formatCount(index * run.length)} to ${formatCount(end - 1)} of ${formatCount(total)}, ${order}`;
  }
  const box = boxOf(column, index);
  if (box === undefined || box.length === 0) return undefined;
  const texts = box.map(
    ([first, end]) => `${formatCount(first)} to ${formatCount(Math.max(first, end - 1))}`,
  );
  const isCutByRows = box.every(([first, end], d) => d === 0 || (first === 0 && end === shape[d]));
  return isCutByRows ? `rows ${texts[0]}` : `values [${texts.join(", ")}]`;
}

/** All chunks by number, as in the map. */
export function chunkTable(
  data: ChunkData,
  column: ColumnFacts,
  choose: (chunk: number) => void,
  signal: AbortSignal,
): HTMLElement {
  const cellsOf = (chunk: number): string[] => {
    const place = placeText(column, chunk)?.replace(/^[a-z]+ /, "") ?? "";
    const slot = data.slotOf(chunk);
    const state = STATES[data.stateOf(chunk)] ?? "";
    if (slot === undefined) return [place, ...COLUMNS.slice(2).map(() => ""), state];
    const [offset, stored, decoded] = [data.offset, data.cbytes, data.nbytes].map((of) => of[slot] as number);
    return [
      place,
      data.words[data.file[slot] as number] ?? "",
      String(offset).replace("-1", ""),
      String(stored),
      String(decoded),
      formatRatio(decoded as number, stored as number),
      data.words[data.codec[slot] as number] ?? "",
      data.digests.get(slot) ?? "",
      state,
    ];
  };
  const columns = COLUMNS.map((title) => ({ title, isNumeric: NUMBERS.includes(title) }));
  const source = { label: "Chunks", rows: data.total, columns, cellsOf, onChoose: choose };
  const table = foldedTable("All chunks as a table", source, signal);
  table.className = "chunk-table";
  return table;
}
