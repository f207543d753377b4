/** Tells folders that keep themselves Zarr arrays, without loading what writes them. */
import { resolve } from "node:path";
import { hasMirror } from "../../dual/live/detection.ts";
import { isSuperchunkError } from "../../errors.ts";
import { SteadyStore } from "../fs/steady-store.ts";

/** True where the folder is an array that keeps itself a Zarr array. */
export async function isMirrored(path: string): Promise<boolean> {
  const store = new SteadyStore(resolve(path));
  try {
    return await hasMirror(store, "");
  } catch (error) {
    if (isSuperchunkError(error)) return false; // a file, or what cannot be read: whoever opens it tells
    throw error;
  } finally {
    await store.close();
  }
}
