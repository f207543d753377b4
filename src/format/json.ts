/** JSON as Python's `json` module writes it: bare NaN and Infinity, integers of any size. Reads and writes. @see FORMAT.md [FJ] */
import { badArgument, SuperchunkError, valueOr } from "../errors.ts";
import { forgetFloat, isNotedFloat, JsonFloat, noteFloat } from "./json-float.ts";
import type { JsonInput, JsonObject, JsonValue } from "./types.ts";

/** Most bytes of a JSON document: the attributes of a bundle of 100,000 assets take 8 MB. [FJ-05] */
export const MAX_JSON_BYTES: number = 64 << 20;
/** Most values of a document, because a small text can need much memory. [FJ-05] */
const MAX_JSON_VALUES = 4_000_000;
/** Maximum depth of lists and objects. [FJ-05] */
export const MAX_JSON_DEPTH = 200;
/** Most digits of an integer, as in Python 3.11. [FJ-05] */
export const MAX_INTEGER_DIGITS = 4300;

/** Options of {@link parseJson}. */
export interface JsonReading {
  /**
   * Form of floats that are whole numbers (`1.0`): `plain` numbers (default); `kept` as {@link JsonFloat}, to be written again; `typed`:
   * kept too, and a float above the largest, which Python reads from a file as infinity, throws `LIMIT`.
   */
  readonly floats?: "plain" | "kept" | "typed";
  /** Most values of the document (default 4,000,000). */
  readonly mostValues?: number;
}

/**
 * Parses a document: text, or UTF-8 bytes with or without a byte order mark. `path` names it in messages. Integers beyond 2^53 become
 * bigint; the last of equal keys wins, as in Python. Throws `TRUNCATED` if the text ends too soon, `BAD_FIELD` if it is not JSON, `LIMIT`
 * if it is too large or too deep; `details.offset` is the byte.
 */
export function parseJson(
  source: string | Uint8Array,
  path: string,
  options?: JsonReading & { readonly floats?: "plain" },
): JsonValue;
export function parseJson(source: string | Uint8Array, path: string, options: JsonReading): JsonInput;
export function parseJson(source: string | Uint8Array, path: string, reading: JsonReading = {}): JsonInput {
  if (source.length > MAX_JSON_BYTES) throw limit(path, 0, "bytes", MAX_JSON_BYTES, source.length);
  const text = typeof source === "string" ? source : decodeText(source, path);
  return new JsonParser(text, path, reading).parse();
}

/** The value of a document, with floats `typed`; the text itself if it is not JSON. */
export function jsonOrText(text: string, path: string): JsonInput {
  return valueOr(text, "damage", () => parseJson(text, path, { floats: "typed" }));
}

function decodeText(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SuperchunkError(
      "BAD_FIELD",
      "the text is not UTF-8, so it is not JSON. The file is damaged; look for another copy",
      { path, field: "JSON", expected: "UTF-8", cause },
    );
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\p{Cc}]*/uy;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const WORDS: readonly (readonly [string, JsonValue])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
];

class JsonParser {
  readonly #text: string;
  readonly #path: string;
  readonly #floats: JsonReading["floats"];
  readonly #mostValues: number;
  #at = 0;
  #values = 0;
  #hasFloats = false;
  /** The first float above the largest. */
  #beyond: string | undefined;

  constructor(text: string, path: string, { floats = "plain", mostValues = MAX_JSON_VALUES }: JsonReading) {
    this.#text = text;
    this.#path = path;
    this.#floats = floats;
    this.#mostValues = mostValues;
  }

  parse(): JsonInput {
    const value = this.#value(0);
    this.#skip();
    if (this.#at < this.#text.length) throw this.#fault("the end of the text");
    // Thrown only now, so that a text that is not JSON gives the other error.
    if (this.#floats === "typed" && this.#beyond !== undefined)
      throw new SuperchunkError(
        "LIMIT",
        `${this.#beyond} is beyond the largest float, 1.7976931348623157e308. Give a smaller number, or the word Infinity`,
        { path: this.#path, field: "JSON", expected: "a float", found: this.#beyond },
      );
    return value instanceof JsonFloat && this.#floats === "plain" ? value.value : value;
  }

  #value(depth: number): JsonInput {
    this.#skip();
    if (++this.#values > this.#mostValues)
      throw limit(this.#path, this.#at, "values", this.#mostValues, "more");
    if (depth > MAX_JSON_DEPTH) throw limit(this.#path, this.#at, "levels", MAX_JSON_DEPTH, "more");
    const first = this.#text[this.#at];
    if (first === "{") return this.#object(depth);
    if (first === "[") return this.#list(depth);
    if (first === '"') return this.#string();
    for (const [word, value] of WORDS) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  #object(depth: number): JsonInput {
    const value: Record<string, JsonInput> = {};
    this.#at++;
    if (this.#take("}")) return value;
    do {
      this.#skip();
      if (this.#text[this.#at] !== '"') throw this.#fault("a name in double quotes");
      const key = this.#string();
      if (!this.#take(":")) throw this.#fault('":"');
      const member = this.#member(value, key, depth);
      // A plain assignment to this name would set the prototype.
      if (key === "__proto__") {
        Object.defineProperty(value, key, {
          value: member,
          enumerable: true,
          writable: true,
          configurable: true,
        });
      } else value[key] = member;
    } while (this.#take(","));
    if (!this.#take("}")) throw this.#fault('"," or "}"');
    return value;
  }

  #list(depth: number): JsonInput {
    const value: JsonInput[] = [];
    this.#at++;
    if (this.#take("]")) return value;
    do value.push(this.#member(value, value.length, depth));
    while (this.#take(","));
    if (!this.#take("]")) throw this.#fault('"," or "]"');
    return value;
  }

  /** A value that becomes a member of an object or list. */
  #member(container: object, name: string | number, depth: number): JsonInput {
    const member = this.#value(depth + 1);
    if (this.#floats !== "plain") return member;
    if (member instanceof JsonFloat) {
      this.#hasFloats = true;
      noteFloat(container, name, member.value);
      return member.value;
    }
    // Of members with the same name, the last one counts.
    if (this.#hasFloats) forgetFloat(container, name);
    return member;
  }

  #string(): string {
    let value = "";
    this.#at++;
    for (;;) {
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.#text)?.[0] ?? "";
      value += plain;
      this.#at += plain.length;
      const next = this.#text[this.#at];
      if (next === '"') {
        this.#at++;
        return value;
      }
      if (next === "\\") value += this.#escape();
      else if (next !== undefined && next >= "\u007f") {
        // DEL and the C1 controls may occur in strings unescaped.
        value += next;
        this.#at++;
      } else throw this.#fault("a character of a string, or its closing quote");
    }
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? "";
    const plain = ESCAPES[letter];
    if (plain !== undefined) {
      this.#at += 2;
      return plain;
    }
    const digits = letter === "u" ? this.#text.slice(this.#at + 2, this.#at + 6) : "";
    if (!/^[\da-fA-F]{4}$/.test(digits)) {
      if (this.#text.length < this.#at + (letter === "u" ? 6 : 2)) this.#at = this.#text.length;
      throw this.#fault("an escape that JSON has");
    }
    this.#at += 6;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  #number(): number | bigint | JsonFloat {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#text);
    if (match === null) {
      // The rest may be the start of a truncated word or number.
      const rest = this.#text.slice(this.#at);
      if (rest === "-" || WORDS.some(([word]) => word.startsWith(rest))) this.#at = this.#text.length;
      throw this.#fault("a value");
    }
    const [text, fraction, exponent] = match;
    if (fraction === undefined && exponent === undefined) {
      if (text.length > MAX_INTEGER_DIGITS)
        throw limit(this.#path, this.#at, "digits", MAX_INTEGER_DIGITS, text.length);
      this.#at += text.length;
      const number = Number(text) + 0; // Python's -0 is the integer 0
      return Number.isSafeInteger(number) ? number : BigInt(text);
    }
    this.#at += text.length;
    const float = Number(text);
    if (!Number.isFinite(float)) this.#beyond ??= text;
    return Number.isInteger(float) ? new JsonFloat(float) : float;
  }

  #skip(): void {
    SPACE.lastIndex = this.#at;
    this.#at += SPACE.exec(this.#text)?.[0].length ?? 0;
  }

  /** Skips white space and `token`, if that comes next. */
  #take(token: string): boolean {
    this.#skip();
    if (this.#text[this.#at] !== token) return false;
    this.#at++;
    return true;
  }

  #fault(expected: string): SuperchunkError {
    const offset = new TextEncoder().encode(this.#text.slice(0, this.#at)).length;
    const ended = this.#at >= this.#text.length;
    const found = ended ? "the end" : JSON.stringify(this.#text.slice(this.#at, this.#at + 12));
    const advice = ended
      ? "The file is truncated; look for a complete copy"
      : "The file is damaged; look for another copy";
    return new SuperchunkError(
      ended ? "TRUNCATED" : "BAD_FIELD",
      `not JSON at byte ${offset}: expected ${expected}, found ${found}. ${advice}`,
      { path: this.#path, offset, field: "JSON", expected, found },
    );
  }
}

function limit(
  path: string,
  offset: number,
  what: string,
  expected: number,
  found: unknown,
): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `the JSON text has more than ${expected} ${what}, which superchunk does not read`,
    { path, offset, field: "JSON", expected: `at most ${expected} ${what}`, found },
  );
}

// Writes JSON: strictly, or byte for byte like Python's `json.dumps`. @see FORMAT.md [FJ]

/** Style of {@link stringifyJson}. */
interface JsonStyle {
  /** Spaces for each level, with each member on its own line; absent: one line. */
  readonly indent?: number;
  /** Like Python's `json.dumps`: `, ` and `: `, ASCII with escapes, bare NaN and Infinity. */
  readonly python?: boolean;
  /** Bare NaN and Infinity, for documents that other programs wrote. Python's style has them too. */
  readonly bare?: boolean;
  /** No space after `,` and `:` in Python's style, as bloscpack requests it. */
  readonly compact?: boolean;
}

/**
 * Formats a value as JSON text. bigint is written as digits. {@link JsonFloat}, and floats of objects that were parsed, are never written
 * as integers. Strict JSON has no NaN and infinities: they become the strings "NaN", "Infinity", "-Infinity".
 */
export function stringifyJson(value: JsonInput, style: JsonStyle = {}): string {
  const parts: string[] = [];
  write(value, style, "\n", parts);
  return parts.join("");
}

/** {@link stringifyJson} in UTF-8. */
export function jsonBytes(value: JsonInput, style?: JsonStyle): Uint8Array {
  return new TextEncoder().encode(stringifyJson(value, style));
}

function write(value: JsonInput, style: JsonStyle, line: string, parts: string[]): void {
  if (value instanceof JsonFloat) parts.push(writeFloat(value.value, style));
  else if (typeof value === "object" && value !== null) writeMembers(value, style, line, parts);
  else parts.push(writeScalar(value, style));
}

/** The name of an object that JSON does not have, such as a Date or a typed array. */
const FOREIGN = /^\[object (?!Object|Array)(\w+)\]$/;

function writeMembers(
  value: readonly JsonInput[] | { readonly [key: string]: JsonInput },
  style: JsonStyle,
  line: string,
  parts: string[],
): void {
  const list = Array.isArray(value);
  const [, foreign] = FOREIGN.exec(Object.prototype.toString.call(value)) ?? [];
  if (foreign !== undefined) throw notJson(`a ${foreign}`);
  const members = list
    ? value
    : Object.entries(value as { readonly [key: string]: JsonInput }).filter(
        ([, member]) => member !== undefined,
      );
  const [open, close] = list ? ["[", "]"] : ["{", "}"];
  if (members.length === 0) {
    parts.push(open, close);
    return;
  }
  const spaced = style.python === true && style.compact !== true;
  const inner = style.indent === undefined ? "" : line + " ".repeat(style.indent);
  const comma = style.indent !== undefined ? `,${inner}` : spaced ? ", " : ",";
  const colon = style.indent !== undefined || spaced ? ": " : ":";
  parts.push(open, inner);
  members.forEach((each, i) => {
    if (i > 0) parts.push(comma);
    const [name, member] = list ? [i, each] : each;
    if (!list) parts.push(quote(each[0], style), colon);
    if (isNotedFloat(value, name, member)) parts.push(writeFloat(Number(member), style));
    else write(member, style, inner, parts);
  });
  parts.push(style.indent === undefined ? "" : line, close);
}

function writeScalar(value: unknown, style: JsonStyle): string {
  if (typeof value === "string") return quote(value, style);
  if (typeof value === "function" || typeof value === "symbol" || value === undefined)
    throw notJson(typeof value);
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value))
    return style.python === true || style.bare === true ? String(value) : `"${value}"`;
  return style.python === true ? pythonNumber(value) : Object.is(value, -0) ? "-0.0" : String(value);
}

function notJson(found: string): SuperchunkError {
  return badArgument(
    "a value for JSON",
    found,
    "null, a boolean, a number, a bigint, a string, a list or a plain object",
  );
}

function writeFloat(value: number, style: JsonStyle): string {
  const text = writeScalar(value, style);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

/** A float in the form of Python's repr. Exact integers are written as integers. */
function pythonNumber(value: number): string {
  if (Object.is(value, -0)) return "-0.0";
  if (Number.isSafeInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e16) return Number.isInteger(value) ? `${value}.0` : String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

function quote(text: string, style: JsonStyle): string {
  const quoted = JSON.stringify(text);
  if (style.python !== true) return quoted;
  return quoted.replace(/[\u007f-\uffff]/g, (unit) =>
    unit === "\u007f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

// Splits a JSON object into the texts of its members, so that one can be changed while the others stay as written: a parsed
// number does not distinguish `1` from `1.0`, but Python does. @see FORMAT.md [FJ-08]

/**
 * Names and texts of the members, in order; of members with the same name, the last. Empty bytes have none. Throws only errors
 * of `parseJson`.
 */
export function splitMembers(bytes: Uint8Array, path: string): Map<string, string> {
  const members = new Map<string, string>();
  if (bytes.length === 0) return members;
  parseJson(bytes, path); // from here on, the text is valid
  const text = new TextDecoder().decode(bytes).trim();
  let start = 1;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    else if (character !== "," || depth !== 1) continue;
    if (depth > 1 || (depth === 1 && character !== ",")) continue;
    addMember(members, text.slice(start, at));
    start = at + 1;
  }
  return members;
}

/** The object with these members, with separators like Python's `json.dumps`. */
export function joinMembers(members: ReadonlyMap<string, string>): string {
  const parts = Array.from(members, ([name, text]) => `${stringifyJson(name, { python: true })}: ${text}`);
  return `{${parts.join(", ")}}`;
}

/** A value as Python's `json.dumps` writes it. */
export function memberText(value: JsonInput): string {
  return stringifyJson(value, { python: true });
}

function addMember(members: Map<string, string>, text: string): void {
  const member = text.trim();
  if (member === "") return;
  const end = endOfString(member, 0) + 1;
  const name = parseJson(member.slice(0, end), "name") as string;
  members.set(name, member.slice(member.indexOf(":", end) + 1).trim());
}

/** End of the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end;
}

/** The error for a member of a metadata file that is not as `expected`. */
export function badStored(
  path: string,
  field: string,
  expected: string,
  found: JsonValue | undefined,
): SuperchunkError {
  const text = found === undefined ? "missing" : stringifyJson(found).slice(0, 80);
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} is ${text}; expected ${expected}. The metadata are damaged; run "superchunk repair", or look for another copy`,
    { path, field, expected, found },
  );
}

/** True for an object that is not a list. */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value if it is an object, else an empty object. */
export function objectOf(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {};
}
