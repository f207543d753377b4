/**
 * Looks whether the folders of columns are different ones. On file systems that ignore case (those of macOS and Windows), or how
 * a letter is composed, `data/a` and `data/A` are the same, and one column would be written over the other.
 */
import { SuperchunkError } from "../../errors.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";

/** Name of the object that is looked for under the other name, for a moment. */
const PROBE = "superchunk-probe";

/**
 * Makes sure that no two of these folders are one. Writes only where names differ in nothing but case or composition, and
 * takes that away again.
 *
 * @throws CONFLICT where two are
 */
export async function assertApart(store: WritableStore, folders: readonly string[]): Promise<void> {
  const alike = new Map<string, string[]>();
  for (const folder of folders) {
    const plain = folder.normalize("NFC").toLowerCase();
    alike.set(plain, [...(alike.get(plain) ?? []), folder]);
  }
  for (const names of alike.values())
    for (const [i, folder] of names.entries())
      for (const other of names.slice(i + 1))
        if (await isOne(store, folder, other)) throw same(store, folder, other);
}

async function isOne(store: WritableStore, folder: string, other: string): Promise<boolean> {
  const probe = joinKey(folder, PROBE);
  await store.put(probe, new Uint8Array(0), { durable: true });
  try {
    return (await store.stat(joinKey(other, PROBE))) !== undefined;
  } finally {
    await store.delete(probe);
    await store.delete(folder); // stays where there is something in it
  }
}

function same(store: WritableStore, folder: string, other: string): SuperchunkError {
  const [one, two] = [splitKey(folder).name, splitKey(other).name];
  return new SuperchunkError(
    "CONFLICT",
    `the columns "${one}" and "${two}" would have the same folder: this file system takes both names for one. Choose a name that differs in more than case`,
    { path: store.describe(other), field: two, found: two },
  );
}
