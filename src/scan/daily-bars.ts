/** Recognizes tables of zipline's daily bars, which store dates as numbers. */
import type { JsonObject } from "../format/types.ts";

/** True for zipline's daily bars, judged by the attributes that zipline uses to find rows. */
export function isDailyBars(names: readonly string[], attrs: JsonObject): boolean {
  const marks = ["first_row", "last_row", "calendar_offset"];
  return names.includes("day") && marks.every((name) => Object.hasOwn(attrs, name));
}
