/**
 * Keeps two conversions to one place apart: on a disk the later one is refused; in a bucket it takes the place over, and the earlier one ends.
 * Must not know what is converted.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { rethrowAfter } from "../../store/pool.ts";
import type { DeleteOptions, ObjectInfo, PutOptions, PutSource, WritableStore } from "../../store/types.ts";
import { interceptStore, type StoreCall } from "../../store/wrappers/intercept.ts";
import { SCRATCH_KEY } from "../../write/bloscpack/chunk-spool.ts";
import type { ConvertOptions } from "../pipeline.ts";
import { type ConversionRecord, conflict, isMark } from "./destination.ts";

/** What is claimed: the name of the destination with this ending. */
const CLAIMED = ".superchunk-convert";
const MIXED =
  "another conversion to this place wrote this meanwhile; when it has ended, convert again with {overwrite: true}";

/**
 * Runs `work` while no other conversion to the place runs, in any process. Throws `CONFLICT` if one does. A store without claims only has
 * the record: the conversion that comes later takes it over, and {@link guardWrites} ends the earlier one.
 */
export async function whileAlone<T>(
  store: WritableStore,
  place: string,
  work: () => Promise<T>,
  { breakLock }: Pick<ConvertOptions, "breakLock">,
): Promise<T> {
  if (store.claim === undefined) return work();
  let hasBegun = false;
  // Beside a folder, which may be deleted; not of an object that is put, which may be claimed for that moment.
  const key = `${place}${CLAIMED}`;
  const claimed = (): Promise<T> => {
    hasBegun = true;
    return work();
  };
  return store.claim(key, claimed, { breakLock }).catch((error: unknown) => {
    if (!isSuperchunkError(error) || error.details.path !== store.describe(key)) throw error;
    if (error.code === "STALE") throw conflict(store.describe(place), MIXED, "overwrite");
    // Otherwise a file may be in the way of its folder.
    if (hasBegun || error.code !== "CONFLICT") throw error;
    const { host, pid, since } = (error.details.found ?? {}) as Readonly<Record<string, unknown>>;
    const who =
      host === undefined ? "" : `: process ${String(pid)} on ${String(host)} since ${String(since)}`;
    const reason = `another conversion to this place is running${who}. Wait for its end, or choose another place; if it has certainly died, take its place over with {breakLock: true}`;
    throw conflict(store.describe(place), reason);
  });
}

/** The error of {@link guardWrites} as callers know it. */
export function conflictOf(error: unknown): unknown {
  const isMixed = isSuperchunkError(error, "STALE") && error.summary === MIXED;
  return isMixed ? conflict(error.details.path ?? "", MIXED, "overwrite") : error;
}

/** How writes of a conversion are guarded. */
interface Guard {
  /** The record, once it is written. */
  record(): ConversionRecord | undefined;
  isDocument(key: string): boolean;
  /** What data that is put replaces: nothing, only what is there when the put begins, or anything. */
  replaces(): "nothing" | "present" | "anything";
}

/** A destination without claims whose writes fail when another conversion has taken it over, so that it does not get parts of both. */
export function guardWrites(store: WritableStore, { record, isDocument, replaces }: Guard): WritableStore {
  if (store.claim !== undefined) return store;
  const others = new Set(["rename", "link", "writeRange", "removeLeftovers"]);
  const onCall = async <T>({ method, key, args }: StoreCall, proceed: () => Promise<T>): Promise<T> => {
    const own = record();
    // The mark of a folder at the root of the store.
    if (key === own?.key && method === "delete") return own.unmark() as Promise<T>;
    if (key === own?.key && method === "put") {
      await own.mark({});
      return (await store.stat(key)) as T;
    }
    const isData = method === "put" && !isDocument(key) && !isMark(key);
    if ((method === "put" && SCRATCH_KEY.test(key)) || (isData && replaces() === "anything")) {
      await record()?.assertOurs(false);
      return proceed();
    }
    if (others.has(method)) await record()?.assertOurs(true);
    if (method !== "put" && method !== "delete") return proceed();
    const isNew = isData && replaces() === "nothing";
    // Its version first: a process that takes the place over after the record was read also changes the object, so the condition fails.
    const ifVersion = isNew ? undefined : (await store.stat(key))?.version;
    await record()?.assertOurs(!isNew);
    if (method === "delete") {
      const [, options] = args as [string, DeleteOptions?];
      return store.delete(key, { ...options, ifVersion }).catch((error: unknown) => {
        // Fewer servers know the condition of a delete than that of a put.
        if (isSuperchunkError(error, "CONFLICT") || ifVersion === undefined) throw error;
        return proceed();
      }) as Promise<T>;
    }
    const [, source, put] = args as [string, PutSource, PutOptions?];
    const only = ifVersion === undefined || put?.ifAbsent === true ? { ifAbsent: true } : { ifVersion };
    const info = await store.put(key, source, { ...put, ...only }).catch((error: unknown) => {
      // Not CONFLICT: a writer of superchunks would try another name.
      if (isSuperchunkError(error, "CONFLICT"))
        throw new SuperchunkError("STALE", MIXED, { path: store.describe(key), field: "destination" });
      if (isSuperchunkError(error, "UNSUPPORTED")) return proceed() as Promise<ObjectInfo>; // the server does not know the condition
      throw error;
    });
    // The later conversion may have made and removed its own mark in between.
    if (isMark(key))
      await record()
        ?.assertOurs(true)
        .catch(rethrowAfter(() => store.delete(key, { ifVersion: info.version })));
    return info as T;
  };
  return interceptStore(store, { onCall });
}
