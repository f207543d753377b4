/**
 * Makes an archive a Zarr array where it lies.
 *
 * The order: the record of what was, durable; the names of the shards, and behind each file's chunks the index, durable; the
 * documents, the root's last. Broken off anywhere, the archive reads as before, there is no Zarr array or the right one, and
 * the same call completes it. @see FORMAT.md [FL]
 *
 * A first link takes the chunks' sizes from the offsets, and reads their headers while the record and the indexes are on their
 * way to the disk; the first document is drafted meanwhile. Where the headers say otherwise, all is undone before a document
 * tells of it, and done again with the headers read first. Where there is a link already, they are read before anything is changed.
 */

import type { Archive } from "../../archive/kinds/types.ts";
import { proveFiles } from "./data-files.ts";
import { followMoves } from "./moves.ts";
import { encodeLinkRecord, LINK_RECORD, type LinkRecord, readLinkRecord } from "./record.ts";
import { makeShards } from "./shard-making.ts";
import { planShards } from "./shards.ts";
import { chooseOptions, type Survey, survey } from "./survey.ts";
import type { LinkOptions, LinkPlan, LinkResult, LinkSite } from "./types.ts";
import { undoFiles, unlinkArchive } from "./unlink.ts";

/** What linking would do, without writing anything. Throws as {@link linkArchive}. */
export async function planLink(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions = {},
): Promise<LinkPlan> {
  return (await survey(archive, site, options, await readLinkRecord(site.target, options.signal), false))
    .plan;
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
  const before = await readLinkRecord(site.target, options.signal);
  const renewed = before && (await undoMoved(archive, site, options, before));
  const plan =
    renewed === undefined
      ? await complete(archive, site, options, before, true)
      : await complete(archive, site, renewed, undefined, true);
  return { ...plan, seconds: (performance.now() - started) / 1000 };
}

/**
 * Where files of the link have other names now, such as compacting gives them, it is undone, to be made anew: their shards would
 * be taken away with the former names. Resolves with what is asked for, and was before; undefined where nothing was undone.
 */
async function undoMoved(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  before: LinkRecord,
): Promise<LinkOptions | undefined> {
  const { kind = "hard", signal } = options;
  if (before.kind !== kind || before.archive !== archive.path) return undefined;
  if (!(await followMoves(site, before)).hasMoved) return undefined;
  const chosen = { ...options, ...chooseOptions(before, options) };
  await planShards(archive, chosen); // what cannot be linked keeps the view that it has
  await unlinkArchive(site, { signal });
  return chosen;
}

/** Does all that is to be done; `before`: the record that is there; with `guess` as long as that proves right. */
async function complete(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  before: LinkRecord | undefined,
  guess: boolean,
): Promise<LinkPlan> {
  const surveyed = await survey(archive, site, options, before, guess);
  const { plan, documents, guessed } = surveyed;
  const { target, files } = site;
  const { signal } = options;
  // What is linked is not undone for a wrong guess.
  const wasLinked = before !== undefined;
  if (wasLinked && !(await proveFiles(files, guessed, signal)))
    return complete(archive, site, options, before, false);
  if (plan.done) return plan;
  const [first, ...others] = documents;
  const prepared = prepare(site, surveyed, signal);
  const [made, proven, drafted] = await Promise.allSettled([
    prepared.then(() => makeShards(site, plan.kind, surveyed.works, signal)),
    proveFiles(files, wasLinked ? [] : guessed, signal),
    prepared.then(() => first && target.draft?.(...first, { signal })),
  ]);
  const failed = [made, proven, drafted].find(({ status }) => status === "rejected");
  const isProven = proven.status === "fulfilled" && proven.value;
  const draft = drafted.status === "fulfilled" ? drafted.value : undefined;
  if (failed?.status === "rejected" || !isProven) await draft?.discard();
  if (failed?.status === "rejected") throw failed.reason;
  if (!isProven) {
    await unlinkArchive(site, { signal });
    return complete(archive, site, options, undefined, false);
  }
  await draft?.publish();
  for (const [key, bytes] of draft === undefined ? documents : others)
    await target.put(key, bytes, { signal });
  return plan;
}

/** What comes before the shards: what is in the way, and the record, which is durable when resolved. */
async function prepare(
  site: LinkSite,
  { plan, hidden, stale, oldNames, record }: Survey,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { target, files } = site;
  // What shows an array that is about to change goes first, the root's document before what it describes.
  for (const key of hidden) await target.delete(key, { signal });
  if (stale.length > 0) await undoFiles(site, plan.kind, stale);
  for (const key of oldNames) await files.remove({ side: "zarr", key });
  await target.put(LINK_RECORD, encodeLinkRecord(record), { signal });
}
