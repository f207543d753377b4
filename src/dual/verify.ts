/**
 * Whether the Zarr view of a linked archive is right: the documents, the names and inodes of the shards, every index, and that
 * no program can write through a shard. The archive itself is verified as ever. Writes nothing. @see FORMAT.md [FL-06] [FL-07]
 */
import type { Finding } from "../archive/kinds/types.ts";
import { open } from "../archive/open/open.ts";
import { crc32c } from "../bytes/checksum.ts";
import { isEqual } from "../bytes/equal.ts";
import { isSuperchunkError, type SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import { withoutWriting } from "./shard-file.ts";
import { type LinkedShard, planShards } from "./shards.ts";
import { type LinkRecord, type RecordedFile, readLinkRecord } from "./state.ts";
import { isCopyOf, storedShard } from "./survey.ts";
import { checkTail } from "./tail.ts";
import type { LinkOptions, LinkSite } from "./types.ts";
import { placesOf } from "./undo.ts";

/** Code of the finding that a Zarr view is right, and that of the archive before it was changed. */
export const BEHIND = "BEHIND";
const BEHIND_TEXT =
  'the Zarr view is whole, and shows the archive as it was when it was linked: Zarr readers get what was there before. "superchunk link" brings it up to date (of an array in which values were set or rows deleted, "superchunk compact" first)';
/** What to do about a view that is wrong. */
export const REPAIR = 'run "superchunk link" again';

/**
 * What is wrong with the Zarr view of a linked archive; undefined where nothing is linked. Where the archive was changed since,
 * and the view is still right as it was, that is one warning with the code `BEHIND`.
 */
export async function verifyLink(
  site: LinkSite,
  options: LinkOptions = {},
): Promise<readonly Finding[] | undefined> {
  const { target, source } = site;
  const signal = options.signal ?? new AbortController().signal;
  const findings: Finding[] = [];
  let record: LinkRecord | undefined;
  try {
    record = await readLinkRecord(target, signal);
    if (record === undefined) return undefined;
    const archive = await open(source, record.archive, { signal });
    const linked = await planShards(archive, { ...options, ...record.options, kind: record.kind });
    const recorded = new Map(record.files.map((file) => [file.path, file]));
    for (const shard of linked.shards) {
      signal.throwIfAborted();
      findings.push(...(await checkShard(site, record, shard, recorded.get(shard.path), signal)));
    }
    for await (const { text, path } of unlikeDocuments(target, linked.documents, signal))
      findings.push({ severity: "error", code: "LINK", message: `${text}; ${REPAIR}`, path });
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    findings.push(findingOf(caught, target.describe("")));
  }
  const isWrong = findings.some(({ severity }) => severity === "error");
  if (!isWrong || record === undefined || !(await isAsRecorded(site, record, signal))) return findings;
  return [{ severity: "warning", code: BEHIND, message: BEHIND_TEXT, path: target.describe("") }];
}

/** The finding that an error is, found at a path where it names no other. */
export function findingOf({ code, summary, details }: SuperchunkError, path: string): Finding {
  return { severity: "error", code, message: summary, path: details.path ?? path };
}

/** The documents that are not there, or say something else. */
export async function* unlikeDocuments(
  store: ReadableStore,
  documents: readonly (readonly [key: string, bytes: Uint8Array])[],
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly text: string; readonly path: string }> {
  for (const [key, bytes] of documents) {
    const stored = await store.get(key, { signal });
    if (isEqual(stored, bytes)) continue;
    const text =
      stored === undefined
        ? "the document is not there"
        : "the document does not say what the array is now (its shape, perhaps)";
    yield { text, path: store.describe(key) };
  }
}

/** What is wrong with one shard and its data file. */
async function checkShard(
  site: LinkSite,
  { kind }: LinkRecord,
  shard: LinkedShard,
  recorded: RecordedFile | undefined,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { files } = site;
  const { data, shard: place } = placesOf(shard);
  const path = files.describe(place);
  const note = (severity: Finding["severity"], code: string, text: string): Finding => ({
    ...{ severity, code, path },
    message: text,
  });
  const [facts, link] = [await files.inspect(data), await files.inspect(place)];
  if (recorded === undefined || link === undefined || facts === undefined)
    return [note("error", "LINK", `the shard of ${files.describe(data)} is not there; ${REPAIR}`)];
  const isCopy = kind === "copy";
  const isRight = isCopy
    ? await isCopyOf(site, shard, facts.size, signal)
    : kind === "hard"
      ? link.identity === facts.identity
      : await files.leadsTo(place, data);
  if (!isRight) {
    const is = `${isCopy ? "a copy of" : "the file"} ${files.describe(data)}`;
    const text = `it is not ${is} any more: one of the two was changed or replaced; ${REPAIR}`;
    return [note("error", "LINK", text)];
  }
  const { size, mode } = isCopy ? link : facts;
  const findings: Finding[] = [];
  const fault = await checkTail(shard, storedShard(site, kind, shard, size), signal);
  if (fault !== undefined) findings.push(note("error", "SHARD_INDEX", `${fault}; ${REPAIR}`));
  if (mode !== withoutWriting(mode)) {
    const text = `its mode ${mode.toString(8)} lets programs write into it, which would destroy the other formats; ${REPAIR}`;
    findings.push(note("warning", "LINK", text));
  }
  const more = facts.links - (kind === "hard" ? 2 : 1);
  if (!isCopy && more > 0) {
    const text = `the file has ${more} hard links more than linking made; it will not be written to, nor unlinked`;
    findings.push(note("warning", "LINK", text));
  }
  return findings;
}

/**
 * True where every document and every shard is what the record says was made: then the view is whole, of the archive as it was
 * when it was linked. Throws what reading throws. [FL-07]
 */
async function isAsRecorded(
  site: LinkSite,
  { kind, documents, sums, files: recorded }: LinkRecord,
  signal: AbortSignal,
): Promise<boolean> {
  const { target, files } = site;
  for (const key of documents) {
    const stored = await target.get(key, { signal });
    if (stored === undefined || (await crc32c(stored)) !== sums.get(key)) return false;
  }
  for (const file of recorded) {
    const { data, shard } = placesOf(file);
    const isSymbolic = kind === "symbolic";
    if (isSymbolic && !(await files.leadsTo(shard, data))) return false;
    const facts = await files.inspect(isSymbolic ? data : shard);
    const isWhole = facts?.kind === "file" && facts.size === file.size + file.tail;
    if (!isWhole || (kind !== "copy" && facts.mode !== withoutWriting(facts.mode))) return false;
    // A hard link is read under the shard's name: the data file may be another one by now.
    const { store, key } = storedShard(site, isSymbolic ? kind : "copy", file, facts.size);
    const tail = await store.getRange(key, { offset: file.size, length: file.tail }, { signal });
    if (tail === undefined || (await crc32c(tail)) !== file.crc32c) return false;
  }
  return true;
}
