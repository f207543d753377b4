/**
 * Undoes a link: the documents go, the root's first, then the shards' names, then what was added to the files, then the
 * record. Broken off anywhere, the same call completes it. @see FORMAT.md [FL-05]
 */
import { SuperchunkError } from "../../errors.ts";
import { runPooled } from "../../store/pool.ts";
import { followMoves } from "./moves.ts";
import { LINK_RECORD, type LinkRecord, type RecordedFile, readLinkRecord } from "./record.ts";
import { assertOwnNames, findFormer, placesOf, restoreFile } from "./restore.ts";
import type { FileFacts, LinkSite, UnlinkResult } from "./types.ts";

const UNPROVEN =
  "nothing proves that linking added what stands behind its chunks. If it was linked here, put a copy without that in its place";
/** Files that are made durable at a time. */
const AT_ONCE = 32;

/**
 * Makes the archive what it was, to the last byte and the permissions.
 *
 * @throws NOT_FOUND where nothing is linked; CONFLICT where a data file has names that must not change with it;
 * READ_ONLY, IO; BAD_FIELD where the record is damaged
 */
export async function unlinkArchive(
  site: LinkSite,
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<UnlinkResult> {
  const { target, files } = site;
  const { signal } = options;
  const record = await readLinkRecord(target, signal);
  if (record === undefined) {
    throw new SuperchunkError("NOT_FOUND", "nothing is linked here: there is no record of a link", {
      path: target.describe(LINK_RECORD),
      field: LINK_RECORD,
    });
  }
  const { files: recorded, gone } = await followMoves(site, record);
  const undone = await undoFiles(site, record.kind, recorded, async () => {
    for (const key of [...record.documents].reverse()) await target.delete(key, { signal });
    await files.sync([{ side: "zarr", key: "zarr.json" }]);
  });
  for (const file of gone) await files.remove(placesOf(file).shard);
  const folders = [...record.folders].reverse();
  for (const key of folders) {
    const at = { side: "zarr", key } as const;
    // What has become a file since, or was none of the link's ever, stays.
    if (key !== "" && (await files.inspect(at))?.kind === "folder") await files.remove(at);
  }
  await target.delete(LINK_RECORD);
  await files.sync([{ side: "zarr", key: LINK_RECORD }]);
  if (folders.includes("")) await files.remove({ side: "zarr", key: "" });
  return undone;
}

/** Takes shards' names away and makes their data files what they were; `begin` once none of them refuses, before any change. */
export async function undoFiles(
  site: LinkSite,
  kind: LinkRecord["kind"],
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
    // Found out while the shard's name still tells which file is the one that was linked.
    const former = facts === undefined ? undefined : await findFormer(site, kind, file, facts);
    found.push({ file, facts, former });
  }
  await begin?.();
  await runPooled(found, AT_ONCE, async ({ file, facts, former }) => {
    const { data, shard } = placesOf(file);
    if (facts === undefined || former === undefined)
      notes.push(`${files.describe(data)} is not there any more`);
    else if (former.replaced) replaced.push(files.describe(data));
    else if (former.isUnproven) notes.push(`${files.describe(data)} stays as it is: ${UNPROVEN}`);
    else {
      // The file first: its shard's name proves what was added, should this be broken off.
      const cut = await restoreFile(site, kind, data, facts, former);
      removed += cut;
      restored++;
    }
    await files.remove(shard);
  });
  await files.sync(recorded.map((file) => placesOf(file).shard));
  return { files: restored, removed, replaced, notes };
}

/** The data file, if it is there, and nobody else's. */
async function findFile(
  site: LinkSite,
  kind: LinkRecord["kind"],
  file: RecordedFile,
): Promise<FileFacts | undefined> {
  const { data, shard } = placesOf(file);
  const facts = await site.files.inspect(data);
  if (facts === undefined || kind === "copy") return facts;
  return assertOwnNames(site, data, await site.files.inspect(shard));
}
