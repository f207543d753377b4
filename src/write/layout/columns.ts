/** How the rows of an array are laid out in folders: one, or one for each field of a nested dtype. */
import { dataFolders } from "../../archive/places/layout-files.ts";
import { addTo, elementsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { superchunkName } from "../../format/naming.ts";
import type { DType } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { fieldSize } from "../../values/values.ts";

/** One folder of superchunks. Sizes in bytes. */
export interface ColumnLayout {
  /** Name of the field; undefined if the array has one folder. */
  readonly name: string | undefined;
  readonly folder: string;
  /** Size of the column's items: the typesize given to Blosc. */
  readonly itemSize: number;
  readonly rowBytes: number;
  /** Offset of the field in an item of the array, and its size with sub-array dimensions. */
  readonly offset: number;
  readonly fieldBytes: number;
}

/**
 * The columns of an array. `path` is the array's key; `rowShape` its shape after the rows; `hasColumns` means a folder for each
 * field.
 */
export function layOutColumns(
  path: string,
  array: { readonly dtype: DType; readonly rowShape: readonly number[]; readonly hasColumns: boolean },
): ColumnLayout[] {
  const { dtype, rowShape, hasColumns } = array;
  return dataFolders(path, dtype, hasColumns).map(({ folder, field }) => {
    const fieldBytes = field === undefined ? dtype.itemSize : fieldSize(field);
    const { itemSize } = (field ?? array).dtype;
    const rowBytes = elementsOf(rowShape) * fieldBytes;
    return { name: field?.name, folder, itemSize, rowBytes, offset: field?.offset ?? 0, fieldBytes };
  });
}

/** Refuses dtypes that cannot be written. Throws `UNSUPPORTED`, `BAD_ARGUMENT`. */
export function checkWritableDType(dtype: DType): void {
  if (dtype.kind === "object")
    throw new SuperchunkError("UNSUPPORTED", "Python objects are never written; choose another dtype", {
      field: "dtype",
    });
  if (dtype.kind === "struct") for (const field of dtype.fields) checkWritableDType(field.dtype);
  if (dtype.itemSize === 0)
    throw new SuperchunkError("BAD_ARGUMENT", "items of no bytes cannot be stored in chunks", {
      field: "dtype",
    });
}

export function* superchunkKeys(
  columns: readonly Pick<ColumnLayout, "folder">[],
  numbers: Iterable<number>,
): Generator<string> {
  for (const number of numbers)
    for (const { folder } of columns) yield joinKey(folder, superchunkName(number));
}

// Checks that the folders of columns are distinct. On file systems that ignore case (those of macOS and Windows), or how a
// letter is composed, `data/a` and `data/A` are the same, and one column would overwrite the other.

/** Name of a temporary object that is looked for under the other name. */
const PROBE = "superchunk-probe";

/**
 * Makes sure that no two of these folders are the same. Only if names differ in nothing but case or composition does it write,
 * and it removes that again.
 * @throws CONFLICT if two are the same
 */
export async function assertApart(store: WritableStore, folders: readonly string[]): Promise<void> {
  const alike = new Map<string, string[]>();
  for (const folder of folders) addTo(alike, folder.normalize("NFC").toLowerCase(), folder);
  for (const names of alike.values())
    for (const [i, folder] of names.entries())
      for (const other of names.slice(i + 1))
        if (await isOne(store, folder, other)) throw same(store, folder, other);
}

/** The same for the folders of an array. */
export function assertColumnsApart(
  store: WritableStore,
  path: string,
  array: Parameters<typeof layOutColumns>[1],
): Promise<void> {
  const folders = layOutColumns(path, array).map(({ folder }) => folder);
  return assertApart(store, folders);
}

async function isOne(store: WritableStore, folder: string, other: string): Promise<boolean> {
  const probe = joinKey(folder, PROBE);
  await store.put(probe, new Uint8Array(0), { durable: true });
  try {
    return (await store.stat(joinKey(other, PROBE))) !== undefined;
  } finally {
    await store.delete(probe);
    await store.delete(folder); // stays if it is not empty
  }
}

function same(store: WritableStore, folder: string, other: string): SuperchunkError {
  const [one, two] = [splitKey(folder).name, splitKey(other).name];
  return new SuperchunkError(
    "CONFLICT",
    `the columns "${one}" and "${two}" would be stored in one place: this file system takes both names for one. Choose names that differ in more than case, or another file system`,
    { path: store.describe(other), field: two, found: two },
  );
}
