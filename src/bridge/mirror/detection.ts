/** Tells arrays that keep themselves Zarr arrays from others. Must not know how they do it. @see FORMAT.md [FY-01] */
import { ZARR_FEATURE } from "../../array/generation.ts";
import { isSuperchunkError } from "../../errors.ts";
import { parseStorage } from "../../format/folder.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";

/** True where an array says that it keeps itself a Zarr array. What cannot be read says so to who opens it. */
export async function hasMirror(store: ReadableStore, path: string): Promise<boolean> {
  const key = joinKey(path, "meta/storage");
  const bytes = await store.get(key);
  if (bytes === undefined || !mayHold(bytes, ZARR_FEATURE)) return false;
  try {
    return parseStorage(bytes, store.describe(key)).superchunk?.writeFeatures.includes(ZARR_FEATURE) === true;
  } catch (error) {
    if (isSuperchunkError(error)) return false;
    throw error;
  }
}

/** False where no string of a JSON text can be the word: most arrays need not be parsed to tell. */
function mayHold(json: Uint8Array, word: string): boolean {
  const text = new TextDecoder().decode(json);
  return text.includes(word) || text.includes("\\"); // escapes may stand for any character
}
