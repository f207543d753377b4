/**
 * Keys and ranges of stores: which are valid, how they are joined, and what a store holds at them. Also the options of reading,
 * which are checked on demand.
 *
 * Knows the rules of `types.ts`; must not know any store.
 */
import type { Exactly, LATE } from "../bytes/check-options.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { runPooled } from "./pool.ts";
import type { ByteRange, ListEntry, ObjectHead, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** Matches an empty part, `.` or `..` anywhere, including a leading, trailing or doubled `/`, and the empty key. */
const BAD_PART = /(?:^|\/)\.{0,2}(?:\/|$)/;
/** Half a surrogate pair, which no file system and no URL can carry. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Refuses a string that is not the key of an object.
 *
 * @throws UNSAFE_PATH for an empty part, `.`, `..`, a leading or trailing `/`, a backslash, NUL, or half a surrogate pair
 */
export function checkKey(key: string): void {
  if (typeof key !== "string") throw badArgument("the key", key, "a path in the store");
  if (key === "" || !isPlainPath(key))
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `the key ${JSON.stringify(key)} is not a plain path inside the archive; expected parts separated by "/", none of them empty, "." or "..", without backslash and NUL`,
      { path: key, field: "key", found: key },
    );
}

/** True for the key of an object or a folder, `""` for the root. */
export function isPlainPath(key: string): boolean {
  return (
    key === "" ||
    !(BAD_PART.test(key) || key.includes("\\") || key.includes("\0") || LONE_SURROGATE.test(key))
  );
}

/**
 * Returns the error for a listed name that cannot be part of a key; undefined if it can. A store with byte
 * names replaces each byte that is not UTF-8 by U+DC80 to U+DCFF. `where` names the folder.
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

/** The key of a listed name. If the name cannot be part of a key, the text that messages show instead. */
export function showListed(folder: string, name: string): string {
  const shown = showName(name);
  return folder === "" ? shown : `${folder}/${shown}`;
}

/** A name as messages show it: bytes that are not UTF-8 as `\xNN`. */
function showName(name: string): string {
  return name.replace(/[\uDC80-\uDCFF]/gu, (half) => `\\x${(half.charCodeAt(0) - 0xdc00).toString(16)}`);
}

/**
 * Like {@link checkKey}, but accepts `""` for the root.
 *
 * @throws UNSAFE_PATH as {@link checkKey}
 */
export function checkFolder(folder: string): void {
  if (folder !== "") checkKey(folder);
}

/**
 * Joins parts to one key. Empty parts are left out, so that a folder may be the root.
 *
 * @throws UNSAFE_PATH if the result is neither a key nor the root
 */
export function joinKey(...parts: readonly string[]): string {
  const key = parts.filter((part) => part !== "").join("/");
  checkFolder(key);
  return key;
}

/** A key as the path of an address. */
export function encodeKey(key: string): string {
  return key.split("/").map(encodeURIComponent).join("/");
}

/** Splits a checked key into its folder, `""` for the root, and its last part. */
export function splitKey(key: string): { readonly folder: string; readonly name: string } {
  const slash = key.lastIndexOf("/");
  return slash < 0 ? { folder: "", name: key } : { folder: key.slice(0, slash), name: key.slice(slash + 1) };
}

// Folder listings of stores that only know whole keys.

/** Entries directly under `folder`, from the keys at the time of the call. Throws `UNSAFE_PATH`. */
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

// Checks whether folders of stores have entries. Must not know what these are.

/** True if a folder has entries; always false for a store that cannot list. */
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

/** True if there is an object at a key, or a folder with entries (`""` is the root, a folder). */
export async function isTaken(store: ReadableStore, key: string): Promise<boolean> {
  if (key !== "" && (await store.stat(key)) !== undefined) return true;
  return hasEntries(store, key);
}

// Sizes of objects in their store, and their first bytes.

/** Objects whose sizes are requested at a time. */
const AT_ONCE = 64;

/** The total size of the objects that exist, in bytes. */
export async function sizeOfObjects(
  store: ReadableStore,
  keys: Iterable<string> | AsyncIterable<string>,
  outer: AbortSignal | undefined,
): Promise<number> {
  let total = 0;
  const ask = async (key: string, signal: AbortSignal): Promise<void> => {
    const size = await (store.sizeOf?.(key, { signal }) ??
      store.stat(key, { signal }).then((info) => info?.size));
    total += size ?? 0;
  };
  await runPooled(keys, AT_ONCE, ask, outer);
  return total;
}

/** Bytes at the start of a file that are requested together with its size. */
const HEAD = 4096;

/** The result of `stat` for a file that will be read next. Over a network its first bytes are fetched in the same request. */
export async function statFile(
  store: ReadableStore,
  key: string,
  options: StoreOptions = {},
): Promise<ObjectInfo | undefined> {
  if (store.getHead === undefined) return store.stat(key, options);
  const head = await store.getHead(key, HEAD, options);
  return head === undefined ? undefined : (head.info ?? store.stat(key, options));
}

/** Reads the first bytes of a file. Over a network the result of `stat` comes with them. */
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

// Ranges of bytes against the size of an object.
//
// Knows the rule "cut off at the end"; must not know any store.

export interface ResolvedRange {
  readonly offset: number;
  readonly length: number;
}

/**
 * Refuses a range that no object can have.
 *
 * @throws BAD_ARGUMENT for a negative, fractional or unsafe number
 */
export function checkRange(range: ByteRange, path: string): void {
  if ("suffixLength" in range) checkCount(range.suffixLength, "suffixLength", path);
  else {
    checkCount(range.offset, "offset", path);
    checkCount(range.length, "length", path);
  }
}

/** The bytes that a range asks for. */
export function lengthOf(range: ByteRange): number {
  return "suffixLength" in range ? range.suffixLength : range.length;
}

/**
 * Cuts a range off at the end of an object of `size` bytes.
 *
 * @throws BAD_ARGUMENT as {@link checkRange}
 */
export function resolveRange(range: ByteRange, size: number, path: string): ResolvedRange {
  checkRange(range, path);
  if ("suffixLength" in range) {
    const length = Math.min(range.suffixLength, size);
    return { offset: size - length, length };
  }
  const offset = Math.min(range.offset, size);
  return { offset, length: Math.min(range.length, size - offset) };
}

/** The part of an object's bytes that a range covers: a view of them. @throws as {@link resolveRange} */
export function partOf(bytes: Uint8Array, range: ByteRange, path: string): Uint8Array {
  const { offset, length } = resolveRange(range, bytes.length, path);
  return bytes.subarray(offset, offset + length);
}

/**
 * Groups ranges that are read together, each group in order of offsets: gaps have at most `maxGap` bytes, and
 * a group at most `maxLength`.
 */
export function groupRanges<T extends ResolvedRange>(
  ranges: readonly T[],
  maxGap: number,
  maxLength: number,
): T[][] {
  const groups: T[][] = [];
  let start = 0;
  let end = 0;
  for (const range of [...ranges].sort((a, b) => a.offset - b.offset)) {
    const group = groups.at(-1);
    const joinedEnd = Math.max(end, range.offset + range.length);
    if (group !== undefined && range.offset - end <= maxGap && joinedEnd - start <= maxLength) {
      group.push(range);
      end = joinedEnd;
      continue;
    }
    groups.push([range]);
    start = range.offset;
    end = range.offset + range.length;
  }
  return groups;
}

/**
 * Refuses what is not a count of bytes.
 *
 * @throws BAD_ARGUMENT for a negative, fractional or unsafe number
 */
export function checkCount(value: number, field: string, path: string): void {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${field} must be a whole number of bytes from 0, not ${value}`,
      { path, field, expected: "a safe integer from 0", found: value },
    );
}

/** Entries of a folder that are inspected: in a bucket, each thousand is a request. */
const MOST_ENTRIES_SEEN = 1000;
/** Files that say nothing about a folder: the lock of a writer that is about to make the group, and what macOS leaves. */
const PASSING = /^\.(?:.*\.lock|DS_Store)$/;
/** The same, and files for people (`README.md`): their names are neither those of chunks nor those that formats mark their folders with. */
export const BESIDE: RegExp = /^[^._\d]|^\.(?:.*\.lock|DS_Store)$/;

/** The folders in a folder that may be a group without a document, because it holds no files, or only `passing` ones; undefined for any other. */
export async function foldersOnly(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
  passing: RegExp = PASSING,
): Promise<string[] | undefined> {
  const names: string[] = [];
  let seen = 0;
  try {
    for await (const { kind, name } of store.list(folder, { signal })) {
      if (kind === "folder") names.push(name);
      else if (!passing.test(name)) return undefined;
      if (seen++ >= MOST_ENTRIES_SEEN) return undefined;
    }
  } catch {
    return undefined; // a folder that cannot be listed is left alone
  }
  return names;
}

/**
 * Checks the options of a call that reads as `checkOptions` does, which it loads first. Returns undefined if that is not necessary: calls
 * without options, or with no more than a signal, a function for progress and `usual` ones, neither wait nor load it.
 */
export function checkLater<Options extends object, Call extends keyof typeof LATE>(
  options: Options,
  call: Call & Exactly<Options, (typeof LATE)[Call]>,
  usual?: RegExp,
): Promise<void> | undefined {
  const isUsual = (option: [string, unknown]): boolean => isPlain(option) || usual?.test(option[0]) === true;
  if (options?.constructor === Object && Object.entries(options).every(isUsual)) return undefined;
  return import("../bytes/check-options.ts").then((checks) =>
    checks.checkOptions(options, checks.LATE[call] as never),
  );
}

/** True for options that every such call has, and for a list without digests, which links read. */
function isPlain([name, value]: [name: string, value: unknown]): boolean {
  if (name === "signal" && value instanceof AbortSignal) return true;
  if (name === "onProgress" && typeof value === "function") return true;
  return value === undefined || (name === "digests" && value === false);
}
