/** `create` and `edit` for paths and addresses in buckets: with locks, threads that encode, and maintained Zarr views. */

import * as fs from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { checkOptions } from "../bytes/check-options.ts";
import { liveViews } from "../dual/live.ts";
import type { MirrorCosts } from "../dual/live-view.ts";
import { create as createIn, edit as editIn, formatAt } from "../edit/edit.ts";
import { BOTH, type CreateOptions, type EditOptions, NEW } from "../edit/options.ts";
import type { ZarrEdit } from "../edit/zarr-array.ts";
import type { ZarrGroupEdit } from "../edit/zarr-group.ts";
import { SuperchunkError } from "../errors.ts";
import { LINK_RECORD } from "../format/naming.ts";
import type { WritableStore } from "../store/types.ts";
import type { MirrorMaker } from "../write/array/array-writer.ts";
import { closingLock } from "../write/array/create.ts";
import { arrayAround, type BloscpackFile, partError } from "../write/bloscpack/bloscpack-file.ts";
import type { Editable, PublishPolicy, WriterLock } from "../write/editable.ts";
import { DOCUMENT } from "../zarr/document/make-v3.ts";
import { dualFiles, dualFilesOf } from "./dual/files.ts";
import { keyOf, orWithoutFolders } from "./fs/fs-folders.ts";
import { statIfThere } from "./fs/fs-handles.ts";
import { FileStore } from "./fs/fs-store.ts";
import { acquireLock, type LockOptions } from "./fs/lock.ts";
import {
  addressOf,
  closeOnFailure,
  givenPath,
  isBucketAddress,
  locateTarget,
  refuseInside,
  type WritableLocation,
} from "./locate.ts";
import { accessOf, placeOpener } from "./open.ts";
import { decoderOf, encoderOf, shardWriterOf, type ThreadOptions } from "./threads/threads.ts";

/** Options for arrays whose folder is kept as a Zarr array as well (`zarr` of {@link create}). */
export interface MirrorPathOptions {
  /**
   * When flushed rows become visible as Zarr: at every flush (default), with every full superchunk, or at a flush that many seconds after
   * the last time. `close` publishes everything. Each time, the open end of the array and every superchunk with changed values are written
   * as shards: publishing less often writes fewer bytes.
   */
  readonly publish?: PublishPolicy | undefined;
  /** Counts the cost of publishing. */
  readonly mirrorCosts?: MirrorCosts | undefined;
}

/** Options of {@link edit}. */
export interface EditPathOptions extends EditOptions, LockOptions, ThreadOptions, MirrorPathOptions {}

/** Options of {@link create}. */
export interface CreatePathOptions extends CreateOptions, LockOptions, ThreadOptions, MirrorPathOptions {}

/** Names of the options that only these functions have. */
const OF_PATHS = "blosc breakLock directMemory mirrorCosts threads workerUrl";

/**
 * Opens an archive or Zarr node at a path or an address in a bucket for editing. `close` or `await using` releases the lock.
 *
 * @throws as `edit` of the core; CONFLICT if another writer holds the lock, unless `breakLock`; UNSUPPORTED for formats of other programs
 * in buckets, which have no locks
 */
export function edit(
  path: string,
  options: EditPathOptions & { readonly format: "bloscpack" },
): Promise<BloscpackFile>;
export function edit(
  path: string,
  options: EditPathOptions & { readonly format: "zarr" },
): Promise<ZarrEdit | ZarrGroupEdit>;
export function edit(path: string, options?: EditPathOptions): Promise<Editable>;
export async function edit(given: string, options: EditPathOptions = {}): Promise<Editable> {
  const path = givenPath(given);
  checkOptions(options, `${BOTH} ${OF_PATHS} ownPlaces publish shared`);
  const location = locateEdited(path);
  const editing = settle(path, location, options).then((own) => editIn(location.store, location.path, own));
  const edited = await closeOnFailure(location.store, editing);
  if (options.readOnly === true) closeWith(edited, location.store);
  // The record of a linked table's column is in the table.
  const linked = [path, join(path, "..")].some((folder) => fs.existsSync(join(folder, LINK_RECORD)));
  if (options.readOnly !== true && linked)
    edited.notes.push(
      'its Zarr view still shows the old values; "superchunk link" brings it up to date ("superchunk compact" first, after values were set or rows deleted)',
    );
  return edited;
}

/**
 * Creates an array, a table, a file or a group at a path or an address in a bucket, and opens it for editing.
 *
 * @throws as `create` of the core, and as {@link edit}
 */
export function create(
  path: string,
  options: CreatePathOptions & { readonly format: "zarr"; readonly kind?: "array" | undefined },
): Promise<ZarrEdit>;
export function create(path: string, options: CreatePathOptions): Promise<Editable>;
export async function create(given: string, options: CreatePathOptions = {}): Promise<Editable> {
  const path = givenPath(given);
  checkOptions(options, `${BOTH} ${NEW} ${OF_PATHS}`);
  const isFile = options.format === "bloscpack";
  const isNode = options.format === "zarr" && !isBucketAddress(path);
  const location = isFile
    ? locateTarget(path, "file")
    : ((isNode ? locateInHierarchy(path) : undefined) ?? locateTarget(path));
  // Rows of a stream are flushed often enough by themselves.
  const publish =
    options.data === undefined ? options.publish : options.publish === "full" ? "full" : "flush";
  const addresses = (options.places ?? []).map((place) => (typeof place === "string" ? place : place.prefix));
  const allow = [...(options.allow ?? []), ...addresses];
  const settled = await settle(path, location, { ...options, allow, publish }, options.format ?? "blz");
  return orWithoutFolders(isBucketAddress(path) ? undefined : isFile ? dirname(path) : path, () =>
    closeOnFailure(
      location.store,
      createIn(location.store, location.path, { ...forStore(options), ...settled, publish: options.publish }),
    ),
  );
}

/** Closes the store with an editor that holds no lock, whose release closes it for others. */
function closeWith(edited: Editable, store: WritableStore): void {
  for (const verb of ["close", "abandon"] as const) {
    const end = edited[verb].bind(edited);
    edited[verb] = () => end().finally(() => store.close?.());
  }
}

/** The place of an existing object, or of a new one in a group: a file, or a folder as the root of its store. */
function locateEdited(path: string): WritableLocation {
  if (/^https?:\/\//i.test(path))
    throw new SuperchunkError("READ_ONLY", "nothing can be written to http(s):// addresses", { path });
  const isFile = !isBucketAddress(path) && statIfThere(path)?.isFile() === true;
  if (isFile) {
    refusePart(path);
    return locateTarget(path, "file");
  }
  return isBucketAddress(path) || isArchiveFolder(path)
    ? locateTarget(path)
    : (locateInHierarchy(path) ?? locateTarget(path));
}

/** Throws `UNSUPPORTED` for a file with chunks of an array, which the store of the file does not show. */
function refusePart(path: string): void {
  const root = arrayAround(resolve(path));
  if (root !== undefined && isArchiveFolder(root)) throw partError(root, path);
}

function isArchiveFolder(path: string): boolean {
  return ["meta/storage", "meta/sizes", "__rootdirs__"].some((name) => fs.existsSync(join(path, name)));
}

/** A node in a Zarr group. Its store begins at the topmost group, whose consolidated metadata are kept up to date. */
function locateInHierarchy(path: string): WritableLocation | undefined {
  const folder = resolve(path);
  let root = folder;
  while (dirname(root) !== root && fs.existsSync(join(dirname(root), DOCUMENT))) root = dirname(root);
  if (root === folder) return undefined;
  return { store: locateTarget(root).store, path: keyOf(relative(root, folder)) };
}

/** Settings that follow from the path. The opened object owns the store, which is closed when the lock is released. */
async function settle(
  path: string,
  { store, path: key }: WritableLocation,
  options: EditPathOptions,
  made?: string,
): Promise<EditOptions> {
  const { readOnly } = options;
  const isRemote = isBucketAddress(path);
  const format = made ?? (await formatAt(store, key, options));
  if (isRemote && format !== "blz" && format !== "zarr" && readOnly !== true)
    throw new SuperchunkError(
      "UNSUPPORTED",
      'in a bucket only arrays of superchunks and Zarr arrays are changed: buckets have no locks, and the formats of other programs have nothing else that keeps two writers apart. Change a copy on disk, or "superchunk convert --to blz" it into the bucket',
      { path },
    );
  const take = isRemote
    ? undefined
    : (options.lock ??
      ((name: string | undefined) =>
        name === undefined
          ? Promise.resolve(undefined)
          : acquireLock(resolve(path, key === "" ? "." : "..", name), options)));
  const openPlace = options.openPlace ?? placeOpener(options);
  return {
    ...accessOf(forStore(options)),
    placeAddress: options.placeAddress ?? addressOf,
    openPlace: async (place, isNamed) => {
      if (isNamed) await refuseInside(place, path);
      return openPlace(place, isNamed);
    },
    encoder: options.encoder ?? encoderOf(options),
    shared: options.shared && {
      ...(options.shared === true ? {} : options.shared),
      release: async () => store.close?.(),
    },
    // A shared array takes the lock for each commit, and the store stays open.
    lock: async (name) =>
      options.shared
        ? ((await take?.(name)) ?? NO_LOCK)
        : closingLock(await take?.(name), () => store.close?.()),
    ...(format === "zarr"
      ? {
          decoder: options.decoder ?? decoderOf(options),
          // If the caller chose an encoder, threads must not encode without it.
          shardWriter:
            options.shardWriter ?? (options.encoder === undefined ? shardWriterOf(options) : undefined),
        }
      : {}),
    mirror: format === "blz" ? (options.mirror ?? mirrorOf(store, path, options)) : undefined,
  };
}

/** The options that a store takes too. */
function forStore<Options extends MirrorPathOptions & LockOptions & ThreadOptions>({
  blosc,
  breakLock,
  directMemory,
  mirrorCosts,
  publish,
  threads,
  workerUrl,
  ...own
}: Options) {
  return own;
}

const NO_LOCK: WriterLock = { release: async () => undefined };

/** Keeps an array at a path a Zarr array as well; undefined in a bucket, where objects have only one name. */
function mirrorOf(
  store: WritableStore,
  path: string,
  { publish, mirrorCosts }: MirrorPathOptions,
): MirrorMaker | undefined {
  if (isBucketAddress(path)) return undefined;
  return liveViews({
    files: store instanceof FileStore ? dualFilesOf(store) : dualFiles(resolve(path)),
    publish,
    costs: mirrorCosts,
  });
}
