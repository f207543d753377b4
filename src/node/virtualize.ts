/** References to archives at paths, for readers of Icechunk and kerchunk: finds, plans, writes, and reads them back. */

import type { Archive } from "../archive/kinds/types.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { failureOf } from "../convert/pipeline.ts";
import { isSuperchunkError, SuperchunkError, valueOr } from "../errors.ts";
import { HELD_NAMES, ZARR_DOCUMENTS } from "../format/naming.ts";
import { openInFile } from "../open/open-node.ts";
import {
  type Container,
  commonFolder,
  defaultContainer,
  parseContainers,
  toLocation,
} from "../references/containers/containers.ts";
import { checkGuard, type Guard, type ReferredSource, sourceOf } from "../references/containers/guard.ts";
import { joinContainers } from "../references/kerchunk/open-references.ts";
import { type ReferenceResult, writeKerchunk } from "../references/kerchunk/write-kerchunk.ts";
import { planHdf5References, refuseBlosc2 } from "../references/plan/hdf5.ts";
import { joinPlans, planLinkedReferences } from "../references/plan/join.ts";
import { type PlanOptions, planReferences, type ReferencePlan } from "../references/plan/plan.ts";
import type { FailedArchive } from "../references/plan/reference-stream.ts";
import { mapAhead, rethrowAfter } from "../store/pool.ts";
import type { ObjectInfo, ReadableStore } from "../store/types.ts";
import type { ViewEntry } from "../view/view-tree.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { parseBucketAddress } from "./buckets/address.ts";
import { environmentOfS3 } from "./buckets/s3.ts";
import { locateEntries } from "./entries.ts";
import { writeIcechunk } from "./icechunk/icechunk-write.ts";
import {
  allowedAddresses,
  assertNamesDiffer,
  closeOnFailure,
  closing,
  isBucketAddress,
  isRemote,
  locate,
  locateTarget,
  nameOf,
  refuseEmptyPath,
} from "./locate.ts";
import { placeOpener } from "./open.ts";
import { type OpeningLines, openingLines, type WrittenForm } from "./opening-lines.ts";
import {
  keptAt,
  listContainers,
  type OpenPathReferencesOptions,
  openContainer,
  withPlace,
} from "./references.ts";
import { encoderOf } from "./threads/threads.ts";

/** Options of {@link virtualize}. */
export interface VirtualizeOptions
  extends Omit<PlanOptions, "node" | "encoder" | "listed">,
    Partial<Pick<WrittenForm, "to" | "zarrFormat">> {
  /** Joins the archives into one array along the first dimension (default false: a node for each). */
  readonly concat?: boolean | undefined;
  /** For linked archives: one reference to each file, which is a whole shard (default false). */
  readonly shards?: boolean | undefined;
  /** Adds to an existing Icechunk repository; rewrites a kerchunk set with its containers (default false: `CONFLICT`). */
  readonly update?: boolean | undefined;
  /** kerchunk JSON: stores padded and recoded chunks in the set, however many bytes they take (default: beyond 64 KiB in a file next to it). */
  readonly oneFile?: boolean | undefined;
  /** kerchunk: replaces an existing set. Icechunk, with `update`: also replaces references to known chunks. */
  readonly overwrite?: boolean | undefined;
  /** Where the archives are and how they are read: containers, or the path of a JSON file of containers; default: one for all. */
  readonly containers?: Iterable<Container> | string | undefined;
  /** What arrays with places may read, as in `open`. */
  readonly allow?: readonly string[] | undefined;
  /** Archives examined at a time. Default 4. */
  readonly jobs?: number | undefined;
  /** Icechunk: the commit message. */
  readonly message?: string | undefined;
  /** Called once, with the archives that were found, before any is read. */
  readonly onFound?: ((archives: readonly FoundEntry[]) => void) | undefined;
  /** Called for an archive among many that cannot be referenced; the others are (default: it is in `failures`). */
  readonly onFailure?: ((failure: FailedArchive) => void) | undefined;
}

/** An archive, and its node in the result. */
export interface FoundEntry {
  /** Name in messages. */
  readonly path: string;
  readonly node: string;
}

/** What was written. */
export interface VirtualizeResult extends ReferenceResult {
  /** Icechunk: the commit, and the chunks that an update left unchanged. */
  readonly snapshot?: string;
  readonly kept?: number;
  /** Archives that were left out. */
  readonly failures: readonly FailedArchive[];
  /** Lines of code that open the result. */
  readonly open: OpeningLines;
}

/**
 * Writes references to the archives at paths and addresses, and in folders of many. Copies only short last chunks. A single archive, and
 * joined archives, succeed or fail as a whole.
 *
 * @throws NOT_FOUND; CONFLICT for an existing result; UNSUPPORTED for stored chunks that Zarr cannot use; INCOMPLETE if no archive can be
 * referenced; STALE if one changes meanwhile; and the codes of damage
 */
export async function virtualize(
  sources: string | readonly string[],
  destination: string,
  options: VirtualizeOptions = {},
): Promise<VirtualizeResult> {
  checkOptions(
    options,
    "allow columns concat containers dimensionNames dtype guard inline isMember jobs locate message oneFile onFailure onFound overwrite portable rectilinear shape shards signal to update zarrFormat",
  );
  return virtualizeListed(sources, destination, options);
}

/** Returns the already listed chunks of an archive, by its name in messages. */
type ListedOf = (source: string) => Promise<PlanOptions["listed"]>;

/** The same with archives whose chunks may have been listed already. */
export async function virtualizeListed(
  sources: string | readonly string[],
  destination: string,
  options: VirtualizeOptions,
  listedOf?: ListedOf,
): Promise<VirtualizeResult> {
  refuseEmptyPath(destination);
  const failures: FailedArchive[] = [];
  const note = (failure: FailedArchive): void => {
    failures.push(failure);
    options.onFailure?.(failure);
  };
  const named = typeof sources === "string" ? [sources] : sources;
  const missing = new Map<string, SuperchunkError>();
  const onMissing = (path: string, error: SuperchunkError): void => {
    missing.set(path, error);
    note({ path, node: nameOf(path), ...failureOf(error) });
  };
  const isList = named.length > 1 && options.concat !== true;
  const held = await openHeld(named, options.signal, isList ? onMissing : undefined);
  const [first] = missing.values();
  const paths = named.filter((path) => !missing.has(path));
  if (first !== undefined && paths.length === 0) throw first;
  const others = paths.filter((path) => !held.some(({ typed }) => typed === path));
  const openPlace = placeOpener({ allow: options.allow });
  const closeHeld = async (): Promise<void> => {
    for (const { root } of held) await root.close();
  };
  const access = { signal: options.signal, openPlace };
  const passed = new Map<keyof typeof PASSED_OVER, number>();
  const onFile = (key: string): void => {
    const what = whatPassedOver(key.split("/").at(-1) ?? key);
    if (what !== undefined) passed.set(what, (passed.get(what) ?? 0) + 1);
  };
  const finding = locateEntries(others, access, { isAmong: named.length > 1, onFile });
  const located = await closeOnFailure({ close: closeHeld }, finding);
  const entries = [...held, ...located.entries];
  const opened: Archive[] = [];
  const referred: ReferredSource[] = [];
  const isAlone = options.concat === true || entries.length + failures.length === 1;
  const onFailure = isAlone ? undefined : note;
  const onLeft = (plan: ReferencePlan): void => {
    for (const { node, source, error } of plan.left ?? []) note({ path: source, node, ...failureOf(error) });
  };
  try {
    options.onFound?.(entries.map(({ source, node }) => ({ path: source, node })));
    const { containers: given, to = "icechunk", zarrFormat } = options;
    const containers = typeof given === "string" ? await readContainers(given) : given;
    const nodes: string[] = [];
    const planning = { ...options, listedOf, onFailure, isAlone };
    const plans = noteNodes(planAll(entries, planning, { opened, sources: referred }), nodes, onLeft);
    const isUpdate = options.update === true && to !== "icechunk" && containers === undefined;
    const kept = isUpdate ? await listContainers(destination) : [];
    const isEdited = kept.some((each) => each.credentials ?? each.location ?? each.endpoint);
    const own = [...(containers ?? (isEdited ? kept : []))];
    const result =
      to === "icechunk"
        ? await writeIcechunk(plans, destination, {
            onFailure,
            containers: own.length > 0 ? own : [commonContainer(entries, paths)],
            update: options.update,
            sources: () => referred,
            renew: options.overwrite,
            columns: options.columns,
            message: options.message,
          })
        : await writeSet(plans, destination, options, {
            onFailure,
            containers: own.length > 0 ? own : undefined,
            sources: () => referred,
            containerFor: (folder) => containerAt(folder, paths),
            isBeside: options.oneFile !== true && isReachedAlike(destination, paths),
          });
    const { rectilinear } = options;
    const form = { to, zarrFormat, rectilinear, isTree: nodes.some((node) => node.includes("/")) };
    const notes = [
      ...result.notes,
      ...[...passed].map(([what, count]) => `not referenced: ${what} (${count}): ${PASSED_OVER[what]}`),
    ];
    return { ...result, notes, failures, open: openingLines(destination, form, result.containers) };
  } finally {
    for (const each of opened) await each.close();
    await closeHeld();
    await located.close();
  }
}

/** What is in folders of archives and not referenced, and why, or what to do about it. */
const PASSED_OVER = {
  "HDF5 and Blosc2 files": "name HDF5 files themselves, and convert those of Blosc2",
  "Zarr arrays and groups": "they are Zarr already",
} as const;

function whatPassedOver(name: string): keyof typeof PASSED_OVER | undefined {
  if (ZARR_DOCUMENTS.includes(name)) return "Zarr arrays and groups";
  return HELD_NAMES.test(name) ? "HDF5 and Blosc2 files" : undefined;
}

/** Passes plans on, and notes the paths of their arrays. */
async function* noteNodes(
  plans: AsyncIterable<ReferencePlan>,
  nodes: string[],
  onPlan: (plan: ReferencePlan) => void,
): AsyncGenerator<ReferencePlan> {
  for await (const plan of plans) {
    onPlan(plan);
    for (const { node } of plan.arrays) nodes.push(node);
    yield plan;
  }
}

/** An opened part of an HDF5 file. */
interface HeldEntry extends Pick<ViewEntry, "node" | "source"> {
  readonly typed: string;
  readonly root: ZarrArray | ZarrGroup;
}

/** Opens the HDF5 files among paths. Throws `UNSUPPORTED` for Blosc2, and `NOT_FOUND` for a missing path unless `onMissing` takes it. */
export async function openHeld(
  paths: readonly string[],
  signal: AbortSignal | undefined,
  onMissing?: (path: string, error: SuperchunkError) => void,
): Promise<readonly HeldEntry[]> {
  const held: HeldEntry[] = [];
  const stores: ReadableStore[] = [];
  const openAll = async (): Promise<readonly HeldEntry[]> => {
    for (const typed of paths) {
      const place = await locate(typed).catch((error: unknown) => {
        if (onMissing === undefined || !isSuperchunkError(error, "NOT_FOUND")) throw error;
        onMissing(typed, error);
      });
      if (place === undefined) continue;
      const { store, path } = place;
      stores.push(store);
      const root = await openInFile(store, path, { signal });
      if (root === undefined) await store.close?.();
      else {
        const source = root.store.describe(root.path);
        const node = root.path === "" ? nameOf(typed) : root.path;
        held.push({ typed, root: root.ownStore(store), source, node });
        if (root.dialect !== "hdf5") throw refuseBlosc2(source);
      }
    }
    assertNamesDiffer(held.map(({ node }) => node));
    return held;
  };
  return openAll().catch(rethrowAfter(() => Promise.all(stores.map((store) => store.close?.()))));
}

/** Default number of archives to examine at a time. */
const JOBS = 4;

async function* planAll(
  entries: readonly (ViewEntry | HeldEntry)[],
  options: VirtualizeOptions & { readonly listedOf: ListedOf | undefined; readonly isAlone: boolean },
  { opened, sources }: { readonly opened: Archive[]; readonly sources: ReferredSource[] },
): AsyncGenerator<ReferencePlan> {
  const { concat, shards, jobs = JOBS, listedOf, onFailure, isAlone, signal } = options;
  const { rectilinear, inline, guard, locate } = options;
  const { portable, dimensionNames, columns, dtype, shape, isMember = !isAlone } = options;
  const layout = { portable, dimensionNames, columns, dtype, shape, isMember };
  const settings: PlanOptions = {
    ...layout,
    rectilinear,
    inline,
    guard,
    locate,
    signal,
    encoder: encoderOf(),
  };
  const [only] = entries;
  const joined: ReferencePlan[] = [];
  const plan = async (entry: ViewEntry | HeldEntry): Promise<ReferencePlan | FailedArchive> => {
    try {
      if ("root" in entry) {
        const own = isAlone ? nodeOfHeld(only ?? entry) : entry.node;
        return await planHdf5References(entry.root, { ...settings, node: own });
      }
      const archive = await entry.open({ signal });
      if (isRemote(archive.store.describe(archive.path))) opened.push(archive);
      sources.push(...(await archiveSources(archive, signal)));
      const node = isAlone ? nodeOf(archive, (only ?? entry).node) : entry.node;
      const planOne = shards === true ? planLinkedReferences : planReferences;
      return await planOne(archive, { ...settings, node, listed: await listedOf?.(entry.source) });
    } catch (error) {
      signal?.throwIfAborted();
      if (onFailure === undefined) throw error;
      return { path: entry.source, node: entry.node, ...failureOf(error, entry.source) };
    }
  };
  for await (const planned of mapAhead(entries, jobs, plan, signal)) {
    if ("code" in planned) onFailure?.(planned);
    else if (concat === true) joined.push(planned);
    else yield planned;
  }
  if (concat === true) yield joinPlans(joined, settings);
}

/**
 * The object that shows changes of an archive, if it is replaced at each change; for a table that of its first column, which grows
 * with the others.
 */
async function archiveSources(archive: Archive, signal: AbortSignal | undefined): Promise<ReferredSource[]> {
  const [first] = archive.kind === "table" ? archive.names : [];
  const { store, path } = archive.kind === "table" && first !== undefined ? archive.column(first) : archive;
  const found = await sourceOf(store, path, toLocation, { signal });
  return found === undefined ? [] : [found];
}

/** A single table is the root, as xarray expects; a single array has its name, because xarray cannot open a bare array. */
function nodeOf(archive: Archive, name: string): string {
  return archive.kind === "table" ? "" : (name.split("/").at(-1) ?? name).replace(/\.[^.]+$/, "");
}

/** A dataset has its name, and a file is the root. */
function nodeOfHeld(entry: ViewEntry | HeldEntry): string {
  return ("root" in entry ? entry.root.path : entry.node).split("/").at(-1) ?? "";
}

async function writeSet(
  plans: AsyncIterable<ReferencePlan>,
  destination: string,
  { to, zarrFormat, update, overwrite = update, signal }: VirtualizeOptions,
  {
    isBeside,
    ...settings
  }: Omit<Parameters<typeof writeKerchunk>[3], "form"> & {
    readonly isBeside: boolean;
  },
): Promise<ReferenceResult> {
  const { store, path: name } = locateTarget(destination.replace(/\/+(?=\?|$)/, ""), "file");
  const form = to === "kerchunk" ? "json" : "parquet";
  const locateChunks = isBeside ? (key: string): string => toLocation(store.describe(key)) : undefined;
  const own = { form, format: zarrFormat, overwrite, locateChunks } as const;
  return closing(store, () =>
    writeKerchunk(plans, store, name, { ...own, openContainer, signal, ...settings }),
  );
}

/** True if readers reach objects next to a set as they reach the archives: fsspec opens all objects of a set with one protocol and its settings. */
function isReachedAlike(destination: string, sources: readonly string[]): boolean {
  if (!isBucketAddress(destination)) return !sources.some(isRemote);
  const bucketOf = (address: string): string => {
    const { scheme, bucket, endpoint, region, anonymous } = parseBucketAddress(address);
    return JSON.stringify([scheme, bucket, endpoint, region, anonymous]);
  };
  return sources.every((source) => isBucketAddress(source) && bucketOf(source) === bucketOf(destination));
}

/** One container for all: the common folder of the sources. */
function commonContainer(
  entries: readonly Pick<ViewEntry, "source">[],
  sources: readonly string[],
): Container {
  const folder = commonFolder(entries.map(({ source }) => toLocation(source)));
  if (folder !== undefined) return containerAt(folder, sources);
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "the sources have no folder in common; give containers for them",
    { field: "containers" },
  );
}

/** The container of a folder; in a bucket with the settings of the sources' addresses, and in S3 of the environment. */
function containerAt(folder: string, sources: readonly string[]): Container {
  const source = sources.find(isBucketAddress);
  if (source === undefined || !isBucketAddress(folder)) return defaultContainer(folder);
  const address = parseBucketAddress(source);
  const found = environmentOfS3();
  const isS3 = address.scheme === "s3";
  const endpoint = address.endpoint ?? (isS3 ? found.endpoint : undefined);
  const { anonymous: _, ...own } = defaultContainer(folder);
  return {
    ...own,
    ...(isS3 ? { region: address.region ?? found.region ?? "us-east-1" } : {}),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(address.anonymous ? { anonymous: true } : {}),
  };
}

/** Reads containers from a file. Throws `NOT_FOUND`, and as `parseContainers`. */
async function readContainers(location: string): Promise<Iterable<Container>> {
  const { store, path } = await locate(location);
  return closing(store, async () => {
    const bytes = await store.get(path);
    if (bytes !== undefined) return parseContainers(new TextDecoder().decode(bytes), location);
    throw new SuperchunkError("NOT_FOUND", "the file with containers does not exist", { path: location });
  });
}

/**
 * Lists the sources of references that have been replaced or removed since; the references show their old state. Checks objects of this
 * machine, and others if they may be read (`allow`, `authorize`).
 */
export function changedSources(
  location: string,
  options: Pick<OpenPathReferencesOptions, "allow" | "authorize" | "credentials" | "signal"> = {},
): Promise<readonly string[]> {
  return withPlace(location, async (place) => {
    const { containers: kept } = await keptAt(place, true);
    const { containers, authorized, tokens } = joinContainers(kept, {
      authorize: options.authorize,
      allow: options.allow?.flatMap(allowedAddresses),
    });
    const credentials = { ...options.credentials, ...tokens };
    const stores = new Map<string, ReadableStore>();
    const changed: string[] = [];
    for (const { location: source, ...guard } of kept.sources) {
      const [here] = WHOLE_DISK.exec(source) ?? [];
      const container = here
        ? defaultContainer(here)
        : [containers.find(source)].find((each) => each !== undefined && authorized.has(each.name));
      if (container === undefined) continue;
      const store =
        stores.get(container.prefix) ?? openContainer(container, credentials[container.credentials ?? ""]);
      stores.set(container.prefix, store);
      const key = source.slice(container.prefix.length);
      const info = await store.stat(key, { signal: options.signal });
      if (info === undefined || !isGuarded(guard, info)) changed.push(source);
    }
    for (const store of stores.values()) await store.close?.();
    return changed;
  });
}

/** The location of all files of this machine, on Windows of one disk. */
const WHOLE_DISK = /^file:\/\/\/(?:[A-Z]:\/)?/;

function isGuarded(guard: Guard, info: ObjectInfo): boolean {
  return valueOr(false, "STALE", () => {
    checkGuard(guard, info, "");
    return true;
  });
}
