/** Dtypes as callers name them. */
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { formatDType, NAMES, parseDType, safeText } from "./dtype.ts";
import type { DType, JsonValue } from "./types.ts";

/** numpy's other names, if they mean the same on every machine; `int` and `long` do not. */
const ALIASES = new Map<unknown, string>([
  ["half", "<f2"],
  ["single", "<f4"],
  ["double", "<f8"],
]);

/** Throws `BAD_ARGUMENT` if a dtype is not the requested one, ignoring byte order. */
export function checkDType(dtype: DType, asked: string, path: string): void {
  const wanted = givenDType(asked, path);
  const unitOf = (type: DType): string | undefined => ("unit" in type ? type.unit : undefined);
  const isSame = wanted.kind === dtype.kind && wanted.itemSize === dtype.itemSize;
  if (isSame && unitOf(wanted) === unitOf(dtype)) return;
  const found = formatDType(dtype);
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the array has the dtype ${typeof found === "string" ? found : "of a struct"}, not ${asked}`,
    { path, field: "dtype", expected: asked, found },
  );
}

/** A dtype from a caller: parsed, or in numpy's form. Throws `BAD_ARGUMENT`, `UNSUPPORTED`, `LIMIT`. */
export function givenDType(given: JsonValue | DType | undefined, path = "dtype"): DType {
  if (given === undefined) throw badArgument("dtype", given, 'a dtype, such as "<f8"');
  // A program without types may pass a class, such as Float64Array.
  if (typeof given === "function")
    throw badArgument("dtype", "a function", 'the name of a dtype, such as "float64"');
  if (typeof given === "object" && given !== null && "kind" in given && "itemSize" in given)
    return given as DType;
  try {
    return parseDType(withoutAliases(given), path);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    const { found, expected } = error.details;
    const near = error.code === "UNSUPPORTED" ? nearTypes(found) : "";
    if (near !== "")
      throw new SuperchunkError(error.code, `${error.summary}; did you mean ${near}?`, error.details);
    if (error.code !== "BAD_FIELD") throw error;
    throw badArgument("dtype", safeText(found).slice(0, 80), `${expected}`).at(
      path === "dtype" ? {} : { path },
    );
  }
}

/** The same dtype without other names, alone and as those of fields. */
function withoutAliases(given: JsonValue): JsonValue {
  const isFields = Array.isArray(given) && given.every((field) => Array.isArray(field) && field.length > 1);
  if (!isFields) return ALIASES.get(given) ?? given;
  return (given as JsonValue[][]).map(([name = "", type = "", ...shape]) => [
    name,
    withoutAliases(type),
    ...shape,
  ]);
}

/** What is meant by names of other languages and formats, such as those of TypeScript, Arrow and SQL. */
const ELSEWHERE: readonly (readonly [RegExp, string])[] = [
  [/utf8|^str|text|char|^categ|enum/, "<U10 (10 characters) or |S10 (10 bytes)"],
  [/byte|binary|blob/, "|S10 (10 bytes) or |V10 (10 bytes)"],
  [/^date(?:32)?$/, "datetime64[D] or datetime64[ms]"],
  [/^datetime$|^timestamp$/, "datetime64[ms] or datetime64[ns]"],
  [/^duration$/, "timedelta64[ms] or timedelta64[ns]"],
  [/^float$|double/, "float64 or float32"],
  [/^number$/, "float64 or int32"],
  [/^integer$/, "int32 or int64"],
  [/^bigint$/, "int64 or uint64"],
];

/** numpy's names with the same first letter, and the same number if there is one, or what the name means elsewhere; empty for none. */
function nearTypes(found: unknown): string {
  const [name = "", unit] = String(found)
    .toLowerCase()
    .replace(/array$/, "")
    .split(/[[\]]/);
  const [, first, digits = ""] = /^(?:big)?([a-z])[a-z_]*(\d*)$/.exec(name) ?? [];
  const names = Object.keys(NAMES).filter((each) => /^[^_]*\d$|^bool$/.test(each));
  const near = names.filter((each) => each[0] === first && each.endsWith(digits)).join(" or ");
  const meant = ELSEWHERE.find(([pattern]) => pattern.test(name))?.[1] ?? near;
  return unit !== undefined && /^[mun]?s$/.test(unit) ? meant.replace(/\[.*/, `[${unit}]`) : meant;
}
