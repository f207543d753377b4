/** `open` for paths and URLs. */
import { open as openIn } from "../array/open.ts";
import type { Archive, OpenOptions } from "../array/types.ts";
import { locate } from "./locate.ts";

/**
 * Opens the archive at a path or an `http(s):` URL; its `close()` releases the store too.
 *
 * Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage.
 */
export async function open(location: string, options: OpenOptions = {}): Promise<Archive> {
  const { store, path } = await locate(location);
  try {
    return await openIn(store, path, options);
  } catch (error) {
    await store.close?.();
    throw error;
  }
}
