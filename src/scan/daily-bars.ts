/** Which tables are daily bars of zipline, whose dates are numbers. */
import type { JsonObject } from "../format/types.ts";

/** True for daily bars of zipline, by the attributes that zipline looks rows up with. */
export function isDailyBars(names: readonly string[], attrs: JsonObject): boolean {
  const marks = ["first_row", "last_row", "calendar_offset"];
  return names.includes("day") && marks.every((name) => Object.hasOwn(attrs, name));
}
