/**
 * Whether the Zarr view of a linked archive is, whole and unharmed, that of the archive as it was when it was linked: then it is
 * behind, and not damaged. Its readers get what was there before, and nothing else. @see FORMAT.md [FL-07]
 */
import { crc32c } from "../../bytes/checksum.ts";
import type { LinkRecord } from "./record.ts";
import { placesOf, withoutWriting } from "./restore.ts";
import type { LinkSite } from "./types.ts";

/** True where every document and every shard is what the record says was made. Throws what reading throws. */
export async function isViewOfBefore(
  { target, source, files }: LinkSite,
  record: LinkRecord,
  signal: AbortSignal,
): Promise<boolean> {
  for (const key of record.documents) {
    const stored = await target.get(key, { signal });
    if (stored === undefined || (await crc32c(stored)) !== record.sums.get(key)) return false;
  }
  for (const file of record.files) {
    const { data, shard } = placesOf(file);
    const isSymbolic = record.kind === "symbolic";
    if (isSymbolic && !(await files.leadsTo(shard, data))) return false;
    const facts = await files.inspect(isSymbolic ? data : shard);
    const isWhole = facts?.kind === "file" && facts.size === file.size + file.tail;
    if (!isWhole || (record.kind !== "copy" && facts.mode !== withoutWriting(facts.mode))) return false;
    const [store, key] = isSymbolic ? [source, file.path] : [target, file.link];
    const tail = await store.getRange(key, { offset: file.size, length: file.tail }, { signal });
    if (tail === undefined || (await crc32c(tail)) !== file.crc32c) return false;
  }
  return true;
}
