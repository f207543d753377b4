/**
 * Undoes a link: removes the documents (the root's first), then what was added to the files and the shards' names, then
 * the record. If it is interrupted at any point, the same call completes it.
 *
 * Bytes are cut off only if it is proven that linking added them. @see FORMAT.md [FL-05]
 */
import { crc32c } from "../bytes/checksum.ts";
import { SuperchunkError } from "../errors.ts";
import { LINK_RECORD } from "../format/naming.ts";
import { splitKey } from "../store/key.ts";
import { runPooled } from "../store/pool.ts";
import {
  assertOwnNames,
  isIndexOfFile,
  isIndexTail,
  OWNER_WRITES,
  WRITE_BITS,
  withoutWriting,
} from "./shard-file.ts";
import { findDataEnd } from "./shards.ts";
import { type LinkRecord, type RecordedFile, readLinkRecord, sidesOf } from "./state.ts";
import type { FileFacts, FilePlace, LinkKind, LinkSite, UnlinkResult } from "./types.ts";

const UNPROVEN =
  "nothing proves that linking added what follows its chunks. If it was linked here, replace it by a copy without those bytes";
/** Files made durable at a time. Concurrent syncs share the disk's work. */
export const AT_ONCE = 32;

/**
 * Restores the archive to its state before linking, to the last byte and permission.
 * @throws NOT_FOUND if nothing is linked; CONFLICT if a data file has other names that must not change with it;
 * READ_ONLY, IO; BAD_FIELD if the record is damaged
 */
export async function unlinkArchive(
  site: LinkSite,
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<UnlinkResult> {
  const { target, files } = site;
  const { signal } = options;
  const record = await readLinkRecord(target, signal);
  if (record === undefined)
    throw new SuperchunkError("NOT_FOUND", "nothing is linked here: found no record of a link", {
      path: target.describe(LINK_RECORD),
      field: LINK_RECORD,
    });
  const { files: recorded, gone } = await followMoves(site, record);
  const undone = await undoFiles(site, record.kind, recorded, async () => {
    for (const key of [...record.documents].reverse()) await target.delete(key, { signal });
    await files.sync([{ side: "zarr", key: "zarr.json" }]);
  });
  for (const file of gone) await files.remove(sidesOf(file).shard);
  for (const folder of new Set(record.documents.map((key) => splitKey(key).folder)))
    await target.removeLeftovers?.(folder, { signal });
  const folders = [...record.folders].reverse();
  for (const key of folders) {
    const at = { side: "zarr", key } as const;
    // What is a file by now, or never belonged to the link, stays.
    if (key !== "" && (await files.inspect(at))?.kind === "folder") await files.remove(at);
  }
  await target.delete(LINK_RECORD);
  await files.sync([{ side: "zarr", key: LINK_RECORD }]);
  if (folders.includes("")) await files.remove({ side: "zarr", key: "" });
  return undone;
}

/** Removes the shards' names and restores their data files. Calls `begin` once no file refuses, before any change. */
export async function undoFiles(
  site: LinkSite,
  kind: LinkKind,
  recorded: readonly RecordedFile[],
  begin?: () => Promise<void>,
): Promise<UnlinkResult> {
  const { files } = site;
  let restored = 0;
  let removed = 0;
  const replaced: string[] = [];
  const notes: string[] = [];
  const found = [];
  for (const file of recorded) {
    const facts = await findFile(site, kind, file);
    // This must be found out while the shard's name still shows which file was linked.
    const former = facts === undefined ? undefined : await findFormer(site, kind, file, facts);
    found.push({ file, facts, former });
  }
  await begin?.();
  await runPooled(found, AT_ONCE, async ({ file, facts, former }) => {
    const { data, shard } = sidesOf(file);
    if (facts === undefined || former === undefined) notes.push(`${files.describe(data)} no longer exists`);
    else if (former.replaced) replaced.push(files.describe(data));
    else if (former.isUnproven) notes.push(`${files.describe(data)} stays as it is: ${UNPROVEN}`);
    else {
      // The file comes first: if this is interrupted, its shard's name still proves what was added.
      if (kind !== "copy") await restoreFile(site, data, facts, former);
      removed += facts.size - former.size;
      restored++;
    }
    await files.remove(shard);
  });
  await files.sync(recorded.map((file) => sidesOf(file).shard));
  return { files: restored, removed, replaced, notes };
}

/** The data file, if it exists. Throws if it has other names. */
async function findFile(site: LinkSite, kind: LinkKind, file: RecordedFile): Promise<FileFacts | undefined> {
  const { data, shard } = sidesOf(file);
  const facts = await site.files.inspect(data);
  if (facts === undefined || kind === "copy") return facts;
  return assertOwnNames(site, data, await site.files.inspect(shard));
}

/** A data file before it was linked. */
interface FormerFile {
  /** Size in bytes, and permission bits. */
  readonly size: number;
  readonly mode: number;
  /** True if another program put another file in its place, to which nothing was added. */
  readonly replaced: boolean;
  /** True if nothing proves that linking added what follows its chunks; then the file stays as it is. */
  readonly isUnproven?: true;
}

/**
 * The size and mode that a recorded file had before it was linked, whatever happened since: nothing, an interrupted
 * link, a foreign append over the index, or another file in its place.
 *
 * A record may come from anyone and name any file. Its word about a file counts only in one of these cases: the file's
 * tail is an index that leads to the chunks of this very file; the shard is a hard link to it, which no download
 * creates; the file is in the record's own folder; or the caller asked for this very file (`isAsked`).
 */
export async function findFormer(
  site: LinkSite,
  kind: LinkKind,
  recorded: RecordedFile,
  facts: FileFacts,
  isAsked = false,
): Promise<FormerFile> {
  if (kind === "copy") return { size: facts.size, mode: facts.mode, replaced: false };
  const { path, size, tail } = recorded;
  // Linking removes write permissions only, so only those are given back.
  const mode = withoutWriting(facts.mode) | (recorded.mode & WRITE_BITS);
  const asIs = { size: facts.size, mode: facts.mode };
  const shard = await site.files.inspect(sidesOf(recorded).shard);
  const isNamed = kind === "hard" && shard?.identity === facts.identity;
  const isTrusted = isAsked || isNamed || site.data === ".";
  if (facts.size === size) return { ...asIs, mode: isTrusted ? mode : facts.mode, replaced: false };
  if (facts.size === size + tail) {
    const bytes = await site.source.getRange(path, { offset: size, length: tail });
    if (bytes !== undefined && (await crc32c(bytes)) === recorded.crc32c) {
      const found = { size, bytes };
      const isProven = isTrusted
        ? await isIndexTail(found, site.source.describe(path))
        : await isIndexOfFile(site.source, path, found);
      if (isProven) return { size, mode, replaced: false };
    }
  }
  // While a link is being made, a file has no shard yet. If the hard link is now another file, the data file was replaced.
  const isSame = shard === undefined || kind === "symbolic" || isNamed;
  if (!isSame) return { ...asIs, replaced: true };
  if (!isTrusted) return { ...asIs, replaced: false, isUnproven: true };
  const end = await findDataEnd(site.source, path, facts.size);
  return { size: Math.min(facts.size, Math.max(size, end)), mode, replaced: false };
}

/** Restores a data file. */
async function restoreFile(
  { files }: LinkSite,
  data: FilePlace,
  facts: FileFacts,
  former: FormerFile,
): Promise<void> {
  if (facts.size > former.size) {
    // Permissions come first, while the tail still proves that they may be restored.
    await files.setMode(data, former.mode | OWNER_WRITES);
    await files.truncate(data, former.size);
    await files.setMode(data, former.mode);
  } else if (facts.mode !== former.mode) await files.setMode(data, former.mode);
}

/** The files of a record at their current places. */
interface MovedFiles {
  readonly files: readonly RecordedFile[];
  /** Files whose name another linked file has now. Only their shards are left. */
  readonly gone: readonly RecordedFile[];
  readonly hasMoved: boolean;
}

/**
 * Finds files of hard links that now have another name in the same folder, for example after compacting: a shard's name
 * still identifies its file.
 */
export async function followMoves(site: LinkSite, { kind, files }: LinkRecord): Promise<MovedFiles> {
  if (kind !== "hard") return { files, gone: [], hasMoved: false };
  const lost = new Map<string, RecordedFile>();
  for (const file of files) {
    const { data, shard } = sidesOf(file);
    const link = await site.files.inspect(shard);
    if (link?.kind !== "file") continue;
    if ((await site.files.inspect(data))?.identity !== link.identity) lost.set(link.identity, file);
  }
  const moved = await findByIdentity(site, lost);
  if (moved.size === 0) return { files, gone: [], hasMoved: false };
  const taken = new Set(moved.values());
  const isGone = (file: RecordedFile): boolean => !moved.has(file) && taken.has(file.path);
  return {
    files: files
      .filter((file) => !isGone(file))
      .map((file) => ({ ...file, path: moved.get(file) ?? file.path })),
    gone: files.filter(isGone),
    hasMoved: true,
  };
}

/** Current paths of the files that can be found. */
async function findByIdentity(
  { source, files }: LinkSite,
  lost: ReadonlyMap<string, RecordedFile>,
): Promise<Map<RecordedFile, string>> {
  const found = new Map<RecordedFile, string>();
  for (const folder of new Set([...lost.values()].map(({ path }) => splitKey(path).folder)))
    for await (const { name, kind } of source.list(folder)) {
      if (kind !== "object") continue;
      const key = folder === "" ? name : `${folder}/${name}`;
      const facts = await files.inspect({ side: "data", key });
      const file = facts?.kind === "file" ? lost.get(facts.identity) : undefined;
      if (file !== undefined) found.set(file, key);
    }
  return found;
}
