/** numpy dtypes as archives spell them: names, type strings, Python reprs, JSON lists. @see FORMAT.md [FD] */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { badDType, parseScalarDType } from "./dtype-scalar.ts";
import {
  type FieldBudget,
  isFieldList,
  MAX_DTYPE_DEPTH,
  MAX_FIELDS,
  parseFieldDict,
  parseFieldList,
  takeFields,
} from "./dtype-struct.ts";
import { parsePythonLiteral } from "./python-literal.ts";
import type { DType, JsonObject, JsonValue } from "./types.ts";

export { formatDType, pythonDType } from "./dtype-text.ts";

/**
 * Parses a dtype as stored in metadata: a string (`float64`, `<f8`, `'<f8'` in Python's quotes, the repr of a
 * list of fields or of a dict) or JSON (nested lists, a dict). A type string without a byte order is little-endian.
 * Throws `BAD_FIELD` for what cannot be a dtype, `UNSUPPORTED` for a dtype that is not known here, `LIMIT` for
 * one that is too deep or has too many fields.
 */
export function parseDType(stored: JsonValue, path: string): DType {
  return parseNested(stored, path, 0, { left: MAX_FIELDS });
}

/** A dtype that a caller gives: parsed, or as numpy spells it. Throws `BAD_ARGUMENT`, `UNSUPPORTED`, `LIMIT`. */
export function givenDType(given: JsonValue | DType): DType {
  if (typeof given === "object" && given !== null && "kind" in given && "itemSize" in given)
    return given as DType;
  try {
    return parseDType(given as JsonValue, "dtype");
  } catch (error) {
    if (!isSuperchunkError(error, "BAD_FIELD")) throw error;
    throw new SuperchunkError("BAD_ARGUMENT", error.summary, { ...error.details, path: "dtype" });
  }
}

function parseNested(stored: JsonValue, path: string, depth: number, budget: FieldBudget): DType {
  if (depth > MAX_DTYPE_DEPTH) {
    throw new SuperchunkError(
      "LIMIT",
      `the dtype has more than ${MAX_DTYPE_DEPTH} levels, which superchunk does not read`,
      {
        path,
        field: "dtype",
        expected: `at most ${MAX_DTYPE_DEPTH} levels`,
      },
    );
  }
  const nested = (value: JsonValue): DType => parseNested(value, path, depth + 1, budget);
  if (typeof stored === "string") {
    const text = stored.trim();
    const literal = /^dtype\((.*?)(?:,\s*align=(?:True|False))?\)$/s.exec(text)?.[1] ?? text;
    if (literal !== text || /^(?:[uUbB]?['"]|[[({])/.test(text))
      return nested(parsePythonLiteral(literal, path));
    return parseScalarDType(text, path);
  }
  if (isFieldList(stored)) {
    takeFields(budget, stored.length, path);
    return parseFieldList(stored, path, nested);
  }
  if (typeof stored === "object" && stored !== null && !Array.isArray(stored)) {
    const dict = stored as JsonObject;
    takeFields(budget, Array.isArray(dict["names"]) ? dict["names"].length : 0, path);
    return parseFieldDict(dict, path, nested);
  }
  if (Array.isArray(stored)) {
    throw new SuperchunkError("UNSUPPORTED", "the dtype is a sub-array by itself, which numpy never stores", {
      path,
      field: "dtype",
      found: stored,
    });
  }
  throw badDType(stored, path, "a string, a list of fields or a dict");
}
