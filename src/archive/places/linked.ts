/**
 * What readers and writers must know of an archive that is linked to Zarr. Must not know how links are made. @see FORMAT.md [FL-07]
 */
import { SuperchunkError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import { LINK_RECORD, LIVE_STATE } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import type { ReadableArray } from "../kinds/types.ts";

/**
 * Refuses an archive that is linked by symbolic links. Other links allow changes: their shards are names of the old
 * files, or copies. Only file systems have links, so other stores are not asked.
 * @throws CONFLICT
 */
export async function refuseSymbolic(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<void> {
  if (store.link === undefined) return;
  const key = joinKey(path, LINK_RECORD);
  const bytes = await store.get(key, options);
  if (bytes === undefined) return;
  const record = parseJson(bytes, store.describe(key)) as JsonObject | null;
  if (record?.["kind"] !== "symbolic") return;
  throw new SuperchunkError(
    "CONFLICT",
    'the archive is linked to Zarr by symbolic links: a file that a change replaces would be a missing shard, which Zarr readers read as the fill value. Run "superchunk unlink" first; "superchunk link" makes hard links, which keep working',
    { path: store.describe(key), field: "kind" },
  );
}

/** True if the archive's folder is also a Zarr array, because it was linked or keeps itself one. */
export async function isLinked({
  dialect,
  store,
  path,
}: Pick<ReadableArray, "dialect" | "store" | "path">): Promise<boolean> {
  if (dialect.startsWith("zarr")) return false;
  for (const name of [LINK_RECORD, LIVE_STATE])
    if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}
