/** CSV as a table: types are found by a look at all values, and values are read in a second pass. papaparse cuts the text. */
import Papa from "papaparse";
import { at } from "../bytes/at.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import {
  BOOL,
  numberOf,
  sizedType,
  type TableColumn,
  type TableFile,
  type TableOptions,
  type TableRows,
  textLength,
  timeOf,
} from "./table-file.ts";

/** Rows that are handed on together. */
const ROWS = 16_384;

/** Pieces of a file's text, from its beginning each time. */
export type TextSource = () => AsyncIterable<Uint8Array>;

/** What the values of a column have in common. */
interface Look {
  isInteger: boolean;
  isUnsigned: boolean;
  /** False if a double has not all digits of an integer. */
  isExact: boolean;
  isNumber: boolean;
  isBool: boolean;
  isDay: boolean;
  isTime: boolean;
  isEmpty: boolean;
  hasNone: boolean;
  characters: number;
}

/**
 * Opens CSV (RFC 4180; the delimiter is found) with a line of names.
 *
 * @throws BAD_FIELD for a record with another number of values than the first, BAD_ARGUMENT for a file without names
 */
export async function openCsv(
  source: TextSource,
  path: string,
  { as, signal }: TableOptions,
): Promise<TableFile> {
  const looks: Look[] = [];
  let names: readonly string[] | undefined;
  let rows = 0;
  for await (const records of recordsOf(source, path)) {
    signal?.throwIfAborted();
    for (const record of records) {
      if (names === undefined) {
        names = record;
        looks.push(...record.map(newLook));
        continue;
      }
      for (const [i, look] of looks.entries()) lookAt(look, record[i] ?? "");
      rows++;
    }
  }
  if (names === undefined || new Set(names).size !== names.length || names.includes(""))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "the first line of CSV names the columns, each by another name; this file has none, or a name twice",
      { path, field: "input", found: names?.join() ?? "an empty file" },
    );
  const columns = names.map((name, i): TableColumn => {
    const given = as?.fields.find((field) => field.name === name)?.dtype;
    return { name, dtype: given ?? dtypeOf(looks[i] ?? newLook()), shape: [] };
  });
  async function* read(wanted: readonly string[], call: AbortSignal | undefined): AsyncGenerator<TableRows> {
    const places = wanted.map((name) => columns.findIndex((column) => column.name === name));
    const typed = places.map((place) => [place, at(columns, place).dtype] as const);
    let isNamed = false;
    for await (const records of recordsOf(source, path)) {
      call?.throwIfAborted();
      const own = isNamed ? records : records.slice(1);
      isNamed = true;
      for (let from = 0; from < own.length; from += ROWS) {
        const part = own.slice(from, from + ROWS);
        yield {
          length: part.length,
          columns: typed.map(([place, dtype]) => part.map((each) => parsedOf(each[place] ?? "", dtype))),
        };
      }
    }
  }
  return { path, columns, rows, read };
}

/** Records in the order of the file, as many as a piece of the text has. Empty lines at the end are left out. */
async function* recordsOf(source: TextSource, path: string): AsyncGenerator<string[][]> {
  const decoder = new TextDecoder();
  let rest = "";
  let width: number | undefined;
  let line = 0;
  let delimiter = "";
  const cut = (length: number): string[][] => {
    const parsed = Papa.parse<string[]>(rest.slice(0, length), {
      delimiter,
      skipEmptyLines: true,
    });
    delimiter ||= parsed.meta.delimiter;
    const quote = parsed.errors.find(({ type }) => type === "Quotes");
    if (quote !== undefined)
      throw new SuperchunkError(
        "BAD_FIELD",
        `a quoted value does not end as it should (${quote.message}) after line ${line}`,
        { path },
      );
    for (const record of parsed.data) {
      line++;
      width ??= record.length;
      if (record.length !== width)
        throw new SuperchunkError(
          "BAD_FIELD",
          `record ${line} has ${record.length} values, and the first has ${width}`,
          {
            path,
            field: "input",
            expected: width,
            found: record.length,
          },
        );
    }
    rest = rest.slice(length);
    return parsed.data;
  };
  for await (const piece of source()) {
    rest += decoder.decode(piece, { stream: true });
    const length = lastLine(rest);
    if (length > 0) yield cut(length);
  }
  rest += decoder.decode();
  if (rest !== "") yield cut(rest.length);
}

/** Length of the text up to the last end of a line that is not within quotes. */
function lastLine(text: string): number {
  let end = 0;
  let isQuoted = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) isQuoted = !isQuoted;
    else if (code === 0x0a && !isQuoted) end = i + 1;
  }
  return end;
}

function newLook(): Look {
  return {
    ...{
      isInteger: true,
      isUnsigned: true,
      isExact: true,
      isNumber: true,
      isBool: true,
      isDay: true,
      isTime: true,
    },
    ...{ isEmpty: true, hasNone: false, characters: 0 },
  };
}

const INTEGER = /^[+-]?(?:0|[1-9]\d{0,19})$/;
const DIGITS = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)$/i;
const DAY = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?$/;
const TRUTH = /^(?:true|false)$/i;
const LEAST = -(2n ** 63n);

function lookAt(look: Look, text: string): void {
  if (text === "") {
    look.hasNone = true;
    return;
  }
  look.isEmpty = false;
  look.isInteger &&=
    INTEGER.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text) && BigInt(text) !== LEAST;
  look.isUnsigned &&= INTEGER.test(text) && BigInt.asUintN(64, BigInt(text)) === BigInt(text);
  look.isExact &&=
    text.length < 16 || !DIGITS.test(text) || (text.length < 300 && BigInt(Number(text)) === BigInt(text));
  look.isNumber &&= NUMBER.test(text);
  look.isBool &&= TRUTH.test(text);
  look.isDay &&= DAY.test(text);
  look.isTime &&= DAY.test(text) || TIME.test(text);
  if (text.length > look.characters) look.characters = Math.max(look.characters, textLength(text));
}

/** Integers, numbers, booleans, days, times, else strings. A column with empty values is not of integers or booleans, nor one of numbers that would lose digits. */
function dtypeOf(look: Look): DType {
  if (look.isEmpty) return sizedType("text", 1);
  if (look.isInteger && !look.hasNone) return numberOf("int", 8);
  if (look.isUnsigned && !look.hasNone) return numberOf("uint", 8);
  if (look.isNumber && look.isExact) return numberOf("float", 8);
  if (look.isBool && !look.hasNone) return BOOL;
  if (look.isDay) return timeOf("datetime", "D");
  if (look.isTime) return timeOf("datetime", "ns");
  return sizedType("text", look.characters);
}

function parsedOf(text: string, dtype: DType): unknown {
  if (text === "") return null;
  switch (dtype.kind) {
    // What is not such a value is refused where it is written.
    case "int":
    case "uint":
      return INTEGER.test(text) ? BigInt(text) : text;
    case "float":
      if (!NUMBER.test(text)) return text;
      return /inf/i.test(text)
        ? text.startsWith("-")
          ? Number.NEGATIVE_INFINITY
          : Number.POSITIVE_INFINITY
        : Number(text);
    case "bool":
      return TRUTH.test(text) ? text.toLowerCase() === "true" : text;
    case "datetime":
      return text.replace(" ", "T").replace(/Z$/, "");
    default:
      return text;
  }
}
