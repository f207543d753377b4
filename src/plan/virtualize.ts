/**
 * Prepares references with many processes: writing them requires all chunks of all archives, and each chunk's header must be read.
 * A unit lists the chunks of one archive; the end writes the references from the lists, with the same result as listing them there.
 *
 * Knows lists of chunks; must not know the forms of references.
 */

import type { ChunkInfo, OpenOptions } from "../archive/kinds/types.ts";
import { at } from "../bytes/arrays.ts";
import { jsonBytes, parseJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { open } from "../open/open.ts";
import { type PlanOptions, planReferences } from "../references/plan/plan.ts";
import type { ObjectInfo, WritableStore } from "../store/types.ts";
import { assertUnchanged, locateSource, type PlanPlace } from "./places.ts";
import type { SharedSource } from "./plan.ts";

export type ListSettings = Pick<PlanOptions, "portable" | "columns" | "dimensionNames">;

/** Lists the chunks of a source's archive, and puts the list. Throws errors of referring to it. */
export async function listSource(
  places: readonly PlanPlace[],
  source: SharedSource,
  into: { readonly store: WritableStore; readonly key: string },
  { openPlace, ...options }: ListSettings & Pick<OpenOptions, "openPlace"> & { readonly signal: AbortSignal },
): Promise<JsonObject> {
  const { signal } = options;
  const { store, key } = locateSource(places, source);
  const opened = await open(store, key, { signal, openPlace });
  await assertUnchanged(store, source, opened);
  const lists: Lists = { objects: [], arrays: {} };
  let chunks = 0;
  // Other formats have their chunks in an index, so their references are made at the end.
  if (!("model" in opened) && opened.kind !== "group") {
    const plan = await planReferences(opened, { ...options, listed: recordIn(lists) });
    const counts = { virtual: 0, padded: 0, recoded: 0, inlined: 0 };
    for (const array of plan.arrays) for await (const _ of array.chunks(counts)) chunks++;
  }
  await into.store.put(into.key, jsonBytes(lists as unknown as JsonObject), { signal });
  return { path: source.path, chunks };
}

type Listed = NonNullable<PlanOptions["listed"]>;

/** An object, and its info from the store if that came with its chunks. */
type ListedObject = readonly [key: string, info: JsonObject | null];

/** Chunks of one array: the number of the object, and the values of a `ChunkInfo` in the order of `members`. */
interface List {
  readonly members: string[];
  readonly chunks: JsonValue[][];
}

interface Lists {
  readonly objects: ListedObject[];
  /** By the array's node in the archive: columns of a nested array share its path. */
  readonly arrays: Record<string, List>;
}

/** Lists the chunks of arrays, and keeps the lists. */
function recordIn({ objects, arrays }: Lists): Listed {
  return async function* (archive, options, node) {
    const list: List = { members: [], chunks: [] };
    arrays[`/${node}`] = list;
    const numbers = new Map<string, number>();
    const onObject = async (key: string, known?: ObjectInfo): Promise<void> => {
      // The object's current state guards the reference: at the end it may be another object.
      const info = known ?? (await archive.store.stat(key, options));
      numbers.set(key, objects.push([key, info === undefined ? null : { ...info }]) - 1);
      await options.onObject?.(key, info);
    };
    for await (const chunk of archive.listChunks({ ...options, onObject })) {
      const { key, ...others } = chunk;
      if (list.members.length === 0) list.members.push(...Object.keys(others));
      const values = others as unknown as Readonly<Record<string, JsonValue | undefined>>;
      list.chunks.push([numbers.get(key) ?? -1, ...list.members.map((member) => values[member] ?? null)]);
      yield chunk;
    }
  };
}

/** Replays the chunks that {@link listSource} listed; for an array without a list, lists the stored ones. */
export function replayLists(bytes: Uint8Array, path: string): Listed {
  const { objects, arrays } = parseJson(bytes, path) as unknown as Lists;
  return async function* (archive, options, node) {
    const list = arrays[`/${node}`];
    if (list === undefined) {
      yield* archive.listChunks(options);
      return;
    }
    let before = -1;
    for (const chunk of list.chunks.slice(options.first, options.end)) {
      const [number, ...values] = chunk;
      const [key, info] = at(objects, number as number);
      if (number !== before)
        await options.onObject?.(key, (info as unknown as ObjectInfo | null) ?? undefined);
      before = number as number;
      const members = list.members.map((member, i) => [member, values[i] ?? undefined] as const);
      yield { key, ...Object.fromEntries(members) } as unknown as ChunkInfo;
    }
  };
}
