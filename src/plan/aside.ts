/**
 * Makes results of more than one object in a temporary place, then moves them. If several processes make the same result, the
 * first one wins; a killed process leaves nothing at the destination.
 */

import { membersFirst, moveObject } from "../convert/run/conversion-store.ts";
import { isFolderDocument } from "../convert/targets/folder-tasks.ts";
import { isTaken, joinKey, splitKey } from "../store/key.ts";
import { deleteTree, walkKeys } from "../store/tree.ts";
import type { WritableStore } from "../store/types.ts";

/** The temporary place and the destination. */
interface Move {
  /** Folder of results being made. */
  readonly aside: string;
  readonly to: string;
  readonly signal: AbortSignal;
}

/** Lets `make` write to a temporary place, then moves the result to `to`, unless another process has done so. */
export async function makeAside<T>(
  store: WritableStore,
  { aside, to, signal }: Move,
  make: (place: string) => Promise<T>,
): Promise<T> {
  const own = joinKey(aside, crypto.randomUUID());
  const place = joinKey(own, splitKey(to).name);
  try {
    const made = await make(place);
    if (store.rename === undefined) await moveEach(store, place, { to, signal });
    else if (!(await isTaken(store, to)))
      await store.rename(place, to).catch(async (error: unknown) => {
        if (!(await isTaken(store, to))) throw error;
      });
    return made;
  } finally {
    await deleteTree(store, own);
  }
}

/** Moves objects one by one. The object that makes the others visible is last; if it exists, all of them do. */
async function moveEach(
  store: WritableStore,
  from: string,
  { to, signal }: Omit<Move, "aside">,
): Promise<void> {
  const keys: string[] = [];
  if ((await store.stat(from, { signal })) !== undefined) keys.push(from);
  else for await (const key of walkKeys(store, from, signal)) keys.push(key);
  const isLate = (key: string): number => Number(isFolderDocument(key));
  keys.sort((a, b) => isLate(a) - isLate(b) || membersFirst(a, b));
  const moves = keys.map((key) => [key, to + key.slice(from.length)] as const);
  const last = moves.at(-1);
  if (last === undefined || (await store.stat(last[1], { signal })) !== undefined) return;
  for (const [key, target] of moves) await moveObject(store, key, target, signal);
}
