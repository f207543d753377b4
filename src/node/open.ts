/** `open` for paths and URLs. */

import type { Archive, OpenOptions } from "../archive/kinds/types.ts";
import { open as openIn } from "../archive/open/open.ts";
import type { ReadableStore } from "../store/types.ts";
import { closeOnFailure, locate } from "./locate.ts";
import { loadNativeBlosc } from "./threads/native-blosc.ts";
import { useNativeDigests } from "./threads/native-digest.ts";
import { bloscOf, decoderOf, type ThreadOptions } from "./threads/threads.ts";

/** Options of `open` for paths and URLs. */
export interface OpenPathOptions extends OpenOptions, ThreadOptions {}

/**
 * Opens the archive at a path or an `http(s):` URL; its `close()` releases the store too.
 *
 * Where many chunks are read, worker threads decode them (`threads: 0` turns that off).
 *
 * Throws `BAD_ARGUMENT`, `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage.
 */
export async function open(location: string, options: OpenPathOptions = {}): Promise<Archive> {
  useNativeDigests();
  const { store, path } = await locate(location);
  return closeOnFailure(store, openArchive(store, path, options));
}

async function openArchive(store: ReadableStore, path: string, options: OpenPathOptions): Promise<Archive> {
  if (options.decoder === undefined && bloscOf(options) === "native") await loadNativeBlosc(); // or says why not
  const decoder = options.decoder ?? decoderOf(options);
  return openIn(store, path, { signal: options.signal, verify: options.verify, decoder });
}
