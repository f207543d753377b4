/**
 * Making data files shards: their names, and the index behind the chunks of each, durable.
 *
 * Must not know why a file is to be linked, nor what else belongs to a link. @see FORMAT.md [FL]
 */
import { runPooled } from "../../store/pool.ts";
import { allowWriting, withoutWriting } from "./restore.ts";
import type { Tail } from "./tail.ts";
import type { FileFacts, LinkKind, LinkPlace, LinkSite } from "./types.ts";

/** Files that are made durable at a time: those that wait together share the disk's work. */
const AT_ONCE = 32;
/** Files that are copied at a time. */
const COPIES_AT_ONCE = 4;

/** One file to be linked. */
export interface Work {
  readonly places: { readonly data: LinkPlace; readonly shard: LinkPlace };
  readonly facts: FileFacts;
  /** Undefined where the file has it already. */
  readonly tail: Tail | undefined;
  /** Bytes in front of the tail. */
  readonly size: number;
  readonly mode: number;
  /** What is in the shard's place: nothing, the file itself, or something else. */
  readonly named: "absent" | "right" | "wrong";
}

/**
 * Makes the files shards; indexes and names are durable when resolved. Both at once: until there is a document, nobody
 * looks at either.
 */
export async function makeShards(
  site: LinkSite,
  kind: LinkKind,
  works: readonly Work[],
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

/** A copy of the file, with the index behind its chunks. */
async function copyShard({ files }: LinkSite, { places, tail, size, mode }: Work): Promise<void> {
  await files.remove(places.shard);
  await files.link(places.data, places.shard, "copy");
  if (tail === undefined) return files.setMode(places.shard, withoutWriting(mode));
  await files.setMode(places.shard, mode | 0o200);
  await files.writeTail(places.shard, size, tail.pieces, withoutWriting(mode));
}

/** The index behind the chunks, durable, and no permission to write. */
async function addTail(site: LinkSite, { places, facts, tail, size, mode }: Work): Promise<void> {
  if (tail === undefined) return site.files.setMode(places.data, withoutWriting(mode));
  await allowWriting(site, places.data, facts.mode);
  await site.files.writeTail(places.data, size, tail.pieces, withoutWriting(mode));
}

async function nameShard({ files }: LinkSite, kind: LinkKind, { places, named }: Work): Promise<void> {
  if (named === "right") return;
  if (named === "wrong") await files.remove(places.shard);
  await files.link(places.data, places.shard, kind);
}
