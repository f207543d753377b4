/**
 * Keys of stores: what is one, how parts become one, and what a store says of them.
 *
 * Knows the rules of `types.ts`; must not know any store.
 */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { ListEntry, ObjectHead, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** An empty part, `.` or `..`, anywhere: also a leading, trailing or doubled `/`, and the empty key. */
const BAD_PART = /(?:^|\/)\.{0,2}(?:\/|$)/;
/** Half a character, which no file system and no URL can carry. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Refuses what is not the key of an object.
 *
 * @throws UNSAFE_PATH for an empty part, `.`, `..`, a leading or trailing `/`, a backslash, NUL, or half a surrogate pair
 */
export function checkKey(key: string): void {
  if (key === "" || !isPlainPath(key)) {
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `the key ${JSON.stringify(key)} is not a plain path inside the archive; expected parts divided by "/", none of them empty, "." or "..", without backslash and NUL`,
      { path: key, field: "key", found: key },
    );
  }
}

/** True for the key of an object or a folder, `""` for the root. */
export function isPlainPath(key: string): boolean {
  return (
    key === "" ||
    !(BAD_PART.test(key) || key.includes("\\") || key.includes("\0") || LONE_SURROGATE.test(key))
  );
}

/**
 * Why a name that a listing gave cannot be part of a key; undefined where it can. A store whose names are bytes gives
 * those that are not UTF-8 with U+DC80 to U+DCFF in the place of each byte that is wrong. `where` names the folder.
 */
export function refuseListed(name: string, where: string): SuperchunkError | undefined {
  if (isPlainPath(name) && name !== "" && !name.includes("/")) return undefined;
  const shown = showName(name);
  const reason = LONE_SURROGATE.test(name)
    ? "its name is not UTF-8, and is shown with its other bytes as \\xNN"
    : "its name has a backslash, which is not allowed in names";
  return new SuperchunkError("UNSUPPORTED", `${reason}. Rename it, then run this again`, {
    path: where === "" ? shown : `${where.replace(/\/$/, "")}/${shown}`,
    field: "name",
    found: shown,
  });
}

/** The key of a listed name, or where the name cannot be part of one, what messages show in its place. */
export function showListed(folder: string, name: string): string {
  const shown = showName(name);
  return folder === "" ? shown : `${folder}/${shown}`;
}

/** A name as messages show it: bytes that are not UTF-8 as `\xNN`. */
function showName(name: string): string {
  return name.replace(/[\uDC80-\uDCFF]/gu, (half) => `\\x${(half.charCodeAt(0) - 0xdc00).toString(16)}`);
}

/**
 * Refuses what is not a folder: the same as {@link checkKey}, but `""` is the root.
 *
 * @throws UNSAFE_PATH as {@link checkKey}
 */
export function checkFolder(folder: string): void {
  if (folder !== "") checkKey(folder);
}

/**
 * One key from several; empty ones are left out, so that a folder may be the root.
 *
 * @throws UNSAFE_PATH where the result is not a key or the root
 */
export function joinKey(...parts: readonly string[]): string {
  const key = parts.filter((part) => part !== "").join("/");
  checkFolder(key);
  return key;
}

/** The folder of a key, `""` for one in the root, and its last part. The key is taken as checked. */
export function splitKey(key: string): { readonly folder: string; readonly name: string } {
  const slash = key.lastIndexOf("/");
  return slash < 0 ? { folder: "", name: key } : { folder: key.slice(0, slash), name: key.slice(slash + 1) };
}

// Folder listings of stores that only know whole keys.

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

// Looks into folders of stores. Must not know what lies there.

/** True where a folder holds something; false for a store that cannot list, which cannot tell. */
export async function hasEntries(
  store: ReadableStore,
  folder: string,
  options?: StoreOptions,
): Promise<boolean> {
  try {
    for await (const _ of store.list(folder, options)) return true;
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
  }
  return false;
}

/** True where there is an object at a key, or a folder that holds something (`""`: the root, a folder). */
export async function isTaken(store: ReadableStore, key: string): Promise<boolean> {
  if (key !== "" && (await store.stat(key)) !== undefined) return true;
  return hasEntries(store, key);
}

// What objects take in their store, and how they begin.

/** Questions under way at a time. */
const AT_ONCE = 32;

/** The sizes of all objects that exist, added up, in bytes. */
export async function sizeOfObjects(
  store: ReadableStore,
  keys: Iterable<string> | AsyncIterable<string>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let total = 0;
  let batch: Promise<number>[] = [];
  const size = async (key: string): Promise<number> => (await store.stat(key, { signal }))?.size ?? 0;
  const settle = async (): Promise<void> => {
    for (const each of await Promise.all(batch)) total += each;
    batch = [];
  };
  for await (const key of keys) {
    batch.push(size(key));
    if (batch.length === AT_ONCE) await settle();
  }
  await settle();
  return total;
}

/** Bytes of a file's beginning that are asked for with its size. */
const HEAD = 4096;

/** What `stat` tells of a file that is about to be read: over a network its beginning brings that along. */
export async function statFile(
  store: ReadableStore,
  key: string,
  options: StoreOptions = {},
): Promise<ObjectInfo | undefined> {
  if (store.getHead === undefined) return store.stat(key, options);
  const head = await store.getHead(key, HEAD, options);
  return head === undefined ? undefined : (head.info ?? store.stat(key, options));
}

/** The first bytes of a file, and over a network what `stat` tells with them. */
export async function readBeginning(
  store: ReadableStore,
  key: string,
  length: number,
  options: StoreOptions = {},
): Promise<ObjectHead | undefined> {
  if (store.getHead !== undefined) return store.getHead(key, length, options);
  const bytes = await store.getRange(key, { offset: 0, length }, options);
  return bytes && { bytes, info: undefined };
}
