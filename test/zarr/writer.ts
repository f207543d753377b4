import type { WritableStore } from "../../src/store/types.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import type { CreateZarrOptions } from "../../src/zarr/write/create.ts";
import { refuseDual } from "../../src/zarr/write/node-document.ts";
import { WritableZarrArray } from "../../src/zarr/write/writable-array.ts";

/** Opens an array for writing, as an editor does, but without its queue: a write is under way when it is called. */
export async function openZarrWriter(
  store: WritableStore,
  path = "",
  options: CreateZarrOptions = {},
): Promise<WritableZarrArray> {
  const { model } = await openZarrArray(store, path, options);
  await refuseDual(store, path, options);
  return new WritableZarrArray(store, model, options);
}
