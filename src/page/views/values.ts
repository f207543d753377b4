/** The view of values: rows as a table of any length, or one plane of an array at a time. */
import { copyText, h } from "../dom.ts";
import type { ColumnFacts, RowCells, RowsRequest } from "../engine/protocol.ts";
import { formatCount, withoutServer } from "../text.ts";
import { type ShownColumn, VirtualTable } from "../virtual-table.ts";
import { hasNumbers, isTable, planeChoice, type Shown, sentenceOf } from "./view.ts";

/** Columns of a plane, or of a table, to show at a time. */
const ACROSS = 64;
/** Bytes in a row of what is not an array. */
const BYTES_OF_ROW = 16;
/** Most rows to copy at a time. */
const MOST_COPIED = 10_000;

export function view(shown: Shown): HTMLElement {
  return new ValuesView(shown).element;
}

class ValuesView {
  readonly element: HTMLElement = h("div", { class: "view values-view" });
  readonly #shown: Shown;
  /** The only column to show, which may have several dimensions; undefined for the rows of a table. */
  readonly #one: ColumnFacts | undefined;
  /** Columns with one value in each row. */
  readonly #flat: readonly ColumnFacts[];
  /** True for an array of two or more dimensions, of which one plane is shown. */
  readonly #isPlane: boolean;
  /** Columns of the plane, or of the table. */
  readonly #width: number;
  readonly #rows: number;
  readonly #plane: ReturnType<typeof planeChoice>;
  readonly #place: HTMLElement = h("div", { class: "place" });
  /** Why values cannot be read. */
  readonly #lost: HTMLElement = h("p", { class: "note bad", role: "status" });
  /** The first column that is shown. */
  #from: number;
  #table: VirtualTable | undefined;
  /** Ends the reads of the table that is shown, so that another one neither waits for them nor takes over their errors. */
  #reading = new AbortController();

  constructor(shown: Shown) {
    this.#shown = shown;
    const { node, column, now } = shown;
    this.#one = column ?? (isTable(node) ? undefined : node.columns[0]);
    const shape = this.#one?.shape ?? [];
    this.#flat =
      this.#one === undefined ? node.columns.filter(({ shape: of }) => of.length === 1) : [this.#one];
    this.#isPlane = shape.length >= 2;
    this.#width = this.#isPlane ? (shape.at(-1) ?? 0) : this.#flat.length;
    this.#rows = this.#countRows(shape);
    this.#plane = planeChoice(shown, shape, () => this.#show());
    this.#from = Math.max(0, Math.min(this.#width - 1, Number(now.state.more["across"]) || 0));
    const below = this.#rows > 0 ? counted(shown, this.#flat.filter(hasNumbers)) : "";
    this.element.append(this.#bar(), this.#place, this.#lost, ...this.#hints(), below);
    this.element.classList.toggle("empty", this.#rows === 0);
    if (this.#rows === 0) this.#place.replaceChildren(h("p", { class: "note" }, "There are no rows yet."));
    else if (this.#flat.length === 0)
      this.#place.replaceChildren(h("p", { class: "note" }, "Choose a column."));
    else this.#show();
  }

  #countRows(shape: readonly number[]): number {
    const { node } = this.#shown;
    if (node.kind === "bytes") return Math.ceil(node.nbytes / BYTES_OF_ROW);
    if (this.#isPlane) return shape.at(-2) ?? 0;
    return this.#one === undefined ? node.length : (shape.at(0) ?? 1);
  }

  #request(first: number, end: number): RowsRequest {
    return {
      archive: this.#shown.node.name,
      columns: this.#seen.map(({ name }) => name),
      first,
      end,
      fixed: this.#plane.fixed(),
      across: [this.#from, Math.min(this.#width, this.#from + ACROSS)],
    };
  }

  /** The columns of the table that are shown; of a plane, the array. */
  get #seen(): readonly ColumnFacts[] {
    return this.#isPlane ? this.#flat : this.#flat.slice(this.#from, this.#from + ACROSS);
  }

  #heads(): ShownColumn[] {
    if (this.#shown.node.kind === "bytes") return [{ title: "hexadecimal" }, { title: "text" }];
    if (this.#isPlane)
      return Array.from({ length: Math.min(ACROSS, this.#width - this.#from) }, (_, i) => ({
        title: formatCount(this.#from + i),
        isNumeric: this.#one !== undefined && isNumber(this.#one),
      }));
    return this.#seen.map((each) => ({
      title: each.name === "" ? each.typeName : each.name,
      isNumeric: isNumber(each),
    }));
  }

  /** Shows the chosen plane and columns, at the rows that were in sight. */
  #show(): void {
    const { node, now, signal } = this.#shown;
    this.#reading.abort();
    this.#reading = new AbortController();
    const first = this.#table?.inSight.at(0) ?? (Number(now.state.more["row"]) || 0);
    const rowLabel = (row: number): string =>
      node.kind === "bytes" ? (row * BYTES_OF_ROW).toString(16).padStart(8, "0") : formatCount(row);
    const table = new VirtualTable(
      {
        label: "Values",
        rows: this.#rows,
        columns: this.#heads(),
        rowLabel,
        fetch: (start, end, each) => this.#fetch(start, end, each),
        onRow: (row) => now.keep({ row: row === 0 ? "" : String(row) }),
      },
      first,
      AbortSignal.any([this.#reading.signal, signal]),
    );
    this.#table = table;
    this.#lost.textContent = "";
    table.element.classList.toggle("mono", node.kind === "bytes");
    this.#place.style.setProperty("--rows", table.element.style.getPropertyValue("--rows"));
    this.#place.replaceChildren(table.element);
  }

  async #fetch(start: number, end: number, signal: AbortSignal): Promise<readonly (readonly string[])[]> {
    const { columns } = await this.#shown.engine.rows(this.#request(start, end), { signal });
    const bad = columns.find(({ error }) => error !== undefined);
    if (bad?.error !== undefined) this.#lost.textContent = withoutServer(bad.error);
    return columns.map(({ texts }) => texts);
  }

  #bar(): HTMLElement {
    const jump = h("input", {
      type: "number",
      min: 0,
      max: Math.max(0, this.#rows - 1),
      placeholder: "0",
      "aria-label": "Row to go to",
      onchange: () => this.#table?.goTo(Number(jump.value)),
    });
    return h(
      "div",
      { class: "bar" },
      h("label", {}, "Row", jump),
      ...this.#plane.choice,
      this.#width > ACROSS && this.#acrossButton(-1, "Columns before", "‹ Columns"),
      this.#width > ACROSS && this.#acrossButton(1, "Columns after", "Columns ›"),
      h("span", { class: "grow" }),
      h(
        "span",
        { class: "group" },
        this.#copyButton("csv", "Copy as CSV"),
        this.#copyButton("json", "Copy as JSON"),
      ),
    );
  }

  /** Shows other columns. */
  #acrossButton(step: number, label: string, text: string): HTMLElement {
    const onclick = (): void => {
      this.#from = Math.max(0, Math.min(this.#width - 1, this.#from + step * ACROSS));
      this.#shown.now.keep({ across: this.#from === 0 ? "" : String(this.#from) });
      this.#show();
    };
    return h("button", { "aria-label": label, onclick }, text);
  }

  #copyButton(as: "csv" | "json", text: string): HTMLElement {
    const button: HTMLElement = h("button", { onclick: () => void this.#copy(button, as) }, text);
    return button;
  }

  async #copy(button: HTMLElement, as: "csv" | "json"): Promise<void> {
    if (this.#table === undefined) return;
    const { engine, signal } = this.#shown;
    const [first, end] = this.#table.chosen;
    const last = Math.min(end, first + MOST_COPIED);
    const names = this.#heads().map(({ title }) => title);
    const write = as === "csv" ? csvOf : jsonOf;
    const cells = engine.rows({ ...this.#request(first, last), as }, { signal });
    const text = cells.then((found) => write(names, found));
    await copyText(text, button);
  }

  #hints(): HTMLElement[] {
    const wide =
      this.#one === undefined ? this.#shown.node.columns.filter((each) => !this.#flat.includes(each)) : [];
    const howToCopy = h(
      "p",
      { class: "note hint" },
      "Copies the rows in sight, or chosen ones: click a row number, Shift-click another for all between. Keys: Space, Shift with arrow keys, Escape for none.",
    );
    if (wide.length === 0) return [howToCopy];
    const names = wide.map(({ name }) => name).join(", ");
    const alone = `Columns with several values in each row are shown alone: choose ${names} in the list.`;
    return [h("p", { class: "note" }, alone), howToCopy];
  }
}

/** Statistics below the table, loaded and computed when they are opened. */
function counted(shown: Shown, columns: readonly ColumnFacts[]): HTMLElement | string {
  if (columns.length === 0) return "";
  const { now, signal } = shown;
  const place = h("div", { tabindex: 0, role: "group", "aria-label": "Statistics of columns" });
  const details = h(
    "details",
    { class: "counted", open: now.state.more["statistics"] === "open", ontoggle: () => void toggled() },
    h("summary", {}, "Statistics"),
    place,
  );
  const toggled = async (): Promise<void> => {
    now.keep({ statistics: details.open ? "open" : "" });
    if (!details.open || place.hasChildNodes()) return;
    try {
      const { statistics } = await import("./statistics.ts");
      if (!signal.aborted && !place.hasChildNodes()) place.append(statistics(shown, columns));
    } catch (error) {
      place.replaceChildren(h("p", { class: "bad-note" }, sentenceOf(error) ?? ""));
    }
  };
  return details;
}

function isNumber({ dtype }: ColumnFacts): boolean {
  return ["int", "uint", "float", "complex"].includes(dtype.kind);
}

function csvOf(names: readonly string[], { columns, first, end }: RowCells): string {
  const quote = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = Array.from({ length: end - first }, (_, row) =>
    columns.map(({ texts }) => quote(texts[row] ?? "")).join(","),
  );
  return `${[names.map(quote).join(","), ...lines].join("\n")}\n`;
}

function jsonOf(names: readonly string[], { columns, first, end }: RowCells): string {
  const lines = Array.from({ length: end - first }, (_, row) =>
    columns.length === 1
      ? (columns[0]?.texts[row] ?? "null")
      : `{${columns.map(({ texts }, c) => `${JSON.stringify(names[c] ?? "")}:${texts[row] ?? "null"}`).join(",")}}`,
  );
  return `[\n${lines.join(",\n")}\n]\n`;
}
