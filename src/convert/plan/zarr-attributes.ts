/**
 * Attributes and dimension names of a Zarr array: those of the archive, and what we add to them.
 *
 * What an archive stores always wins over what we would add. Must not know chunks or stores.
 */

import { SuperchunkError } from "../../errors.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { ZarrType } from "../../zarr/document/zarr-dtype.ts";
import type { SourceArray } from "../sources/source-array.ts";

/** The attribute in which we say what Zarr's metadata cannot: numpy's dtype, a column's stored name. */
const OWN_ATTRIBUTE = "superchunk";
/** Where xarray keeps dimension names of Zarr v2 arrays; Zarr v3 has a member for them. */
const STORED_DIMENSIONS = "_ARRAY_DIMENSIONS";

type Names = readonly (string | null)[];

/** What {@link describeValues} returns. */
export interface ValueDescription {
  readonly attributes: JsonObject;
  readonly dimensionNames: Names | undefined;
  readonly notes: readonly string[];
}

/** Attributes and dimension names of an array. Throws `BAD_ARGUMENT` for a wrong number of `given` names. */
export function describeValues(
  source: Pick<SourceArray, "attrs" | "shape"> & {
    readonly archive: Pick<SourceArray["archive"], "store" | "path">;
  },
  type: ZarrType,
  given: Names | undefined,
  originalName: string | undefined,
): ValueDescription {
  const { attrs, shape, archive } = source;
  if (given !== undefined && given.length !== shape.length) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `dimensionNames has ${given.length} names for ${shape.length} dimensions`,
      {
        path: archive.store.describe(archive.path),
        field: "dimensionNames",
        expected: shape.length,
        found: given.length,
      },
    );
  }
  const stored = storedNames(attrs, shape.length);
  const names = given ?? stored;
  const own: JsonObject = {
    ...(type.original === undefined ? {} : { dtype: type.original }),
    ...(originalName === undefined ? {} : { name: originalName }),
  };
  const { attributes, notes } = addAttributes(attrs, {
    ...type.attributes,
    ...(Object.keys(own).length > 0 ? { [OWN_ATTRIBUTE]: own } : {}),
  });
  if (stored !== undefined) delete attributes[STORED_DIMENSIONS];
  return { attributes, dimensionNames: names && [...names, ...type.itemShape.map(() => null)], notes };
}

/** The archive's attributes with ours beside them; notes say which of ours had to give way. */
export function addAttributes(
  attrs: JsonObject,
  added: JsonObject,
): { attributes: Record<string, JsonValue>; notes: string[] } {
  const notes = Object.keys(added)
    .filter((name) => Object.hasOwn(attrs, name))
    .map(
      (name) =>
        `the archive's own attribute "${name}" is kept in place of the one that the conversion would add`,
    );
  return {
    attributes: keepFloats({ ...added, ...attrs }, attrs),
    notes: [...notes, ...notesOnAttributes(attrs)],
  };
}

/** Python writes NaN and infinities bare, which JSON does not have: strict readers of Zarr would refuse the whole document. */
export function notesOnAttributes(attrs: JsonObject): readonly string[] {
  return Object.entries(attrs).flatMap(([name, value]) => {
    const found = findNonFinite(value);
    return found === undefined
      ? []
      : [
          `the attribute "${name}" holds ${found}, which JSON has no number for; it becomes the string "${found}"`,
        ];
  });
}

function findNonFinite(value: JsonValue): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : value;
  if (typeof value !== "object" || value === null) return undefined;
  for (const member of Object.values(value) as readonly JsonValue[]) {
    const found = findNonFinite(member);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The names that xarray keeps in an attribute, where the format has no place for them. */
export function storedNames(attributes: JsonObject, dimensions: number): Names | undefined {
  const value = attributes[STORED_DIMENSIONS];
  if (!Array.isArray(value) || value.length !== dimensions) return undefined;
  return value.every((name) => name === null || typeof name === "string") ? (value as Names) : undefined;
}
