/** CSV as a table. A first pass finds the types from all values, a second one reads the values. papaparse splits the text. */
import Papa from "papaparse";
import { at } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import { BOOL, numberOf, sizedType, type TableColumn, textLength, timeOf } from "./column-type.ts";
import type { TableFile, TableOptions, TableRows } from "./table-file.ts";

/** Rows that are yielded together. */
const ROWS = 16_384;

/** Returns the text of a file in pieces, from its beginning at each call. */
export type TextSource = () => AsyncIterable<Uint8Array>;

/** Types that all values of a column may have, narrowest first; "exact": a double holds all digits. */
const KINDS = ["int", "uint", "number", "exact", "bool", "day", "time", "nanoseconds"] as const;

/** The facts of a column's values. */
interface Look {
  /** Number of values of each kind. */
  readonly counts: Record<(typeof KINDS)[number], number>;
  count: number;
  hasNone: boolean;
  characters: number;
  /** The first values that are not numbers and not times: what they are, and where. */
  readonly odd: { number?: string; time?: string };
}

/**
 * Opens CSV (RFC 4180, UTF-8; the delimiter is detected, and is a tab in `.tsv`) with a header line of names.
 *
 * @throws BAD_FIELD for a record with another number of values than the first, and for text that is not UTF-8; BAD_ARGUMENT for a file
 * without names
 */
export async function openCsv(
  source: TextSource,
  path: string,
  { as, signal }: TableOptions,
): Promise<TableFile> {
  const looks: Look[] = [];
  let names: readonly string[] | undefined;
  let rows = 0;
  for await (const { records, lineOf } of recordsOf(source, path)) {
    signal?.throwIfAborted();
    for (const [r, record] of records.entries()) {
      if (names === undefined) {
        names = namesOf(record, path);
        looks.push(...record.map(newLook));
        continue;
      }
      for (const [i, look] of looks.entries()) lookAt(look, record[i] ?? "", () => lineOf(r));
      rows++;
    }
  }
  names ??= namesOf([], path);
  const notes: string[] = [];
  const columns = names.map((name, i): TableColumn => {
    const given = as?.fields.find((field) => field.name === name)?.dtype;
    const look = looks[i] ?? newLook();
    const dtype = given ?? dtypeOf(look);
    const why = given === undefined && dtype.kind === "unicode" ? reasonOf(look) : undefined;
    if (why !== undefined) notes.push(`column "${name}" is text: ${why}`);
    return { name, dtype, shape: [] };
  });
  async function* read(wanted: readonly string[], call: AbortSignal | undefined): AsyncGenerator<TableRows> {
    const places = wanted.map((name) => columns.findIndex((column) => column.name === name));
    const typed = places.map((place) => [place, at(columns, place).dtype] as const);
    let first = 1;
    for await (const { records, lineOf } of recordsOf(source, path)) {
      call?.throwIfAborted();
      for (let from = first; from < records.length; from += ROWS) {
        const part = records.slice(from, from + ROWS);
        yield {
          length: part.length,
          columns: typed.map(([place, dtype]) => part.map((each) => parsedOf(each[place] ?? "", dtype))),
          lineOf: (row) => lineOf(from + row),
        };
      }
      first = 0;
    }
  }
  return { path, columns, rows, notes, read };
}

/** The names of the columns. */
function namesOf(record: readonly string[], path: string): readonly string[] {
  const wrong = record.findIndex((name, i) => name === "" || record.indexOf(name) < i);
  if (record.length > 0 && wrong < 0) return record;
  const found = record.length === 0 ? "the file is empty" : `column ${wrong + 1} is "${record[wrong]}"`;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the first line of CSV names the columns, each by a different name, but ${found}${record[wrong] ? " again" : ""}; add the names`,
    { path, field: "input", expected: "a line of names", found: record.join() || "an empty line" },
  );
}

/** Records of a piece of the text, and the lines at which they begin. */
interface Records {
  readonly records: readonly (readonly string[])[];
  lineOf(record: number): number;
}

/**
 * Records in file order, in groups of one piece of text. Empty lines are skipped; in a file of one column, they are missing values.
 */
async function* recordsOf(source: TextSource, path: string): AsyncGenerator<Records> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  let width = 0;
  let line = 1;
  let delimiter = /\.tsv$/i.test(path) ? "\t" : "";
  const wrong = (at: number, reason: string, details: object = {}): SuperchunkError =>
    new SuperchunkError("BAD_FIELD", `line ${at} ${reason}`, { path, field: "input", ...details });
  const decode = (piece?: Uint8Array): string => {
    try {
      return decoder.decode(piece, { stream: piece !== undefined });
    } catch {
      // All earlier pieces were valid, so only lines of this piece before the first invalid byte are added.
      const lines = new TextDecoder().decode(piece).split("\ufffd", 1).join().split("\n").length - 1;
      throw wrong(
        line + rest.split("\n").length - 1 + lines,
        "is not UTF-8; convert the file, for example with: iconv -f latin1 -t utf-8",
      );
    }
  };
  const cut = (length: number): Records => {
    const text = rest.slice(0, length).replace(/\r?\n$/, "");
    const parsed = Papa.parse<string[]>(text, { delimiter });
    const { errors, meta } = parsed;
    const data = text === "" ? [[""]] : parsed.data;
    delimiter ||= meta.delimiter;
    const first = line;
    const linesBefore = (end: number): number =>
      data.slice(0, end).reduce((sum, record) => sum + record.join("").split("\n").length, first);
    const quote = errors.find(({ type }) => type === "Quotes");
    if (quote !== undefined)
      throw wrong(
        linesBefore(quote.row ?? 0),
        `has a quoted value that does not end as it should (${quote.message})`,
      );
    width ||= at(data, 0).length;
    const isEmpty = (record: readonly string[]): boolean =>
      width > 1 && record.length === 1 && record[0] === "";
    const bad = data.findIndex((record) => record.length !== width && !isEmpty(record));
    if (bad >= 0) {
      const found = at(data, bad).length;
      const reason = `has ${found} value${found === 1 ? "" : "s"}, and the first line has ${width}; quote values that contain "${delimiter}"`;
      throw wrong(linesBefore(bad), reason, { expected: width, found });
    }
    rest = rest.slice(length);
    line += text.split("\n").length;
    const places = data.some(isEmpty) ? [...data.keys()].filter((i) => !isEmpty(at(data, i))) : undefined;
    const records = places === undefined ? data : places.map((i) => at(data, i));
    return { records, lineOf: (record) => linesBefore(places === undefined ? record : at(places, record)) };
  };
  for await (const piece of source()) {
    rest += decode(piece);
    const length = lastLine(rest);
    if (length > 0) yield cut(length);
  }
  rest = (rest + decode()).replace(/(?:\r?\n)+$/, "");
  if (rest !== "") yield cut(rest.length);
}

/** Length of the text up to the last line end outside of quotes, without trailing empty lines, which may end the file. */
function lastLine(text: string): number {
  let end = 0;
  let isQuoted = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) isQuoted = !isQuoted;
    else if (code === 0x0a && !isQuoted) end = i + 1;
  }
  return text.slice(0, end).replace(/\n(?:\r?\n)+$/, "\n").length;
}

function newLook(): Look {
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Look["counts"];
  return { counts, count: 0, hasNone: false, characters: 0, odd: {} };
}

const INTEGER = /^(?:\+?0|[+-]?[1-9]\d{0,19})$/;
const DIGITS = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)$/i;
const DAY = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?)?$/;
const TRUTH = /^(?:true|false)$/i;
const LEAST = -(2n ** 63n);
/** Whole milliseconds before the last nanosecond that 64 bits count. */
const MOST_NANOSECONDS = Math.floor(2 ** 63 / 1e6);

/** Why a float64 does not hold a number as it is written; undefined if it does. */
function numberFault(text: string): string | undefined {
  if (!NUMBER.test(text)) return "which is not a number";
  if (/^[+-]?0\d/.test(text)) return "whose leading zeros a number would lose";
  const number = Number(text);
  if (Math.abs(number) === Number.POSITIVE_INFINITY) return "which is too large for float64";
  return number === 0 && /^[^e]*[1-9]/i.test(text) ? "which is too small for float64" : undefined;
}

/** True if a double holds all digits of an integer. */
function isExact(text: string): boolean {
  return (
    text.length < 16 || !DIGITS.test(text) || (text.length < 300 && BigInt(Number(text)) === BigInt(text))
  );
}

/** Milliseconds from 1970 of a date or time, 0 for NaT; NaN for other text. */
function millisecondsOf(text: string): number {
  if (text === "NaT") return 0;
  if (!TIME.test(text)) return Number.NaN;
  const time = Date.parse(text.length === 10 ? text : `${text.replace(" ", "T").replace(/Z$/, "")}Z`);
  // JavaScript takes February 30 for a day in March.
  return new Date(time).getUTCDate() === Number(text.slice(8, 10)) ? time : Number.NaN;
}

function lookAt(look: Look, text: string, lineOf: () => number): void {
  if (text === "") {
    look.hasNone = true;
    return;
  }
  const { counts, odd } = look;
  const where = (why: string): string => `line ${lineOf()} has ${JSON.stringify(text.slice(0, 40))}, ${why}`;
  look.count++;
  const fault = numberFault(text);
  if (fault === undefined) {
    counts.number++;
    if (isExact(text)) counts.exact++;
    else odd.number ??= where("of which float64 loses digits");
    if (INTEGER.test(text)) {
      const value = BigInt(text);
      if (BigInt.asIntN(64, value) === value && value !== LEAST) counts.int++;
      if (BigInt.asUintN(64, value) === value) counts.uint++;
    }
  } else odd.number ??= where(fault);
  const time = millisecondsOf(text);
  if (!Number.isNaN(time)) {
    counts.time++;
    if (Math.abs(time) < MOST_NANOSECONDS) counts.nanoseconds++;
    if (text === "NaT" || DAY.test(text)) counts.day++;
  } else odd.time ??= where("which is not a date or time");
  if (TRUTH.test(text)) counts.bool++;
  if (text.length > look.characters) look.characters = Math.max(look.characters, textLength(text));
}

/**
 * Integers, numbers, booleans, days, times, else strings. A column with empty values is neither integer nor boolean, nor a number if
 * doubles would lose digits.
 */
function dtypeOf({ counts, count, hasNone, characters }: Look): DType {
  const isAll = (kind: (typeof KINDS)[number]): boolean => count > 0 && counts[kind] === count;
  if (isAll("int") && !hasNone) return numberOf("int", 8);
  if (isAll("uint") && !hasNone) return numberOf("uint", 8);
  if (isAll("number") && isAll("exact")) return numberOf("float", 8);
  if (isAll("bool") && !hasNone) return BOOL;
  if (isAll("day")) return timeOf("datetime", "D");
  // Nanoseconds reach from 1677 to 2262.
  if (isAll("time")) return timeOf("datetime", isAll("nanoseconds") ? "ns" : "us");
  return sizedType("text", characters);
}

/** Why a column is text that looks like numbers or times; undefined for other text. */
function reasonOf({ counts, count, odd }: Look): string | undefined {
  if (odd.number !== undefined && (counts.number * 2 > count || !odd.number.endsWith("not a number")))
    return odd.number;
  return counts.time * 2 > count ? odd.time : undefined;
}

function parsedOf(text: string, dtype: DType): unknown {
  if (text === "") return null;
  switch (dtype.kind) {
    // Values that do not parse are passed on as text, and refused when they are written.
    case "int":
    case "uint":
      return DIGITS.test(text) ? BigInt(text) : text;
    case "float": {
      if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith("-") ? "-Infinity" : "Infinity";
      const number = NUMBER.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
      return Number.isFinite(number) || /nan/i.test(text) ? number : text;
    }
    case "bool":
      return TRUTH.test(text) ? text.toLowerCase() === "true" : text;
    case "datetime":
      return text.replace(" ", "T").replace(/Z$/, "");
    default:
      return text;
  }
}
