/** Parses conditions of `--where`: `close > 100`, `day between 2015-01-01 and 2015-12-31`, `name in ('a', b)`, `time is null`. */
import { isUtf8 } from "node:buffer";
import { InvalidArgumentError } from "commander";
import type { DType, FilterCondition, FilterValue, SuperchunkError } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";
import { utf8InLatin } from "../values/cell-text.ts";

/** A value as it was typed. */
interface Literal {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** A parsed condition. The column decides the type of its values. */
export interface Where {
  readonly column: string;
  readonly operator: keyof FilterCondition;
  /** Empty for `null`. */
  readonly values: readonly Literal[];
  /** For `null`: whether it asks for null or for all else. */
  readonly isNull: boolean;
  /** As it was typed. */
  readonly text: string;
}

const COMPARISONS: Readonly<Record<string, keyof FilterCondition>> = {
  ">": "gt",
  ">=": "gte",
  "<": "lt",
  "<=": "lte",
  "=": "eq",
  "==": "eq",
  "!=": "ne",
  "<>": "ne",
};

const TOKEN = /\s*(?:("(?:[^"]|"")*"|'(?:[^']|'')*')|(>=|<=|<>|==|!=|[<>=(),])|([^\s"'<>=!(),]+))/y;
const EXPECTED =
  'expected for example "close > 100", "day between 2015-01-01 and 2015-12-31", "code in (A, B)", "time is not null"; a name with spaces needs quotes';

type Token = Literal & { readonly isSign: boolean };

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const end = text.trimEnd().length;
  for (let at = 0; at < end; ) {
    TOKEN.lastIndex = at;
    const [all, quoted, sign, bare] = TOKEN.exec(text) ?? [];
    if (all === undefined)
      throw new InvalidArgumentError(`unexpected ${JSON.stringify(text.slice(at).trim())}; ${EXPECTED}`);
    at += all.length;
    const mark = quoted?.[0] ?? "";
    const content = quoted?.slice(1, -1).replaceAll(mark + mark, mark);
    tokens.push({
      text: content ?? sign ?? bare ?? "",
      isQuoted: quoted !== undefined,
      isSign: sign !== undefined,
    });
  }
  return tokens;
}

/** Parses one condition. Throws commander's `InvalidArgumentError`. */
export function parseWhere(text: string): Where {
  const [name, ...rest] = tokensOf(text);
  if (name === undefined) throw new InvalidArgumentError(`the condition is empty; ${EXPECTED}`);
  if (name.isSign) throw new InvalidArgumentError(`it does not begin with a column; ${EXPECTED}`);
  const made = (operator: keyof FilterCondition, values: readonly Literal[], isNull = false): Where => ({
    column: name.text,
    operator,
    values,
    isNull,
    text,
  });
  const wordAt = (i: number): string | undefined => {
    const token = rest[i];
    return token === undefined || token.isSign || token.isQuoted ? undefined : token.text.toLowerCase();
  };
  const valueAt = (i: number): Literal => {
    const token = rest[i];
    if (token === undefined) throw new InvalidArgumentError(`a value is missing at its end; ${EXPECTED}`);
    if (token.isSign) throw new InvalidArgumentError(`"${token.text}" is not a value; ${EXPECTED}`);
    return token;
  };
  const endAt = (i: number): void => {
    const token = rest[i];
    if (token === undefined) return;
    const advice =
      wordAt(i) === "or"
        ? "all conditions must match: for one of several values, there is in (A, B), and for more SQL"
        : "give each condition its own --where";
    throw new InvalidArgumentError(`unexpected ${JSON.stringify(token.text)} after the condition; ${advice}`);
  };
  const comparison = rest[0]?.isSign === true ? COMPARISONS[rest[0].text] : undefined;
  if (comparison !== undefined) {
    endAt(2);
    return made(comparison, [valueAt(1)]);
  }
  const isNot = wordAt(0) === "not" || (wordAt(0) === "is" && wordAt(1) === "not");
  if (wordAt(0) === "is") {
    const at = isNot ? 2 : 1;
    if (!["null", "nan", "nat"].includes(wordAt(at) ?? ""))
      throw new InvalidArgumentError(`after "is" comes null, or not null; ${EXPECTED}`);
    endAt(at + 1);
    return made("null", [], !isNot);
  }
  if (wordAt(0) === "between") {
    const [first, last] = [valueAt(1), valueAt(3)];
    if (wordAt(2) !== "and")
      throw new InvalidArgumentError(`"and" is missing between the two values; ${EXPECTED}`);
    endAt(4);
    return made("between", [first, last]);
  }
  const list = isNot ? 1 : 0;
  if (wordAt(list) === "in") return made(isNot ? "nin" : "in", listAt(rest, list + 1, valueAt));
  throw new InvalidArgumentError(`a comparison is missing after the column "${name.text}"; ${EXPECTED}`);
}

/** The values of `(a, b)`, which ends the condition. */
function listAt(tokens: readonly Token[], first: number, valueAt: (i: number) => Literal): Literal[] {
  const isSign = (i: number, sign: string): boolean => tokens[i]?.isSign === true && tokens[i].text === sign;
  const last = tokens.length - 1;
  if (!isSign(first, "(") || !isSign(last, ")") || last < first + 2)
    throw new InvalidArgumentError(`after "in" come values in parentheses; ${EXPECTED}`);
  const values: Literal[] = [];
  for (let at = first + 1; at < last; at += 2) {
    values.push(valueAt(at));
    if (at + 1 < last && !isSign(at + 1, ","))
      throw new InvalidArgumentError(`a comma is missing after "${valueAt(at).text}"; ${EXPECTED}`);
    if (at + 2 === last)
      throw new InvalidArgumentError(`a value is missing after the last comma; ${EXPECTED}`);
  }
  return values;
}

/** The condition for a column of a dtype. Throws `BAD_ARGUMENT` for values of another kind. */
export function conditionOf({ operator, values, isNull, text }: Where, dtype: DType): FilterCondition {
  const [first, last] = values.map((literal) => typedValue(literal, dtype, text));
  if (operator === "null") return { null: isNull };
  const set = ({ eq: "in", in: "in", ne: "nin", nin: "nin" } as const)[operator as string];
  const members = values.flatMap((literal) => formsOf(literal, dtype, text));
  if (set !== undefined && (members.length !== 1 || set === operator)) return { [set]: members };
  if (operator === "between" && first !== undefined && last !== undefined)
    return first instanceof Fraction || last instanceof Fraction
      ? { ...compared("gte", first), ...compared("lte", last) }
      : { between: [first, last] };
  return compared(operator, first);
}

/** A number between two integers, in a condition for integers: the integer below it. */
class Fraction {
  readonly below: number | bigint;

  constructor(below: number | bigint) {
    this.below = below;
  }
}

function compared(
  operator: keyof FilterCondition,
  value: FilterValue | Fraction | undefined,
): FilterCondition {
  if (!(value instanceof Fraction)) return { [operator]: value };
  return operator.startsWith("g") ? { gt: value.below } : { lte: value.below };
}

/** The values that `cat` prints as a literal: of `S`, also its Latin-1 bytes, if these are not valid UTF-8. No integer prints as a fraction. */
function formsOf(literal: Literal, dtype: DType, condition: string): FilterValue[] {
  const value = typedValue(literal, dtype, condition);
  const bytes = Buffer.from(literal.text, "latin1");
  const isForm = dtype.kind === "bytes" && bytes.toString("latin1") === literal.text && !isUtf8(bytes);
  return [...(value instanceof Fraction ? [] : [value]), ...(isForm ? [literal.text] : [])];
}

const NUMBER = /^[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?)$/i;

function typedValue({ text, isQuoted }: Literal, dtype: DType, condition: string): FilterValue | Fraction {
  switch (dtype.kind) {
    case "bytes":
      return utf8InLatin(text);
    case "unicode":
      return text;
    case "bool":
      if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === "true";
      throw badValue(condition, text, "true or false", "booleans");
    case "datetime":
      if (/^nat$/i.test(text)) throw badValue(condition, text, "a date", "dates");
      return !isQuoted && /^[+-]?\d{7,}$/.test(text) ? BigInt(text) : text;
    default:
  }
  // zipline's days are numbers that can be given as dates.
  if (/^\d{4}-\d\d/.test(text)) return text;
  if (isQuoted || !NUMBER.test(text)) throw badValue(condition, text, "a number", "numbers");
  if (/inf/i.test(text)) return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const value = Number(text);
  // Floats are printed with rounded digits. Other integers that no float has are refused where they are compared.
  const isRounded = String(value) === text || !/^[+-]?\d+$/.test(text);
  return dtype.kind === "float" && isRounded ? value : exactValue(text);
}

/** The exact value of a decimal number, which a double may not have: an integer, or the fraction above one. */
function exactValue(text: string): number | bigint | Fraction {
  const [, sign, whole = "", fraction = "", exponent = "0"] =
    /^([+-]?)(\d*)\.?(\d*)(?:e(.+))?$/i.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const point = digits.length - fraction.length + Number(exponent);
  if (digits === "" || !Number.isFinite(Number(text))) return Number(text);
  const rest = digits.slice(Math.max(0, point));
  const integer = BigInt(digits.slice(0, Math.max(0, point)).padEnd(point, "0"));
  const isFraction = /[1-9]/.test(rest);
  const below = sign === "-" ? -integer - (isFraction ? 1n : 0n) : integer;
  const value = Number.isSafeInteger(Number(below)) ? Number(below) : below;
  return isFraction ? new Fraction(value) : value;
}

function badValue(condition: string, found: string, expected: string, held: string): SuperchunkError {
  const advice = /^na[nt]$/i.test(found) ? '; to find NaN or NaT, use "is null"' : "";
  const message = `--where ${JSON.stringify(condition)}: ${JSON.stringify(found)} is not ${expected}, but the column holds ${held}${advice}`;
  return wrongUse("where", message, { expected, found });
}
