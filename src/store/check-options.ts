/** The options of a call: unknown names and wrong types are refused by name. Separate, because pages that only read do not need it. */
import { badArgument, SuperchunkError } from "../errors.ts";

/** Options that are true or false, and those that are numbers of 0 or more, in every call that has them. */
const BOOLEANS = /* @__PURE__ */ words(
  "breakLock concat directMemory immutable looksAtAll overwrite portable readOnly recode resume skipFailed verify writeEmptyChunks zarr",
);
const COUNTS = /* @__PURE__ */ words("cachedEntries concurrency jobs maxGap threads");

/**
 * Refuses options that are not among `known`, names separated by spaces, and values of another type: without types, a slip would pass.
 * Throws `BAD_ARGUMENT`.
 */
export function checkOptions(options: unknown, known: string): void {
  if (typeof options !== "object" || options === null) throw badArgument("options", options, "an object");
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!words(known).includes(name)) throw unknownOption(name, value, words(known));
    if (BOOLEANS.includes(name) && typeof value !== "boolean")
      throw badArgument(name, value, "true or false");
    if (COUNTS.includes(name) && !(typeof value === "number" && value >= 0))
      throw badArgument(name, value, "a number of 0 or more");
    if (name === "signal" && typeof value?.throwIfAborted !== "function")
      throw badArgument(name, value, "an AbortSignal");
    if (/^on[A-Z]/.test(name) && typeof value !== "function") throw badArgument(name, value, "a function");
  }
}

function words(text: string): string[] {
  return text.split(" ");
}

function unknownOption(name: string, found: unknown, known: readonly string[]): SuperchunkError {
  const start = name.slice(0, 3).toLowerCase();
  const near = known.filter((each) => each.toLowerCase().startsWith(start));
  const advice = near.length > 0 ? `did you mean ${near.join(" or ")}?` : `expected ${known.join(", ")}`;
  return new SuperchunkError("BAD_ARGUMENT", `unknown option "${name}"; ${advice}`, { field: name, found });
}
