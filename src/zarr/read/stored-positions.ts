/** Which positions of an array's grid have an object, or may have one. Knows keys; must not know what objects hold. */
import { at } from "../../bytes/at.ts";
import { isSuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { countPositions } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";

/** Above so many positions the store is asked what there is: a document can promise more than anybody stores. */
const MOST_ASKED = 4096;

/** Positions in the order of the grid; of large grids only those that have an object, where the store can list. */
export async function* storedPositions(
  store: ReadableStore,
  model: ArrayModel,
  signal?: AbortSignal,
): AsyncGenerator<readonly number[]> {
  const listed = await listIfMany(store, model, signal);
  if (listed === undefined) yield* allPositions(model);
  else yield* listed;
}

/** Every position of the grid with whether it has an object: false, or true or undefined where that is to be asked. */
export async function* gridPositions(
  store: ReadableStore,
  model: ArrayModel,
  signal?: AbortSignal,
): AsyncGenerator<{ readonly position: readonly number[]; readonly isStored: boolean | undefined }> {
  const listed = await listIfMany(store, model, signal);
  let next = 0;
  for (const position of allPositions(model)) {
    // Both are in the order of the grid.
    const stored = listed?.[next];
    const isStored = stored === undefined ? false : comparePositions(stored, position) === 0;
    if (isStored) next++;
    yield { position, isStored: listed === undefined ? undefined : isStored };
  }
}

function allPositions({ axes }: ArrayModel): Generator<readonly number[]> {
  return positionsOf(axes.map(({ count }) => count));
}

/** All positions of a grid in C order, one at a time: a document can promise more than memory holds. */
export function* positionsOf(counts: readonly number[]): Generator<readonly number[]> {
  const total = counts.reduce((product, count) => product * count, 1);
  for (let index = 0; index < total; index++) {
    const position = new Array<number>(counts.length).fill(0);
    let rest = index;
    for (let d = counts.length - 1; d >= 0; d--) {
      const count = at(counts, d);
      position[d] = rest % count;
      rest = Math.floor(rest / count);
    }
    yield position;
  }
}

/** The positions that have an object; undefined where there are few to ask for, or the store cannot list. */
async function listIfMany(
  store: ReadableStore,
  model: ArrayModel,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly number[])[] | undefined> {
  const total = countPositions(model.axes);
  return total > MOST_ASKED ? listPositions(store, model, signal) : undefined;
}

/** Undefined where the store cannot list. */
async function listPositions(
  store: ReadableStore,
  model: ArrayModel,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly number[])[] | undefined> {
  const found: (readonly number[])[] = [];
  try {
    for await (const { key, kind } of walk(store, model.dataFolder, signal)) {
      // Every way to write keys has the numbers in order, and nothing else with digits behind the folder.
      const position = (key.slice(model.dataFolder.length).match(/\d+/g) ?? []).map(Number);
      const isOne =
        position.length === model.axes.length &&
        position.every((index, d) => index < (model.axes[d]?.count ?? 0)) &&
        model.chunkKey(position) === key;
      if (!isOne) {
        // A link to nothing in the place of a folder of chunks is told by looking at it.
        if (kind === "object" && hasChunksBelow(model, key, position)) await store.stat(key, { signal });
        continue;
      }
      // A folder in the place of an object is told by whoever reads it; an object store just has more keys below that one.
      if (kind === "object" || (await store.isFolder?.(key, { signal })) === true) found.push(position);
    }
  } catch (error) {
    if (isSuperchunkError(error, "UNSUPPORTED")) return undefined;
    throw error;
  }
  return found.sort(comparePositions);
}

/** True where keys of chunks begin with the key, as with that of a folder. */
function hasChunksBelow({ axes, chunkKey }: ArrayModel, key: string, start: readonly number[]): boolean {
  if (start.length >= axes.length) return false;
  const first = [...start, ...new Array<number>(axes.length - start.length).fill(0)];
  return chunkKey(first).startsWith(`${key}/`);
}

function comparePositions(a: readonly number[], b: readonly number[]): number {
  for (let d = 0; d < a.length; d++) {
    const difference = at(a, d) - at(b, d);
    if (difference !== 0) return difference;
  }
  return 0;
}

async function* walk(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly key: string; readonly kind: "object" | "folder" }> {
  for await (const { name, kind } of store.list(folder, { signal })) {
    const key = joinKey(folder, name);
    yield { key, kind };
    if (kind === "folder") yield* walk(store, key, signal);
  }
}
