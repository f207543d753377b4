/**
 * `open`: opens anything that holds arrays, recognised by content: an archive, a Zarr array or group of any version, a set of
 * references.
 *
 * Archives come first and need nothing else; the readers of Zarr and of references are imported on demand.
 */
import type { ArrayArchive, BytesArchive, ReadableArray, TableArchive } from "../archive/kinds/types.ts";
import { archiveStore, findArchive } from "../archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { HELD_NAMES } from "../format/naming.ts";
import type { OpenPlace } from "../places/placed-store.ts";
import type { PlaceAccess } from "../references/containers/container-reader.ts";
import { asReadable, type ForeignStore } from "../store/foreign.ts";
import { checkLater } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import type { ArraySlice, ValuesOf, ValueTypes } from "../values/selection.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { GroupArrays, ZarrGroup } from "../zarr/read/group.ts";
import type { FollowOptions, Reopen } from "./follow.ts";
import type { OpenAnyOptions } from "./open-node.ts";

/** `{` begins JSON, which may be a set of references. */
const BRACE = 0x7b;

/** Anything that `open` returns. `kind` is its kind, `dialect` its format. */
export type Readable = BytesArchive | ArrayArchive | ZarrArray | TableArchive | ZarrGroup;

/** Options of {@link openArray}. */
export interface OpenArrayOptions<Name extends string = string> extends OpenAnyOptions {
  /** A column of a table or of an array with column folders; an array of a Zarr group, by its path. */
  readonly column?: string | undefined;
  /** Required data type of the array, named like numpy (`"<f8"`) or Zarr (`"float64"`), in any byte order. */
  readonly dtype?: Name | undefined;
}

/**
 * Opens anything at a key of a store: a Bloscpack file, the folder of an array or a table (bcolz, BLZ, superchunk), a Zarr array or group
 * (version 3, version 2, the hierarchies of zarr 2.13 to 2.18), a set of kerchunk references, an HDF5 file or a node in it (`bars.h5`,
 * `bars.h5/group/prices`) as Zarr groups and arrays, or a Blosc2 frame (`.b2nd`, `.b2frame`).
 *
 * `store` is one of this library's stores, or any zarrita store that has `getRange`. For references, only the containers passed, and those
 * kept beside the set that `authorize` names, are read.
 * @throws NOT_FOUND if nothing is there; UNSUPPORTED for anything else; the codes of damage
 */
export async function open(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenAnyOptions = {},
): Promise<Readable> {
  await checkLater<OpenAnyOptions & Encoding, "openAny">(options, "openAny", USUAL);
  return openAs(store, path, options, false);
}

/** Options that most pages give, if any: they do not load the check of the others. */
const USUAL = /^(?:columns|verify)$/;

/** What `threadsOf` gives besides a decoder, which only writers use. */
type Encoding = Partial<Record<"encoder" | "shardWriter", unknown>>;

/** If an array is expected, Zarr's documents are tried before a table and a file, because each of these costs a request. */
export async function openAs(
  store: ReadableStore | ForeignStore,
  path: string,
  options: OpenAnyOptions,
  isArray = false,
): Promise<Readable> {
  const source = archiveStore(store);
  const settings: OpenAnyOptions = { ...options, openPlace: options.openPlace ?? placesAllowed(options) };
  // Pages that open archives only do not load it.
  const nodes = (): Promise<typeof import("./open-node.ts")> => import("./open-node.ts");
  const named = HELD_NAMES.test(path)
    ? await (await nodes()).openNamed(asReadable(store), path, options)
    : undefined;
  if (named !== undefined) return named;
  const openZarr = async () => (await nodes()).openOwnArray(asReadable(store), path, options);
  const found = await findArchive(source, path, settings, isArray ? openZarr : undefined);
  if ("kind" in found) return found;
  if (found.node !== undefined) return found.node;
  const { file } = found;
  const { isThere, openInside, openNode, openSet } = await nodes();
  // A path after the name of a reference set is the path of a node in it.
  const [, json = "", inside = ""] = /^((?:.*\/)?(?!zarr\.json)[^/]+\.json)\/(.+)$/i.exec(path) ?? [];
  const isSet = file?.bytes[0] === BRACE && !/(?:^|\/)(?:zarr\.json|\.z[a-z]+)$/i.test(path);
  if (isSet || (json !== "" && (await isThere(source, json, options)))) {
    const set = await openSet(asReadable(store), json || path, inside, options).catch((error: unknown) => {
      // Under another name, a file that is not JSON has another format.
      if (/\.json$/i.test(json || path) || !isSuperchunkError(error, "BAD_FIELD")) throw error;
      if (!(error.cause instanceof SyntaxError)) throw error;
    });
    if (set !== undefined) return set;
  }
  const node = file === undefined ? await openNode(asReadable(store), path, options) : undefined;
  if (node !== undefined) return node;
  const held = await openInside(asReadable(store), path, file?.bytes, options);
  if (held !== undefined) return held;
  const { explainNoArchive } = await import("../archive/open/no-archive.ts");
  throw await explainNoArchive(source, path, file, options);
}

/** Opens the places of arrays by the rules for references; the code is loaded on first use. */
export function placesAllowed(access: PlaceAccess): OpenPlace {
  let opener: OpenPlace | undefined;
  return async (place, isNamed) => {
    const { placeOpener } = await import("../references/containers/container-reader.ts");
    opener ??= placeOpener(access);
    return opener(place, isNamed);
  };
}

/**
 * Opens the array at the key, or its `column`. With `dtype`, values have the type of that name.
 * @throws BAD_ARGUMENT if it is not an array, has another dtype, or is a table and no column is named; NOT_FOUND for a missing column; and
 * as {@link open}
 */
export async function openArray<const Name extends string = string>(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenArrayOptions<Name> = {},
): Promise<FollowableArray<ValuesOf<Name>>> {
  await checkLater<OpenAnyOptions & Encoding, "openAny">(withColumn(options), "openAny", USUAL);
  const openIt = (from: ReadableStore | ForeignStore, more: StoreOptions) =>
    openAs(from, path, { ...withColumn(options), ...more }, options.column === undefined);
  return asArray(await openIt(store, {}), options, async (more) => {
    const renewed = ("renew" in store ? store.renew?.() : undefined) ?? store;
    const again = await asReadableArray<Name>(await openIt(renewed, more), options);
    // The caller owns the store and closes it.
    return Object.assign(again, { close: async () => {} });
  });
}

/**
 * Opens a table: a ctable, or a Zarr group whose arrays are all directly below it and of equal length.
 * @throws BAD_ARGUMENT for anything else; and as {@link open}
 */
export async function openTable(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenAnyOptions = {},
): Promise<TableArchive | (GroupArrays & { readonly length: number })> {
  return asTable(await open(store, path, options));
}

/** For a table, options that open only the requested column. */
export function withColumn({ column, dtype: _, ...options }: OpenArrayOptions): OpenAnyOptions {
  return column === undefined ? options : { ...options, columns: [column] };
}

/** An array that can be followed while a writer appends to it. */
export type FollowableArray<Types extends ValueTypes = ValueTypes> = ReadableArray<Types> & {
  /**
   * Yields the rows in order, in slices of whole rows, and then the rows that a writer appends, as they are committed: for arrays of
   * superchunks, carrays, Bloscpack files and Zarr arrays. Polls every `interval` milliseconds, and ends when `signal` is aborted.
   * @throws BAD_ARGUMENT for an array without dimensions; STALE if rows that were yielded are cut off, the last of them has changed,
   * or another array has taken the place; the codes of reading
   */
  follow(options?: FollowOptions): AsyncGenerator<ArraySlice<Types>>;
};

/** Turns an opened node into the result of {@link openArray}; `reopen` opens the same array again. */
export async function asArray<const Name extends string = string>(
  opened: Readable,
  options: OpenArrayOptions<Name>,
  reopen: Reopen<ValuesOf<Name>>,
): Promise<FollowableArray<ValuesOf<Name>>> {
  const array = await asReadableArray(opened, options);
  return Object.assign(array, {
    async *follow(following: FollowOptions = {}): AsyncGenerator<ArraySlice<ValuesOf<Name>>> {
      const { followRows } = await import("./follow.ts");
      yield* followRows(array, reopen, following);
    },
  });
}

/** The array or column, after checking the requested dtype. */
export async function asReadableArray<const Name extends string = string>(
  opened: Readable,
  { column, dtype }: OpenArrayOptions<Name>,
): Promise<ReadableArray<ValuesOf<Name>>> {
  const array = await arrayIn(opened, column);
  if (dtype !== undefined) {
    const { checkDType } = await import("../format/given-dtype.ts");
    checkDType(array.dtype, dtype, opened.store.describe(opened.path));
  }
  return array as ReadableArray<ValuesOf<Name>>; // the dtype was compared
}

async function arrayIn(opened: Readable, column: string | undefined): Promise<ReadableArray> {
  if (opened.kind === "array") return column === undefined ? opened : opened.column(column);
  const where = { path: opened.store.describe(opened.path) };
  if (opened.kind === "bytes" || column === undefined) {
    const names = opened.kind === "table" ? ` (${opened.names.join(", ")})` : "";
    const what =
      opened.kind === "bytes"
        ? "plain bytes, which have no dtype"
        : `a ${opened.kind}; choose one of its arrays with the option column${names}`;
    throw new SuperchunkError("BAD_ARGUMENT", `this is ${what}`, {
      ...where,
      field: opened.kind === "bytes" ? "kind" : "column",
      expected: "array",
      found: opened.kind,
    });
  }
  if (opened.kind === "table") return opened.column(column);
  const node = await opened.open(column);
  if (node.kind === "array") return node.ownStore(opened);
  throw new SuperchunkError("BAD_ARGUMENT", `"${column}" is a group; name one of its arrays`, {
    ...where,
    field: "column",
    expected: "array",
    found: "group",
  });
}

/** Turns an opened node into the result of {@link openTable}. */
export async function asTable(
  opened: Readable,
): Promise<TableArchive | (GroupArrays & { readonly length: number })> {
  if (opened.kind === "table") return opened;
  const where = { path: opened.store.describe(opened.path), field: "kind", expected: "table" };
  if (opened.kind !== "group") {
    const what = opened.kind === "bytes" ? "plain bytes" : "an array";
    throw new SuperchunkError("BAD_ARGUMENT", `this is ${what}, not a table`, {
      ...where,
      found: opened.kind,
    });
  }
  const arrays = await opened.arrays();
  if (hasLength(arrays)) return arrays;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "this group is not a table: its arrays are not all directly in it and of one length; open them by themselves",
    { ...where, found: "group" },
  );
}

function hasLength(arrays: GroupArrays): arrays is GroupArrays & { readonly length: number } {
  return arrays.length !== undefined;
}
