import { elementsOf, pushAll } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { SuperchunkError, valueOr } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import {
  encodeFilled,
  type PlaceSpan,
  parseFilled,
  type RowSpan,
  type StoredLayout,
} from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import { hasMark, openPlaces, placeAbsent } from "../../places/open-places.ts";
import { PlacedStore } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { encodeItem, putRow } from "../../values/item-bytes.ts";
import { fieldSize } from "../../values/values.ts";
import { type ArrayFace, type ArrayFolder, nestedArray, plainArray } from "../kinds/array-folder.ts";
import type {
  Archive,
  ArrayArchive,
  DamageReport,
  HolePolicy,
  LongOptions,
  OpenOptions,
  VerifyReport,
} from "../kinds/types.ts";
import { arrayJournalKey, readArrayJournal, withWrites } from "../places/journal.ts";
import type { ChunkSequence } from "../places/sequence.ts";
import { isFlaw, type Losses, readHeaderAt, readOrNote } from "./chunk-check.ts";
import { bytesOf, type FoundColumn, findCarrayChunks, findSuperchunkChunks } from "./columns.ts";
import { countRows, keptRows, listHoles, mapSpans, type SalvagedColumn, salvagedSequence } from "./holes.ts";
import { examineFolder, type GivenFacts, type KnownArray } from "./known.ts";

/** Options of surveying a damaged archive. */
export interface SurveyOptions extends OpenOptions, GivenFacts, Pick<LongOptions, "onProgress"> {
  /** Searches for Blosc headers if nothing else locates chunks (default false). */
  readonly scan?: boolean | undefined;
  /** Value of filled rows (default: the array's default value, else zeros). */
  readonly fill?: JsonValue | undefined;
}

/** Intact chunks: their number, their decoded and stored bytes, and compared checksums. */
export type IntactChunks = Pick<VerifyReport, "chunks" | "nbytes" | "cbytes" | "digests">;

/** What was found of a damaged archive. */
export interface Survey extends Pick<DamageReport, "holes" | "problems" | "lost"> {
  readonly dialect: Archive["dialect"];
  /** Rows that there should be; bytes, for plain bytes. */
  readonly rows: number;
  /** Rows that the metadata count; undefined if they do not say. */
  readonly rowsBefore: number | undefined;
  /** What was read of the intact chunks. */
  readonly intact: IntactChunks;
  /** Set if the archive is an array in a folder. */
  readonly known: KnownArray | undefined;
  /** The columns' chunks, if the archive is an array in a folder. */
  readonly columns: readonly SalvagedColumn[];
  /** The store with the archive's journal applied. */
  readonly store: ReadableStore;
  /** Rows that stay under a policy. */
  kept(policy: HolePolicy): readonly RowSpan[];
  /** Closes the stores of the array's places. Absent if there are none. */
  closePlaces?(): Promise<void>;
  /** Opens the archive under a policy. Throws `UNSUPPORTED` if that is not possible. */
  open(policy: HolePolicy): Archive | Promise<Archive>;
}

/** Surveys an array folder, whose columns all have the same length and chunk length. */
export async function surveyArray(
  given: ReadableStore,
  path: string,
  options: SurveyOptions,
): Promise<Survey> {
  const problems: string[] = [];
  const lost: string[] = [];
  const known = await examineFolder(given, path, options, problems);
  const { rows: givenRows, chunklen, layout, dtype, rowShape } = known;
  if (dtype.kind === "object")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "dtype object holds Python pickles, which are never read, so that no value can be filled or moved. If meta/sizes and meta/storage of such an array are undamaged, it can be copied file by file: repair it by itself",
      { path: given.describe(path), field: "dtype" },
    );
  const folders = known.columns.map(({ folder }) => folder);
  const placed = await openKnownPlaces(given, path, known, options);
  const store = await withInterruptedChanges(placed ?? given, path, { layout, folders }, { problems, lost });
  const fill = fillOf(dtype, rowShape, options.fill ?? known.dflt, {
    problems,
    isGiven: options.fill !== undefined,
  });
  const columns: SalvagedColumn[] = [];
  for (const { name, folder: key, rowBytes } of known.columns) {
    const nbytes = givenRows === undefined ? undefined : givenRows * rowBytes;
    const facts = {
      key,
      chunkBytes: chunklen * rowBytes,
      nbytes,
      scan: options.scan === true,
      long: options,
    };
    const found =
      rowBytes === 0
        ? { slots: [], chunkBytes: 0, unplaced: [], problems: [] }
        : known.kind === "carray"
          ? await findCarrayChunks(store, facts)
          : await findSuperchunkChunks(store, {
              ...facts,
              layout,
              superchunklen: known.storage?.superchunk?.superchunklen,
            });
    pushAll(problems, found.problems);
    if (found.unplaced.length > 0) lost.push(unplacedText(known, found));
    columns.push({
      name,
      key,
      found,
      rowBytes,
      fill: fieldOf(fill, dtype, name),
      ...(await encodingOf(store, found)),
    });
  }
  const rows = givenRows ?? Math.max(0, ...columns.map(rowsFound));
  if (known.damagedAttributes !== undefined) lost.push("the attributes");
  const holes = listHoles(columns, rows);
  return {
    dialect: known.kind,
    rows,
    rowsBefore: known.sizes?.shape[0],
    holes,
    intact: countIntact(columns),
    problems,
    lost,
    known,
    columns,
    store,
    kept: (policy) => keptRows(holes, rows, policy),
    open: (policy) => showArray({ store, path }, known, columns, keptRows(holes, rows, policy), options),
    closePlaces: async () => placed?.closePlaces(),
  };
}

/**
 * The store with the places of the array's superchunks; undefined if there are none.
 * @throws NOT_FOUND for a place that has neither its mark nor one of its superchunks: an unmounted disk must not be
 * mistaken for lost superchunks; UNSAFE_PATH for one that is not allowed
 */
async function openKnownPlaces(
  store: ReadableStore,
  path: string,
  { layout, placing, columns }: KnownArray,
  { openPlace }: SurveyOptions,
): Promise<PlacedStore | undefined> {
  if (layout === undefined) return undefined;
  const { id, places: spans = [] } = layout;
  const sizesPath = store.describe(joinKey(path, "meta/sizes"));
  const opened = await openPlaces(store, { path, id, spans }, placing, {
    openPlace,
    mode: "read",
    sizesPath,
  });
  if (!(opened instanceof PlacedStore)) return undefined;
  for (const place of placing.places) {
    const own = spans.filter((span) => span.place === place.name);
    if (own.length > 0 && !(await hasMark(opened, place)) && !(await isAnyThere(opened, columns, own)))
      throw placeAbsent(opened, place);
  }
  return opened;
}

async function isAnyThere(
  store: PlacedStore,
  columns: KnownArray["columns"],
  spans: readonly PlaceSpan[],
): Promise<boolean> {
  for (const { first, count } of spans)
    for (let number = first; number < first + count; number++)
      for (const { folder } of columns)
        if ((await store.stat(joinKey(folder, superchunkName(number)))) !== undefined) return true;
  return false;
}

/** Describes data without a position. Files that a carray does not count are mostly left from a trim. */
function unplacedText({ kind, rows }: KnownArray, { unplaced }: FoundColumn): string {
  const names = nameSome(unplaced);
  if (kind === "carray") return `files beyond the ${rows} rows that meta/sizes counts: ${names}`;
  return `superchunks whose position is unknown, so that their rows are missing or have old values: ${names}`;
}

export function countIntact(columns: readonly SalvagedColumn[]): IntactChunks {
  const intact = { chunks: 0, nbytes: 0, cbytes: 0, digests: 0 };
  for (const { found } of columns)
    for (const { place, nbytes, ctbytes = 0 } of found.slots) {
      if (place === undefined) continue;
      intact.chunks++;
      intact.nbytes += nbytes;
      intact.cbytes += ctbytes;
      if (DIGEST_LENGTHS[place.checksum] > 0) intact.digests++;
    }
  return intact;
}

/** Paths that a report names, of a list. */
const NAMED = 5;

/** The first few of a list that may be long. */
export function nameSome(paths: readonly string[]): string {
  const more = paths.length - NAMED;
  return `${paths.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function rowsFound({ found, rowBytes }: SalvagedColumn): number {
  return rowBytes === 0 ? 0 : Math.floor(bytesOf(found) / rowBytes);
}

/** Compression and checksum of a column's intact chunks, which newly made chunks get as well. */
export async function encodingOf(
  store: ReadableStore,
  { slots }: FoundColumn,
): Promise<Pick<SalvagedColumn, "encoding" | "checksum">> {
  const place = slots.find((slot) => slot.place !== undefined)?.place;
  if (place === undefined) return { encoding: {}, checksum: "None" };
  const header = await readHeaderAt(store, place.key, place.offset, place.offset + place.available);
  const encoding =
    header === undefined
      ? {}
      : { cname: header.compressor, shuffle: header.shuffle, typesize: header.typesize };
  return { encoding, checksum: place.checksum };
}

/** The fill value as one stored item, or as one row if the default value is a row. */
export function fillOf(
  dtype: DType,
  rowShape: readonly number[],
  value: JsonValue,
  { problems, isGiven }: { readonly problems: string[]; readonly isGiven: boolean },
): Uint8Array {
  try {
    return encodeItem(dtype, value);
  } catch (error) {
    if (isGiven) throw error;
  }
  try {
    const bytes = new Uint8Array(elementsOf(rowShape) * dtype.itemSize);
    putRow(new DataView(bytes.buffer), 0, dtype, rowShape, value);
    return bytes;
  } catch {
    problems.push("the default value does not fit the dtype; zeros fill");
    return new Uint8Array(dtype.itemSize);
  }
}

/** A column's part of the fill value. */
function fieldOf(fill: Uint8Array, dtype: DType, name: string | undefined): Uint8Array {
  if (name === undefined || dtype.kind !== "struct") return fill;
  const field = dtype.fields.find((each) => each.name === name);
  return field === undefined ? fill : fill.subarray(field.offset, field.offset + fieldSize(field));
}

/** Makes the array with the rows of `kept`. */
export function showArray(
  { store, path }: { readonly store: ReadableStore; readonly path: string },
  known: KnownArray,
  columns: readonly SalvagedColumn[],
  kept: readonly RowSpan[],
  options: SurveyOptions,
): ArrayArchive {
  const sequences = new Map<string, ChunkSequence>();
  let shown = store;
  for (const column of columns) {
    const sequence = salvagedSequence(shown, column, kept);
    sequences.set(column.key, sequence);
    shown = sequence.store;
  }
  const rows = countRows(kept);
  // Copies made from this array then keep the filled rows in their own `meta/sizes`. [FG-15]
  const holes = listHoles(columns, kept.at(-1)?.to ?? 0);
  const { filled: _, ...stored } = known.sizes?.raw ?? {};
  const sizes = { ...stored, ...encodeFilled(mapSpans([...filledBefore(known), ...holes], kept)) };
  const folder: ArrayFolder = {
    store: shown,
    path,
    dtype: known.dtype,
    shape: [rows, ...known.rowShape],
    heldRows: rows,
    chunklen: known.chunklen,
    clevel: known.storage?.cparams.clevel,
    dflt: known.dflt,
    metadata: { sizes, storage: known.storage?.raw ?? {} },
    warnings: [],
    verify: options.verify ?? true,
    decoder: options.decoder,
  };
  const face: ArrayFace = {
    dialect: known.kind,
    attrs: known.attrs,
    metadataKeys: [],
    sequence: (dataFolder) => {
      const sequence = sequences.get(dataFolder);
      if (sequence === undefined) throw new RangeError(`no column ${dataFolder}`);
      return sequence;
    },
  };
  if (known.columns[0]?.name !== undefined && known.dtype.kind === "struct")
    return nestedArray(folder, known.dtype, face);
  return plainArray(folder, face);
}

function filledBefore({ sizes }: KnownArray): readonly RowSpan[] {
  return valueOr([], isFlaw, () => parseFilled(sizes?.raw ?? {}, "").filled ?? []);
}

/**
 * The store with the layout's journal applied. Files are handled one by one, so that a missing or truncated one does
 * not lose the changes in the others.
 */
async function withInterruptedChanges(
  store: ReadableStore,
  path: string,
  { layout, folders }: { readonly layout: StoredLayout | undefined; readonly folders: readonly string[] },
  losses: Losses,
): Promise<ReadableStore> {
  if (layout?.journal === undefined) return store;
  const shown = store.describe(arrayJournalKey(path, layout.journal));
  const loss = "values that were set in place last, as far as they were not written yet";
  const fitting = new Map<string, readonly JournalWrite[]>();
  const writesByKey = await readOrNote(losses, loss, () => readArrayJournal(store, path, layout, folders));
  for (const [key, writes] of writesByKey ?? [])
    await readOrNote(losses, `${loss}: ${store.describe(key)}`, async () => {
      await withWrites(store, new Map([[key, writes]]), shown);
      fitting.set(key, writes);
    });
  return withWrites(store, fitting, shown);
}
