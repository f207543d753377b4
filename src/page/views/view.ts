/** A view: a part of the page that shows an archive or a column in one way. */
import { RAMP_CSS } from "../colours.ts";
import { h, select } from "../dom.ts";
import type { ColumnFacts, Engine, NodeFacts, Source } from "../engine/protocol.ts";
import type { Now } from "../state.ts";
import { withoutServer } from "../text.ts";

/** The content of a view, and what it may use. `signal` aborts when the view ends. */
export interface Shown {
  readonly engine: Engine;
  /** A second worker for long tasks, so that clicks do not wait for them. */
  readonly background: Engine;
  readonly now: Now;
  readonly source: Source;
  readonly node: NodeFacts;
  /** The shown column; undefined for a whole table or group. */
  readonly column: ColumnFacts | undefined;
  /** The names of what is in a group. */
  readonly members: readonly string[];
  readonly signal: AbortSignal;
}

/** Creates the view's element. */
export type View = (shown: Shown) => HTMLElement;

/** An error as a sentence; undefined for an abort. */
export function sentenceOf(error: unknown): string | undefined {
  if (error instanceof Error && error.name === "AbortError") return undefined;
  return withoutServer(error instanceof Error ? error.message : String(error));
}

/** The reason for what a plot or a picture leaves out. */
export function leftOut(why: string): HTMLElement {
  return h("span", { class: "bad" }, ` · What cannot be read is left out: ${withoutServer(why)}`);
}

/** The name of the archive in commands. */
export function commandPath({
  source,
  node,
}: Pick<Shown, "source"> & { readonly node: Pick<NodeFacts, "name"> }): string {
  const path = source.kind === "url" ? source.url : node.name === "/" ? "." : node.name;
  return quote(path);
}

/** A word of a command, in quotes if it needs them. */
export function quote(word: string): string {
  return /^[\w./:+@%=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The view is made again for another column, and its selection then has the focus. */
let isChoosing = false;

/** A selection of a table's columns, if there are several. */
export function columnChoice({ node, now }: Shown, chosen: ColumnFacts): HTMLElement | false {
  if (node.columns.length < 2) return false;
  const names = node.columns.map(({ name }) => [name, name] as const);
  const choice = select(names, chosen.name, (column) => {
    isChoosing = true;
    now.go({ ...now.state, column, more: {} });
  });
  if (isChoosing) requestAnimationFrame(() => choice.focus());
  isChoosing = false;
  return h("label", {}, "Column", choice);
}

/** Sliders for the leading dimensions of an array of more than two. */
export function planeChoice(
  { now }: Shown,
  shape: readonly number[],
  onChange: () => void,
): { readonly fixed: () => readonly number[]; readonly choice: readonly HTMLElement[] } {
  const leading = shape.slice(0, -2);
  const kept = (now.state.more["plane"] ?? "").split(",").map(Number);
  const fixed = leading.map((length, d) => Math.max(0, Math.min(length - 1, kept[d] || 0)));
  const choice = leading.map((length, d) => {
    const shownAt = h("output", {}, String(fixed[d]));
    const slider = h("input", {
      type: "range",
      min: 0,
      max: Math.max(0, length - 1),
      value: fixed[d],
      "aria-label": `Index in dimension ${d}`,
      oninput: () => {
        fixed[d] = Number(slider.value);
        shownAt.textContent = slider.value;
        now.keep({ plane: fixed.join(",") });
        onChange();
      },
    });
    return h("label", {}, `Dimension ${d}`, slider, shownAt);
  });
  return { fixed: () => fixed, choice };
}

/** The ramp of colours between what its ends stand for. */
export function ramp(low: string, high: string): HTMLElement[] {
  const colours = h("span", { class: "ramp", style: `background:${RAMP_CSS}` });
  return [h("span", {}, low), colours, h("span", {}, high)];
}

/** True for what has rows of several columns: a table, or an array of structs with a folder for each field. */
export function isTable({ kind, columns }: NodeFacts): boolean {
  return kind === "table" || (columns[0]?.name ?? "") !== "";
}

const KINDS = new Set(["int", "uint", "float", "bool", "datetime", "timedelta"]);

/** True if a column's values are numbers or dates. */
export function hasNumbers({ dtype, shape }: ColumnFacts): boolean {
  return KINDS.has(dtype.kind) && dtype.itemSize <= 8 && shape.length > 0 && !shape.includes(0);
}

/** True if a column's values can be drawn as a line. */
export function canPlot(column: ColumnFacts): boolean {
  return hasNumbers(column) && column.shape.length === 1;
}

/** True if an array can be shown as a picture. */
export function canPicture(column: ColumnFacts): boolean {
  return hasNumbers(column) && column.shape.length >= 2 && !/time/.test(column.dtype.kind);
}
