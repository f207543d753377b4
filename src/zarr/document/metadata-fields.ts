/**
 * Typed access to the members of a metadata document, with errors that name them.
 *
 * Knows JSON; must not know what the members mean.
 */

import { SuperchunkError } from "../../errors.ts";
import { isObject } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";

/** The place of a member, so that an error can name it. */
export interface FieldPlace {
  /** Name of the document in messages. */
  readonly path: string;
  /** Dotted name of the member, from the document's root. */
  readonly field: string;
  /** What an error advises (default: that the metadata are damaged, or not Zarr's). */
  readonly advice?: string;
}

export function badMember(place: FieldPlace, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${place.field} is ${showJson(found)}, but must be ${expected}. ${place.advice ?? "The metadata are damaged, or not Zarr's"}`,
    { path: place.path, field: place.field, expected, found },
  );
}

/** The error for a member that is well-formed but not supported. */
export function unsupportedMember(place: FieldPlace, reason: string, found: unknown): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", `${place.field} ${reason}`, {
    path: place.path,
    field: place.field,
    found,
  });
}

/** The place of a member of a member. */
export function below(place: FieldPlace, name: string): FieldPlace {
  return { ...place, field: place.field === "" ? name : `${place.field}.${name}` };
}

/** The value as an object. Throws `BAD_FIELD`. */
export function asObject(value: JsonValue | undefined, place: FieldPlace): JsonObject {
  if (isObject(value)) return value;
  throw badMember(place, "an object", value);
}

/** The value as a list. Throws `BAD_FIELD`. */
export function asList(value: JsonValue | undefined, place: FieldPlace): readonly JsonValue[] {
  if (Array.isArray(value)) return value as readonly JsonValue[];
  throw badMember(place, "a list", value);
}

/** The value as text. Throws `BAD_FIELD`. */
export function asText(value: JsonValue | undefined, place: FieldPlace): string {
  if (typeof value === "string") return value;
  throw badMember(place, "a string", value);
}

/** The value as an integer of at least `least`. Throws `BAD_FIELD`. */
export function asInteger(value: JsonValue | undefined, least: number, place: FieldPlace): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
  throw badMember(place, `an integer of at least ${least}`, value);
}

/** The value as a list of integers of at least `least`, of the given length. Throws `BAD_FIELD`. */
export function asIntegers(
  value: JsonValue | undefined,
  least: number,
  place: FieldPlace,
  length?: number,
): number[] {
  const list = asList(value, place);
  if (length !== undefined && list.length !== length)
    throw badMember(place, `a list of ${length}, one for each dimension`, value);
  return list.map((entry, i) => asInteger(entry, least, below(place, String(i))));
}

/** A name with its configuration, as Zarr v3 writes extensions: an object, or the bare name. Throws `BAD_FIELD`. */
export function asExtension(
  value: JsonValue | undefined,
  place: FieldPlace,
): { readonly name: string; readonly configuration: JsonObject } {
  if (typeof value === "string") return { name: value, configuration: {} };
  const object = asObject(value, place);
  const name = asText(object["name"], below(place, "name"));
  const given = object["configuration"];
  return { name, configuration: given === undefined ? {} : asObject(given, below(place, "configuration")) };
}

/** A value as short text for a message. */
export function showJson(value: unknown): string {
  if (value === undefined) return "missing";
  const text = JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each));
  return text !== undefined && text.length > 120 ? `${text.slice(0, 117)}...` : String(text);
}
