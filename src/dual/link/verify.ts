/**
 * Whether a linked archive's Zarr view is right: the documents, the names and inodes of the shards, every index, and that
 * nobody can write through a shard. The archive itself is verified as ever. @see FORMAT.md [FL-06]
 */

import type { Finding } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { isEqual } from "../../bytes/equal.ts";
import { isSuperchunkError } from "../../errors.ts";
import { isViewOfBefore } from "./behind.ts";
import { isCopyOf } from "./copied-bytes.ts";
import { type LinkRecord, readLinkRecord } from "./record.ts";
import { placesOf, withoutWriting } from "./restore.ts";
import { planShards } from "./shards.ts";
import { checkTail } from "./tail.ts";
import type { LinkOptions, LinkSite } from "./types.ts";

/** Code of the finding that a Zarr view is right, and that of the archive before it was changed. */
export const BEHIND = "BEHIND";
const BEHIND_TEXT =
  'the Zarr view is whole, and shows the archive as it was when it was linked: Zarr readers get what was there before. "superchunk link" brings it up to date (of an array in which values were set or rows deleted, "superchunk compact" first)';
const REPAIR = 'run "superchunk link" again';

/**
 * What is wrong with the Zarr view of a linked archive; undefined where nothing is linked. Where the archive was changed since,
 * and the view is still right as it was, that is one warning with the code `BEHIND`.
 */
export async function verifyLink(
  site: LinkSite,
  options: LinkOptions = {},
): Promise<readonly Finding[] | undefined> {
  const { target, source, files } = site;
  const signal = options.signal ?? new AbortController().signal;
  const findings: Finding[] = [];
  const error = (code: string, message: string, path: string): void => {
    findings.push({ severity: "error", code, message, path });
  };
  let record: LinkRecord | undefined;
  try {
    record = await readLinkRecord(target, signal);
    if (record === undefined) return undefined;
    const archive = await open(source, record.archive, { signal });
    const linked = await planShards(archive, { ...options, ...record.options, kind: record.kind });
    const recorded = new Map(record.files.map((file) => [file.path, file]));
    for (const shard of linked.shards) {
      signal.throwIfAborted();
      const file = recorded.get(shard.path);
      const { data, shard: place } = placesOf(shard);
      const path = files.describe(place);
      const [facts, link] = [await files.inspect(data), await files.inspect(place)];
      if (file === undefined || link === undefined || facts === undefined) {
        error("LINK", `the shard of ${files.describe(data)} is not there; ${REPAIR}`, path);
        continue;
      }
      const isRight =
        record.kind === "copy"
          ? await isCopyOf(site, { path: shard.path, link: shard.link, size: facts.size }, signal)
          : record.kind === "hard"
            ? link.identity === facts.identity
            : await files.leadsTo(place, data);
      if (!isRight) {
        const is = record.kind === "copy" ? "a copy of" : "the file";
        error(
          "LINK",
          `it is not ${is} ${files.describe(data)} any more: one of the two was changed or replaced; ${REPAIR}`,
          path,
        );
        continue;
      }
      const [store, key, size] =
        record.kind === "copy"
          ? ([target, shard.link, link.size] as const)
          : ([source, shard.path, facts.size] as const);
      const fault = await checkTail(shard, store, key, size, signal);
      if (fault !== undefined) error("SHARD_INDEX", `${fault}; ${REPAIR}`, path);
      const { mode } = record.kind === "copy" ? link : facts;
      if (mode !== withoutWriting(mode)) {
        findings.push({
          severity: "warning",
          code: "LINK",
          message: `its mode ${mode.toString(8)} lets programs write into it, which would destroy the other formats; ${REPAIR}`,
          path,
        });
      }
      const names = record.kind === "hard" ? 2 : 1;
      if (record.kind !== "copy" && facts.links > names) {
        findings.push({
          severity: "warning",
          code: "LINK",
          message: `the file has ${facts.links - names} hard links more than linking made; it will not be written to, nor unlinked`,
          path,
        });
      }
    }
    for (const [key, bytes] of linked.documents) {
      const stored = await target.get(key, { signal });
      if (isEqual(stored, bytes)) continue;
      error(
        "LINK",
        stored === undefined
          ? `the document is not there; ${REPAIR}`
          : `the document does not say what the archive is now (its shape, perhaps); ${REPAIR}`,
        target.describe(key),
      );
    }
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    error(caught.code, caught.summary, caught.details.path ?? target.describe(""));
  }
  const isWrong = findings.some(({ severity }) => severity === "error");
  if (!isWrong || record === undefined || !(await isViewOfBefore(site, record, signal))) return findings;
  return [{ severity: "warning", code: BEHIND, message: BEHIND_TEXT, path: target.describe("") }];
}
