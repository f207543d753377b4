/**
 * What the next writer does before it writes: finishes what an interrupted one began, and removes what it left behind.
 * Done twice it changes nothing more. @see FORMAT.md [FG-09]
 */

import { JOURNAL_PREFIX } from "../../archive/places/journal.ts";
import { isSuperchunkError } from "../../errors.ts";
import { superchunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import type { ArrayWriter } from "./array-writer.ts";
import { commitStorage } from "./storage-commit.ts";

/** Brings the folder to what the last commit says. The keys that were removed. */
export async function recover(writer: ArrayWriter): Promise<readonly string[]> {
  const { store } = writer.root;
  await writer.finishChanges();
  await commitStorage(writer);
  const data = writer.root.key("data");
  const folders = new Set(writer.columns.map(({ folder }) => folder));
  const known = namedFiles(writer);
  const superfluous: string[] = [];
  for (const folder of await subfolders(store, data)) {
    await store.removeLeftovers?.(folder);
    for (const name of await listObjects(store, folder)) {
      if (!folders.has(folder) || !known.has(name)) superfluous.push(joinKey(folder, name));
    }
  }
  const meta = writer.root.key("meta");
  await store.removeLeftovers?.(meta);
  for (const name of await listObjects(store, meta))
    if (name.startsWith(JOURNAL_PREFIX)) superfluous.push(joinKey(meta, name));
  if (superfluous.length === 0) return [];
  // A writer that is thought dead and is not must not commit any more what is now removed.
  await writer.recommit({});
  for (const key of superfluous) await store.delete(key);
  await store.sync?.([writer.root.key("meta/sizes")]);
  return superfluous;
}

/** The data folder and those in it. */
async function subfolders(store: WritableStore, data: string): Promise<string[]> {
  const folders = [data];
  for await (const entry of listing(store, data))
    if (entry.kind === "folder") folders.push(joinKey(data, entry.name));
  return folders;
}

async function listObjects(store: WritableStore, folder: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name, kind } of listing(store, folder)) if (kind === "object") names.push(name);
  return names;
}

/** A listing; nothing where the store cannot list. */
async function* listing(
  store: WritableStore,
  folder: string,
): AsyncGenerator<{ readonly name: string; readonly kind: "object" | "folder" }> {
  try {
    yield* store.list(folder);
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
  }
}

/** Tells the names that the layout counts. */
function namedFiles(writer: ArrayWriter): { has(name: string): boolean } {
  const { runs, patches } = writer.committed.layout;
  const names = new Set<string>();
  for (const { number } of patches) names.add(superchunkName(number));
  return {
    has(name) {
      if (names.has(name)) return true;
      const number = Number(/^__(\d+)__\.bin$/.exec(name)?.[1] ?? Number.NaN);
      return runs.some(({ first, count }) => number >= first && number < first + count);
    },
  };
}
