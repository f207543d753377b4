/**
 * Linked files that got other names since, as compacting an array gives them: a shard's name still tells which file is its.
 *
 * Must not change anything. @see FORMAT.md [FL-05]
 */
import { splitKey } from "../../store/key.ts";
import type { LinkRecord, RecordedFile } from "./record.ts";
import { placesOf } from "./restore.ts";
import type { LinkSite } from "./types.ts";

/** The files of a record where they are now. */
export interface MovedFiles {
  readonly files: readonly RecordedFile[];
  /** Files whose name another linked one has now: nothing but their shards is left of them. */
  readonly gone: readonly RecordedFile[];
  readonly hasMoved: boolean;
}

/** Finds files of hard links that lie in the same folder under another name now. */
export async function followMoves(site: LinkSite, { kind, files }: LinkRecord): Promise<MovedFiles> {
  if (kind !== "hard") return { files, gone: [], hasMoved: false };
  const lost = new Map<string, RecordedFile>();
  for (const file of files) {
    const { data, shard } = placesOf(file);
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

/** Where files are now, of those that are found. */
async function findByIdentity(
  { source, files }: LinkSite,
  lost: ReadonlyMap<string, RecordedFile>,
): Promise<Map<RecordedFile, string>> {
  const found = new Map<RecordedFile, string>();
  for (const folder of new Set([...lost.values()].map(({ path }) => splitKey(path).folder))) {
    for await (const { name, kind } of source.list(folder)) {
      if (kind !== "object") continue;
      const key = folder === "" ? name : `${folder}/${name}`;
      const facts = await files.inspect({ side: "data", key });
      const file = facts?.kind === "file" ? lost.get(facts.identity) : undefined;
      if (file !== undefined) found.set(file, key);
    }
  }
  return found;
}
