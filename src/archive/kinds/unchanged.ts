/** Notices that another archive has taken the place of the one that is read. */
import { resultOr, SuperchunkError } from "../../errors.ts";
import { checkLater } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { Identity, LongOptions } from "./types.ts";

/**
 * Runs a check of what is stored, with the options of `verify`. Throws `STALE` if something else has taken its place meanwhile: then the
 * check has read parts of both.
 */
export async function whileUnchanged<T>(
  store: ReadableStore,
  objects: readonly Identity[],
  check: () => Promise<T>,
  options: LongOptions,
): Promise<T> {
  await checkLater(options, "long");
  if (store.readsToStat === true) return check();
  const isPinned = store.pinsVersions === true;
  const versionOf = async (key: string): Promise<string | undefined> =>
    (await store.stat(key, options))?.version;
  const before = isPinned
    ? []
    : await Promise.all(objects.map(({ key, version }) => version ?? versionOf(key)));
  const checked = await check();
  for (const [i, { key, version }] of objects.entries()) {
    // Such a store refuses to read other versions. All that was read of a single file is of one version.
    const isSame = isPinned
      ? version !== undefined || (await isAsBefore(store, key, options))
      : (await versionOf(key)) === before[i];
    if (isSame) continue;
    throw new SuperchunkError("STALE", "it was changed while it was read; run it again", {
      path: store.describe(key),
    });
  }
  return checked;
}

/** For a store that pins versions: true if an object is as when it was first read. Not its beginning, which may be cached. */
async function isAsBefore(store: ReadableStore, key: string, options: StoreOptions): Promise<boolean> {
  return resultOr(
    false,
    "STALE",
    async () => (await store.getRange(key, { suffixLength: 1 }, options)) !== undefined,
  );
}
