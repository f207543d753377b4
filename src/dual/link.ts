/**
 * Makes an archive a Zarr array in place.
 *
 * The order is: a durable record of the old state; the names of the shards and the index after each file's chunks,
 * durable; the documents, the root's last. If it is interrupted at any point, the archive reads as before, the Zarr
 * array is absent or correct, and the same call completes it. @see FORMAT.md [FL]
 */
import type { Archive } from "../archive/kinds/types.ts";
import { isSuperchunkError } from "../errors.ts";
import { LINK_RECORD } from "../format/naming.ts";
import { splitKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import { allowWriting, withoutWriting } from "./shard-file.ts";
import { planShards } from "./shards.ts";
import { encodeLinkRecord, type LinkRecord, readLinkRecord } from "./state.ts";
import { chooseOptions, type LinkSurvey, type ShardWork, survey } from "./survey.ts";
import type { LinkKind, LinkOptions, LinkPlan, LinkResult, LinkSite } from "./types.ts";
import { AT_ONCE, followMoves, undoFiles, unlinkArchive } from "./undo.ts";

const COPIES_AT_ONCE = 4;

/** Plans a link without writing anything. Throws like {@link linkArchive}. */
export async function planLink(archive: Archive, site: LinkSite, options: LinkOptions): Promise<LinkPlan> {
  const before = await readLinkRecord(site.target, options.signal);
  return (await survey(archive, site, options, before)).plan;
}

/**
 * Makes the archive a Zarr array in place, completes an interrupted link, and repairs a damaged one.
 * @throws UNSUPPORTED for what cannot be a shard, with the reason; CONFLICT if another object is in the way, or a data
 * file has other names that must not change with it; READ_ONLY, NO_SPACE, IO; the codes of damage
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
      ? await complete(archive, site, options, before)
      : await complete(archive, site, renewed, undefined);
  return { ...plan, seconds: (performance.now() - started) / 1000 };
}

/**
 * Undoes the link if its files were renamed, for example by compacting, so that it can be made again: the shards would
 * otherwise keep the old names. Resolves with the old options merged with the new ones; undefined if nothing was undone.
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
  await planShards(archive, chosen, site.files); // what cannot be linked keeps its view
  await unlinkArchive(site, { signal });
  return chosen;
}

/** Does all steps of a link. `before` is the existing record. */
async function complete(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  before: LinkRecord | undefined,
): Promise<LinkPlan> {
  const surveyed = await survey(archive, site, options, before);
  const { plan, documents } = surveyed;
  const { target, files } = site;
  const { signal } = options;
  if (plan.done) {
    await files.sync(surveyed.record.documents.map((key) => ({ side: "zarr", key }))); // the last call may have failed here
    return plan;
  }
  await prepareLink(site, surveyed, signal);
  try {
    await makeShards(site, plan.kind, surveyed.works, signal);
  } catch (error) {
    // The file system has no such links.
    if (before === undefined && isSuperchunkError(error, "UNSUPPORTED"))
      await unlinkArchive(site, { signal });
    throw error;
  }
  for (const [key, bytes] of documents) await target.put(key, bytes, { signal });
  return plan;
}

/** Clears what is in the way and writes the record, which is durable when resolved. */
async function prepareLink(
  site: LinkSite,
  { plan, hidden, stale, oldNames, record }: LinkSurvey,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { target, files } = site;
  // Documents of an array about to change go first, the root's before those it lists.
  for (const key of hidden) await target.delete(key, { signal });
  if (stale.length > 0) await undoFiles(site, plan.kind, stale);
  for (const key of oldNames) await files.remove({ side: "zarr", key });
  await target.put(LINK_RECORD, encodeLinkRecord(record), { signal });
  // Documents that a killed call left unfinished. The record is in this folder, so the folder belongs to the link.
  for (const folder of new Set(record.documents.map((key) => splitKey(key).folder)))
    await target.removeLeftovers?.(folder, { signal });
}

/**
 * Turns the files into shards; indexes and names are durable when resolved. Both run at once: no reader looks at either
 * before a document exists.
 */
async function makeShards(
  site: LinkSite,
  kind: LinkKind,
  works: readonly ShardWork[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const names = works.map(({ places }) => places.shard);
  if (kind === "copy") {
    await runPooled(works, COPIES_AT_ONCE, (work) => copyShard(site, work), signal);
    return site.files.sync(names);
  }
  for (const work of works) {
    signal?.throwIfAborted();
    await nameShard(site, kind, work);
  }
  const waits = [() => site.files.sync(names), ...works.map((work) => () => addTail(site, work))];
  await runPooled(waits, AT_ONCE, (wait) => wait(), signal);
}

/** Copies the file and writes the index after its chunks. */
async function copyShard({ files }: LinkSite, { places, tail, size, mode, named }: ShardWork): Promise<void> {
  if (named !== "right") {
    await files.remove(places.shard);
    await files.link(places.data, places.shard, "copy");
  }
  if (tail === undefined) return files.setMode(places.shard, withoutWriting(mode));
  await files.setMode(places.shard, mode | 0o200);
  await files.writeTail(places.shard, size, tail.pieces, withoutWriting(mode));
}

/** Writes the index after the chunks, durably, and removes write permission. */
async function addTail(site: LinkSite, { places, facts, tail, size, mode }: ShardWork): Promise<void> {
  if (tail === undefined) return site.files.setMode(places.data, withoutWriting(mode));
  await allowWriting(site, places.data, facts.mode);
  await site.files.writeTail(places.data, size, tail.pieces, withoutWriting(mode));
}

async function nameShard({ files }: LinkSite, kind: LinkKind, { places, named }: ShardWork): Promise<void> {
  if (named === "right") return;
  if (named === "wrong") await files.remove(places.shard);
  await files.link(places.data, places.shard, kind);
}
