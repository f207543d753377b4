/** Looks whether a folder can become a Zarr array; writes nothing. */
import { SuperchunkError } from "../../errors.ts";
import { isTaken } from "../../store/entries.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";

/** Throws `CONFLICT` where a Zarr array, or something else, is in the way; what looking throws, where that fails. */
export async function assertFree(store: WritableStore, path: string): Promise<void> {
  for (const name of ["zarr.json", "c"]) {
    const key = joinKey(path, name);
    if (!(await isTaken(store, key))) continue;
    throw new SuperchunkError(
      "CONFLICT",
      "it is there already; the folder seems to be a Zarr array of its own. Choose another place, or remove it",
      { path: store.describe(key), field: "zarr" },
    );
  }
}
