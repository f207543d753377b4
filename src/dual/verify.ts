/**
 * Checks a Zarr view: the documents, the shards, every index and the chunks that it leads to. For a linked archive,
 * also the names and inodes of the shards, and that no program can write through a shard. Verification of the archive
 * itself is unchanged. Writes nothing. @see FORMAT.md [FL-06] [FL-07] [FY-07]
 */

import { readAttributes } from "../archive/kinds/array-folder.ts";
import type { Finding, LongOptions } from "../archive/kinds/types.ts";
import { open } from "../archive/open/open.ts";
import { isEqual, pushAll } from "../bytes/arrays.ts";
import { crc32c } from "../bytes/checksum.ts";
import { isSuperchunkError, type SuperchunkError } from "../errors.ts";
import { parseJson } from "../format/json.ts";
import { VIEW_IS_BEHIND } from "../format/layout.ts";
import { LIVE_STATE } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import { readWritable } from "../write/array/create.ts";
import { layOutColumns } from "../write/layout/columns.ts";
import { encodeDocument } from "../zarr/document/make-v3.ts";
import { ColumnShards, type ShardPlace, type ViewRows, viewRowsOf } from "./column-shards.ts";
import { isForeign, LiveDocuments } from "./documents.ts";
import { checkTail, WRITE_BITS, withoutWriting } from "./shard-file.ts";
import { type LinkedShard, planShards } from "./shards.ts";
import {
  type LinkRecord,
  type RecordedFile,
  readLinkRecord,
  readLiveState,
  showsCommit,
  sidesOf,
} from "./state.ts";
import { isCopyOf, storedShard } from "./survey.ts";
import type { LinkOptions, LinkSite } from "./types.ts";

/** Code of the finding that a Zarr view is intact but shows an earlier state of the archive. */
export const BEHIND = "BEHIND";
const BEHIND_TEXT =
  'the Zarr view is intact, but shows the archive as it was when it was linked: Zarr readers get the old values. "superchunk link" brings it up to date (of an array in which values were set or rows deleted, "superchunk compact" first)';
const UNFINISHED_TEXT =
  'the archive was being linked to Zarr, and the link was interrupted: no Zarr reader opens it yet. "superchunk link" completes it';
/** Codes of findings about the view alone. */
const OF_LINK = ["LINK", "SHARD_INDEX"];
const REPAIR = 'run "superchunk link" again';

/**
 * Findings about the Zarr view of a linked archive; undefined if nothing is linked. If the archive was changed since,
 * and the view still shows the earlier state correctly, the only finding is a warning with the code `BEHIND`.
 */
export async function verifyLink(
  site: LinkSite,
  options: LinkOptions,
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
      pushAll(findings, await checkShard(site, record, shard, recorded.get(shard.path), signal));
    }
    for await (const { text, path } of unlikeDocuments(target, linked.documents, signal))
      findings.push({ severity: "error", code: "LINK", message: `${text}; ${REPAIR}`, path });
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    findings.push(findingOf(caught, target.describe("")));
  }
  const isWrong = findings.some(({ severity }) => severity === "error");
  if (!isWrong || record === undefined) return findings;
  const outdated = (message: string): readonly Finding[] => [
    { severity: "warning", code: BEHIND, message, path: target.describe("") },
  ];
  // The root's document is written last: without it nothing is visible, so nothing can be wrong.
  const isOfLink = findings.every(({ code, severity }) => severity === "warning" || OF_LINK.includes(code));
  if (isOfLink && (await target.stat("zarr.json", { signal })) === undefined)
    return outdated(UNFINISHED_TEXT);
  return (await isAsRecorded(site, record, signal)) ? outdated(BEHIND_TEXT) : findings;
}

/** Turns an error into a finding, at `path` if the error names no other. */
function findingOf({ code, summary, details }: SuperchunkError, path: string): Finding {
  return { severity: "error", code, message: summary, path: details.path ?? path };
}

/** Yields the documents that are missing or differ. */
async function* unlikeDocuments(
  store: ReadableStore,
  documents: readonly (readonly [key: string, bytes: Uint8Array])[],
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly text: string; readonly path: string }> {
  for (const [key, bytes] of documents) {
    const stored = await store.get(key, { signal });
    if (isEqual(stored, bytes) || isEqual(stored, withoutNames(bytes))) continue;
    const text =
      stored === undefined
        ? "the document is not there"
        : "the document does not say what the array is now (its shape, perhaps)";
    yield { text, path: store.describe(key) };
  }
}

/** The document as earlier versions wrote it, without dimension names. */
function withoutNames(bytes: Uint8Array): Uint8Array {
  const strip = (document: JsonObject): JsonObject => {
    const { dimension_names: _, ...others } = document;
    return others;
  };
  const document = strip(parseJson(bytes, "zarr.json") as JsonObject);
  const { consolidated_metadata: all } = document as { consolidated_metadata?: JsonObject };
  if (all === undefined) return encodeDocument(document);
  const inner = Object.entries(all["metadata"] as JsonObject).map(
    ([node, each]) => [node, strip(each as JsonObject)] as const,
  );
  return encodeDocument({
    ...document,
    consolidated_metadata: { ...all, metadata: Object.fromEntries(inner) },
  });
}

/** Returns what is wrong with one shard and its data file. */
async function checkShard(
  site: LinkSite,
  { kind }: LinkRecord,
  shard: LinkedShard,
  recorded: RecordedFile | undefined,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { files } = site;
  const { data, shard: place } = sidesOf(shard);
  const path = files.describe(place);
  const note = (severity: Finding["severity"], code: string, text: string): Finding => ({
    severity,
    code,
    path,
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
    const text = `it stopped being ${is}: one of the two was changed or replaced; ${REPAIR}`;
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
    const text = `the file has ${more} more hard links than linking made; it will not be changed or unlinked`;
    findings.push(note("warning", "LINK", text));
  }
  return findings;
}

/**
 * True if every document and every shard is what the record describes: then the view is intact, and shows the archive
 * as it was when it was linked. Throws errors of the store. [FL-07]
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
    const { data, shard } = sidesOf(file);
    const isSymbolic = kind === "symbolic";
    if (isSymbolic && !(await files.leadsTo(shard, data))) return false;
    const facts = await files.inspect(isSymbolic ? data : shard);
    const isWhole = facts?.kind === "file" && facts.size === file.size + file.tail;
    if (!isWhole || (kind !== "copy" && facts.mode !== withoutWriting(facts.mode))) return false;
    // A hard link is read under the shard's name, because the data file may have been replaced.
    const { store, key } = storedShard(site, isSymbolic ? kind : "copy", file, facts.size);
    const tail = await store.getRange(key, { offset: file.size, length: file.tail }, { signal });
    if (tail === undefined || (await crc32c(tail)) !== file.crc32c) return false;
  }
  return true;
}

/** Findings about a live view; undefined if the array has none. */
export async function verifyLive(
  place: ShardPlace,
  { signal }: LongOptions,
): Promise<readonly Finding[] | undefined> {
  const { store, path } = place;
  const findings: Finding[] = [];
  let isBehind = false;
  try {
    const { settings, committed } = await readWritable(store, path, { signal });
    if (!settings.zarr) return undefined;
    const state = await readLiveState(store, path);
    // While a writer is at work, or after one was killed, this is expected: the next writer repairs it.
    const isCurrent = state !== undefined && showsCommit(state, committed.layout);
    isBehind = !isCurrent;
    const note = (code: string, text: string, at: string, isHarmless = false): void => {
      const message = isCurrent
        ? `${text}; ${REPAIR}`
        : `${text}; a writer is at work, or was killed. The next one repairs it`;
      findings.push({ severity: isCurrent && !isHarmless ? "error" : "warning", code, message, path: at });
    };
    if (state === undefined) note("LINK", "it is not there", store.describe(joinKey(path, LIVE_STATE)));
    const columns = layOutColumns(path, settings);
    const documents = new LiveDocuments({ store, path }, settings, columns);
    const rows = viewRowsOf(place, columns, settings.chunklen, committed, committed.rows);
    for (const column of documents.columns) {
      const shards = new ColumnShards(place, column);
      for (let shard = 0; shard * settings.superchunklen < rows.chunks; shard++) {
        signal?.throwIfAborted();
        const at = store.describe(shards.key(shard));
        const fault = await findFault(place, shards, shard, rows);
        if (fault !== undefined) note("SHARD", fault.text, at, fault.isHarmless);
      }
    }
    const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), {})) ?? {};
    for await (const { text, path: at } of unlikeDocuments(
      store,
      documents.list(committed.rows, attrs),
      signal,
    ))
      note("LINK", text, at);
    const forms = state?.forms ?? [];
    for (const { node } of forms) {
      const key = joinKey(path, node, "zarr.json");
      const isShown = documents.columns.some((column) => column.node === node);
      if (isShown || (await isForeign(store, path, node, forms))) continue;
      if ((await store.stat(key)) !== undefined)
        note("LINK", "the document describes a column that no longer exists", store.describe(key));
    }
  } catch (caught) {
    if (!isSuperchunkError(caught)) throw caught;
    findings.push(findingOf(caught, store.describe(path)));
  }
  return isBehind && findings.length > 0
    ? [
        { severity: "warning", code: BEHIND, message: VIEW_IS_BEHIND, path: store.describe(path) },
        ...findings,
      ]
    : findings;
}

/** Returns what is wrong with a shard. Its mode alone harms nothing: some file systems keep none. */
async function findFault(
  { files }: ShardPlace,
  shards: ColumnShards,
  shard: number,
  rows: ViewRows,
): Promise<{ readonly text: string; readonly isHarmless?: true } | undefined> {
  const key = shards.key(shard);
  const found = await shards.inspect(key);
  if (found === undefined) return { text: "the shard is not there" };
  if (found.shard === undefined) return { text: "its index is damaged" };
  for await (const { slot } of shards.differing(key, found.shard, shards.chunksOf(shard, rows), rows)) {
    const chunk = shard * shards.column.facts.capacity + slot;
    return { text: `its inner chunk ${slot} is not chunk ${chunk} of the array` };
  }
  const { mode, identity } = found.facts;
  if ((mode & WRITE_BITS) === 0) return undefined;
  const full = shards.fullSuperchunk(shard, rows);
  const data = full === undefined ? undefined : await files.inspect({ side: "data", key: full });
  const risk = data?.identity === identity ? ", which would destroy the superchunk" : "";
  return { text: `its mode ${mode.toString(8)} lets programs write into it${risk}`, isHarmless: true };
}
