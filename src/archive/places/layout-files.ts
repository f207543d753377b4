/**
 * Reads the layout in `meta/sizes`, and finds the chunks of an array or column by it: by superchunk number, and by the
 * offsets in the opened files. @see FORMAT.md [FG]
 */
import { at, countLeading, isEqual } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseStorage, type StoredStorage } from "../../format/folder.ts";
import { objectOf, parseJson, stringifyJson } from "../../format/json.ts";
import { countChunks, parseLayout, type StoredLayout } from "../../format/layout.ts";
import { checkStoredName, superchunkName } from "../../format/naming.ts";
import type { DType, Field, JsonInput } from "../../format/types.ts";
import { parsePlaces } from "../../places/declared.ts";
import { absentPlaceOf, openPlaces } from "../../places/open-places.ts";
import { joinKey, statFile } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import {
  type ArrayFolder,
  type FolderMetadata,
  missingFile,
  readFolder,
  readFolderMetadata,
} from "../kinds/array-folder.ts";
import type { OpenOptions } from "../kinds/types.ts";
import { type BlpkFile, openSuperchunk } from "./blpk-file.ts";
import { arrayJournalKey, readArrayJournal, withWrites } from "./journal.ts";
import {
  type ChunkSequence,
  contradict,
  inArray,
  nbytesOfChunk,
  openedSuperchunks,
  type PlacedChunk,
  placeInFile,
} from "./sequence.ts";

/** Up to this many superchunks, the store is trusted to remember their versions: of far more it forgets the oldest. */
const SETTLED_FILES = 10_000;

/** The superchunks that a generation opened, to tell whether their names may have come to mean other files since. */
export class OpenedFiles {
  /** Superchunks opened so far. */
  count = 0;
  /** How many of them were opened before `meta/sizes` was last found to be of the same epoch. */
  confirmed = 0;
  /** True if the store gave each of them a version to recognise it by. */
  hasVersions = true;

  /** True if all were confirmed, and the store itself refuses other bytes under their names. */
  isSettled({ pinsVersions }: ReadableStore): boolean {
    return (
      pinsVersions === true &&
      this.hasVersions &&
      this.confirmed === this.count &&
      this.count <= SETTLED_FILES
    );
  }
}

/** Where the layout alone places a chunk. */
interface LayoutPlace {
  readonly number: number;
  /** Index of the chunk in its superchunk. */
  readonly inFile: number;
  /** Minimum number of chunks that the superchunk must have. */
  readonly needed: number;
}

/** A layout prepared for looking up chunks. */
export class LayoutIndex {
  readonly nchunks: number;
  readonly #layout: StoredLayout;
  /** First chunk of each run. */
  readonly #starts: number[] = [];
  readonly #patched = new Map<number, LayoutPlace>();

  constructor(layout: StoredLayout) {
    this.#layout = layout;
    this.nchunks = countChunks(layout.runs);
    let start = 0;
    for (const run of layout.runs) {
      this.#starts.push(start);
      start += run.count * run.chunks;
    }
    for (const { number, chunks } of layout.patches)
      chunks.forEach((chunk, inFile) => {
        if (chunk >= 0) this.#patched.set(chunk, { number, inFile, needed: chunks.length });
      });
  }

  /** The place of chunk `index`, which must be below `nchunks`. */
  find(index: number): LayoutPlace {
    const patched = this.#patched.get(index);
    if (patched !== undefined) return patched;
    const found = countLeading(this.#starts.length, (i) => at(this.#starts, i) <= index) - 1;
    const run = this.#layout.runs[found];
    if (run === undefined || index >= this.nchunks) throw new RangeError(`chunk ${index} of ${this.nchunks}`);
    const inRun = index - at(this.#starts, found);
    const file = Math.floor(inRun / run.chunks);
    return { number: run.first + file, inFile: inRun - file * run.chunks, needed: run.chunks };
  }

  *numbers(): Generator<number> {
    for (const { first, count } of this.#layout.runs) for (let i = 0; i < count; i++) yield first + i;
    for (const { number } of this.#layout.patches) yield number;
  }
}

/** Superchunks opened at a time. */
const AT_ONCE = 8;

interface LayoutFacts {
  readonly folder: string;
  readonly layout: StoredLayout;
  /** Rows that the chunks hold. */
  readonly heldRows: number;
  /** Number of rows shown, from the first. */
  readonly rows: number;
  readonly rowBytes: number;
  readonly chunklen: number;
  /** Name of `meta/sizes` in messages. */
  readonly sizesPath: string;
  readonly opened?: OpenedFiles | undefined;
}

/** Throws `BAD_FIELD` if the layout counts another number of chunks than the rows need. [FG-02] */
export function layoutSequence(store: ReadableStore, facts: LayoutFacts): ChunkSequence {
  const { rows, heldRows, rowBytes, chunklen } = facts;
  const chunkBytes = chunklen * rowBytes;
  const { folder, opened = new OpenedFiles() } = facts;
  const files = openedSuperchunks<BlpkFile>();
  const openings = new Map<number, Promise<BlpkFile>>();
  const layout = new LayoutIndex(facts.layout);
  const needed = rowBytes === 0 ? 0 : Math.ceil(heldRows / chunklen);
  if (rowBytes > 0 && layout.nchunks !== needed)
    throw new SuperchunkError(
      "BAD_FIELD",
      `layout.superchunks counts ${layout.nchunks} chunks, but shape and chunklen make ${needed}. The metadata are damaged; run "superchunk repair", or look for another copy`,
      { path: facts.sizesPath, field: "layout.superchunks", expected: needed, found: layout.nchunks },
    );
  // A chunk holds more bytes than are shown if the shown rows end inside it.
  const heldOf = (index: number): number => nbytesOfChunk(index, heldRows * rowBytes, chunkBytes);
  const keyOf = (number: number): string => joinKey(folder, superchunkName(number));

  /** The place of a chunk in a superchunk that is open already. */
  function placeNow(index: number): PlacedChunk | undefined {
    const { number, inFile } = layout.find(index);
    const file = files.get(number);
    return file === undefined ? undefined : placeInFile(file, inFile, index, heldOf(index));
  }

  /** The same, opening the superchunk if needed. Throws `INCOMPLETE` if it is missing, and the codes of damage. */
  async function placeSoon(index: number, signal: AbortSignal | undefined): Promise<PlacedChunk> {
    const place = layout.find(index);
    for (;;) {
      const known = placeNow(index);
      if (known !== undefined) return known;
      const opening = openings.get(place.number);
      if (opening === undefined) break;
      // Another caller is opening it. If that fails, perhaps only because that caller was aborted, try again.
      await opening.catch(() => undefined);
      signal?.throwIfAborted();
    }
    const opening = openFile(place, index, signal);
    openings.set(place.number, opening);
    try {
      return placeInFile(await opening, place.inFile, index, heldOf(index));
    } finally {
      openings.delete(place.number);
    }
  }

  async function openFile(
    { number, inFile, needed }: LayoutPlace,
    index: number,
    signal: AbortSignal | undefined,
  ): Promise<BlpkFile> {
    const key = keyOf(number);
    const info = await statFile(store, key, { signal });
    if (info === undefined)
      throw (
        (await absentPlaceOf(store, number)) ??
        new SuperchunkError(
          "INCOMPLETE",
          `the file is missing: chunk ${index} should be in it, as meta/sizes counts. The archive is incomplete; look for a complete copy, or run "superchunk repair"`,
          { path: store.describe(key), field: "superchunk", expected: "a file", found: "nothing" },
        )
      );
    const file = await openSuperchunk(store, key, info.size, needed, signal).catch((error) => {
      throw inArray(error, (chunk) => {
        const there = index - inFile + chunk;
        const place = there < layout.nchunks ? layout.find(there) : undefined;
        return place?.number === number && place.inFile === chunk ? there : undefined;
      });
    });
    const { header, path, starts } = file;
    if (starts.length < needed) contradict(path, "nchunks", 16, `at least ${needed}`, starts.length);
    const fits = header.chunkSize === chunkBytes || (starts.length === 1 && header.chunkSize < chunkBytes);
    if (header.chunkSize >= 0 && !fits) contradict(path, "chunk-size", 8, chunkBytes, header.chunkSize);
    opened.count++;
    if (info.etag === undefined) opened.hasVersions = false;
    files.keep(number, file);
    return file;
  }

  return {
    store,
    chunkBytes,
    nbytes: rows * rowBytes,
    hasChecksums: true,
    isConfirmed: true,
    placeNow,
    nchunks: rowBytes === 0 ? 0 : Math.ceil(rows / chunklen),
    async places(first, end, signal) {
      // A store with latency is asked for several superchunks concurrently.
      if (end - first > 1 && store.getHead !== undefined) {
        const unknown: number[] = [];
        for (let index = first; index < end; index++) if (placeNow(index) === undefined) unknown.push(index);
        await runPooled(unknown, AT_ONCE, async (index, call) => void (await placeSoon(index, call)), signal);
      }
      const places: PlacedChunk[] = [];
      for (let index = first; index < end; index++)
        places.push(placeNow(index) ?? (await placeSoon(index, signal)));
      return places;
    },
    async *keys() {
      for (const number of layout.numbers()) yield keyOf(number);
    },
    // Other files beside these belong to a writer at work, or are left from one: the next writer removes them.
    leftovers: async () => [],
  };
}

// One generation of an array of superchunks with a layout: `meta/sizes` and the matching `meta/storage`, read consistently.
// @see FORMAT.md [FG]

/** The write feature of arrays whose folder is also a Zarr array, which every writer keeps up to date. [FY-01] */
export const ZARR_FEATURE = "zarr";
/** The write feature of arrays that several writers append to, each with numbers it has reserved. [FG-16] */
export const SHARED_FEATURE = "shared";
/** Write features that this library knows. [FZ-09] */
const WRITE_FEATURES: readonly string[] = [ZARR_FEATURE, SHARED_FEATURE];
/** The two files are read at most this often until they match. */
const MAX_TRIES = 100;

export interface Generation {
  readonly folder: ArrayFolder;
  readonly layout: StoredLayout;
  readonly storage: StoredStorage;
  /** The array's store with its places. */
  readonly store: ReadableStore;
  /** `meta/sizes` as it was read. */
  readonly sizes: Uint8Array;
  /** True if each field of the dtype is stored in a folder. */
  readonly hasColumns: boolean;
}

/**
 * Reads the newest generation; `found` is what has been read already. With `rows`, only that many rows are shown. With
 * `metadata`, only metadata will be read: places are not opened, and the journal is not applied.
 * @throws UNSUPPORTED for an unknown read feature; UNSAFE_PATH for a place that is not allowed; NOT_FOUND if the layout
 * is gone; BAD_FIELD and the other codes of damage
 */
export async function readGeneration(
  store: ReadableStore,
  path: string,
  found: FolderMetadata | undefined,
  options: OpenOptions & { readonly metadata?: boolean },
  rows?: number,
): Promise<Generation> {
  let { sizes, storage } = found ?? (await readFolderMetadata(store, path, options));
  for (let tries = 0; ; tries++) {
    const sizesPath = store.describe(joinKey(path, "meta/sizes"));
    if (sizes === undefined) throw gone(sizesPath);
    const layout = parseLayout(objectOf(parseJson(sizes, sizesPath)), sizesPath);
    if (layout === undefined) throw gone(sizesPath);
    const text = layout.storage === undefined ? storage : encodeJson(layout.storage);
    if (text === undefined) throw missingFile(store.describe(joinKey(path, "meta/storage")));
    const storagePath =
      layout.storage === undefined ? store.describe(joinKey(path, "meta/storage")) : sizesPath;
    const parsed = parseStorage(text, storagePath);
    const declared = objectOf(parsed.raw["superchunk"] ?? null);
    if (declared["revision"] === layout.revision) {
      const { openPlace, metadata } = options;
      const isPlaced = layout.places !== undefined || declared["places"] !== undefined;
      const array = { path, id: layout.id, spans: layout.places ?? [] };
      const placed =
        isPlaced && metadata !== true
          ? await openPlaces(store, array, parsePlaces(parsed.raw, storagePath), {
              openPlace,
              mode: "read",
              sizesPath,
            })
          : store;
      const folder = readFolder(placed, path, { sizes, storage: text }, options, rows);
      const hasColumns = declared["columns"] === true && folder.dtype.kind === "struct";
      const generation = { folder, layout, storage: parsed, store: placed, sizes, hasColumns };
      if (layout.journal === undefined || metadata) return generation;
      try {
        return {
          ...generation,
          folder: { ...folder, store: await withChanges(placed, path, generation, options) },
        };
      } catch (error) {
        const newest = await readFolderMetadata(store, path, options);
        if (newest.sizes === undefined || isEqual(newest.sizes, sizes)) throw error;
        // A writer has completed the journal.
        ({ sizes, storage } = newest);
        continue;
      }
    }
    if (tries >= MAX_TRIES)
      throw new SuperchunkError(
        "BAD_FIELD",
        `superchunk.revision is ${String(declared["revision"])}, but meta/sizes belongs to revision ${layout.revision}. One of the files is older or newer; run "superchunk repair", or look for another copy`,
        {
          path: storagePath,
          field: "superchunk.revision",
          expected: layout.revision,
          found: declared["revision"],
        },
      );
    // A writer committed between the two reads.
    ({ sizes, storage } = await readFolderMetadata(store, path, options));
  }
}

/** The store with the generation's journal applied. [FG-12] */
async function withChanges(
  store: ReadableStore,
  path: string,
  { folder, layout, hasColumns }: Generation,
  { signal }: StoreOptions,
): Promise<ReadableStore> {
  const folders = dataFolders(path, folder.dtype, hasColumns).map((each) => each.folder);
  const files = await readArrayJournal(store, path, layout, folders, { signal });
  return withWrites(store, files, store.describe(arrayJournalKey(path, layout.journal ?? "")), { signal });
}

/** The folders of an array's superchunks: one, or one for each field. */
export function dataFolders(
  path: string,
  dtype: DType,
  hasColumns: boolean,
): { readonly folder: string; readonly field?: Field }[] {
  const data = joinKey(path, "data");
  if (!hasColumns || dtype.kind !== "struct") return [{ folder: data }];
  return dtype.fields.map((field) => {
    checkStoredName(field.name, data, "field");
    return { folder: joinKey(data, field.name), field };
  });
}

/** True if an array keeps itself a Zarr array, and its state does not say that the view shows this generation. [FY-06] */
export async function isViewBehind(
  store: ReadableStore,
  path: string,
  { storage, layout }: Generation,
  options: StoreOptions,
): Promise<boolean> {
  if (storage.superchunk?.writeFeatures.includes(ZARR_FEATURE) !== true) return false;
  const key = joinKey(path, "meta/zarr");
  const bytes = await store.get(key, options);
  const { id, generation } = bytes === undefined ? {} : objectOf(parseJson(bytes, store.describe(key)));
  return id !== layout.id || generation !== layout.generation;
}

/** Write features that this library does not know: then the array is opened for reading only. */
export function unknownWriteFeatures({ superchunk }: StoredStorage): readonly string[] {
  return (superchunk?.writeFeatures ?? []).filter((feature) => !WRITE_FEATURES.includes(feature));
}

/** A metadata file as this library writes it. */
export function encodeJson(value: JsonInput): Uint8Array {
  return new TextEncoder().encode(`${stringifyJson(value, { python: true })}\n`);
}

function gone(path: string): SuperchunkError {
  return new SuperchunkError("NOT_FOUND", "the array is gone", { path });
}
