/** CSV as a table. A first pass finds the types from all values, a second one reads the values. papaparse splits the text. */
import Papa from "papaparse";
import { at } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType, TimeUnit } from "../format/types.ts";
import { ATTOSECONDS } from "../values/item-bytes.ts";
import { BOOL, numberOf, sizedType, type TableColumn, textLength, timeOf, zoneNotes } from "./column-type.ts";
import type { TableFile, TableOptions, TableRows } from "./table-file.ts";

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
  hasZone: boolean;
  characters: number;
  /** The first values that are not numbers, not times, and that end in a zero: what they are, and where. */
  readonly odd: { number?: string; time?: string; zero?: string };
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
    const first = names === undefined ? 1 : 0;
    if (names === undefined) {
      names = namesOf(at(records, 0), path);
      looks.push(...names.map(newLook));
    }
    // Column by column, because a loop over texts of one kind is faster.
    for (const [i, look] of looks.entries())
      for (let r = first; r < records.length; r++) lookAt(look, at(at(records, r), i), r, lineOf);
    rows += records.length - first;
  }
  names ??= namesOf([], path);
  const notes: string[] = [];
  const columns = names.map((name, i): TableColumn => {
    const given = as?.fields.find((field) => field.name === name)?.dtype;
    const look = looks[i] ?? newLook();
    const dtype = given ?? dtypeOf(look);
    const why = given === undefined && dtype.kind === "unicode" ? reasonOf(look) : undefined;
    if (given === undefined && look.odd.zero !== undefined)
      throw new SuperchunkError("UNSUPPORTED", `column "${name}": ${look.odd.zero}`, { path, field: name });
    if (why !== undefined) notes.push(`column "${name}" is text: ${why}`);
    if (look.hasZone && dtype.kind === "datetime") notes.push(zoneNotes(name));
    return { name, dtype, shape: [] };
  });
  async function* read(wanted: readonly string[], call: AbortSignal | undefined): AsyncGenerator<TableRows> {
    const places = wanted.map((name) => columns.findIndex((column) => column.name === name));
    const typed = places.map((place) => [place, at(columns, place).dtype] as const);
    let first = 1;
    for await (const { records, lineOf } of recordsOf(source, path)) {
      call?.throwIfAborted();
      const [from, part] = [first, records.slice(first)];
      const columns = typed.map(([i, dtype]) => part.map((record) => parsedOf(at(record, i), dtype)));
      if (part.length > 0) yield { length: part.length, columns, lineOf: (row) => lineOf(from + row) };
      first = 0;
    }
  }
  return { path, columns, rows, isText: true, notes, read };
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
 * Records in file order, in groups of one piece of text. Empty lines are skipped; in a file of one column, those after the names are
 * missing values.
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
      const found = rest === "" && line === 1 && (piece?.at(0) ?? 0) >= 0xfe ? "utf-16" : "latin1";
      const reason = `is not UTF-8; convert the file, for example with: iconv -f ${found} -t utf-8`;
      throw wrong(line + rest.split("\n").length - 1 + lines, reason);
    }
  };
  const cut = (length: number): Records => {
    const raw = rest.slice(0, length - (/\r?\n$/.exec(rest.slice(length - 2, length))?.[0].length ?? 0));
    const isKnown = delimiter !== "" && !raw.includes("\r");
    const meta = isKnown ? undefined : Papa.parse(raw, { delimiter, preview: 1, skipEmptyLines: true }).meta;
    delimiter = meta?.delimiter ?? delimiter;
    const isMixed = raw.includes("\r\n") && /(?:^|[^\r])\n/.test(raw);
    const text = isMixed ? withOneLineEnd(raw, delimiter) : raw;
    // The parser itself, because `parse` keeps what it returned for so long that the garbage collector copies all of it.
    const parser = new Papa.Parser({
      delimiter,
      newline: (isMixed ? "\n" : (meta?.linebreak ?? "\n")) as "\n",
    });
    const { data: found, errors }: Papa.ParseResult<string[]> = parser.parse(text, 0, false);
    const data = text === "" ? [[""]] : found;
    const first = line;
    const linesBefore = (end: number): number =>
      data.slice(0, end).reduce((sum, record) => sum + record.join("").split("\n").length, first);
    const quote = errors.find(({ type }) => type === "Quotes");
    if (quote !== undefined)
      throw wrong(linesBefore(quote.row ?? 0), `has a quoted value that does not end (${quote.message})`);
    width ||= at(data, 0).length;
    const isEmpty = (record: readonly string[]): boolean =>
      width > 1 && record.length === 1 && record[0] === "";
    const bad = data.findIndex((record) => record.length !== width && !isEmpty(record));
    if (bad >= 0) {
      const found = at(data, bad).length;
      const advice = found < width ? "add the missing ones" : `quote values that contain "${delimiter}"`;
      const reason = `has ${found} value${found === 1 ? "" : "s"}, and the first line has ${width}; ${advice}`;
      throw wrong(linesBefore(bad), reason, { expected: width, found });
    }
    rest = rest.slice(length);
    for (let i = 0; i >= 0; i = text.indexOf("\n", i) + 1 || -1) line++;
    const places = data.some(isEmpty) ? [...data.keys()].filter((i) => !isEmpty(at(data, i))) : undefined;
    const records = places === undefined ? data : places.map((i) => at(data, i));
    return { records, lineOf: (record) => linesBefore(places === undefined ? record : at(places, record)) };
  };
  for await (const piece of source()) {
    rest += decode(piece);
    for (; width === 0 && /^\r?\n/.test(rest); line++) rest = rest.slice(rest.indexOf("\n") + 1);
    const length = lastLine(rest, delimiter);
    if (length > 0) yield cut(length);
    if (rest.length > MAX_RECORD)
      throw wrong(line, `has a quoted value that does not end within ${MAX_RECORD} characters`);
  }
  rest = (rest + decode()).replace(/(?:\r?\n)+$/, "");
  if (rest !== "") yield cut(rest.length);
}

/** The text with `\n` at the ends of all records: files that were joined may have two kinds. Quoted values stay as they are. */
function withOneLineEnd(text: string, delimiter: string): string {
  const quotedOrEnd = new RegExp(`(?<=^|[${delimiter}])"[^"]*(?:""[^"]*)*"|\\r\\n`, "gm");
  return text.replace(quotedOrEnd, (found) => (found === "\r\n" ? "\n" : found));
}

/** What a value may follow where the delimiter is not known yet. */
const DELIMITERS = ",;\t|\u001e\u001f";
/** Most characters of a record. */
const MAX_RECORD = 16 << 20;

/**
 * Length of the text up to the last line end outside of quotes, without trailing empty lines, which may end the file. As in the parser, a
 * quote at the start of a value begins a quoted one, and others, such as those of inches, are characters.
 */
function lastLine(text: string, delimiter: string): number {
  let end = text.lastIndexOf("\n") + 1;
  if (text.includes('"')) {
    const starts = `\n\r${delimiter === "" ? DELIMITERS : delimiter}`;
    end = 0;
    let isQuoted = false;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code === 0x0a && !isQuoted) end = i + 1;
      if (code !== 0x22) continue;
      if (!isQuoted) isQuoted = i === 0 || starts.includes(text.charAt(i - 1));
      else if (text.charCodeAt(i + 1) === 0x22) i++;
      else isQuoted = false;
    }
  }
  for (;;) {
    const before = end - (text.charCodeAt(end - 2) === 0x0d ? 2 : 1);
    if (text.charCodeAt(before - 1) !== 0x0a) return end;
    end = before;
  }
}

function newLook(): Look {
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Look["counts"];
  return { counts, count: 0, hasNone: false, hasZone: false, characters: 0, odd: {} };
}

const INTEGER = /^(?:\+?0|[+-]?[1-9]\d{0,19})$/;
const DIGITS = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)$/i;
const TIME =
  /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|(?<sign>[+-])(?<hours>\d\d)(?::?(?<minutes>\d\d))?)?)?$/;
const TRUTH = /^(?:true|false)$/i;
/** Whole milliseconds before the last nanosecond that 64 bits count. */
const MOST_NANOSECONDS = Math.floor(2 ** 63 / 1e6);

/** Why a float64 does not hold a number as it is written; undefined if it does. */
function numberFault(text: string): string | undefined {
  if (!NUMBER.test(text)) return "which is not a number";
  if (/^[+-]?0\d/.test(text)) return "whose leading zeros a number would lose";
  if (/inf/i.test(text)) return undefined;
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

/**
 * "int" for up to 15 digits, "decimal" for digits with a point, after a sign or none: most numbers, which need no regular expression.
 * Undefined for other text.
 */
function plainKindOf(text: string): "int" | "decimal" | undefined {
  const { length } = text;
  const first = text.charCodeAt(0) === 0x2d ? 1 : 0;
  const isZero = text.charCodeAt(first) === 0x30;
  let point = 0;
  for (let i = first; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2e && point === 0 && i > first) point = i;
    else if (code < 0x30 || code > 0x39) return undefined;
  }
  if (length === first || length > 24) return undefined;
  if (point > 0) return isZero && point > first + 1 ? undefined : "decimal";
  return length < 16 && (!isZero || length === 1) ? "int" : undefined;
}

/** A part of a text as a number; NaN if not all of it is digits. */
function digitsAt(text: string, from: number, end: number): number {
  let value = 0;
  for (let i = from; i < end; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    value = digit >= 0 && digit <= 9 ? value * 10 + digit : Number.NaN;
  }
  return value;
}

/** True if a text is as long as a day or a whole second without a zone, and its parts are separated like theirs. */
function isPlainTime(text: string): boolean {
  if (text.charCodeAt(7) !== 0x2d) return false;
  const separator = text.charCodeAt(10);
  const isClock = text.charCodeAt(13) === 0x3a && text.charCodeAt(16) === 0x3a;
  return text.length === 10 || (text.length === 19 && isClock && (separator === 0x20 || separator === 0x54));
}

/** Whole milliseconds from 1970 of a date or time, 0 for NaT; NaN for other text. */
function millisecondsOf(text: string): number {
  if (text.charCodeAt(4) !== 0x2d) return text === "NaT" ? 0 : Number.NaN;
  if (!isPlainTime(text) && !TIME.test(text)) return Number.NaN;
  const [year, month, day] = [digitsAt(text, 0, 4), digitsAt(text, 5, 7), digitsAt(text, 8, 10)];
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const last = month === 2 && isLeap ? 29 : DAYS[month - 1];
  if (last === undefined || !(day >= 1 && day <= last)) return Number.NaN;
  // 400 years later, because `Date.UTC` takes years before 100 for those of the 20th century.
  const midnight = Date.UTC(year + 400, month - 1, day) - 146_097 * 86_400_000;
  if (text.length === 10) return midnight;
  const [hour, minute] = [digitsAt(text, 11, 13), digitsAt(text, 14, 16)];
  const second = text.charCodeAt(16) === 0x3a ? digitsAt(text, 17, 19) : 0;
  if (!(hour <= 23 && minute <= 59 && second <= 59)) return Number.NaN;
  const seconds = hour * 3600 + minute * 60 + second;
  return midnight + 1000 * (seconds - zoneOf(text)) + Math.floor(fractionOf(text) / 1e6);
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Nanoseconds after the second of a time. */
function fractionOf(text: string): number {
  if (text.charCodeAt(19) !== 0x2e) return 0;
  return Number(/^\d+/.exec(text.slice(20))?.[0].padEnd(9, "0"));
}

/** Seconds by which a time is ahead of UTC. */
function zoneOf(text: string): number {
  const { sign, hours = "0", minutes = "0" } = (isPlainTime(text) ? null : TIME.exec(text))?.groups ?? {};
  const seconds = Number(hours) * 3600 + Number(minutes) * 60;
  return sign === "-" ? -seconds : seconds;
}

/** Nanoseconds of the units that need no calendar and are no finer. */
const NANOSECONDS: Partial<Record<TimeUnit, number>> = { D: 86_400e9, s: 1e9, ms: 1e6, us: 1e3, ns: 1 };

/** The count of a time in a unit; undefined for other text, and where the unit is too coarse or needs a calendar. */
function countOf(text: string, { unit, scale }: Extract<DType, { readonly unit: TimeUnit }>): unknown {
  const length = NANOSECONDS[unit];
  const time = text === "NaT" || scale !== 1 ? Number.NaN : millisecondsOf(text);
  if (length === undefined || Number.isNaN(time)) return undefined;
  const rest = (fractionOf(text) % 1e6) / length;
  const count = length < 1e6 ? time * (1e6 / length) : time / (length / 1e6);
  if (!Number.isInteger(rest) || !Number.isInteger(count)) return undefined;
  return Number.isSafeInteger(count + rest)
    ? count + rest
    : BigInt(time) * BigInt(1e6 / length) + BigInt(rest);
}

/** The names of units in what cat prints, without the `s` at their end. */
const SPANS: Readonly<Record<TimeUnit, string>> = {
  Y: "year",
  M: "month",
  W: "week",
  D: "day",
  h: "hour",
  m: "minute",
  s: "second",
  ms: "millisecond",
  us: "microsecond",
  ns: "nanosecond",
  ps: "picosecond",
  fs: "femtosecond",
  as: "attosecond",
  generic: "generic time unit",
};
const UNITS: ReadonlyMap<string, TimeUnit> = new Map(
  Object.entries(SPANS).map(([unit, name]) => [name, unit as TimeUnit]),
);

/** The count of a span as cat prints it, such as `5 milliseconds`; undefined for other text, and where the unit is too coarse. */
function spanOf(text: string, { unit, scale }: Extract<DType, { readonly unit: TimeUnit }>): unknown {
  const [, digits = "0", name = ""] = /^([+-]?\d+) ([a-z ]+?)s?$/.exec(text) ?? [];
  const own = UNITS.get(name);
  const [from, to] =
    own === undefined || own === unit ? [own && 1n, 1n] : [ATTOSECONDS[own], ATTOSECONDS[unit]];
  if (from === undefined || to === undefined) return undefined;
  const [time, length] = [BigInt(digits) * from, to * BigInt(scale)];
  return time % length === 0n ? time / length : undefined;
}

function lookAt(look: Look, text: string, record: number, lineOf: Records["lineOf"]): void {
  if (text === "") {
    look.hasNone = true;
    return;
  }
  const { counts, odd } = look;
  const where = (why: string): string =>
    `line ${lineOf(record)} has ${JSON.stringify(text.slice(0, 40))}, ${why}`;
  look.count++;
  const plain = plainKindOf(text);
  const fault = plain === undefined ? numberFault(text) : undefined;
  if (fault === undefined) {
    counts.number++;
    if (plain !== undefined || isExact(text)) counts.exact++;
    else odd.number ??= where("of which float64 loses digits");
    if (plain === "int" || (plain === undefined && INTEGER.test(text))) {
      const value = text.length < 16 ? undefined : BigInt(text);
      if (value === undefined || BigInt.asIntN(64, value) === value) counts.int++;
      if (value === undefined ? text.charCodeAt(0) !== 0x2d : BigInt.asUintN(64, value) === value)
        counts.uint++;
    }
  } else odd.number ??= where(fault);
  const time = millisecondsOf(text);
  if (!Number.isNaN(time)) {
    counts.time++;
    look.hasZone ||= text.length > 16 && zoneOf(text) !== 0;
    if (Math.abs(time) < MOST_NANOSECONDS) counts.nanoseconds++;
    if (text === "NaT" || text.length === 10) counts.day++;
  } else odd.time ??= where("which is not a date or time");
  if (text.length < 6 && TRUTH.test(text)) counts.bool++;
  if (text.charCodeAt(text.length - 1) === 0)
    odd.zero ??= where("whose last zero numpy strings lose; to drop it, give the type ({dtype})");
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
      if (plainKindOf(text) === "int") return Number(text);
      if (!DIGITS.test(text)) return text;
      return text.length < 16 ? Number(text) : BigInt(text);
    case "float": {
      if (plainKindOf(text) !== undefined) return Number(text);
      if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith("-") ? "-Infinity" : "Infinity";
      const number = NUMBER.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
      return Number.isFinite(number) || /nan/i.test(text) ? number : text;
    }
    case "bool":
      return TRUTH.test(text) ? text.toLowerCase() === "true" : text;
    case "datetime":
      return countOf(text, dtype) ?? text.replace(" ", "T").replace(/Z$/, "");
    case "timedelta":
      return spanOf(text, dtype) ?? text;
    default:
      return text;
  }
}
