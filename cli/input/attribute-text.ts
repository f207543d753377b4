/** Parses typed attributes and values. Knows text only. */

import { InvalidArgumentError } from "commander";
import { isSuperchunkError, type JsonInput, type JsonValue, parseJson } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";

/** An attribute as typed: `1.0` stays a float. */
export type Attribute = readonly [name: string, value: JsonInput];

/** Adds a typed `NAME=JSON`. Throws commander's `InvalidArgumentError`. */
export function collectAttribute(text: string, before: readonly Attribute[] = []): readonly Attribute[] {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Expected NAME=JSON, such as scale=0.01.");
  return [...before, [text.slice(0, at), orText(text.slice(at + 1), text.slice(0, at))]];
}

/** A JSON value; other text is taken as a string. Throws `BAD_ARGUMENT` for a float beyond the largest. */
export function parseValue(text: string): JsonValue {
  const value = orText(text, "value");
  return typeof value === "string" ? value : parseJson(text, "value");
}

function orText(text: string, field: string): JsonInput {
  try {
    return parseJson(text, field, { floats: "typed" });
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    if (error.isDamage) return text;
    throw wrongUse(field, error.summary, { cause: error });
  }
}
