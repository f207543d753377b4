/** Finds out what exists of a link, what remains to be done, and what is in the way. Must not write. */

import type { Archive } from "../archive/kinds/types.ts";
import { defined, isEqual } from "../bytes/arrays.ts";
import { crc32c } from "../bytes/checksum.ts";
import { SuperchunkError } from "../errors.ts";
import { LINK_RECORD } from "../format/naming.ts";
import { splitKey } from "../store/key.ts";
import { shardIndexLength } from "../zarr/read/shard-index.ts";
import {
  assertOwnNames,
  checkTail,
  factsOf,
  makeTail,
  type StoredShard,
  type Tail,
  withoutWriting,
} from "./shard-file.ts";
import { type LinkedArchive, type LinkedShard, planShards } from "./shards.ts";
import { getIfThere, type LinkRecord, type RecordedFile, type RecordedOptions, sidesOf } from "./state.ts";
import type {
  FileFacts,
  FilePlace,
  LinkAction,
  LinkKind,
  LinkOptions,
  LinkPlan,
  LinkSite,
  PlannedLink,
} from "./types.ts";
import { findFormer } from "./undo.ts";

const ROOT: FilePlace = { side: "zarr", key: "" };
/** Bytes compared at a time. */
const PIECE = 1 << 20;

/** A file to be made a shard. */
export interface ShardWork {
  readonly places: { readonly data: FilePlace; readonly shard: FilePlace };
  readonly facts: FileFacts;
  /** Undefined if the file has it already. */
  readonly tail: Tail | undefined;
  /** Bytes before the tail. */
  readonly size: number;
  readonly mode: number;
  /** What is at the shard's key: nothing, the right file, or something else. */
  readonly named: "absent" | "right" | "wrong";
}

/** What exists, and what remains to be done. */
export interface LinkSurvey {
  readonly plan: LinkPlan;
  readonly record: LinkRecord;
  /** Recorded files that no longer belong to the archive. */
  readonly stale: readonly RecordedFile[];
  /** Keys of shards that now have another name. */
  readonly oldNames: readonly string[];
  /** Files that are not linked correctly. */
  readonly works: readonly ShardWork[];
  /** Keys of documents that must be hidden meanwhile, the root's first. */
  readonly hidden: readonly string[];
  /** Documents that are missing or differ; if anything changes, also the root's. */
  readonly documents: readonly (readonly [key: string, bytes: Uint8Array])[];
}

/**
 * Surveys everything. `before` is the record of an existing link, complete or not.
 * @throws UNSUPPORTED, CONFLICT and the codes of damage, as linking does
 */
export async function survey(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  before: LinkRecord | undefined,
): Promise<LinkSurvey> {
  const { target, files } = site;
  const { kind = "hard", signal = new AbortController().signal } = options;
  assertSameLink(site, archive, before, kind);
  const chosen = chooseOptions(before, options);
  const known = new Map(before?.files.map((file) => [file.path, file]));
  const linked = await planShards(archive, { ...options, ...chosen }, files);
  assertNodes(archive, site, linked);
  const missing = new Set(await missingFolders(site, linked));
  const { isPublished, unlike: documents } = await compareDocuments(site, linked, before, signal);
  const looks: Look[] = [];
  for (const shard of linked.shards) {
    signal.throwIfAborted();
    const hasFolder = !missing.has(splitKey(shard.link).folder);
    looks.push(
      await surveyShard({ site, kind, before, isPublished, signal }, shard, known.get(shard.path), hasFolder),
    );
    options.onProgress?.({ done: looks.length, total: linked.shards.length });
  }
  const works = looks.flatMap(({ work }) => (work === undefined ? [] : [work]));
  const now = new Map(looks.map(({ file }) => [file.path, file]));
  const stale = (before?.files ?? []).filter(({ path }) => !now.has(path));
  const names = new Set(looks.map(({ file }) => file.link));
  const oldNames = (before?.files ?? []).flatMap(({ path, link }) =>
    now.has(path) && !names.has(link) ? [link] : [],
  );
  const keys = linked.documents.map(([key]) => key);
  const oldDocuments = (before?.documents ?? []).filter((key) => !keys.includes(key));
  const changes = works.length + stale.length + oldNames.length + oldDocuments.length + documents.length > 0;
  const root = linked.documents.at(-1);
  const published =
    !changes || root === undefined || documents.some(([key]) => key === root[0])
      ? documents
      : [...documents, root];
  return {
    plan: {
      source: archive.store.describe(archive.path),
      destination: target.describe(""),
      kind,
      documents: documents.map(([key]) => key),
      files: looks.map(({ planned }) => planned),
      added: works.reduce((sum, { tail }) => sum + (tail?.length ?? 0), 0),
      done: !changes,
      notes: [...linked.notes, ...looks.flatMap(({ notes }) => notes), ...noteLinksOut(site, kind)],
    },
    record: {
      kind,
      data: site.data,
      archive: archive.path,
      files: looks.map(({ file }) => file),
      documents: keys,
      sums: new Map(
        await Promise.all(linked.documents.map(async ([key, bytes]) => [key, await crc32c(bytes)] as const)),
      ),
      options: chosen,
      folders: [...new Set([...(before?.folders ?? []), ...missing])].sort(byDepth),
    },
    stale,
    oldNames,
    works,
    hidden: [...published.map(([key]) => key).reverse(), ...oldDocuments],
    documents: published,
  };
}

/**
 * Finds the documents that are missing or differ. `isPublished`: the root's exists, so a link was finished, and everything it made was
 * durable before. Throws `CONFLICT` for one that no link made.
 */
async function compareDocuments(
  { target, files }: LinkSite,
  { documents }: LinkedArchive,
  before: LinkRecord | undefined,
  signal: AbortSignal,
): Promise<{ readonly isPublished: boolean; readonly unlike: LinkSurvey["documents"] }> {
  const unlike: (readonly [string, Uint8Array])[] = [];
  let isPublished = false;
  for (const [key, bytes] of documents) {
    const stored = await getIfThere(target, key, { signal });
    if (stored !== undefined && before?.documents.includes(key) !== true)
      throw new SuperchunkError(
        "CONFLICT",
        `it exists already, and no link made it; ${files.describe(ROOT)} seems to be a separate Zarr array`,
        { path: target.describe(key) },
      );
    if (!isEqual(stored, bytes)) unlike.push([key, bytes]);
    isPublished = stored !== undefined; // the root's comes last
  }
  return { isPublished, unlike };
}

/** What all files of a link share. */
interface LookContext {
  readonly site: LinkSite;
  readonly kind: LinkKind;
  readonly before: LinkRecord | undefined;
  /** False if an existing link was not finished: what looks right may never have reached the disk. */
  readonly isPublished: boolean;
  readonly signal: AbortSignal;
}

/** What was found out about one file. */
interface Look {
  readonly file: RecordedFile;
  readonly planned: PlannedLink;
  /** Undefined if nothing is to be done. */
  readonly work: ShardWork | undefined;
  readonly notes: readonly string[];
}

/**
 * Inspects one data file and its shard. Without `hasFolder` there cannot be a shard. Throws `CONFLICT` if another
 * object has the shard's key, and errors of comparing the bytes.
 */
async function surveyShard(
  { site, kind, before, isPublished, signal }: LookContext,
  shard: LinkedShard,
  recorded: RecordedFile | undefined,
  hasFolder: boolean,
): Promise<Look> {
  const { files } = site;
  const places = sidesOf(shard);
  const path = files.describe(places.data);
  const isOurs = before?.files.some(({ link }) => link === shard.link) === true;
  const link = hasFolder ? await files.inspect(places.shard) : undefined;
  if (link !== undefined && !isOurs)
    throw new SuperchunkError(
      "CONFLICT",
      "it exists already, and no link made it; remove it, or link elsewhere",
      { path: files.describe(places.shard) },
    );
  const isCopy = kind === "copy";
  const facts = isCopy ? await factsOf(site, places.data) : await assertOwnNames(site, places.data, link);
  const former =
    recorded === undefined
      ? { size: facts.size, mode: facts.mode, replaced: false }
      : await findFormer(site, kind, recorded, facts, true);
  const stored = storedShard(site, kind, shard, isCopy ? (link?.size ?? 0) : facts.size);
  const hasTail = stored.size > (isCopy ? facts.size : former.size);
  const reason = hasTail ? await checkTail(shard, stored, signal) : "it has no index";
  const isNamed = isCopy
    ? link?.kind === "file" && reason === undefined && (await isCopyOf(site, shard, former.size, signal))
    : kind === "hard"
      ? link?.identity === facts.identity
      : await files.leadsTo(places.shard, places.data);
  const isProtected = isCopy || facts.mode === withoutWriting(facts.mode);
  const faults = [
    ...(reason === undefined ? [] : [reason]),
    ...(isNamed ? [] : [`${shard.link} is not its shard`]),
    ...(isProtected ? [] : ["it can be written to"]),
  ];
  // A copy that is made again needs its index again; so does a file whose index a failed sync may have lost.
  const isWhole = reason === undefined && (!isCopy || isNamed) && (isPublished || before === undefined);
  const tail = isWhole ? undefined : await makeTail(shard, former.size, signal);
  const hasWork = faults.length > 0 || tail !== undefined;
  const added = tail?.length ?? stored.size - former.size;
  const isPadded =
    tail === undefined ? added > shardIndexLength(shard.layout.shards.capacity) : tail.padded > 0;
  const wasLinked = recorded !== undefined && !former.replaced;
  const action: LinkAction = !hasWork ? "keep" : wasLinked && faults.length > 0 ? "repair" : "link";
  const grown = wasLinked ? former.size - recorded.size : 0;
  return {
    file: {
      path: shard.path,
      link: shard.link,
      size: former.size,
      mode: former.mode,
      tail: added,
      crc32c: tail?.crc32c ?? (await crcOf(stored, former.size, added)),
    },
    planned: {
      file: path,
      shard: shard.link,
      chunks: shard.chunks.length,
      size: former.size,
      added,
      padded: isPadded,
      action,
      ...(action === "repair" ? { reason: faults.join("; ") } : {}),
    },
    work: hasWork
      ? {
          places,
          facts,
          tail,
          size: former.size,
          mode: former.mode,
          named: link === undefined ? "absent" : isNamed ? "right" : "wrong",
        }
      : undefined,
    notes: grown > 0 ? [`${path} has grown by ${grown} bytes since it was linked`] : [],
  };
}

/** The bytes of a shard: in the data file, or in its copy. */
export function storedShard(
  { source, target }: LinkSite,
  kind: LinkKind,
  { path, link }: Pick<RecordedFile, "path" | "link">,
  size: number,
): StoredShard {
  return kind === "copy" ? { store: target, key: link, size } : { store: source, key: path, size };
}

async function crcOf({ store, key }: StoredShard, offset: number, length: number): Promise<number> {
  return crc32c((await store.getRange(key, { offset, length })) ?? new Uint8Array(0));
}

/** True if the first `size` bytes of a data file and of its copy are the same. An index alone does not show which values changed. */
export async function isCopyOf(
  { source, target }: LinkSite,
  { path, link }: Pick<RecordedFile, "path" | "link">,
  size: number,
  signal: AbortSignal,
): Promise<boolean> {
  for (let offset = 0; offset < size; offset += PIECE) {
    const range = { offset, length: Math.min(PIECE, size - offset) };
    const [own, copy] = await Promise.all([
      source.getRange(path, range, { signal }),
      target.getRange(link, range, { signal }),
    ]);
    if (own === undefined || own.length !== range.length || !isEqual(copy, own)) return false;
  }
  return true;
}

/** Notes that the symbolic link to a single file leads out of the Zarr array's folder. [FL-03] */
function noteLinksOut({ data, target }: LinkSite, kind: LinkKind): string[] {
  if (kind !== "symbolic" || data === ".") return [];
  return [
    `the shards are symbolic links that lead out of ${target.describe("")}: other Zarr readers follow them, superchunk does not (verify calls that damage), and after an append to the file they are no longer shards. Hard links, the default, keep working`,
  ];
}

/** The given options; for absent ones, those of the earlier link. */
export function chooseOptions(before: LinkRecord | undefined, options: LinkOptions): RecordedOptions {
  const { dtype, shape, dimensionNames } = options;
  return { ...before?.options, ...defined({ dtype, shape, dimensionNames }) };
}

/** Throws if the existing link is of another kind or another archive: it must be undone first. */
function assertSameLink(
  { target }: LinkSite,
  archive: Archive,
  before: LinkRecord | undefined,
  kind: LinkKind,
): void {
  if (before === undefined || (before.kind === kind && before.archive === archive.path)) return;
  const other =
    before.kind === kind ? `${before.archive} is linked here` : `it is linked with --link ${before.kind}`;
  throw new SuperchunkError("CONFLICT", `${other}; "superchunk unlink" undoes that first`, {
    path: target.describe(LINK_RECORD),
    expected: kind,
    found: before.kind,
  });
}

/** Columns must not have the names of the archive's own folders. */
function assertNodes(archive: Archive, { data }: LinkSite, { documents }: LinkedArchive): void {
  if (archive.dialect !== "blz-superchunk" || data !== ".") return;
  for (const [key] of documents) {
    const name = key.split("/")[0] ?? "";
    if (!["data", "meta"].includes(name)) continue;
    throw new SuperchunkError(
      "UNSUPPORTED",
      `it cannot be linked: the column "${name}" would become the folder ${name}, which is the archive's own. "superchunk convert" makes a Zarr copy`,
      { path: archive.store.describe(archive.path), field: name },
    );
  }
}

/** Folders that do not exist yet, outer ones first, so that undoing can remove them. */
async function missingFolders(site: LinkSite, linked: LinkedArchive): Promise<string[]> {
  const keys = [...linked.shards.map(({ link }) => link), ...linked.documents.map(([key]) => key)];
  const wanted = new Set<string>();
  for (const folder of new Set(keys.map((key) => splitKey(key).folder))) {
    const parts = folder === "" ? [] : folder.split("/");
    for (let depth = 0; depth <= parts.length; depth++) wanted.add(parts.slice(0, depth).join("/"));
  }
  const missing: string[] = [];
  for (const key of wanted)
    if ((await site.files.inspect({ side: "zarr", key })) === undefined) missing.push(key);
  return missing;
}

/** Sorts the root first, then outer folders before inner ones. */
function byDepth(a: string, b: string): number {
  return a.split("/").length - b.split("/").length || a.length - b.length;
}
