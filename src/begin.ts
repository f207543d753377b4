/**
 * What the entries export and load on the first call: a page that reads does not load writers, converters, or formats that it does not
 * use.
 */
import type { Archive, OpenOptions } from "./archive/kinds/types.ts";
import type { UnfinishedConversion } from "./archive/open/discover.ts";
import type {
  ConvertOptions,
  ConvertResult,
  ConvertSource,
  Destination,
  PlanEntry,
} from "./convert/pipeline.ts";
import type { ToParquetOptions } from "./convert/run/convert.ts";
import type { RepairOptions, RepairReport } from "./convert/run/repair.ts";
import type { CreateOptions, EditOptions } from "./edit/options.ts";
import type { ZarrEdit } from "./edit/zarr-array.ts";
import type { ZarrGroupEdit } from "./edit/zarr-group.ts";
import type { FindReadablesOptions, FoundReadable } from "./open/find-readables.ts";
import type { OpenReferencesOptions, ReferenceStore } from "./references/kerchunk/open-references.ts";
import type { KerchunkOptions, ReferenceResult } from "./references/kerchunk/write-kerchunk.ts";
import type { PlanOptions, ReferencePlan } from "./references/plan/plan.ts";
import type { ScanArray, ScanTable } from "./scan/columns.ts";
import type { IndexReport, WriteIndexOptions } from "./scan/write-index.ts";
import type { PutSource, ReadableStore, StoreOptions, WritableStore } from "./store/types.ts";
import type { ViewEntry } from "./view/view-tree.ts";
import type { BloscpackFile } from "./write/bloscpack/bloscpack-file.ts";
import type { BloscpackOptions } from "./write/bloscpack/bloscpack-options.ts";
import type { BloscpackResult } from "./write/bloscpack/bloscpack-write.ts";
import type { Scratch } from "./write/bloscpack/chunk-spool.ts";
import type { Editable } from "./write/editable.ts";
import type { ZarrArray } from "./zarr/read/array.ts";
import type { ZarrGroup } from "./zarr/read/group.ts";
import type { TransformerSpecification } from "./zarr/transformer.ts";
import type { WritableZarrArray } from "./zarr/write/writable-array.ts";
import type { WriteSettings } from "./zarr/write/write-settings.ts";
import type { FromZarritaOptions, ZarritaArray } from "./zarr/zarrita.ts";

/**
 * Opens an array, a table, a file or a group for editing, and completes what an interrupted writer began. `close` or `await using` releases
 * the lock.
 *
 * @throws NOT_FOUND; READ_ONLY if the store or this version cannot write it; CONFLICT if another writer holds the lock; UNSUPPORTED, with
 * the reason, for formats that cannot be edited; and the codes of damage
 */
export function edit(
  store: ReadableStore,
  path: string,
  options: EditOptions & { readonly format: "bloscpack" },
): Promise<BloscpackFile>;
export function edit(
  store: ReadableStore,
  path: string,
  options: EditOptions & { readonly format: "zarr" },
): Promise<ZarrEdit | ZarrGroupEdit>;
export function edit(store: ReadableStore, path: string, options?: EditOptions): Promise<Editable>;
export async function edit(store: ReadableStore, path: string, options?: EditOptions): Promise<Editable> {
  return (await import("./edit/edit.ts")).edit(store, path, options);
}

/**
 * Creates an array, a table, a file or a group at a key of a store (`""` is its root), and opens it for editing. It appears whole, or not
 * at all.
 *
 * @throws CONFLICT if the key is taken; BAD_ARGUMENT, LIMIT; UNSUPPORTED for features that the format lacks; NO_SPACE, IO
 */
export function create(
  store: WritableStore,
  path: string,
  options: CreateOptions & { readonly format: "zarr"; readonly kind?: "array" | undefined },
): Promise<ZarrEdit>;
export function create(store: WritableStore, path: string, options: CreateOptions): Promise<Editable>;
export async function create(store: WritableStore, path: string, options: CreateOptions): Promise<Editable> {
  return (await import("./edit/edit.ts")).create(store, path, options);
}

/**
 * Compresses bytes into a Bloscpack file. With `array`, adds the metadata from which bloscpack makes a numpy array.
 *
 * @throws CONFLICT if the key exists (unless `force`), BAD_ARGUMENT, LIMIT, UNSUPPORTED for Python objects, and the errors of the store
 */
export async function compressBytes(
  source: PutSource,
  store: WritableStore,
  key: string,
  options?: BloscpackOptions,
): Promise<BloscpackResult> {
  return (await import("./write/bloscpack/bloscpack-write.ts")).compressBytes(source, store, key, options);
}

/**
 * Yields the bytes of a Bloscpack file as {@link compressBytes} writes them, for outputs that are not stores, such as stdout.
 *
 * `scratch` is a key where chunks wait until their offsets are known, if they exceed 64 MiB.
 */
export async function* packBytes(
  source: PutSource,
  scratch: Scratch,
  options?: BloscpackOptions,
): AsyncGenerator<Uint8Array> {
  yield* (await import("./write/bloscpack/bloscpack-write.ts")).packBytes(source, scratch, options);
}

/**
 * Writes the index of a table or an array, which lets `scan` skip chunks. The index is stored in the folder of the table, or beside a file.
 * Later changes are noticed: the index covers a chunk only while its object is unchanged.
 *
 * Returns undefined if `ifPresent` finds no index.
 *
 * @throws READ_ONLY for a store that cannot write; BAD_ARGUMENT, NOT_FOUND for columns that do not fit; the codes of reading
 */
export async function writeIndex(
  source: ScanTable | ScanArray,
  options?: WriteIndexOptions,
): Promise<IndexReport | undefined> {
  return (await import("./scan/write-index.ts")).writeIndex(source, options);
}

/**
 * Finds every archive, Zarr array and group in a folder of a store that can list, in the order of their names; or the nodes of an open Zarr
 * group. Items that cannot be opened are yielded too, with their error.
 */
export async function* findReadables(
  source: ReadableStore | ZarrArray | ZarrGroup,
  path?: string,
  options?: FindReadablesOptions,
): AsyncGenerator<FoundReadable> {
  yield* (await import("./open/find-readables.ts")).findReadables(source, path, options);
}

/** Finds the conversion to a key that was begun and has not ended: it was interrupted, or is running. Undefined if there is none. */
export async function findUnfinished(
  store: ReadableStore,
  path: string,
  options?: StoreOptions,
): Promise<UnfinishedConversion | undefined> {
  return (await import("./archive/open/discover.ts")).findUnfinished(store, path, options);
}

/**
 * Repairs the archive at a key of a store, or reports what a repair would do.
 *
 * @throws NOT_FOUND; INCOMPLETE if there are holes and `holes` does not say how to treat them (`details.found` lists them), or if the
 * options must supply something that is missing; the codes of damage; UNSUPPORTED for anything but an archive, and for one that cannot be
 * repaired in place; CONFLICT, NO_SPACE, IO
 */
export async function repairArray(
  store: ReadableStore,
  path: string,
  options?: RepairOptions,
): Promise<RepairReport> {
  return (await import("./convert/run/repair.ts")).repairArray(store, path, options);
}

/**
 * Converts a source, or everything found at a place, to another format at a place of a store.
 *
 * Chunks are copied unchanged wherever the target allows it; {@link planConversion} says which, and why others are recoded. Memory use is
 * constant. For every target, data are written first, then the documents that make them visible, the root's last. With `verify`, every
 * value is compared before that. In a folder of sources, failures become entries of the result and leave nothing behind. A full or
 * read-only destination and an abort end the whole conversion; `resume` continues it.
 *
 * @throws UNSUPPORTED for data that the format cannot hold, before anything is written; CONFLICT for a destination that is taken, or holds
 * another unfinished conversion; NOT_FOUND without a source; BAD_ARGUMENT; the codes of damage
 */
export async function convert(
  source: ConvertSource,
  destination: Destination,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  return (await import("./convert/run/convert.ts")).convert(source, destination, options);
}

/**
 * Yields what {@link convert} would do with each source at an empty destination; with `resume` and a store, what is left of an earlier
 * conversion. Writes nothing; reads metadata and first chunk headers.
 */
export async function* planConversion(
  source: ConvertSource,
  destination?: Partial<Destination>,
  options?: ConvertOptions,
): AsyncGenerator<PlanEntry> {
  yield* (await import("./convert/run/convert.ts")).planConversion(source, destination, options);
}

/**
 * Returns the rows of a table or an array that match a filter, as the bytes of a Parquet file. All values are in memory at once; use
 * {@link convert} for a whole archive.
 *
 * @throws LIMIT for more than 512 MiB of values; UNSUPPORTED for a dtype without a type in Parquet; the codes of `scan`
 */
export async function toParquet(
  source: ScanTable | ScanArray,
  options?: ToParquetOptions,
): Promise<Uint8Array> {
  return (await import("./convert/run/convert.ts")).toParquet(source, options);
}

/**
 * Opens a set of kerchunk references in a store: JSON, or Parquet if `path` is a folder with `.zmetadata`.
 *
 * Containers come from the file beside the set and from `containers`. Only those passed, and those named in `authorize`, are read: a set
 * from elsewhere cannot reach files by itself. Guards of the set are enforced.
 *
 * Throws `NOT_FOUND`, `BAD_FIELD`, `UNSUPPORTED`. Reads throw `UNSAFE_PATH` for references outside the authorised containers, `STALE` for
 * an object that has changed, `TRUNCATED`, and the errors of the container's store.
 */
export async function openReferences(
  store: ReadableStore,
  path: string,
  options?: OpenReferencesOptions,
): Promise<ReferenceStore> {
  return (await import("./references/kerchunk/open-references.ts")).openReferences(store, path, options);
}

/** Writes references to archives at `path` of a store, and reads back samples of every array. */
export async function writeKerchunk(
  plans: AsyncIterable<ReferencePlan>,
  target: WritableStore,
  path: string,
  options: KerchunkOptions,
): Promise<ReferenceResult> {
  return (await import("./references/kerchunk/write-kerchunk.ts")).writeKerchunk(
    plans,
    target,
    path,
    options,
  );
}

/**
 * Plans references to an archive: a Zarr v3 array, or a group with an array for each column. Reads metadata and the first header of each
 * array; `arrays[i].chunks()` reads the chunks' own headers.
 *
 * Throws `UNSUPPORTED` if the stored chunks of an array cannot be chunks of a Zarr array.
 */
export async function planReferences(archive: Archive, options?: PlanOptions): Promise<ReferencePlan> {
  return (await import("./references/plan/plan.ts")).planReferences(archive, options);
}

/**
 * Creates an array in a hierarchy, and the hierarchy if there is none at `base`. Throws `CONFLICT` if the array exists or `base` holds
 * anything but such a hierarchy; `UNSUPPORTED` for an attribute `filters`.
 */
export async function createTransformerArray(
  store: WritableStore,
  base: string,
  path: string,
  spec: TransformerSpecification,
  settings?: WriteSettings,
): Promise<WritableZarrArray> {
  return (await import("./zarr/transformer.ts")).createTransformerArray(store, base, path, spec, settings);
}

/**
 * Copies an array that zarrita has open, chunk by chunk, to a new array at a path. Without a `shardShape`, shards have eight chunks along
 * each dimension, and are no larger than the array.
 *
 * Throws `UNSUPPORTED` for data types other than numbers and bool, and for fill values beyond 2^53 that are not passed; `CONFLICT` if the
 * path is taken; and the errors of zarrita.
 */
export async function writeFromZarrita(
  source: ZarritaArray,
  store: WritableStore,
  path: string,
  options?: FromZarritaOptions,
): Promise<WritableZarrArray> {
  return (await import("./zarr/zarrita.ts")).writeFromZarrita(source, store, path, options);
}

/**
 * Lists every archive below a folder of a store, at the path that a conversion of the whole folder would give it. Needs a store that can
 * list. Throws `NOT_FOUND` if there is none, `UNSUPPORTED` if there is only Zarr.
 */
export async function findViewEntries(
  store: ReadableStore,
  path?: string,
  options?: OpenOptions,
): Promise<ViewEntry[]> {
  return (await import("./view/find-entries.ts")).findViewEntries(store, path, options);
}
