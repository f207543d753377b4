/** Tells arrays that keep themselves Zarr arrays from others. Must not know how they do it. @see FORMAT.md [FY-01] */
import { ZARR_FEATURE } from "../../archive/places/generation.ts";
import { isSuperchunkError } from "../../errors.ts";
import { parseStorage } from "../../format/folder.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";

/** True where an array says that it keeps itself a Zarr array. What cannot be read says so to who opens it. */
export async function hasMirror(store: ReadableStore, path: string): Promise<boolean> {
  const key = joinKey(path, "meta/storage");
  const bytes = await store.get(key);
  if (bytes === undefined || !mayName(ZARR_FEATURE, bytes)) return false;
  try {
    return parseStorage(bytes, store.describe(key)).superchunk?.writeFeatures.includes(ZARR_FEATURE) === true;
  } catch (error) {
    if (isSuperchunkError(error)) return false;
    throw error;
  }
}

/** False where JSON has no such string for sure: it is not there as it is, and nothing is escaped. */
function mayName(feature: string, json: Uint8Array): boolean {
  const text = new TextDecoder().decode(json);
  return text.includes(feature) || text.includes("\\");
}
