/** The view of values: rows as a table of any length, or one plane of an array at a time. */
import { copyText, h } from "../dom.ts";
import type { ColumnFacts, RowsRequest } from "../engine/protocol.ts";
import { formatCount, withoutServer } from "../text.ts";
import { type ShownColumn, VirtualTable } from "../virtual-table.ts";
import { hasNumbers, isTable, planeChoice, type Shown, sentenceOf } from "./view.ts";

/** Columns of a plane to show at a time. */
const ACROSS = 64;
/** Most rows to copy at a time. */
const MOST_COPIED = 10_000;

export function view(shown: Shown): HTMLElement {
  const { node, column, now, signal, engine } = shown;
  const [only] = node.columns;
  const one = column ?? (isTable(node) ? undefined : only);
  const shape = one?.shape ?? [];
  const isPlane = shape.length >= 2;
  const width = isPlane ? (shape.at(-1) ?? 0) : 1;
  const view = h("div", { class: "view values-view" });
  const { fixed, choice } = planeChoice(shown, shape, () => show());
  let from = Math.max(0, Math.min(width - 1, Number(now.state.more["across"]) || 0));
  let table: VirtualTable | undefined;

  const flat = one === undefined ? node.columns.filter(({ shape: of }) => of.length === 1) : [one];
  const wide =
    one === undefined ? node.columns.filter((each) => !flat.includes(each)).map(({ name }) => name) : [];
  const rows =
    node.kind === "bytes"
      ? Math.ceil(node.nbytes / 16)
      : isPlane
        ? (shape.at(-2) ?? 0)
        : one === undefined
          ? node.length
          : (shape.at(0) ?? 1);

  const request = (first: number, end: number): RowsRequest => ({
    archive: node.name,
    columns: flat.map(({ name }) => name),
    first,
    end,
    fixed: fixed(),
    across: [from, Math.min(width, from + ACROSS)],
  });

  const heads = (): ShownColumn[] => {
    if (node.kind === "bytes") return [{ title: "hexadecimal" }, { title: "text" }];
    if (isPlane)
      return Array.from({ length: Math.min(ACROSS, width - from) }, (_, i) => ({
        title: formatCount(from + i),
        isNumeric: one !== undefined && isNumber(one),
      }));
    return flat.map((each) => ({
      title: each.name === "" ? each.typeName : each.name,
      isNumeric: isNumber(each),
    }));
  };

  const place = h("div", { class: "place" });
  const show = (): void => {
    const first = table?.inSight.at(0) ?? (Number(now.state.more["row"]) || 0);
    const byteStep = node.kind === "bytes" ? 16 : 1;
    table = new VirtualTable(
      {
        label: "Values",
        rows,
        columns: heads(),
        rowLabel: (row) =>
          byteStep === 1 ? formatCount(row) : (row * byteStep).toString(16).padStart(8, "0"),
        fetch: async (start, end, each) => {
          const cells = await engine.rows(request(start, end), { signal: each });
          const bad = cells.columns.find(({ error }) => error !== undefined);
          if (bad !== undefined && cells.columns.every(({ error }) => error !== undefined))
            throw new Error(withoutServer(bad.error ?? ""));
          return cells.columns.map(({ texts, error }) =>
            error === undefined ? texts : Array.from({ length: end - start }, () => "cannot be read"),
          );
        },
        onRow: (row) => now.keep({ row: row === 0 ? "" : String(row) }),
      },
      first,
      signal,
    );
    place.style.setProperty("--rows", table.element.style.getPropertyValue("--rows"));
    place.replaceChildren(table.element);
  };

  const jump = h("input", {
    type: "number",
    min: 0,
    max: Math.max(0, rows - 1),
    placeholder: "0",
    "aria-label": "Row to go to",
    onchange: () => table?.goTo(Number(jump.value)),
  });
  const copy = async (button: HTMLElement, as: "csv" | "json"): Promise<void> => {
    if (table === undefined) return;
    const [first, end] = table.chosen;
    const last = Math.min(end, first + MOST_COPIED);
    const cells = await engine.rows({ ...request(first, last), json: as === "json" }, { signal });
    const names = heads().map(({ title }) => title);
    const lists = cells.columns.map(({ texts }) => texts);
    await copyText(
      as === "csv" ? csvOf(names, lists, last - first) : jsonOf(names, lists, last - first),
      button,
    );
  };
  const csvButton: HTMLElement = h("button", { onclick: () => void copy(csvButton, "csv") }, "Copy as CSV");
  const jsonButton: HTMLElement = h(
    "button",
    { onclick: () => void copy(jsonButton, "json") },
    "Copy as JSON",
  );
  const aside = (step: number, label: string, text: string): HTMLElement =>
    h(
      "button",
      {
        "aria-label": label,
        onclick: () => {
          from = Math.max(0, Math.min(width - 1, from + step * ACROSS));
          now.keep({ across: from === 0 ? "" : String(from) });
          show();
        },
      },
      text,
    );
  view.append(
    h(
      "div",
      { class: "bar" },
      h("label", {}, "Row", jump),
      ...choice,
      width > ACROSS && aside(-1, "Columns before", "‹ Columns"),
      width > ACROSS && aside(1, "Columns after", "Columns ›"),
      h("span", { class: "grow" }),
      h("span", { class: "group" }, csvButton, jsonButton),
    ),
    place,
    wide.length > 0
      ? h(
          "p",
          { class: "note" },
          `Columns with several values in each row are shown alone: choose ${wide.join(", ")} in the list.`,
        )
      : "",
    h(
      "p",
      { class: "note hint" },
      "Copies the rows in sight, or the chosen ones: click a row number, and Shift-click another for all between them. On the keyboard, Space chooses a row, Shift with the arrow keys more of them, and Escape none.",
    ),
    rows > 0 ? counted(shown, flat.filter(hasNumbers)) : "",
  );
  view.classList.toggle("empty", rows === 0);
  if (rows === 0) place.replaceChildren(h("p", { class: "note" }, "There are no rows yet."));
  else if (flat.length === 0) place.replaceChildren(h("p", { class: "note" }, "Choose a column."));
  else show();
  return view;
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

function csvOf(names: readonly string[], columns: readonly (readonly string[])[], rows: number): string {
  const quote = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = Array.from({ length: rows }, (_, row) =>
    columns.map((texts) => quote(texts[row] ?? "")).join(","),
  );
  return `${[names.map(quote).join(","), ...lines].join("\n")}\n`;
}

function jsonOf(names: readonly string[], columns: readonly (readonly string[])[], rows: number): string {
  const lines = Array.from({ length: rows }, (_, row) =>
    columns.length === 1
      ? (columns[0]?.[row] ?? "null")
      : `{${columns.map((texts, c) => `${JSON.stringify(names[c] ?? "")}:${texts[row] ?? "null"}`).join(",")}}`,
  );
  return `[\n${lines.join(",\n")}\n]\n`;
}
