/**
 * Makes an archive a Zarr array where it lies.
 *
 * The order: the record of what was, durable; behind each file's chunks the index, durable; the names of the shards; the
 * documents, the root's last. Broken off anywhere, the archive reads as before, there is no Zarr array or the right one, and
 * the same call completes it. @see FORMAT.md [FL]
 */

import type { Archive } from "../../array/types.ts";
import { crc32c } from "../../bytes/checksum.ts";
import { isEqual } from "../../bytes/equal.ts";
import { SuperchunkError } from "../../errors.ts";
import {
  encodeLinkRecord,
  LINK_RECORD,
  type LinkRecord,
  type RecordedFile,
  type RecordedOptions,
  readLinkRecord,
} from "./record.ts";
import { assertOwnNames, findFormer, placesOf, withoutWriting } from "./restore.ts";
import { makeShards, type Work } from "./shard-making.ts";
import { type LinkedArchive, type LinkedShard, planShards } from "./shards.ts";
import { checkTail, makeTail } from "./tail.ts";
import type {
  FileFacts,
  LinkAction,
  LinkKind,
  LinkOptions,
  LinkPlace,
  LinkPlan,
  LinkResult,
  LinkSite,
} from "./types.ts";
import { undoFiles } from "./unlink.ts";

/** What linking would do, without writing anything. Throws as {@link linkArchive}. */
export async function planLink(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions = {},
): Promise<LinkPlan> {
  return (await survey(archive, site, options)).plan;
}

/**
 * Makes the archive a Zarr array where it lies, completes a link that was broken off, and repairs one that was damaged.
 *
 * @throws UNSUPPORTED for what cannot be a shard, saying why; CONFLICT where something is in the way, or a data file has
 * names that must not change with it; READ_ONLY, NO_SPACE, IO; the codes of damage
 */
export async function linkArchive(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions = {},
): Promise<LinkResult> {
  const started = performance.now();
  const found = await survey(archive, site, options);
  const { plan, record, stale, oldNames, works, hidden, documents } = found;
  if (!plan.done) {
    const { target, files } = site;
    const { signal } = options;
    // What shows an array that is about to change goes first, the root's document before what it describes.
    for (const key of hidden) await target.delete(key, { signal });
    if (stale.length > 0) await undoFiles(site, plan.kind, stale);
    for (const key of oldNames) await files.remove({ side: "zarr", key });
    await target.put(LINK_RECORD, encodeLinkRecord(record), { signal });
    await makeShards(site, plan.kind, works, signal);
    await files.sync(works.map(({ places }) => places.shard));
    for (const [key, bytes] of documents) await target.put(key, bytes, { signal });
  }
  return { ...plan, seconds: (performance.now() - started) / 1000 };
}

/** What is there, and what is to be done about it. */
interface Survey {
  readonly plan: LinkPlan;
  readonly record: LinkRecord;
  /** Recorded files that are not the archive's any more. */
  readonly stale: readonly RecordedFile[];
  /** Keys of shards that have another name now. */
  readonly oldNames: readonly string[];
  /** Files that are not linked right. */
  readonly works: readonly Work[];
  /** Keys of documents that must not be seen meanwhile, the root's first. */
  readonly hidden: readonly string[];
  /** Documents that are not there, or not right; with the root's own. */
  readonly documents: readonly (readonly [key: string, bytes: Uint8Array])[];
}

async function survey(archive: Archive, site: LinkSite, options: LinkOptions): Promise<Survey> {
  const { target, files } = site;
  const { kind = "hard", signal } = options;
  const before = await readLinkRecord(target, signal);
  assertSameLink(site, archive, before, kind);
  const chosen = chooseOptions(before, options);
  const linked = await planShards(archive, { ...options, ...chosen });
  assertNodes(archive, site, linked);
  const looks: Look[] = [];
  const inner = signal ?? new AbortController().signal;
  const known = new Map(before?.files.map((file) => [file.path, file]));
  for (const shard of linked.shards) {
    signal?.throwIfAborted();
    looks.push(await lookAt(site, kind, shard, known.get(shard.path), before, inner));
    options.onProgress?.({ done: looks.length, total: linked.shards.length });
  }
  const documents: (readonly [string, Uint8Array])[] = [];
  for (const [key, bytes] of linked.documents) {
    const stored = await target.get(key, { signal });
    if (stored !== undefined && before?.documents.includes(key) !== true)
      throw inTheWay(target.describe(key));
    if (!isEqual(stored, bytes)) documents.push([key, bytes]);
  }
  const works = looks.flatMap(({ work }) => (work === undefined ? [] : [work]));
  const now = new Map(looks.map(({ file }) => [file.path, file]));
  const stale = (before?.files ?? []).filter(({ path }) => !now.has(path));
  const names = new Set(looks.map(({ file }) => file.link));
  const oldNames = (before?.files ?? []).flatMap(({ path, link }) =>
    now.has(path) && !names.has(link) ? [link] : [],
  );
  const keys = new Set(linked.documents.map(([key]) => key));
  const oldDocuments = (before?.documents ?? []).filter((key) => !keys.has(key));
  const changes = works.length + stale.length + oldNames.length + oldDocuments.length + documents.length > 0;
  const rootDocument = linked.documents[linked.documents.length - 1];
  const published =
    !changes || rootDocument === undefined || documents.some(([key]) => key === rootDocument[0])
      ? documents
      : [...documents, rootDocument];
  const record: LinkRecord = {
    kind,
    data: site.data,
    archive: archive.path,
    files: looks.map(({ file }) => file),
    documents: linked.documents.map(([key]) => key),
    options: chosen,
    folders: [...new Set([...(before?.folders ?? []), ...(await newFolders(site, linked))])].sort(byDepth),
  };
  return {
    plan: {
      source: archive.store.describe(archive.path),
      destination: target.describe(""),
      kind,
      documents: documents.map(([key]) => key),
      files: looks.map(({ planned }) => planned),
      added: works.reduce((sum, { tail }) => sum + (tail?.bytes.length ?? 0), 0),
      done: !changes,
      notes: [...linked.notes, ...looks.flatMap(({ notes }) => notes)],
    },
    record,
    stale,
    oldNames,
    works,
    hidden: [...published.map(([key]) => key).reverse(), ...oldDocuments],
    documents: published,
  };

  function inTheWay(path: string): SuperchunkError {
    return new SuperchunkError(
      "CONFLICT",
      `it is there already, and no link made it; ${files.describe({ side: "zarr", key: "" })} seems to be a Zarr array of its own`,
      { path },
    );
  }
}

/** What is asked for now, and otherwise what was asked for before. */
function chooseOptions(before: LinkRecord | undefined, options: LinkOptions): RecordedOptions {
  const { dtype, shape, dimensionNames } = options;
  return {
    ...before?.options,
    ...(dtype === undefined ? {} : { dtype }),
    ...(shape === undefined ? {} : { shape }),
    ...(dimensionNames === undefined ? {} : { dimensionNames }),
  };
}

/** What was found out about one file. */
interface Look {
  readonly file: RecordedFile;
  readonly planned: LinkPlan["files"][number];
  /** Undefined where nothing is to be done. */
  readonly work: Work | undefined;
  readonly notes: readonly string[];
}

async function lookAt(
  site: LinkSite,
  kind: LinkKind,
  shard: LinkedShard,
  recorded: RecordedFile | undefined,
  before: LinkRecord | undefined,
  signal: AbortSignal,
): Promise<Look> {
  const { files } = site;
  const places = placesOf(shard);
  const path = files.describe(places.data);
  const isOurs = recorded?.link === shard.link || before?.files.some(({ link }) => link === shard.link);
  const link = await files.inspect(places.shard);
  if (link !== undefined && isOurs !== true) {
    throw new SuperchunkError(
      "CONFLICT",
      "it is there already, and no link made it; remove it, or link elsewhere",
      { path: files.describe(places.shard) },
    );
  }
  const facts =
    kind === "copy"
      ? await factsOf(site, places.data)
      : await assertOwnNames(site, places.data, places.shard);
  const former =
    recorded === undefined
      ? { size: facts.size, mode: facts.mode, replaced: false }
      : await findFormer(site, kind, recorded, facts);
  const hasTail = kind === "copy" ? link !== undefined && link.size > facts.size : facts.size > former.size;
  const [store, key, size] =
    kind === "copy"
      ? ([site.target, shard.link, link?.size ?? 0] as const)
      : ([site.source, shard.path, facts.size] as const);
  const reason = hasTail ? await checkTail(shard, store, key, size, signal) : "it has no index";
  const isNamed =
    kind === "copy"
      ? link?.kind === "file" && reason === undefined
      : kind === "hard"
        ? link?.identity === facts.identity
        : await files.leadsTo(places.shard, places.data);
  const isProtected = kind === "copy" || facts.mode === withoutWriting(facts.mode);
  const tail = reason === undefined ? undefined : await makeTail(shard, former.size, signal);
  const faults = [
    ...(reason === undefined ? [] : [reason]),
    ...(isNamed ? [] : [`${shard.link} is not its shard`]),
    ...(isProtected ? [] : ["it can be written to"]),
  ];
  const added = tail?.bytes.length ?? size - former.size;
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
      chunks: shard.places.length,
      size: former.size,
      added,
      padded: (tail?.padded ?? 0) > 0 || (tail === undefined && added > indexLength(shard)),
      action,
      ...(action === "repair" ? { reason: faults.join("; ") } : {}),
    },
    work:
      faults.length === 0
        ? undefined
        : { places, facts, tail, size: former.size, mode: former.mode, isNamed: isNamed === true },
    notes: grew
      ? [`${path} has grown by ${former.size - (recorded?.size ?? 0)} bytes since it was linked`]
      : [],
  };
}

function indexLength({ layout }: LinkedShard): number {
  return layout.shards.capacity * 16 + 4;
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

/** A link of another kind, or of another archive, is undone first. */
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

/** Columns must not get the names of the folders of the archive itself. */
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

/** Folders that are not there yet, outer ones first, so that undoing leaves none behind. */
async function newFolders(site: LinkSite, linked: LinkedArchive): Promise<string[]> {
  const wanted = new Set<string>();
  for (const key of [...linked.shards.map(({ link }) => link), ...linked.documents.map(([key]) => key)]) {
    const parts = key.split("/").slice(0, -1);
    for (let depth = 0; depth <= parts.length; depth++) wanted.add(parts.slice(0, depth).join("/"));
  }
  const missing: string[] = [];
  for (const key of wanted)
    if ((await site.files.inspect({ side: "zarr", key })) === undefined) missing.push(key);
  return missing;
}

/** The root, then outer folders before those in them. */
function byDepth(a: string, b: string): number {
  return a.split("/").length - b.split("/").length || a.length - b.length;
}
