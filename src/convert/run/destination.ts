/**
 * The place where a hierarchy goes: is it free, may it be replaced, does an unfinished conversion lie there.
 *
 * Knows stores; must not know archives.
 */
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../../store/types.ts";
import { RECORD_NAME } from "./record.ts";

/** Entry names by which a folder shows that it holds Zarr, of this version or the one before. */
const ZARR_MARKS: ReadonlySet<string> = new Set(["zarr.json", ".zgroup", ".zarray", RECORD_NAME]);

/** How to treat what lies at the destination. */
export interface DestinationOptions extends StoreOptions {
  readonly resume?: boolean | undefined;
  readonly overwrite?: boolean | undefined;
}

/**
 * Looks whether a hierarchy can go there at all, before its source is looked at.
 * Throws `CONFLICT` where something lies there that may not be replaced, `BAD_ARGUMENT` for contradicting options.
 */
export async function checkDestination(
  store: ReadableStore,
  prefix: string,
  options: DestinationOptions = {},
): Promise<"empty" | "taken"> {
  const { resume = false, overwrite = false, signal } = options;
  if (resume && overwrite) {
    throw new SuperchunkError("BAD_ARGUMENT", "resume and overwrite exclude each other", {
      field: "resume, overwrite",
    });
  }
  const path = store.describe(prefix);
  if (prefix !== "" && (await store.stat(prefix, { signal })) !== undefined) {
    throw conflict(path, "the destination is a file; name another");
  }
  const names = await entryNames(store, prefix, signal);
  if (names.length === 0 || !(await holdsObjects(store, prefix, signal))) return "empty";
  if (resume) return "taken";
  if (!overwrite) {
    const isUnfinished = names.includes(RECORD_NAME);
    throw conflict(
      path,
      isUnfinished
        ? "an unfinished conversion lies there; resume (--resume) goes on with it, overwrite (--overwrite) replaces it"
        : "the destination exists; overwrite (--overwrite) replaces it, or name another",
    );
  }
  if (!names.some((name) => ZARR_MARKS.has(name))) {
    throw conflict(
      path,
      "the destination holds no Zarr hierarchy, so it is not overwritten; remove it yourself, or name another",
    );
  }
  return "taken";
}

/** Empties a taken hierarchy that is being replaced. Should this end halfway, it can be replaced again, and never be resumed. */
export async function emptyDestination(
  store: WritableStore,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const mark = new TextEncoder().encode(stringifyJson({ replacing: true }));
  await store.put(joinKey(prefix, RECORD_NAME), mark, { signal });
  await store.delete(joinKey(prefix, "zarr.json"), { signal });
  await deleteTree(store, prefix, new Set([joinKey(prefix, RECORD_NAME)]), signal);
}

/** Objects that are deleted before a folder is listed again. */
const BATCH = 1000;

/**
 * Deletes every object below a folder, but not those in `keep`, and the folders that are empty then, itself too. No more than
 * a batch of names is held at a time, and nothing is deleted during a listing: some file systems leave names out then.
 *
 * @throws IO where an object that was deleted is still listed
 */
export async function deleteTree(
  store: WritableStore,
  folder: string,
  keep: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<void> {
  const folders = [folder];
  const seen: string[] = [];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    seen.push(next);
    const below = new Set<string>();
    let [keys, last]: [string[], string | undefined] = [[], undefined];
    do {
      last = keys[0];
      keys = [];
      for await (const { name, kind } of store.list(next, { signal })) {
        const key = joinKey(next, name);
        if (kind === "folder") below.add(key);
        else if (!keep.has(key)) keys.push(key);
        if (keys.length === BATCH) break;
      }
      if (last !== undefined && keys[0] === last)
        throw new SuperchunkError(
          "IO",
          "the object was deleted, and is still listed; delete the folder yourself",
          {
            path: store.describe(last),
          },
        );
      for (const key of keys) await store.delete(key, { signal });
    } while (keys.length === BATCH);
    for (const key of below) folders.push(key);
  }
  if (store.isFolder === undefined) return;
  // Those inside of others were seen after them. One with entries stays.
  for (const key of seen.reverse()) if (key !== "") await store.delete(key, { signal });
}

/**
 * Refuses a destination that is the source, lies in it, or contains it. Where the stores differ the caller, who
 * knows what they stand for, gives comparable locations (absolute real paths). Throws `CONFLICT`.
 */
export function assertApart(source: string, destination: string): void {
  const contains = (outer: string, inner: string): boolean =>
    outer === inner || outer === "" || inner.startsWith(`${outer}/`);
  if (!contains(source, destination) && !contains(destination, source)) return;
  const how =
    source === destination
      ? "is the source itself"
      : contains(source, destination)
        ? "lies inside of the source"
        : "contains the source";
  throw conflict(destination, `the destination ${how} (${source}); name another`);
}

async function entryNames(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(folder, { signal })) names.push(name);
  return names;
}

async function holdsObjects(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for await (const key of walkKeys(store, folder, signal)) return key !== undefined;
  return false;
}

async function* walkKeys(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for await (const { name, kind } of store.list(next, { signal })) {
      const key = joinKey(next, name);
      if (kind === "folder") folders.push(key);
      else yield key;
    }
  }
}

function conflict(path: string, reason: string): SuperchunkError {
  return new SuperchunkError("CONFLICT", reason, { path, field: "destination" });
}
