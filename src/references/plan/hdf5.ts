/**
 * References to datasets of HDF5 files: the places of their chunks, and the numcodecs names of their filters.
 *
 * Knows datasets as arrays of Zarr v2, and what readers of Zarr can decode; must not know the forms in which references are written.
 */
import { planZarrJobs } from "../../convert/plan/zarr-jobs.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { hasText } from "../../hdf5/datatype.ts";
import { BLOSC2, whyForeign } from "../../hdf5/filters.ts";
import type { Hdf5Store } from "../../hdf5/zarr-view.ts";
import { joinKey } from "../../store/key.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import type { PlanOptions, ReferencedArray, ReferencePlan } from "./plan.ts";
import { ScannedObjects } from "./scanned-objects.ts";

/** Number of chunks that may always be stored beside references; in larger arrays, one in ten. */
const FEW = 4;

/**
 * Plans references to an opened part of an HDF5 file: a dataset, or a group and everything below it. Members of a group that cannot be
 * referenced are in `left`.
 *
 * Throws `UNSUPPORTED` for a dataset whose chunks Zarr readers cannot decode, and for a group of only such datasets, and the codes of
 * damage
 */
export async function planHdf5References(
  root: ZarrArray | ZarrGroup,
  options: PlanOptions,
): Promise<ReferencePlan> {
  const store = root.store as Hdf5Store;
  const { signal, isMember, node = "" } = options;
  for (const field of ["columns", "portable", "dimensionNames", "dtype", "shape"] as const)
    if (options[field] !== undefined) {
      const summary = `datasets of HDF5 are referenced whole, with their types and the names of their scales; leave out {${field}}`;
      throw new SuperchunkError("BAD_ARGUMENT", summary, { path: store.describe(root.path), field });
    }
  const jobs = await planZarrJobs(root, { recode: false, signal, isMember, codecsOf });
  const left = jobs.failed.map(({ path, source, error }) => ({ node: joinKey(node, path), source, error }));
  const arrays: Hdf5Array[] = [];
  for (const { path, node: array, document, recoding } of jobs.arrays) {
    const source = store.describe(array.path);
    const own = joinKey(node, path);
    const planned = await hdf5Array(array, { node: own, document, options });
    const reason = recoding?.reason ?? (await whyMade(store, array)) ?? (await planned.whyStored());
    if (reason === undefined) arrays.push(planned);
    else left.push({ node: own, source, error: notReferable(source, reason) });
  }
  const first = left.find(({ error }) => error.details.field === "chunks") ?? left[0];
  if (first !== undefined && arrays.length === 0) throw first.error;
  return {
    source: store.describe(root.path),
    node,
    groups: new Map(jobs.groups.map(({ path, document }) => [joinKey(node, path), document])),
    arrays,
    left,
    notes: jobs.notes,
  };
}

/** The `UNSUPPORTED` error for an opened Blosc2 file: Zarr readers have no codec for its chunks. */
export function refuseBlosc2(path: string): SuperchunkError {
  return notReferable(path, "they are chunks of Blosc2, for which readers of Zarr have no codec");
}

function notReferable(path: string, reason: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `its chunks cannot be referenced as they are: ${reason}; "superchunk convert" carries them to Zarr, with the compressed streams as they are where it can`,
    { path, field: "chunks" },
  );
}

/** Why the chunks of a dataset are generated when they are read; undefined if they are not. */
async function whyMade(store: Hdf5Store, array: ZarrArray): Promise<string | undefined> {
  const object = await store.objectAt(array.path);
  if (object?.kind !== "dataset") return undefined;
  if (hasText(object.type)) return "they are places of text in heaps, which readers of Zarr cannot follow";
  if (object.filters.some(({ id }) => id === BLOSC2))
    return `they are frames of Blosc2 (filter ${BLOSC2}), for which readers of Zarr have no codec`;
  const foreign = whyForeign(object);
  return foreign && `they are ${foreign}`;
}

/** The filters of a dataset in Zarr v3. Those without a v3 name use the names of numcodecs. */
function codecsOf({ model, metadata }: ZarrArray): JsonObject[] {
  const filters = (metadata["filters"] ?? []) as readonly JsonObject[];
  return leafOf(model.chain).stages.map(({ v3 }, i) => {
    if (v3 !== undefined) return v3;
    const { id, ...configuration } = filters[i] as JsonObject & { readonly id: string };
    return { name: `numcodecs.${id}`, configuration };
  });
}

interface Hdf5Settings {
  readonly node: string;
  readonly document: JsonObject;
  readonly options: PlanOptions;
}

/** A dataset; its chunks are in C order of the grid. */
interface Hdf5Array extends ReferencedArray {
  /** Why too many chunks would have to be stored beside the references; undefined if they are few. */
  whyStored(): Promise<string | undefined>;
}

async function hdf5Array(array: ZarrArray, { node, document, options }: Hdf5Settings): Promise<Hdf5Array> {
  const store = array.store as Hdf5Store;
  const objects = new ScannedObjects(store.file.store, options);
  /** Grid positions of the stored chunks. */
  const positions: number[][] = [];
  for await (const { name } of store.list(array.path))
    if (!name.startsWith(".")) positions.push(array.shape.length === 0 ? [] : name.split(".").map(Number));
  positions.sort((a, b) => {
    const d = a.findIndex((index, i) => index !== b[i]);
    return d < 0 ? 0 : (a[d] as number) - (b[d] as number);
  });
  const count = positions.length;
  const hasHoles = count < array.nchunks;
  const positionOf = (cell: number): readonly number[] => {
    const position = positions[cell];
    if (position === undefined) throw new RangeError(`${node} has no chunk ${cell}`);
    return position;
  };
  const keyOf = (cell: number): string => joinKey(array.path, positionOf(cell).join(".") || "0");
  const sample = async (cell: number): Promise<Uint8Array> => {
    const key = keyOf(cell);
    const bytes = await store.get(key, { signal: options.signal });
    if (bytes !== undefined) return bytes;
    throw new SuperchunkError("STALE", "the chunk is not in the file any more", {
      path: store.describe(key),
    });
  };
  return {
    node,
    document,
    source: store.describe(array.path),
    count,
    hasHoles,
    positionOf,
    sample,
    zarr2: {
      zarray: {
        ...array.metadata,
        dtype: formatDType(array.dtype),
        // xarray reads a fill value as "no data", so it is only set if chunks are missing.
        ...(hasHoles ? {} : { fill_value: null }),
        // Version 2 has no name for the bits of a NaN.
        ...(hasHoles && array.dtype.kind === "float" && /^0x/.test(String(array.metadata["fill_value"]))
          ? { fill_value: "NaN" }
          : {}),
      },
      zattrs: withDimensions(document, array.attrs),
    },
    async whyStored() {
      let made = 0;
      for (let i = 0; i < count; i++) if ((await store.placeOf(keyOf(i))) === undefined) made++;
      if (made <= Math.max(FEW, count / 10)) return undefined;
      return `chunks written without one of the filters, which did not make them smaller: ${made} of ${count}`;
    },
    async *chunks(counts, first = 0) {
      objects.clear();
      if (first >= count) return;
      const { location, guard, size } = await objects.look(store.file.key);
      for (const [i, index] of positions.entries()) {
        if (i < first) continue;
        const place = await store.placeOf(keyOf(i));
        const inline = place !== undefined && place.size <= (options.inline ?? 0);
        if (place === undefined || inline) {
          // The chunk skipped a filter, or it is the last part of contiguous values, and shorter than the others.
          const reason = inline ? "inlined" : "recoded";
          counts[reason]++;
          yield { kind: "native", node, index, bytes: await sample(i), reason };
          continue;
        }
        const { position, size: length } = place;
        if (position + length > size) await sample(i); // throws the error for the missing bytes
        counts.virtual++;
        yield { kind: "virtual", node, index, location, guard, offset: position, length };
      }
    },
    recheck: () => objects.recheck(),
    // An HDF5 file may move its chunks, so all are referenced again.
    chunksOf: () => undefined,
    firstInObject: async () => 0,
  };
}

/** Attributes with the dimension names, as xarray stores them in Zarr v2. */
function withDimensions(document: JsonObject, attrs: JsonObject): JsonObject {
  const names: JsonValue | undefined = document["dimension_names"];
  return names === undefined ? attrs : { _ARRAY_DIMENSIONS: names, ...attrs };
}
