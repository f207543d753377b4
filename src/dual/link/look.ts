/** What one data file and its shard are, and what is to be done to them. Must not write. */
import { crc32c } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import { shardIndexLength } from "../../zarr/read/shard-index.ts";
import { isCopyOf } from "./copied-bytes.ts";
import type { LinkRecord, RecordedFile } from "./record.ts";
import { assertOwnNames, findFormer, placesOf, withoutWriting } from "./restore.ts";
import type { Work } from "./shard-making.ts";
import type { LinkedShard } from "./shards.ts";
import { checkTail, makeTail } from "./tail.ts";
import type { FileFacts, LinkAction, LinkKind, LinkPlace, LinkPlan, LinkSite } from "./types.ts";

/** What was found out about one file. */
export interface Look {
  readonly file: RecordedFile;
  readonly planned: LinkPlan["files"][number];
  /** Undefined where nothing is to be done. */
  readonly work: Work | undefined;
  readonly notes: readonly string[];
}

/**
 * Finds out; without `hasFolder` nothing can be in the shard's place. Throws `CONFLICT` where something else is there, and what
 * comparing the bytes throws.
 */
export async function lookAt(
  site: LinkSite,
  kind: LinkKind,
  shard: LinkedShard,
  recorded: RecordedFile | undefined,
  before: LinkRecord | undefined,
  hasFolder: boolean,
  signal: AbortSignal,
): Promise<Look> {
  const { files } = site;
  const places = placesOf(shard);
  const path = files.describe(places.data);
  const isOurs = recorded?.link === shard.link || before?.files.some(({ link }) => link === shard.link);
  const link = hasFolder ? await files.inspect(places.shard) : undefined;
  if (link !== undefined && isOurs !== true) {
    throw new SuperchunkError(
      "CONFLICT",
      "it is there already, and no link made it; remove it, or link elsewhere",
      { path: files.describe(places.shard) },
    );
  }
  const facts =
    kind === "copy" ? await factsOf(site, places.data) : await assertOwnNames(site, places.data, link);
  const former =
    recorded === undefined
      ? { size: facts.size, mode: facts.mode, replaced: false }
      : await findFormer(site, kind, recorded, facts, true);
  const hasTail = kind === "copy" ? link !== undefined && link.size > facts.size : facts.size > former.size;
  const [store, key, size] =
    kind === "copy"
      ? ([site.target, shard.link, link?.size ?? 0] as const)
      : ([site.source, shard.path, facts.size] as const);
  const reason = hasTail ? await checkTail(shard, store, key, size, signal) : "it has no index";
  const isNamed =
    kind === "copy"
      ? link?.kind === "file" &&
        reason === undefined &&
        (await isCopyOf(site, { path: shard.path, link: shard.link, size: former.size }, signal))
      : kind === "hard"
        ? link?.identity === facts.identity
        : await files.leadsTo(places.shard, places.data);
  const named = link === undefined ? "absent" : isNamed === true ? "right" : "wrong";
  const isProtected = kind === "copy" || facts.mode === withoutWriting(facts.mode);
  // A copy that is made anew needs its index anew.
  const isWhole = reason === undefined && (kind !== "copy" || isNamed);
  const tail = isWhole ? undefined : await makeTail(shard, former.size, signal);
  const faults = [
    ...(reason === undefined ? [] : [reason]),
    ...(isNamed ? [] : [`${shard.link} is not its shard`]),
    ...(isProtected ? [] : ["it can be written to"]),
  ];
  const added = tail?.length ?? size - former.size;
  const crc = tail?.crc32c ?? (await crcOf(site, kind, shard, former.size, added));
  const wasLinked = recorded !== undefined && before !== undefined && !former.replaced;
  const action: LinkAction = faults.length === 0 ? "keep" : wasLinked ? "repair" : "link";
  const grew = recorded !== undefined && former.size > recorded.size && !former.replaced;
  return {
    file: {
      path: shard.path,
      link: shard.link,
      size: former.size,
      mode: former.mode,
      tail: added,
      crc32c: crc,
    },
    planned: {
      file: path,
      shard: shard.link,
      chunks: shard.chunks.length,
      size: former.size,
      added,
      padded:
        (tail?.padded ?? 0) > 0 ||
        (tail === undefined && added > shardIndexLength(shard.layout.shards.capacity)),
      action,
      ...(action === "repair" ? { reason: faults.join("; ") } : {}),
    },
    work:
      faults.length === 0 ? undefined : { places, facts, tail, size: former.size, mode: former.mode, named },
    notes: grew
      ? [`${path} has grown by ${former.size - (recorded?.size ?? 0)} bytes since it was linked`]
      : [],
  };
}

async function crcOf(
  site: LinkSite,
  kind: LinkKind,
  shard: LinkedShard,
  offset: number,
  length: number,
): Promise<number> {
  const [store, key] = kind === "copy" ? [site.target, shard.link] : [site.source, shard.path];
  return crc32c((await store.getRange(key, { offset, length })) ?? new Uint8Array(0));
}

async function factsOf({ files }: LinkSite, at: LinkPlace): Promise<FileFacts> {
  const facts = await files.inspect(at);
  if (facts !== undefined) return facts;
  throw new SuperchunkError("INCOMPLETE", "the data file is not there any more", {
    path: files.describe(at),
  });
}
