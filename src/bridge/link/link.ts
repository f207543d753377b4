/**
 * Makes an archive a Zarr array where it lies.
 *
 * The order: the record of what was, durable; the names of the shards, and behind each file's chunks the index, durable; the
 * documents, the root's last. Broken off anywhere, the archive reads as before, there is no Zarr array or the right one, and
 * the same call completes it. @see FORMAT.md [FL]
 *
 * A first link takes the chunks' sizes from the offsets, and reads their headers while the indexes are on their way to the
 * disk. Where these say otherwise, all is undone before a document tells of it, and done again with the headers read first.
 */

import type { Archive } from "../../array/types.ts";
import { proveFiles } from "./data-files.ts";
import { encodeLinkRecord, LINK_RECORD } from "./record.ts";
import { makeShards } from "./shard-making.ts";
import { survey } from "./survey.ts";
import type { LinkOptions, LinkPlan, LinkResult, LinkSite } from "./types.ts";
import { undoFiles, unlinkArchive } from "./unlink.ts";

/** What linking would do, without writing anything. Throws as {@link linkArchive}. */
export async function planLink(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions = {},
): Promise<LinkPlan> {
  return (await survey(archive, site, options, false)).plan;
}

/**
 * Makes the archive a Zarr array where it lies, completes a link that was broken off, and repairs one that was damaged.
 *
 * @throws UNSUPPORTED for what cannot be a shard, saying why; CONFLICT where something is in the way, or a data file has
 * names that must not change with it; READ_ONLY, NO_SPACE, IO; the codes of damage
 */
export async function linkArchive(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions = {},
): Promise<LinkResult> {
  const started = performance.now();
  const plan = await complete(archive, site, options, true);
  return { ...plan, seconds: (performance.now() - started) / 1000 };
}

/** Does all that is to be done; with `guess` as long as that proves right. */
async function complete(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  guess: boolean,
): Promise<LinkPlan> {
  const { plan, hidden, stale, oldNames, record, works, documents, guessed } = await survey(
    archive,
    site,
    options,
    guess,
  );
  if (plan.done) return plan;
  const { target, files } = site;
  const { signal } = options;
  // What shows an array that is about to change goes first, the root's document before what it describes.
  for (const key of hidden) await target.delete(key, { signal });
  if (stale.length > 0) await undoFiles(site, plan.kind, stale);
  for (const key of oldNames) await files.remove({ side: "zarr", key });
  await target.put(LINK_RECORD, encodeLinkRecord(record), { signal });
  const [made, proven] = await Promise.allSettled([
    makeShards(site, plan.kind, works, signal),
    proveFiles(files, guessed, signal),
  ]);
  if (made.status === "rejected") throw made.reason;
  if (proven.status === "rejected") throw proven.reason;
  if (!proven.value) {
    await unlinkArchive(site, { signal });
    return complete(archive, site, options, false);
  }
  for (const [key, bytes] of documents) await target.put(key, bytes, { signal });
  return plan;
}
