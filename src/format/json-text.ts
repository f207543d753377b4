/** Writes JSON: strictly, or byte for byte as Python's `json.dumps` does. @see FORMAT.md [FJ] */
import { isNotedFloat, JsonFloat } from "./json-float.ts";
import type { JsonInput } from "./types.ts";

/** How {@link stringifyJson} writes. */
export interface JsonStyle {
  /** Spaces for each level, members on lines of their own; absent: one line. */
  readonly indent?: number;
  /** As Python's `json.dumps`: `, ` and `: `, ASCII with escapes, bare NaN and Infinity. */
  readonly python?: boolean;
  /** No space behind `,` and `:` in Python's style, as bloscpack asks for it. */
  readonly compact?: boolean;
}

/**
 * A value as text. bigint is written as digits; {@link JsonFloat}, and what stood as a float where the object that it is in
 * was parsed, never as an integer. Strict JSON has no NaN and infinities: they become the strings "NaN", "Infinity",
 * "-Infinity".
 */
export function stringifyJson(value: JsonInput, style: JsonStyle = {}): string {
  const parts: string[] = [];
  write(value, style, "\n", parts);
  return parts.join("");
}

function write(value: JsonInput, style: JsonStyle, line: string, parts: string[]): void {
  if (value instanceof JsonFloat) parts.push(writeFloat(value.value, style));
  else if (typeof value === "object" && value !== null) writeMembers(value, style, line, parts);
  else parts.push(writeScalar(value, style));
}

function writeMembers(
  value: readonly JsonInput[] | { readonly [key: string]: JsonInput },
  style: JsonStyle,
  line: string,
  parts: string[],
): void {
  const list = Array.isArray(value);
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

function writeScalar(value: null | boolean | number | bigint | string, style: JsonStyle): string {
  if (typeof value === "string") return quote(value, style);
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return style.python === true ? String(value) : `"${value}"`;
  return style.python === true ? pythonNumber(value) : Object.is(value, -0) ? "-0.0" : String(value);
}

function writeFloat(value: number, style: JsonStyle): string {
  const text = writeScalar(value, style);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

/** A float as Python's repr has it. Whole numbers that are exact integers are written as integers. */
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
