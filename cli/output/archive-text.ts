/** The text of `info`: an aligned block of facts, with exact numbers and rounded ones; and the findings of `verify`. */

import {
  type DType,
  type Finding,
  JsonFloat,
  type JsonInput,
  type SuperchunkError,
  stringifyJson,
} from "../../src/index.ts";
import { asTyped, messageAt, stateOf } from "../failure.ts";
import { formatCount, formatExactSize, formatPlural, formatSize } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import { scaleTexts, sparkline } from "../values/plot.ts";
import type { Sample } from "../values/sample.ts";
import type { ArchiveFacts, ChunkFacts, ColumnFacts } from "./archive-facts.ts";
import { alignRows, MOST_NAMES, shapeText } from "./layout.ts";
import { textWidth } from "./text-width.ts";

/** The lines of `info PATH`, for a terminal of the given width. */
export function infoLines(facts: ArchiveFacts, terminal?: number): string[] {
  const rows: string[][] = [
    ["path", printable(facts.path)],
    ["dialect", facts.dialect],
    ["kind", facts.kind],
  ];
  if (facts.views !== undefined) rows.push(["also", facts.views.join(", ")]);
  if (facts.dtype !== null) rows.push(["dtype", cutLong(compact(facts.dtype))]);
  const hasRows = facts.kind === "table" || (facts.kind === "group" && facts.shape.length > 0);
  if (hasRows) rows.push(["rows", formatCount(facts.shape[0] ?? 0)]);
  if (facts.kind === "array") rows.push(["shape", shapeText(facts.shape)], ["order", facts.order ?? "C"]);
  if (facts.dimensionNames !== undefined)
    rows.push(["dimensions", facts.dimensionNames.map((name) => printable(name ?? "-")).join(", ")]);
  if (facts.chunks !== null) rows.push(["chunks", chunksText(facts.chunks)], ...zarrRows(facts.chunks));
  rows.push(["size", sizeText(facts)], ["stored", storedText(facts)]);
  if (facts.kind === "array" || facts.kind === "bytes") rows.push(["checksum", facts.checksum ?? "none"]);
  if (facts.fillValue !== null) rows.push(["fill value", compact(facts.fillValue)]);
  rows.push(...attributeRows(facts));
  for (const warning of facts.warnings) rows.push(["warning", printable(warning)]);
  const lines = alignRows(rows);
  if (facts.columns === null || facts.columns.length === 0) return lines;
  return [...lines, "", ...columnLines(facts.columns, facts.kind === "group" ? "array" : "column", terminal)];
}

/** Values of variable length have no size that is known without reading them all. */
function sizeText({ nbytes, columns }: ArchiveFacts): string {
  const others = columns?.filter((column) => column.nbytes === null).length ?? 0;
  const text = formatExactSize(nbytes ?? Number.NaN);
  return others === 0 ? text : `${text} without ${formatPlural(others, "array")} of variable length`;
}

/** The lines of `info PATH` for a damaged file whose header is intact. A count of -1 in it means that it is not stored. */
export function damagedLines(path: string, error: SuperchunkError): string[] {
  const said = Object.entries(error.details.header ?? {}).filter(([, value]) => value !== -1);
  const rows = said.map(([name, value]) => [
    name,
    typeof value === "number" ? formatCount(value) : cutLong(compact(value)),
  ]);
  const damage = `${stateOf(error)}  ${error.code}: ${printable(messageAt(path, error))}`;
  return [...alignRows([["path", printable(path)], ...rows]), damage];
}

/** Most attributes to show. */
const ATTRIBUTES = 40;

/** A text of at most 160 characters, and how many there are. */
function cutLong(text: string): string {
  return text.length > 160 ? `${text.slice(0, 160)}… (${formatCount(text.length)} characters)` : text;
}

/** The attributes; long ones are cut. `--json` and `attrs` show them completely. */
function attributeRows({ attrs }: ArchiveFacts): string[][] {
  const names = Object.keys(attrs);
  let isCut = names.length > ATTRIBUTES;
  const rows = names.slice(0, ATTRIBUTES).map((name) => {
    const text = compact(JsonFloat.memberOf(attrs, name));
    const shown = cutLong(text);
    isCut ||= shown !== text;
    return ["attribute", `${printable(name)} = ${shown}`];
  });
  if (names.length > ATTRIBUTES)
    rows.push(["", `and ${formatPlural(names.length - ATTRIBUTES, "further attribute")}`]);
  if (isCut) rows.push(["", '"superchunk attrs" and --json show all of it']);
  return rows;
}

function storedText({ cbytes, ratio }: ArchiveFacts): string {
  return `${formatExactSize(cbytes)}${ratio === null || ratio === 0 ? "" : `, ratio ${ratio.toFixed(2)}`}`;
}

/** Facts that only Zarr has: shards, unequal chunks, codecs. */
function zarrRows({ shardShape, nshards, chunkShapes, codecs }: ChunkFacts): string[][] {
  return [
    ...(shardShape === undefined
      ? []
      : [["shards", `${formatCount(nshards ?? 0)} of ${rowsText(shardShape)}`]]),
    ...(chunkShapes === undefined ? [] : [["lengths", compact(chunkShapes)]]),
    ...(codecs === undefined ? [] : [["codecs", codecs.join(", ")]]),
  ];
}

/** A shape of chunks; as rows if it has one dimension. */
function rowsText(shape: readonly number[]): string {
  const [rows] = shape;
  return rows !== undefined && shape.length === 1 ? formatPlural(rows, "row") : shapeText(shape);
}

/** `8 of 128 rows, zstd 5, shuffle, typesize 8`. */
function chunksText(chunks: ChunkFacts): string {
  const { nchunks, chunkLength, chunkBytes, chunkShape, cname, clevel, shuffle, typesize } = chunks;
  const words = [formatCount(nchunks)];
  if (chunkLength !== undefined) words[0] += ` of ${formatPlural(chunkLength, "row")}`;
  else if (chunkBytes !== undefined) words[0] += ` of ${formatExactSize(chunkBytes)}`;
  else if (chunkShape !== undefined && chunks.chunkShapes === undefined)
    words[0] += ` of ${rowsText(chunkShape)}`;
  if (cname !== undefined) words.push(clevel === undefined ? cname : `${cname} level ${clevel}`);
  if (shuffle !== undefined) words.push(shuffle);
  if (typesize !== undefined) words.push(`typesize ${typesize}`);
  return words.join(", ");
}

function columnLines(columns: readonly ColumnFacts[], what: string, terminal: number | undefined): string[] {
  const header = [what, "dtype", "shape", "chunks", "codec", "size", "stored", "ratio"];
  const rows = columns.map(({ name, dtype, shape, chunks, nbytes, cbytes, ratio }) => [
    printable(name),
    Array.isArray(dtype) ? `struct(${dtype.length})` : compact(dtype),
    shapeText(shape),
    formatCount(chunks.nchunks),
    chunks.cname === undefined ? "-" : `${chunks.cname} ${chunks.shuffle ?? ""}`.trim(),
    formatSize(nbytes ?? Number.NaN),
    formatSize(cbytes),
    ratio === null ? "-" : ratio.toFixed(2),
  ]);
  return alignRows([header, ...rows], new Set([3, 5, 6, 7]), terminal);
}

function compact(value: JsonInput): string {
  return typeof value === "string" ? printable(value) : printable(stringifyJson(value));
}

// A line of bars for each numeric column.

/** A column with its sample, or the reason why there is none. */
export interface ColumnSample {
  readonly name: string;
  readonly dtype: DType;
  readonly nchunks: number;
  readonly sample?: Sample;
  readonly failure?: string;
}

/** One line for each sample, or several on a narrow terminal; none if there is nothing to draw. */
export function sampleLines(samples: readonly ColumnSample[], terminal?: number): string[] {
  if (samples.length === 0) return [];
  const rows = samples.map(({ name, dtype, nchunks, sample, failure }) => {
    if (sample === undefined) return [printable(name), `cannot be read: ${failure ?? ""}`];
    const { means, least, greatest, rows: count, isAll, chunks } = sample;
    return [
      name === "" ? "values" : printable(name),
      sparkline(means),
      least === undefined || greatest === undefined
        ? "no number"
        : scaleTexts(dtype, least, greatest).join(" to "),
      isAll
        ? "all rows"
        : `${formatPlural(count, "row")} in ${formatCount(chunks)} of ${formatPlural(nchunks, "chunk")}`,
    ];
  });
  const table = [["sample", "means", "least to greatest", "of"], ...rows];
  let lines = alignRows(table, new Set(), terminal);
  const isWide = (line: string): boolean => textWidth(line) > (terminal ?? Number.POSITIVE_INFINITY);
  for (const end of [/$/, / (?=to )/]) {
    if (!lines.some(isWide)) break;
    const folded = table.flatMap(([name = "", bars = "", range = "", of = ""]) => {
      const [first = "", ...more] = [...range.split(end), of];
      return [[name, bars, first], ...more.filter((part) => part !== "").map((part) => ["", "", part])];
    });
    lines = alignRows(folded, new Set(), terminal);
  }
  return ["", ...lines];
}

/** A line for each finding, errors first; of many with the same code, only the first. */
export function findingLines(findings: readonly Finding[]): string[] {
  return (["error", "warning"] as const).flatMap((severity) => {
    const counts = new Map<string, number>();
    const shown = findings.filter((finding) => {
      if (finding.severity !== severity) return false;
      const count = (counts.get(finding.code) ?? 0) + 1;
      counts.set(finding.code, count);
      return count <= MOST_NAMES;
    });
    const more = [...counts].filter(([, count]) => count > MOST_NAMES);
    return [
      ...shown.map(findingLine),
      ...more.map(([code, count]) => `  ${formatCount(count - MOST_NAMES)} more ${code}; --json lists all`),
    ];
  });
}

function findingLine({ severity, code, message, path, chunk }: Finding): string {
  const place = [
    ...(path === undefined ? [] : [path]),
    ...(chunk === undefined ? [] : [`chunk ${chunk}`]),
  ].join(": ");
  const text = place === "" || message.startsWith(place) ? message : `${place}: ${message}`;
  return `  ${severity} ${code}: ${printable(text)}`;
}

/** The finding with the path as it was typed, also if that is a link. */
export function findingAsTyped(typed: string, finding: Finding): Finding {
  const message = asTyped(typed, finding.message);
  return finding.path === undefined
    ? { ...finding, message }
    : { ...finding, message, path: asTyped(typed, finding.path) };
}
