/**
 * What the entries export and load when it is first called: a page that reads loads no writers, no converters, and nothing of the formats
 * that it does not use.
 */
import type { Archive, OpenOptions } from "./archive/kinds/types.ts";
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
import type { FoundReadable } from "./open/find-readables.ts";
import type { OpenReferencesOptions, ReferenceStore } from "./references/kerchunk/open-references.ts";
import type { KerchunkOptions, ReferenceResult } from "./references/kerchunk/write-kerchunk.ts";
import type { PlanOptions, ReferencePlan } from "./references/plan/plan.ts";
import type { ScanArray, ScanTable } from "./scan/columns.ts";
import type { IndexReport, WriteIndexOptions } from "./scan/write-index.ts";
import type { PutSource, ReadableStore, WritableStore } from "./store/types.ts";
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
 * Opens an array, a table, a file or a group for editing, and finishes what an interrupted writer began. `close` or
 * `await using` gives up the lock.
 *
 * @throws NOT_FOUND; READ_ONLY where the store or this version cannot write it; CONFLICT where another writer holds the lock;
 * UNSUPPORTED for what is never edited, with the reason; and the codes of damage
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
 * Makes something at a key of a store (`""` is its root), and opens it for editing. It is there as a whole, or not at all.
 *
 * @throws CONFLICT where something is there already; BAD_ARGUMENT, LIMIT, and UNSUPPORTED for what the format does not have;
 * NO_SPACE, IO
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
 * Compresses bytes into a Bloscpack file; with `array`, with the metadata by which bloscpack makes a numpy array of them.
 *
 * @throws CONFLICT where the key exists (unless `force`), BAD_ARGUMENT, LIMIT, UNSUPPORTED for Python objects, and what the store
 * throws
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
 * The bytes of a Bloscpack file, as {@link compressBytes} writes them, for where no store is written to, such as stdout.
 *
 * `scratch` is a key where chunks wait until their offsets are known, where they are more than 64 MiB.
 */
export async function* packBytes(
  source: PutSource,
  scratch: Scratch,
  options?: BloscpackOptions,
): AsyncGenerator<Uint8Array> {
  yield* (await import("./write/bloscpack/bloscpack-write.ts")).packBytes(source, scratch, options);
}

/**
 * Makes the index of a table or an array, from which `scan` learns which chunks it need not read. It lies in the folder of the table, or
 * beside a file. What changes later is noticed: the index covers a chunk only as long as its object is the same.
 *
 * Undefined where `ifPresent` finds none.
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
 * Finds every archive, Zarr array and group in a folder of a store that can list, in the order of their names; or the nodes of a Zarr
 * group that is open. What cannot be opened is found too, with its error.
 */
export async function* findReadables(
  source: ReadableStore | ZarrArray | ZarrGroup,
  path?: string,
  options?: OpenOptions,
): AsyncGenerator<FoundReadable> {
  yield* (await import("./open/find-readables.ts")).findReadables(source, path, options);
}

/**
 * Repairs the archive at a key of a store, or says what that would do.
 *
 * @throws NOT_FOUND; INCOMPLETE where there are holes and `holes` does not say what becomes of them (`details.found` lists
 * them), and where something is missing that the options must tell; the codes of damage; UNSUPPORTED for what is not an
 * archive, or cannot be repaired where it lies; CONFLICT, NO_SPACE, IO
 */
export async function repairArray(
  store: ReadableStore,
  path: string,
  options?: RepairOptions,
): Promise<RepairReport> {
  return (await import("./convert/run/repair.ts")).repairArray(store, path, options);
}

/**
 * Converts a source, or all that is found at a place, into another format at a place of a store.
 *
 * Chunks are copied as they are wherever the target can take them; {@link planConversion} says which, and why others are
 * recoded. Memory stays flat. Whatever the target, data come first, then the documents that make them visible, the
 * root's last; with `verify` every value is compared before. Of a folder of sources, those that fail become entries of the
 * result, and nothing of them is left; a full or read-only destination and an abort end all, and `resume` goes on from there.
 *
 * @throws UNSUPPORTED for what the format cannot hold, before anything is written; CONFLICT for a destination that is
 * taken, or is left unfinished by another conversion; NOT_FOUND without a source; BAD_ARGUMENT; the codes of damage
 */
export async function convert(
  source: ConvertSource,
  destination: Destination,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  return (await import("./convert/run/convert.ts")).convert(source, destination, options);
}

/** What {@link convert} would do, source by source, without writing anything. Reads metadata and first chunk headers. */
export async function* planConversion(
  source: ConvertSource,
  destination?: Omit<Destination, "store">,
  options?: ConvertOptions,
): AsyncGenerator<PlanEntry> {
  yield* (await import("./convert/run/convert.ts")).planConversion(source, destination, options);
}

/**
 * The rows of a table, or of an array, that a filter takes, as the bytes of a Parquet file. All of it is in memory at once; a whole
 * archive goes through {@link convert}.
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
 * Opens a set of kerchunk references, JSON or (where `path` is a folder with `.zmetadata`) Parquet, in a store.
 *
 * Containers are taken from the file beside the set and from `containers`. Only those given, and those named in
 * `authorize`, are read: a set from elsewhere gets at no file by itself. Guards that the set has are enforced.
 *
 * Throws `NOT_FOUND`, `BAD_FIELD`, `UNSUPPORTED`; reads throw `UNSAFE_PATH` for references that are in no authorised
 * container, `STALE` for an object that has changed, `TRUNCATED`, and what the container's store throws.
 */
export async function openReferences(
  store: ReadableStore,
  path: string,
  options?: OpenReferencesOptions,
): Promise<ReferenceStore> {
  return (await import("./references/kerchunk/open-references.ts")).openReferences(store, path, options);
}

/** Writes references to archives at `path` of a store, and reads samples of every array back. */
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
 * Plans references to an archive: a Zarr v3 array, or a group with an array for each column. Reads metadata and the
 * first header of each array; the chunks' own headers are read as `arrays[i].chunks()` goes along.
 *
 * Throws `UNSUPPORTED` where the chunks of an array are not those of a Zarr array as they lie there.
 */
export async function planReferences(archive: Archive, options?: PlanOptions): Promise<ReferencePlan> {
  return (await import("./references/plan/plan.ts")).planReferences(archive, options);
}

/**
 * Makes an array in a hierarchy, and the hierarchy where there is none at `base`. Throws `CONFLICT` where the array
 * is, or where something else than such a hierarchy is; `UNSUPPORTED` for an attribute `filters`.
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
 * Copies an array that zarrita has open, chunk by chunk, to a new array at a path. Without a `shardShape`, shards
 * are eight chunks along each dimension, and no larger than the array.
 *
 * Throws `UNSUPPORTED` for data types other than numbers and bool and for fill values beyond 2^53 that are not given, `CONFLICT` where something is at the path, and what
 * zarrita throws.
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
 * Every archive below a folder of a store, at the path that it would get in a conversion of the whole folder.
 * Needs a store that can list. Throws `NOT_FOUND` where there is none, `UNSUPPORTED` where there is only Zarr.
 */
export async function findViewEntries(
  store: ReadableStore,
  path?: string,
  options?: OpenOptions,
): Promise<ViewEntry[]> {
  return (await import("./view/find-entries.ts")).findViewEntries(store, path, options);
}
