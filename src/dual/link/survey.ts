/** What is there of a link, what is to be done about it, and what stands in its way. Must not write. */
import type { Archive } from "../../archive/kinds/types.ts";
import { crc32c } from "../../bytes/checksum.ts";
import { isEqual } from "../../bytes/equal.ts";
import { SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import type { DataFile } from "./data-files.ts";
import { type Look, lookAt } from "./look.ts";
import {
  getIfThere,
  LINK_RECORD,
  type LinkRecord,
  type RecordedFile,
  type RecordedOptions,
} from "./record.ts";
import type { Work } from "./shard-making.ts";
import { type LinkedArchive, planShards } from "./shards.ts";
import type { LinkKind, LinkOptions, LinkPlace, LinkPlan, LinkSite } from "./types.ts";

const ROOT: LinkPlace = { side: "zarr", key: "" };

/** What is there, and what is to be done about it. */
export interface Survey {
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
  /** Files whose chunks' sizes are still to be proven. */
  readonly guessed: readonly DataFile[];
}

/**
 * Looks at everything; `before` is the record of a link, complete or not, that is there. With `guess`, sizes of chunks are taken from offsets where these can tell.
 *
 * @throws UNSUPPORTED, CONFLICT and the codes of damage, as linking does
 */
export async function survey(
  archive: Archive,
  site: LinkSite,
  options: LinkOptions,
  before: LinkRecord | undefined,
  guess: boolean,
): Promise<Survey> {
  const { target, files } = site;
  const { kind = "hard", signal } = options;
  assertSameLink(site, archive, before, kind);
  const chosen = chooseOptions(before, options);
  const known = new Map(before?.files.map((file) => [file.path, file]));
  // Whoever guesses wrong undoes all: a folder for it must be there before, and after.
  const sizes =
    guess && (await files.inspect(ROOT)) !== undefined
      ? new Map([...known].map(([path, { size }]) => [path, size]))
      : undefined;
  const linked = await planShards(archive, { ...options, ...chosen }, sizes);
  assertNodes(archive, site, linked);
  const missing = new Set(await missingFolders(site, linked));
  const looks: Look[] = [];
  const inner = signal ?? new AbortController().signal;
  for (const shard of linked.shards) {
    signal?.throwIfAborted();
    const hasFolder = !missing.has(splitKey(shard.link).folder);
    looks.push(await lookAt(site, kind, shard, known.get(shard.path), before, hasFolder, inner));
    options.onProgress?.({ done: looks.length, total: linked.shards.length });
  }
  const documents: (readonly [string, Uint8Array])[] = [];
  for (const [key, bytes] of linked.documents) {
    const stored = await getIfThere(target, key, { signal });
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
    sums: new Map(
      await Promise.all(linked.documents.map(async ([key, bytes]) => [key, await crc32c(bytes)] as const)),
    ),
    options: chosen,
    folders: [...new Set([...(before?.folders ?? []), ...missing])].sort(byDepth),
  };
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
    record,
    stale,
    oldNames,
    works,
    hidden: [...published.map(([key]) => key).reverse(), ...oldDocuments],
    documents: published,
    guessed: linked.guessed,
  };

  function inTheWay(path: string): SuperchunkError {
    return new SuperchunkError(
      "CONFLICT",
      `it is there already, and no link made it; ${files.describe({ side: "zarr", key: "" })} seems to be a Zarr array of its own`,
      { path },
    );
  }
}

/** The symbolic link to a single file leads out of the Zarr array's folder. [FL-03] */
function noteLinksOut({ data, target }: LinkSite, kind: LinkKind): string[] {
  if (kind !== "symbolic" || data === ".") return [];
  return [
    `the shards are symbolic links that lead out of ${target.describe("")}: other Zarr readers follow them, superchunk does not (verify calls that damage), and after an append to the file they are no shards any more. Hard links, which are the default, stay right`,
  ];
}

/** What is asked for now, and otherwise what was asked for before. */
export function chooseOptions(before: LinkRecord | undefined, options: LinkOptions): RecordedOptions {
  const { dtype, shape, dimensionNames } = options;
  return {
    ...before?.options,
    ...(dtype === undefined ? {} : { dtype }),
    ...(shape === undefined ? {} : { shape }),
    ...(dimensionNames === undefined ? {} : { dimensionNames }),
  };
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

/** The root, then outer folders before those in them. */
function byDepth(a: string, b: string): number {
  return a.split("/").length - b.split("/").length || a.length - b.length;
}
