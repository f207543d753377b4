/** Opens a damaged archive for reading, as its reader says what becomes of the rows that cannot be had. */

import type { ReadableStore } from "../../store/types.ts";
import type { Archive, OpenOptions } from "../kinds/types.ts";
import { isFlaw } from "./chunk-check.ts";
import { surveyArchive } from "./survey.ts";

/**
 * The archive at a key without its damaged chunks, or with the default value in their place; what `openWhole` gives where
 * nothing is wrong. Reads and checks every chunk first. What is gone goes to `onDamage`.
 */
export async function openDamaged<Other extends object>(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
  openWhole: () => Promise<Archive | Other>,
): Promise<Archive | Other> {
  let whole: Archive | Other | undefined;
  try {
    whole = await openWhole();
    // A file whose first bytes are gone is known by its name alone.
    if (!isArchive(whole) && !/\.blp$/i.test(path)) return whole;
    if (isArchive(whole) && whole.kind === "array" && whole.dtype.kind === "object") return whole;
  } catch (error) {
    if (!isFlaw(error) || error.code === "UNSUPPORTED") throw error;
  }
  const survey = await surveyArchive(store, path, options);
  const { holes, problems, lost } = survey;
  if (whole !== undefined && isArchive(whole) && holes.length + lost.length === 0) return whole;
  const archive = survey.open(options.damaged === "skip" ? "drop" : "fill");
  options.onDamage?.({ path: store.describe(path), holes, problems, lost });
  return archive;
}

function isArchive(opened: Archive | object): opened is Archive {
  return "kind" in opened;
}
