/** Attributes and values as they are typed. Knows text only. */
import { InvalidArgumentError } from "commander";
import { SuperchunkError } from "../src/errors.ts";
import { parseJson, parseJsonInput } from "../src/format/json.ts";
import type { JsonInput, JsonValue } from "../src/format/types.ts";

/** An attribute as typed: `1.0` stays a float. */
export type Attribute = readonly [name: string, value: JsonInput];

/** Adds `NAME=JSON` to those before. Throws commander's `InvalidArgumentError`. */
export function collectAttribute(text: string, before: readonly Attribute[] = []): readonly Attribute[] {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected NAME=JSON, such as scale=0.01.");
  return [...before, [text.slice(0, at), orText(parseJsonInput, text.slice(at + 1))]];
}

/** A value as JSON; what is no JSON is text. */
export function parseValue(text: string): JsonValue {
  return orText(parseJson, text);
}

function orText<T>(parse: (text: string, path: string) => T, text: string): T | string {
  try {
    return parse(text, "value");
  } catch (error) {
    if (error instanceof SuperchunkError && error.isDamage) return text;
    throw error;
  }
}
