/** The first view: columns, attributes, metadata, and lines to paste into other programs. */
import { formatBytes } from "../../bytes/arrays.ts";
import { h, snippet } from "../dom.ts";
import type { ColumnFacts, NodeFacts } from "../engine/protocol.ts";
import { writeState } from "../state.ts";
import { formatCount, formatShape } from "../text.ts";
import { commandPath, quote, type Shown } from "./view.ts";

/** Members of a group to name. */
const MOST = 500;

export function view(shown: Shown): HTMLElement {
  const { node, column, members } = shown;
  const item = (name: string): HTMLElement => h("li", {}, linkTo(shown, name));
  const named = node.columns.filter(({ name }) => name !== "");
  return h(
    "div",
    { class: "view" },
    ...node.warnings.map((warning) => h("p", { class: "warn-note" }, warning)),
    named.length > 0 && column === undefined && columnTable(shown, named),
    ...(node.kind !== "group"
      ? []
      : [
          h("p", { class: "note" }, `Items found in this group: ${formatCount(members.length)}`),
          h("ul", { class: "findings members" }, ...members.slice(0, MOST).map(item)),
        ]),
    ...(Object.keys(node.attrs).length === 0 ? [] : [h("h2", {}, "Attributes"), json(node.attrs)]),
    h("h2", {}, "Open it elsewhere"),
    ...snippets(shown).flatMap(([label, text]) => [h("p", { class: "note" }, label), snippet(text)]),
    h("details", {}, h("summary", {}, "Metadata as stored"), json(node.metadata)),
  );
}

function linkTo({ node, now }: Shown, archive: string): HTMLElement {
  const href = writeState({ ...now.state, archive, column: "", view: "", more: {} });
  return h("a", { href }, archive.slice(node.name === "/" ? 0 : node.name.length + 1));
}

function json(value: unknown): HTMLElement {
  return h("pre", { tabindex: 0 }, JSON.stringify(value, undefined, 2));
}

function columnTable({ now }: Shown, columns: readonly ColumnFacts[]): HTMLElement {
  const head = ["Column", "Data type", "Shape", "Size", "Chunks"];
  const headOf = (text: string, i: number): HTMLElement =>
    h("th", { scope: "col", class: i > 2 ? "n" : undefined }, text);
  const row = ({ name, typeName, shape, nbytes, nchunks }: ColumnFacts): HTMLElement =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        h("a", { href: writeState({ ...now.state, column: name, view: "chunks", more: {} }) }, name),
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
      h("thead", {}, h("tr", {}, ...head.map(headOf))),
      h("tbody", {}, ...columns.map(row)),
    ),
  );
}

/** The entry that the lines for JavaScript import. */
const NODE = '"superchunk/node"';

/** True if zarr-python has no words for an array: chunks of different lengths, and items that are arrays themselves. */
function isForeignToZarr({ dtype, cuts }: ColumnFacts): boolean {
  return (
    cuts !== undefined || (dtype.kind === "struct" && dtype.fields.some(({ shape }) => shape.length > 0))
  );
}

/** The places of an array, which its readers have to allow. */
function placesIn({ storage }: NodeFacts["metadata"]): string[] {
  const { superchunk } = (storage ?? {}) as {
    superchunk?: { places?: readonly { readonly prefix: string }[] };
  };
  return superchunk?.places?.map(({ prefix }) => prefix) ?? [];
}

/** Lines that open what is shown in other programs. */
export function snippets(shown: Pick<Shown, "source" | "node" | "column">): [label: string, text: string][] {
  const { source, node, column } = shown;
  const path = commandPath(shown);
  const served = source.kind === "server" ? new URL("..", source.base).href : undefined;
  const chosen = column === undefined || column.name === "" ? undefined : column.name;
  const parts: [string, string][] = [];
  const where = source.kind === "url" ? source.url : node.name === "/" ? "." : node.name;
  const place = JSON.stringify(where);
  const stored = chosen === undefined ? place : JSON.stringify(`${where}/${chosen}`);
  const address = `${served ?? ""}${[...node.name.split("/"), ...(chosen?.split("/") ?? [])]
    .filter((part) => part !== "")
    .map(encodeURIComponent)
    .join("/")}`;
  // One value without dimensions.
  const isScalar = node.kind === "array" && (column ?? node.columns[0])?.shape.length === 0;
  const isReadable = !(column === undefined ? node.columns : [column]).some(isForeignToZarr);
  const isZarr = node.dialect === "zarr3" || node.dialect === "zarr2";
  // No program reads bytes, or Python's objects, as an array.
  const hasValues = node.kind !== "bytes" && column?.dtype.kind !== "object";
  const isServed = served !== undefined && !node.dialect.startsWith("zarr") && hasValues;
  if (isZarr && /\.(?:json|parq(?:uet)?)$/i.test(node.name))
    // A set of references.
    parts.push([
      "Python with xarray and kerchunk",
      `import xarray\ndataset = xarray.open_dataset(${place}, engine="kerchunk")${chosen === undefined ? "" : `\ndataset[${JSON.stringify(chosen)}][:10]`}`,
    ]);
  else if (isReadable && (isZarr || isServed)) {
    // An array with column folders is served as a group, as a table is.
    const isArray = chosen !== undefined || (node.kind === "array" && column !== undefined);
    parts.push([
      `Python with zarr${isZarr && source.kind !== "url" ? "" : ", fsspec and aiohttp"}${isZarr ? "" : ", while this server runs"}`,
      `import zarr\n${isArray ? "array" : "group"} = zarr.open(${isZarr ? stored : JSON.stringify(address)}, mode="r")${isArray ? `\narray[${isScalar ? "()" : ":10"}]` : ""}`,
    ]);
  }
  const allow = placesIn(node.metadata);
  const settings = [
    ...(chosen === undefined ? [] : [`column: ${JSON.stringify(chosen)}`]),
    ...(allow.length === 0 ? [] : [`allow: ${JSON.stringify(allow)}`]),
  ];
  const option = settings.length === 0 ? "" : `, { ${settings.join(", ")} }`;
  parts.push([
    "JavaScript",
    node.kind === "table" && chosen === undefined
      ? `import { openTable } from ${NODE};\nconst table = await openTable(${place});`
      : !hasValues || node.kind === "group"
        ? `import { open } from ${NODE};\nconst archive = await open(${place});`
        : `import { openArray${isScalar ? "" : ", slice"} } from ${NODE};\nconst array = await openArray(${place}${option});\nconst { data } = await array.get(${isScalar ? "" : "[slice(0, 10)]"});`,
  ]);
  if (hasValues && node.kind !== "group" && !isScalar)
    parts.push([
      "DuckDB",
      `superchunk convert ${path} values.parquet${allow.map((place) => ` --allow ${quote(place)}`).join("")}\nduckdb -c "SELECT * FROM 'values.parquet' LIMIT 10"`,
    ]);
  return parts;
}
