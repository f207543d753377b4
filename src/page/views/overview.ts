/** The first view: columns, attributes, metadata, and lines to paste into other programs. */
import { h } from "../dom.ts";
import type { ColumnFacts } from "../engine/protocol.ts";
import { writeState } from "../state.ts";
import { formatBytes, formatCount, formatShape } from "../text.ts";
import { commandPath, type Shown } from "./view.ts";

export function overview(shown: Shown): HTMLElement {
  const { node, column } = shown;
  const named = node.columns.filter(({ name }) => name !== "");
  return h(
    "div",
    { class: "view" },
    ...node.warnings.map((warning) => h("p", { class: "warn-note" }, warning)),
    named.length > 0 && column === undefined && columnTable(shown, named),
    node.kind === "group" &&
      h("p", { class: "note" }, "This is a group of arrays. Choose one in the list of archives."),
    Object.keys(node.attrs).length > 0 && h("h2", {}, "Attributes"),
    Object.keys(node.attrs).length > 0 && json(node.attrs),
    h("h2", {}, "Open it elsewhere"),
    ...snippets(shown).flatMap(([label, text]) => [h("p", { class: "note" }, label), snippet(text)]),
    h("details", {}, h("summary", {}, "Metadata as stored"), json(node.metadata)),
  );
}

function json(value: unknown): HTMLElement {
  return h("pre", { tabindex: 0 }, JSON.stringify(value, undefined, 2));
}

function columnTable({ node, now }: Shown, columns: readonly ColumnFacts[]): HTMLElement {
  const head = ["Column", "Data type", "Shape", "Size", "Chunks"];
  const row = ({ name, typeName, shape, nbytes, nchunks }: ColumnFacts): HTMLElement =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        h(
          "a",
          { href: writeState({ ...now.state, archive: node.name, column: name, view: "chunks", more: {} }) },
          name,
        ),
      ),
      h("td", { class: "mono" }, typeName),
      h("td", {}, formatShape(shape)),
      h("td", { class: "n" }, formatBytes(nbytes)),
      h("td", { class: "n" }, formatCount(nchunks)),
    );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "list" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...head.map((text, i) => h("th", { scope: "col", class: i > 2 ? "n" : undefined }, text)),
        ),
      ),
      h("tbody", {}, ...columns.map(row)),
    ),
  );
}

/** A text with a button that copies it. */
export function snippet(text: string): HTMLElement {
  const copy = h("button", { onclick: () => void copyText(text, copy) }, "Copy");
  return h("div", { class: "snippet" }, h("pre", { tabindex: 0 }, text), copy);
}

/** Copies a text, and confirms it on the button. */
export async function copyText(text: string, button: HTMLElement): Promise<void> {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => {
    button.textContent = label;
  }, 1500);
}

/** The entry that the lines for JavaScript import. */
const NODE = '"superchunk/node"';

function snippets(shown: Shown): [label: string, text: string][] {
  const { source, node, column } = shown;
  const path = commandPath(shown);
  const served = source.kind === "server" ? new URL("..", source.base).href : undefined;
  const chosen = column === undefined || column.name === "" ? undefined : column.name;
  const parts: [string, string][] = [];
  if (served !== undefined && node.dialect !== "zarr3" && node.kind !== "bytes") {
    const address = `${served}${[...node.name.split("/"), ...(chosen?.split("/") ?? [])]
      .filter((part) => part !== "")
      .map(encodeURIComponent)
      .join("/")}`;
    const isArray = chosen !== undefined || node.kind === "array";
    parts.push([
      "Python, while this server runs",
      `import zarr\n${isArray ? "array" : "group"} = zarr.open(${JSON.stringify(address)}, mode="r")${isArray ? "\narray[:10]" : ""}`,
    ]);
  }
  const place = JSON.stringify(source.kind === "url" ? source.url : node.name === "/" ? "." : node.name);
  const option = chosen === undefined ? "" : `, { column: ${JSON.stringify(chosen)} }`;
  parts.push([
    "JavaScript",
    node.kind === "table" && chosen === undefined
      ? `import { openTable } from ${NODE};\nconst table = await openTable(${place});`
      : node.kind === "bytes" || node.kind === "group"
        ? `import { open } from ${NODE};\nconst archive = await open(${place});`
        : `import { openArray, slice } from ${NODE};\nconst array = await openArray(${place}${option});\nconst { data } = await array.get([slice(0, 10)]);`,
  ]);
  if (node.kind !== "bytes" && node.kind !== "group")
    parts.push([
      "DuckDB",
      `superchunk convert ${path} values.parquet\nduckdb -c "SELECT * FROM 'values.parquet' LIMIT 10"`,
    ]);
  return parts;
}
