/**
 * Python literals as `repr` writes them: strings, numbers, None, True, False, lists, tuples, dicts. Nothing is
 * ever evaluated. Knows no dtypes. @see FORMAT.md [FD.3]
 */
import { SuperchunkError } from "../errors.ts";
import type { JsonValue } from "./types.ts";

/** Most characters of a literal. */
const MAX_LENGTH = 1 << 20;
const MAX_DEPTH = 64;

const SPACE = /\s*/y;
const NUMBER = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[lL]?/y;
const WORD = /[A-Za-z_]\w*/y;
const ESCAPE = /\\(?:(x)([\da-fA-F]{2})|(u)([\da-fA-F]{4})|(U)([\da-fA-F]{8})|([0-7]{1,3})|([abfnrtv\\'"]))/y;
const LETTERS: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
const WORDS: ReadonlyMap<string, JsonValue> = new Map<string, JsonValue>([
  ["None", null],
  ["True", true],
  ["False", false],
]);

/** Parses a literal; tuples become lists. Throws `BAD_FIELD` if it is not one, `LIMIT` if it is too large or too deep. */
export function parsePythonLiteral(text: string, path: string): JsonValue {
  if (text.length > MAX_LENGTH) throw limit(path, `${MAX_LENGTH} characters`);
  const parser = new LiteralParser(text, path);
  return parser.parse();
}

class LiteralParser {
  readonly #text: string;
  readonly #path: string;
  #at = 0;

  constructor(text: string, path: string) {
    this.#text = text;
    this.#path = path;
  }

  parse(): JsonValue {
    const value = this.#value(0);
    this.#skip();
    if (this.#at < this.#text.length) throw this.#fault("the end");
    return value;
  }

  #value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) throw limit(this.#path, `${MAX_DEPTH} levels`);
    this.#skip();
    const next = this.#text[this.#at];
    if (next === "[") return this.#items("]", depth).items;
    if (next === "(") return this.#tuple(depth);
    if (next === "{") return this.#dict(depth);
    // Python 2 writes u'…' for text, Python 3 b'…' for bytes; both are read the same way.
    if (next === "'" || next === '"' || /^[uUbB]['"]/.test(this.#text.slice(this.#at, this.#at + 2)))
      return this.#string();
    const word = this.#match(WORD);
    if (word !== undefined) {
      const value = WORDS.get(word);
      if (value !== undefined) return value;
      this.#at -= word.length;
      throw this.#fault("a literal");
    }
    return this.#number();
  }

  #tuple(depth: number): JsonValue {
    const { items, comma } = this.#items(")", depth);
    // Parentheses without a comma only group.
    return items.length === 1 && !comma ? (items[0] ?? null) : items;
  }

  #items(close: string, depth: number): { items: JsonValue[]; comma: boolean } {
    const items: JsonValue[] = [];
    let comma = false;
    this.#at++;
    while (!this.#take(close)) {
      items.push(this.#value(depth + 1));
      if (this.#take(",")) comma = true;
      else if (!this.#isAt(close)) throw this.#fault(`"," or "${close}"`);
    }
    return { items, comma };
  }

  #dict(depth: number): JsonValue {
    const entries: [string, JsonValue][] = [];
    this.#at++;
    while (!this.#take("}")) {
      this.#skip();
      const key = this.#value(depth + 1);
      if (typeof key !== "string") throw this.#fault("a string before each colon");
      if (!this.#take(":")) throw this.#fault('":"');
      entries.push([key, this.#value(depth + 1)]);
      if (!this.#take(",") && !this.#isAt("}")) throw this.#fault('"," or "}"');
    }
    return Object.fromEntries(entries);
  }

  #string(): string {
    if (/[uUbB]/.test(this.#text[this.#at] ?? "")) this.#at++;
    const quote = this.#text[this.#at++];
    let value = "";
    for (;;) {
      const next = this.#text[this.#at];
      if (next === undefined || next === "\n") throw this.#fault(`the closing ${quote}`);
      if (next === quote) {
        this.#at++;
        return value;
      }
      if (next === "\\") value += this.#escape();
      else {
        value += next;
        this.#at++;
      }
    }
  }

  #escape(): string {
    ESCAPE.lastIndex = this.#at;
    const match = ESCAPE.exec(this.#text);
    if (match === null) throw this.#fault("an escape that Python has");
    const hex = match[2] ?? match[4] ?? match[6];
    const octal = match[7];
    const letter = match[8];
    const code =
      hex !== undefined ? Number.parseInt(hex, 16) : octal !== undefined ? Number.parseInt(octal, 8) : 0;
    if (code > 0x10ffff) throw this.#fault("a character that Unicode has");
    this.#at += match[0].length;
    return letter === undefined ? String.fromCodePoint(code) : (LETTERS[letter] ?? letter);
  }

  #number(): number | bigint {
    const text = this.#match(NUMBER);
    if (text === undefined) throw this.#fault("a literal");
    const digits = text.replace(/[lL]$/, "");
    const number = Number(digits);
    return Number.isSafeInteger(number) || !/^[+-]?\d+$/.test(digits)
      ? number
      : BigInt(digits.replace(/^\+/, ""));
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const text = pattern.exec(this.#text)?.[0];
    if (text !== undefined) this.#at += text.length;
    return text;
  }

  #skip(): void {
    this.#match(SPACE);
  }

  #isAt(token: string): boolean {
    this.#skip();
    return this.#text[this.#at] === token;
  }

  #take(token: string): boolean {
    if (!this.#isAt(token)) return false;
    this.#at++;
    return true;
  }

  #fault(expected: string): SuperchunkError {
    const found = JSON.stringify(this.#text.slice(this.#at, this.#at + 12));
    return new SuperchunkError(
      "BAD_FIELD",
      `the Python literal ${JSON.stringify(this.#text.slice(0, 40))} has ${found} at character ${this.#at}; expected ${expected}`,
      { path: this.#path, field: "dtype", expected, found },
    );
  }
}

function limit(path: string, most: string): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `the dtype is a Python literal of more than ${most}, which superchunk does not read`,
    { path, field: "dtype", expected: `at most ${most}` },
  );
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A string literal as Python's `repr` writes it. */
export function quotePython(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must be escaped
  const escaped = text.replace(/[\\'"\u0000-\u001f\u007f-\u00a0\u00ad]/g, (character) => {
    if (character === "'" || character === '"') return character === mark ? `\\${mark}` : character;
    return ESCAPES[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `${mark}${escaped}${mark}`;
}
