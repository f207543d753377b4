/**
 * Adopts an array of superchunks that another program wrote: makes a layout that names the existing files. Plans only;
 * committing the layout is the adoption. Must not know how superchunks are read. @see FORMAT.md [FG-11]
 */

import { readFolderMetadata } from "../../archive/kinds/array-folder.ts";
import { openArrayFolder } from "../../archive/open/open-array-folder.ts";
import { superchunkSequence } from "../../archive/places/blpk-sequence.ts";
import type { ChunkSequence } from "../../archive/places/sequence.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseStorage } from "../../format/folder.ts";
import { EMPTY_LAYOUT } from "../../format/layout.ts";
import type { ChecksumName } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { type Committed, newArrayId } from "../array/root.ts";
import { layOutColumns } from "./columns.ts";
import { appendRun } from "./runs.ts";
import { type ArraySettings, settleStored, storageOf, storedOptions } from "./settings.ts";

/** An array in the form in which a writer of this library takes it over. */
export interface Adoption {
  readonly settings: ArraySettings;
  /** For another program's array generation 0, with the new `meta/storage` in its layout. */
  readonly committed: Committed;
  /** `meta/sizes` as it was read: the next commit replaces it. */
  readonly sizes: Uint8Array;
}

/** How the superchunks of a folder are cut. */
interface SuperchunkCut {
  /** Chunks of each superchunk, in order. */
  readonly counts: readonly number[];
  readonly checksums: ReadonlySet<ChecksumName>;
  /** Bytes of all of them. */
  readonly cbytes: number;
}

/** Chunks located at a time. */
const PLACES = 4096;

/**
 * Plans adopting the array at a key of a store. Reads metadata and the offset tables of all superchunks.
 * @throws NOT_FOUND without an archive; UNSUPPORTED if it has no superchunks, or must be copied first; the codes of damage
 */
export async function planAdoption(
  store: ReadableStore,
  path: string,
  options: StoreOptions,
): Promise<Adoption> {
  const where = { path: store.describe(path) };
  if ((await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      'this is a table of bcolz, which is changed as one: "superchunk append", "resize", "attrs" and "columns" do, and the functions for tables; "superchunk convert --to blz" makes an array of superchunks of it',
      { ...where, field: "dialect", expected: "blz-superchunk", found: "ctable" },
    );
  const found = await readFolderMetadata(store, path, options);
  const { sizes, storage: storageBytes } = found;
  if (sizes === undefined && storageBytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "no array was found", where);
  const opened = await openArrayFolder(store, path, found, options);
  const { dialect, dtype, shape, columnNames } = opened;
  if (dialect !== "blz-superchunk")
    throw new SuperchunkError(
      "UNSUPPORTED",
      'this is an array of bcolz, which is changed as one: "superchunk append", "resize" and "attrs" do, and the functions for carrays; "superchunk convert --to blz" makes an array of superchunks of it',
      { ...where, field: "dialect", expected: "blz-superchunk", found: dialect },
    );
  // Both exist, because the folder could be opened.
  const storagePath = store.describe(joinKey(path, "meta/storage"));
  const storage = parseStorage(storageBytes ?? new Uint8Array(0), storagePath);
  if (storage.superchunk !== undefined) throw mustBeCopied(store, path, "meta/sizes lost its layout");
  if (columnNames.some((name) => opened.column(name).columnNames.length > 0))
    throw mustBeCopied(store, path, "fields of its fields have folders of their own");
  const [rows = 0, ...rowShape] = shape;
  const hasColumns = columnNames.length > 0;
  const columns = layOutColumns(path, { dtype, rowShape, hasColumns });
  const cuts: SuperchunkCut[] = [];
  for (const { folder, rowBytes } of columns) {
    const sequence = superchunkSequence(store, folder, rows * rowBytes, storage.chunklen * rowBytes);
    cuts.push(await readCut(store, path, sequence, options));
  }
  const { counts, checksum } = agree(store, path, cuts);
  const [first = 0] = counts;
  const base = { dtype, rowShape, hasColumns, dflt: storage.dflt, revision: 0 };
  const cut = { ...storedOptions(storage), checksum, superchunklen: counts.length > 1 ? first : undefined };
  const chosen = settleStored(base, cut, storagePath);
  const settings = { ...chosen, superchunklen: Math.max(first, chosen.superchunklen) };
  const layout = {
    ...EMPTY_LAYOUT,
    id: newArrayId(),
    plain: counts.length,
    runs: counts.reduce<ReturnType<typeof appendRun>>(
      (runs, chunks, i) => appendRun(runs, i + 1, chunks),
      [],
    ),
    storage: storageOf(settings),
  };
  const cbytes = cuts.reduce((sum, each) => sum + each.cbytes, 0);
  return { settings, committed: { layout, rows, cbytes }, sizes: sizes ?? new Uint8Array(0) };
}

/** Reads the offset tables of a folder's superchunks. Throws the codes of damage, and an error if other files are there. */
async function readCut(
  store: ReadableStore,
  path: string,
  sequence: ChunkSequence,
  { signal }: StoreOptions,
): Promise<SuperchunkCut> {
  const counts = new Map<string, number>();
  const checksums = new Set<ChecksumName>();
  for (let first = 0; first < sequence.nchunks; first += PLACES) {
    const places = await sequence.places(first, Math.min(sequence.nchunks, first + PLACES), signal);
    for (const { key, checksum } of places) {
      counts.set(key, (counts.get(key) ?? 0) + 1);
      checksums.add(checksum);
    }
  }
  const [stray] = await sequence.leftovers(signal);
  if (stray !== undefined)
    throw mustBeCopied(store, path, `meta/sizes does not count ${store.describe(stray)}`);
  let cbytes = 0;
  for (const key of counts.keys()) cbytes += (await store.stat(key, { signal }))?.size ?? 0;
  return { counts: [...counts.values()], checksums, cbytes };
}

/** What all columns have in common. Throws `UNSUPPORTED` if columns or superchunks differ. */
function agree(
  store: ReadableStore,
  path: string,
  cuts: readonly SuperchunkCut[],
): { readonly counts: readonly number[]; readonly checksum: ChecksumName | undefined } {
  const [{ counts, checksums } = { counts: [], checksums: new Set<ChecksumName>() }, ...others] = cuts;
  const [first = 0] = counts;
  const isEven = counts.every((count, i) => count === first || (i === counts.length - 1 && count < first));
  if (!isEven) throw mustBeCopied(store, path, "its superchunks have different numbers of chunks");
  if (others.some((cut) => cut.counts.join() !== counts.join()))
    throw mustBeCopied(store, path, "its columns have superchunks of different lengths");
  const all = new Set(cuts.flatMap((cut) => [...cut.checksums]));
  if (all.size > 1) throw mustBeCopied(store, path, "its superchunks have different checksums");
  return { counts, checksum: [...checksums][0] };
}

function mustBeCopied(store: ReadableStore, path: string, why: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `another program wrote the array, and it cannot be changed as it is: ${why}. "superchunk repair --in-place" copies its chunks into superchunks that can be`,
    { path: store.describe(path), field: "superchunks", found: why },
  );
}
