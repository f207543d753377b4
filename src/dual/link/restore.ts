/**
 * What a data file was before it was linked, and making it that again.
 *
 * Bytes are cut off only where it is proven that linking added them. @see FORMAT.md [FL-05]
 */
import { crc32c } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import { findDataEnd } from "./data-end.ts";
import { isIndexOfFile, isIndexTail } from "./proof.ts";
import type { LinkRecord, RecordedFile } from "./record.ts";
import type { FileFacts, LinkPlace, LinkSite } from "./types.ts";

/** The permission to write, of anybody and of the owner. */
const WRITE_BITS = 0o222;
const OWNER_WRITES = 0o200;

/** A data file as it was. */
export interface FormerFile {
  /** Bytes, and permission bits. */
  readonly size: number;
  readonly mode: number;
  /** True where another program has put another file in its place: nothing was added to that one. */
  readonly replaced: boolean;
  /** True where nothing proves that linking added what stands behind its chunks: it stays as it is. */
  readonly isUnproven?: true;
}

/** Place of a data file, and of its shard. */
export function placesOf({ path, link }: Pick<RecordedFile, "path" | "link">): {
  readonly data: LinkPlace;
  readonly shard: LinkPlace;
} {
  return { data: { side: "data", key: path }, shard: { side: "zarr", key: link } };
}

/** Permission bits without those to write: programs that write through hard links would destroy the other formats. */
export function withoutWriting(mode: number): number {
  return mode & ~WRITE_BITS;
}

/**
 * What a recorded file was before it was linked, whatever happened to it since: nothing, a broken off link, a foreign append
 * over the index, or another file in its place.
 *
 * A record may be anybody's, and name any file: what it says of one counts where its tail is an index that leads to the chunks of that very
 * file, where the shard is another name of it, which nobody gets from a download, where it lies in the record's own folder, or where the caller asked for that very file
 * (`isAsked`).
 */
export async function findFormer(
  site: LinkSite,
  kind: LinkRecord["kind"],
  recorded: RecordedFile,
  facts: FileFacts,
  isAsked = false,
): Promise<FormerFile> {
  if (kind === "copy") return { size: facts.size, mode: facts.mode, replaced: false };
  const { path, size, tail } = recorded;
  // Linking takes away the permission to write, and no other; it is all that is given back.
  const mode = withoutWriting(facts.mode) | (recorded.mode & WRITE_BITS);
  const asIs = { size: facts.size, mode: facts.mode };
  const shard = await site.files.inspect(placesOf(recorded).shard);
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
  // While a link is being made its file has no shard yet; a hard link that is another file by now tells a replacement.
  const isSame = shard === undefined || kind === "symbolic" || isNamed;
  if (!isSame) return { ...asIs, replaced: true };
  if (!isTrusted) return { ...asIs, replaced: false, isUnproven: true };
  const end = await findDataEnd(site.source, path, facts.size);
  return { size: Math.min(facts.size, Math.max(size, end)), mode, replaced: false };
}

/**
 * Refuses a file that cannot be written to without changing what somebody else has. `link`: what lies at its shard's place.
 *
 * @throws CONFLICT where it has names that linking did not give it; UNSUPPORTED where it is a symbolic link; INCOMPLETE
 */
export async function assertOwnNames(
  { files }: LinkSite,
  data: LinkPlace,
  link: FileFacts | undefined,
): Promise<FileFacts> {
  const facts = await files.inspect(data);
  const path = files.describe(data);
  if (facts === undefined)
    throw new SuperchunkError("INCOMPLETE", "the data file is not there any more", { path });
  if (facts.kind !== "file") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it is not a file but a link to one elsewhere, which must not be changed; replace it by the file, or convert instead",
      { path, expected: "a file", found: facts.kind },
    );
  }
  const own = link?.kind === "file" && link.identity === facts.identity ? 2 : 1;
  if (facts.links > own) {
    throw new SuperchunkError(
      "CONFLICT",
      `the file has ${facts.links - own} more hard link${facts.links - own > 1 ? "s" : ""} elsewhere (a backup made with "cp -al", perhaps), which would be changed with it; give it bytes of its own ("cp" it and rename the copy over it), or link with copies (--link copy)`,
      { path, field: "hard links", expected: own, found: facts.links },
    );
  }
  return facts;
}

/** Makes a file that can be written to, and must be, writable for its owner. */
export async function allowWriting({ files }: LinkSite, at: LinkPlace, mode: number): Promise<void> {
  if ((mode & OWNER_WRITES) === 0) await files.setMode(at, mode | OWNER_WRITES);
}

/** Makes a data file what it was. Resolves with the bytes that were cut off. */
export async function restoreFile(
  site: LinkSite,
  kind: LinkRecord["kind"],
  data: LinkPlace,
  facts: FileFacts,
  former: FormerFile,
): Promise<number> {
  if (kind === "copy" || former.replaced) return 0;
  if (facts.size > former.size) {
    // All that was allowed before, while the tail proves that it may be.
    await site.files.setMode(data, former.mode | OWNER_WRITES);
    await site.files.truncate(data, former.size);
    await site.files.setMode(data, former.mode);
  } else if (facts.mode !== former.mode) await site.files.setMode(data, former.mode);
  return facts.size - former.size;
}
