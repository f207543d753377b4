/**
 * A table of any length: only the visible rows are in the document.
 *
 * Knows rows and columns of text; must not know where they come from.
 */
import { keepLast } from "../bytes/arrays.ts";
import { h, onceAFrame } from "./dom.ts";

/** Height of a row, and most height of all rows, in pixels: browsers limit the height of elements. */
const ROW = 26;
const MOST_HEIGHT = 5_000_000;
/** Rows that are fetched together, and number of such blocks to keep. */
const BLOCK = 128;
const KEPT = 80;

export interface ShownColumn {
  readonly title: string;
  readonly isNumeric?: boolean;
}

/** The content of a table. */
export interface TableSource {
  readonly label: string;
  readonly rows: number;
  readonly columns: readonly ShownColumn[];
  /** Text before the first column; default: the row number. */
  readonly rowLabel?: (row: number) => string;
  /** The cells of rows `[first, end)`, column by column. */
  fetch(first: number, end: number, signal: AbortSignal): Promise<readonly (readonly string[])[]>;
  onRow?(first: number): void;
  onChoose?(row: number): void;
}

/** Cells of a block of rows, or the error. */
type Block = readonly (readonly string[])[] | Error;

export class VirtualTable {
  readonly element: HTMLElement;
  readonly #source: TableSource;
  readonly #body: HTMLElement = h("tbody");
  readonly #blocks = new Map<number, Block>();
  readonly #fetching = new Map<number, AbortController>();
  readonly #draw: () => void = onceAFrame(() => this.#drawNow());
  readonly #signal: AbortSignal;
  #first = 0;
  /** Scroll position that was set for `#first`: any other position was set by the user. */
  #put = 0;
  #chosen: number | undefined;
  #chosenEnd: number | undefined;
  #sorted: { readonly column: number; readonly isDown: boolean } | undefined;

  constructor(source: TableSource, first: number, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
    const heads = source.columns.map(({ title, isNumeric }, i) =>
      h(
        "th",
        { scope: "col", class: isNumeric === true ? "n" : undefined },
        h(
          "button",
          { class: "plain", title: "Sort the rows in sight", onclick: () => this.#sortBy(i) },
          title,
        ),
      ),
    );
    const table = h(
      "table",
      { class: "cells", "aria-label": source.label, "aria-rowcount": source.rows + 1 },
      h("thead", {}, h("tr", { "aria-rowindex": 1 }, h("th", { class: "n", scope: "col" }, "#"), ...heads)),
      this.#body,
    );
    const height = Math.min(MOST_HEIGHT, (source.rows + 2) * ROW);
    const space = h("div", { class: "space", style: `height:${height}px` }, table);
    this.element = h(
      "div",
      // A few rows take only the height that they need.
      {
        class: "virtual",
        tabindex: 0,
        role: "region",
        "aria-label": source.label,
        style: `--rows:${height + 2}px`,
      },
      space,
    );
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.element);
    this.#first = Math.max(0, Math.min(first, source.rows - 1));
    requestAnimationFrame(() => this.goTo(this.#first));
  }

  get inSight(): readonly [first: number, end: number] {
    return [this.#first, Math.min(this.#source.rows, this.#first + this.#visible)];
  }

  /** Chosen rows, else the visible ones. */
  get chosen(): readonly [first: number, end: number] {
    if (this.#chosen === undefined) return this.inSight;
    const other = this.#chosenEnd ?? this.#chosen;
    return [Math.min(this.#chosen, other), Math.max(this.#chosen, other) + 1];
  }

  goTo(row: number): void {
    const last = Math.max(0, this.#source.rows - this.#visible);
    this.#first = Math.max(0, Math.min(Math.floor(row), last));
    this.#put = last === 0 ? 0 : Math.round((this.#first / last) * this.#range);
    this.element.scrollTop = this.#put;
    this.#source.onRow?.(this.#first);
    this.#draw();
  }

  get #visible(): number {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
  }

  get #range(): number {
    return Math.max(0, this.element.scrollHeight - this.element.clientHeight);
  }

  #scrolled(): void {
    const top = this.element.scrollTop;
    if (Math.abs(top - this.#put) < 1) return;
    this.#put = top;
    const last = Math.max(0, this.#source.rows - this.#visible);
    this.#first = this.#range === 0 ? 0 : Math.round((top / this.#range) * last);
    this.#source.onRow?.(this.#first);
    this.#draw();
  }

  /** Scrolls by rows with the wheel even if a pixel of the scroll bar is many rows. */
  #wheel(event: WheelEvent): void {
    if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    if (this.#source.rows * ROW <= MOST_HEIGHT) return;
    event.preventDefault();
    this.goTo(this.#first + Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / ROW)));
  }

  #key(event: KeyboardEvent): void {
    const page = Math.max(1, this.#visible - 1);
    const last = this.#chosenEnd ?? this.#chosen;
    const from = event.shiftKey && last !== undefined ? last : this.#first;
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: from + 1,
      ArrowUp: from - 1,
      PageDown: from + page,
      PageUp: from - page,
      Home: 0,
      End: this.#source.rows,
      " ": last ?? from,
      Escape: from,
    };
    const to = steps[event.key];
    const isOfButton = event.key === " " && event.target !== this.element;
    if (to === undefined || isOfButton || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.key === "Escape") this.#chosen = this.#chosenEnd = undefined;
    else if (event.key === " ") this.#choose(to, event.shiftKey);
    else if (event.shiftKey) {
      const row = Math.max(0, Math.min(this.#source.rows - 1, to));
      this.#chosen ??= this.#first;
      this.#choose(row, true);
      if (row < this.#first || row >= this.#first + this.#visible)
        this.goTo(row < this.#first ? row : row + 1 - this.#visible);
    } else this.goTo(to);
    this.#draw();
  }

  #choose(row: number, isMore: boolean): void {
    if (isMore && this.#chosen !== undefined) this.#chosenEnd = row;
    else {
      this.#chosen = this.#chosen === row && this.#chosenEnd === undefined ? undefined : row;
      this.#chosenEnd = undefined;
    }
    this.#source.onChoose?.(row);
    this.#draw();
  }

  #sortBy(column: number): void {
    const was = this.#sorted;
    this.#sorted =
      was?.column !== column ? { column, isDown: false } : was.isDown ? undefined : { column, isDown: true };
    this.#draw();
  }

  #drawNow(): void {
    if (!this.element.isConnected) return;
    const { columns, rowLabel } = this.#source;
    const [first, end] = this.inSight;
    this.#fetch(first, end);
    const [from, to] = this.#chosen === undefined ? [-1, -1] : this.chosen;
    let order = Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
    if (this.#sorted !== undefined) order = this.#inOrder(order, this.#sorted);
    const lines = order.map((row) => {
      const block = this.#blocks.get(Math.floor(row / BLOCK));
      const label = rowLabel?.(row) ?? row.toLocaleString("en-US");
      const head = h("th", { scope: "row", class: "n" }, label);
      head.addEventListener("click", (event) => this.#choose(row, event.shiftKey));
      const cells =
        block instanceof Error
          ? [h("td", { colspan: columns.length, class: "bad" }, block.message)]
          : columns.map(({ isNumeric }, i) => {
              const text = block?.[i]?.[row % BLOCK];
              return h(
                "td",
                { class: isNumeric === true ? "n" : undefined },
                text ?? (block === undefined ? "…" : ""),
              );
            });
      const isChosen = row >= from && row < to;
      return h(
        "tr",
        { "aria-rowindex": row + 2, "aria-selected": isChosen ? "true" : undefined },
        head,
        ...cells,
      );
    });
    this.#body.replaceChildren(...lines);
  }

  #inOrder(
    rows: readonly number[],
    { column, isDown }: { readonly column: number; readonly isDown: boolean },
  ): number[] {
    const textOf = (row: number): string => {
      const block = this.#blocks.get(Math.floor(row / BLOCK));
      return block instanceof Error ? "" : (block?.[column]?.[row % BLOCK] ?? "");
    };
    const compare = (a: number, b: number): number => {
      const [left, right] = [textOf(a), textOf(b)];
      const byNumber = Number(left) - Number(right);
      return Number.isNaN(byNumber) ? (left < right ? -1 : left > right ? 1 : 0) : byNumber;
    };
    return [...rows].sort((a, b) => (isDown ? -compare(a, b) : compare(a, b)));
  }

  #fetch(first: number, end: number): void {
    const wanted = new Set<number>();
    for (let block = Math.floor(first / BLOCK); block * BLOCK < end; block++) wanted.add(block);
    for (const [block, controller] of this.#fetching) {
      if (wanted.has(block)) continue;
      controller.abort(new DOMException("out of sight", "AbortError"));
      this.#fetching.delete(block);
    }
    for (const block of wanted) {
      const known = this.#blocks.get(block);
      if (known !== undefined) keepLast(this.#blocks, block, known, KEPT);
      else if (!this.#fetching.has(block)) this.#fetchBlock(block);
    }
  }

  #fetchBlock(block: number): void {
    const controller = new AbortController();
    this.#fetching.set(block, controller);
    const signal = AbortSignal.any([controller.signal, this.#signal]);
    const keep = (found: Block): void => {
      this.#fetching.delete(block);
      keepLast(this.#blocks, block, found, KEPT);
      this.#draw();
    };
    this.#source
      .fetch(block * BLOCK, Math.min(this.#source.rows, (block + 1) * BLOCK), signal)
      .then(keep, (error: unknown) => {
        if (!signal.aborted) keep(error instanceof Error ? error : new Error(String(error)));
      });
  }
}

/** A table below a line that opens it. `cellsOf` gives the cells of a row. */
export function foldedTable(
  summary: string,
  { cellsOf, ...source }: Omit<TableSource, "fetch"> & { cellsOf(row: number): readonly string[] },
  signal: AbortSignal,
): HTMLElement {
  const fetch: TableSource["fetch"] = async (first, end) => {
    const rows = Array.from({ length: end - first }, (_, i) => cellsOf(first + i));
    return source.columns.map((_, i) => rows.map((cells) => cells[i] ?? ""));
  };
  const details = h("details", {}, h("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector(".virtual") !== null) return;
    details.append(new VirtualTable({ ...source, fetch }, 0, signal).element);
  });
  return details;
}
