/** Folder listings of stores that only know whole keys. */
import { checkFolder } from "./key.ts";
import type { ListEntry, StoreOptions } from "./types.ts";

/** Entries directly under `folder`, as the keys tell them when this is called. Throws `UNSAFE_PATH`. */
export function* listKeys(
  keys: Iterable<string>,
  folder: string,
  options?: StoreOptions,
): Generator<ListEntry> {
  checkFolder(folder);
  const prefix = folder === "" ? "" : `${folder}/`;
  const seen = new Map<string, ListEntry["kind"]>();
  for (const key of keys) {
    if (!key.startsWith(prefix)) continue;
    const rest = key.slice(prefix.length);
    const slash = rest.indexOf("/");
    if (slash < 0) seen.set(rest, "object");
    else seen.set(rest.slice(0, slash), "folder");
  }
  for (const [name, kind] of seen) {
    options?.signal?.throwIfAborted();
    yield { name, kind };
  }
}
