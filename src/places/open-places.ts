/** Opens the places of an array, and handles the mark that shows that a place is present. @see FORMAT.md [FG-19] [FG-21] */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { objectOf, parseJson, stringifyJson } from "../format/json.ts";
import { joinKey } from "../store/key.ts";
import { removeTree } from "../store/tree.ts";
import { isWritable, type ReadableStore, type WritableStore } from "../store/types.ts";
import { withHeads } from "../store/wrappers/heads.ts";
import { asReadOnly } from "../store/wrappers/intercept.ts";
import { HOME, type Placing, type StoredPlace } from "./declared.ts";
import { type OpenPlace, type PlacedArray, PlacedStore } from "./placed-store.ts";

interface OpenPlacesOptions {
  readonly openPlace?: OpenPlace | undefined;
  /** `read` opens the places that hold superchunks; `write` opens all, and so does `plan`, which writes nothing. */
  readonly mode: "read" | "plan" | "write";
  /** Names of the places that the caller, not the archive, has named. */
  readonly named?: ReadonlySet<string> | undefined;
  /** Name of `meta/sizes` in messages. */
  readonly sizesPath: string;
}

/**
 * The store of an array with its places; the same store if it has none.
 * @throws UNSAFE_PATH for a place that is not allowed; BAD_FIELD for one that is not declared
 */
export async function openPlaces(
  store: ReadableStore,
  array: PlacedArray,
  placing: Placing,
  { openPlace = refuse, mode, named, sizesPath }: OpenPlacesOptions,
): Promise<ReadableStore> {
  // A writer's store knows more than the last commit.
  if (store instanceof PlacedStore) return store;
  const used = new Set(array.spans.map(({ place }) => place));
  for (const name of used)
    if (!placing.places.some((place) => place.name === name))
      throw new SuperchunkError(
        "BAD_FIELD",
        `layout.places names the place "${name}", which meta/storage does not declare. One of the files is damaged, or older or newer; look for another copy`,
        { path: sizesPath, field: "layout.places", found: name },
      );
  const wanted = placing.places.filter(({ name }) => mode !== "read" || used.has(name));
  if (wanted.length === 0) return store;
  const stores = new Map<string, ReadableStore>();
  for (const place of wanted) {
    const isNamed = named?.has(place.name) === true;
    const opened = await (mode === "plan" ? orLater(openPlace) : openPlace)(place, isNamed);
    const isRemote = opened.getHead !== undefined;
    if (mode === "read") stores.set(place.name, isRemote ? withHeads(opened) : opened);
    else stores.set(place.name, mode === "plan" && isWritable(opened) ? asReadOnly(opened) : opened);
  }
  return new PlacedStore(store, array, stores);
}

export interface AllPlacesOptions extends Pick<OpenPlacesOptions, "openPlace" | "named"> {
  /** True if nothing will be written. */
  readonly readOnly?: boolean | undefined;
}

/** The store of an array to be written, with all its places; the same store if it has none. Throws like {@link openPlaces}. */
export async function openAllPlaces(
  store: WritableStore,
  array: PlacedArray,
  placing: Placing,
  { openPlace, named, readOnly }: AllPlacesOptions,
): Promise<WritableStore> {
  const sizesPath = store.describe(joinKey(array.path, "meta/sizes"));
  const mode = readOnly === true ? "plan" : "write";
  const placed = await openPlaces(store, array, placing, { openPlace, mode, named, sizesPath });
  return placed instanceof PlacedStore ? placed : store;
}

const refuse: OpenPlace = (place) => {
  throw notAllowed(place);
};

/** The same, but a place that is not allowed is reported only when it is used. */
export function orLater(openPlace: OpenPlace = refuse): OpenPlace {
  return async (place, isNamed) => {
    try {
      return await openPlace(place, isNamed);
    } catch (error) {
      if (!isSuperchunkError(error, "UNSAFE_PATH")) throw error;
      const fail = (): Promise<never> => Promise.reject(error);
      return {
        describe: (key) => place.prefix + key,
        get: fail,
        getRange: fail,
        stat: fail,
        // biome-ignore lint/correctness/useYield: it has no entries
        list: async function* () {
          await fail();
        },
      };
    }
  };
}

/** The error for a place that the caller did not allow. */
export function notAllowed({ name, prefix }: StoredPlace): SuperchunkError {
  return new SuperchunkError(
    "UNSAFE_PATH",
    `superchunks of the array are in the place "${name}" (${prefix}), which is not allowed; to use it, open the array with {allow: "${prefix}"}`,
    // As with references, this does not mean damage.
    { field: "container", expected: "a place that was allowed", found: prefix },
  );
}

/**
 * The mark in a place; undefined if there is none. Throws `CONFLICT` if it is the mark of another place of the array. Both then lead to one
 * folder, and a clean-up would take the superchunks of each for leftovers of the other.
 */
async function readMark(
  placed: PlacedStore,
  { name }: StoredPlace,
): Promise<{ readonly name?: string; readonly owner?: readonly string[] } | undefined> {
  const { store } = placed.folderIn(name);
  const path = store.describe(placed.markKey());
  const bytes = await store.get(placed.markKey());
  if (bytes === undefined) return undefined;
  const mark: { readonly name?: string; readonly owner?: readonly string[] } = objectOf(
    parseJson(bytes, path),
  );
  if (mark.name === undefined || mark.name === name || !placed.names.includes(mark.name)) return mark;
  throw new SuperchunkError(
    "CONFLICT",
    `the places "${mark.name}" and "${name}" lead to one folder; give each its own. To have a whole copy of an array that has them, convert it`,
    { path, field: "place", expected: name, found: mark.name },
  );
}

/** Writes the mark into a place, unless the place cannot be written. Durable when resolved. Throws like {@link readMark}. */
export async function putMark(placed: PlacedStore, place: StoredPlace): Promise<void> {
  const { name } = place;
  const { store, key: array } = placed.folderIn(name);
  if (!isWritable(store)) return;
  await readMark(placed, place);
  const owner = await placed.identifyHome();
  const text = `${stringifyJson({ format: "superchunk-place", version: 1, array, name, ...(owner && { owner }) })}\n`;
  await store.put(placed.markKey(), new TextEncoder().encode(text), { durable: true });
}

/** Removes everything of the array from a place: superchunks that no commit names any longer, and the mark. */
export async function clearPlaceOf(placed: PlacedStore, name: string): Promise<void> {
  const { store, key } = placed.folderIn(name);
  if (!isWritable(store)) return;
  await removeTree(store, key);
  await store.delete(key);
}

/**
 * Makes sure that places are present and belong to this array. An unmounted disk looks like an empty folder, and what is
 * written there would be hidden once it is mounted. With `owns`, the places become this array's.
 * @throws NOT_FOUND; CONFLICT if the place belongs to another folder, of which this one is a copy, or is another place too
 */
export async function checkMarks(
  placed: PlacedStore,
  places: readonly StoredPlace[],
  owns = false,
): Promise<void> {
  for (const place of places) {
    const { store } = placed.folderIn(place.name);
    if (!isWritable(store)) continue;
    const mark = await readMark(placed, place);
    if (mark === undefined) throw placeAbsent(placed, place);
    const { owner } = mark;
    const own = await placed.identifyHome();
    if (owns) await putMark(placed, place);
    // Marks of earlier versions name no owner.
    else if (owner !== undefined && own !== undefined && !own.some((each) => owner.includes(each)))
      throw new SuperchunkError(
        "CONFLICT",
        `the superchunks there are those of the array at ${owner.at(-1)}, of which this folder is a copy, or to which it was moved; two arrays must not write them. To have a whole copy, convert the array; if the other folder is gone, "superchunk place ROOT --own" makes them this array's`,
        {
          path: store.describe(placed.markKey()),
          field: "place",
          expected: own.at(-1),
          found: owner.at(-1),
        },
      );
  }
}

export async function hasMark(placed: PlacedStore, { name }: StoredPlace): Promise<boolean> {
  return (await placed.folderIn(name).store.stat(placed.markKey())) !== undefined;
}

export function placeAbsent(placed: PlacedStore, { name, prefix }: StoredPlace): SuperchunkError {
  const { store } = placed.folderIn(name);
  return new SuperchunkError(
    "NOT_FOUND",
    `the place "${name}" (${prefix}) is not there, or has no mark of this array. Is its disk mounted?`,
    { path: store.describe(placed.markKey()), field: "place" },
  );
}

/** The error for a missing superchunk whose place is missing; undefined for others. */
export async function absentPlaceOf(store: ReadableStore, number: number): Promise<Error | undefined> {
  if (!(store instanceof PlacedStore)) return undefined;
  const name = store.table.of(number) ?? HOME;
  const place = { name, prefix: name === HOME ? "" : store.folderIn(name).store.describe("") };
  return name === HOME || (await hasMark(store, place)) ? undefined : placeAbsent(store, place);
}
