/** Attributes and values as they are typed. Knows text only. */
import { InvalidArgumentError } from "commander";
import { SuperchunkError } from "../src/errors.ts";
import { parseJson } from "../src/format/json.ts";
import type { JsonValue } from "../src/format/types.ts";

/** An attribute as typed. */
export type Attribute = readonly [name: string, value: JsonValue];

/** Adds `NAME=JSON` to those before. Throws commander's `InvalidArgumentError`. */
export function collectAttribute(text: string, before: readonly Attribute[] = []): readonly Attribute[] {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected NAME=JSON, such as scale=0.01.");
  return [...before, [text.slice(0, at), parseValue(text.slice(at + 1))]];
}

/** A value as JSON; what is no JSON is text. */
export function parseValue(text: string): JsonValue {
  try {
    return parseJson(text, "value");
  } catch (error) {
    if (error instanceof SuperchunkError && error.isDamage) return text;
    throw error;
  }
}
