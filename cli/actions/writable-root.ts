/** Opens an array of superchunks for changes and abandons them on failure; moves superchunks. */

import { type ArrayArchive, type MoveChoice, type Moved, SuperchunkError } from "../../src/index.ts";
import { type Editable, type EditPathOptions, edit, openArchive } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { formatPlural, formatSize } from "../input/units.ts";
import { withProgress } from "../output/progress.ts";

/** Opens an array of superchunks for reading. Throws `UNSUPPORTED` for other archives, and the codes of opening. */
export async function openRoot(path: string, context: Context): Promise<ArrayArchive> {
  const archive = await openArchive(path, { signal: context.signal, allow: context.allow });
  if (archive.dialect === "blz-superchunk" && archive.kind === "array") return archive;
  await archive.close();
  throw new SuperchunkError(
    "UNSUPPORTED",
    'only arrays of superchunks can be changed like this; "superchunk convert PATH DST --to blz" makes one of this',
    { path, field: "dialect", expected: "blz-superchunk", found: archive.dialect },
  );
}

/**
 * Opens the array at a path for editing and runs `work`; if that fails, abandons pending changes. Warns on stderr about
 * superfluous files that could not be removed, and if the Zarr view of a linked array is out of date.
 *
 * @throws UNSUPPORTED for other archives; CONFLICT if another writer holds the lock, unless `breakLock`; UNSUPPORTED to
 * modify in place if the store cannot
 */
export async function withRoot<T>(
  path: string,
  options: EditPathOptions,
  context: Context,
  work: (array: Editable) => Promise<T>,
): Promise<T> {
  const array = await edit(path, { allow: context.allow, ...options, signal: context.signal });
  try {
    const result = await work(array);
    if (options.readOnly === true) {
      await array.abandon();
      return result;
    }
    await array.close();
    for (const warning of array.warnings) context.message(`note: ${path}: ${warning}`);
    return result;
  } catch (error) {
    await array.abandon();
    throw error;
  }
}

/** Moves superchunks to a place: by default to the last one. */
export async function moveTo(
  array: Editable,
  to: string | undefined,
  choice: MoveChoice,
  context: Context,
): Promise<Moved> {
  const last = (await array.places()).at(-1);
  if (to === undefined && last?.prefix === undefined)
    throw wrongUse(
      "to",
      'the array has no places to which superchunks could be moved; "superchunk place --add" adds one',
    );
  const { io, signal } = context;
  return withProgress(io, "move", { unit: "chunks" }, (onProgress) =>
    array.moveSuperchunks(to ?? last?.name ?? "", choice, { signal, onProgress }),
  );
}

export function movedText({ superchunks, bytes }: Moved): string {
  return `${formatPlural(superchunks, "superchunk")} (${formatSize(bytes)}) moved`;
}
