/**
 * Keeps writers of Zarr out of folders that are archives too: what they wrote would change one view alone.
 *
 * Knows by which files an archive is told; must not know archives. @see FORMAT.md [FL-04] [FY-01]
 */
import { SuperchunkError } from "../../errors.ts";
import { LINK_RECORD } from "../../format/naming.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";

const STORAGE = "meta/storage";

/**
 * Refuses a path in, or below, an archive: one that is linked to Zarr, one that keeps itself a Zarr array, their columns. Links
 * are made on file systems alone: other stores are not asked.
 *
 * @throws CONFLICT
 */
export async function refuseDual(
  store: WritableStore,
  path: string,
  { signal }: StoreOptions = {},
): Promise<void> {
  if (store.link === undefined) return;
  for (let folder = path; ; folder = splitKey(folder).folder) {
    for (const name of [LINK_RECORD, STORAGE]) {
      const key = joinKey(folder, name);
      if ((await store.stat(key, { signal })) === undefined) continue;
      throw new SuperchunkError("CONFLICT", reasonOf(name), {
        path: store.describe(folder),
        field: name,
      });
    }
    if (folder === "") return;
  }
}

function reasonOf(name: string): string {
  return name === LINK_RECORD
    ? 'it is an archive that is linked to Zarr: written as Zarr, the archive would keep its old values, or be damaged. Change the archive ("superchunk set", "append", openWritable) and run "superchunk link" again, or take the link away ("superchunk unlink") or write to a copy ("superchunk convert")'
    : 'there is an archive in the folder: written as Zarr, it would keep its old values. Change the archive itself ("superchunk set", "append", openWritable), whose Zarr view follows where it has one, or write to a copy ("superchunk convert")';
}
