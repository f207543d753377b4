/**
 * Plans work other than conversions: a unit for each archive at some places. Archives are examined, and most are not opened.
 *
 * Knows what changes when an archive does; must not know what is done with it.
 */

import type { OpenOptions } from "../archive/kinds/types.ts";
import { findArchives } from "../archive/open/discover.ts";
import { at } from "../bytes/arrays.ts";
import { type ConvertOptions, type Destination, failureOf } from "../convert/pipeline.ts";
import { digestOf, fingerprintZarr, metadataVersions } from "../convert/sources/items.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { type FoundReadable, findReadables } from "../open/find-readables.ts";
import { open, type Readable } from "../open/open.ts";
import { joinKey } from "../store/key.ts";
import { mapAhead } from "../store/pool.ts";
import type { ReadableStore } from "../store/types.ts";
import { assertOutputFree, namedPlan, type SharedPlanFacts } from "./job.ts";
import { type Peeked, peek } from "./peek.ts";
import type { SharedPlan, SharedSource } from "./plan.ts";

const NOTHING = "neither an archive nor a Zarr array";
const NO_ARCHIVE = "no archive; name the HDF5 files themselves, such as FOLDER/*.h5";
/** Archives examined ahead. */
const LOOKED_AHEAD = 32;

/** A place whose archives are all included. What was opened there is one source, whatever is in it. */
export interface PlanPlace {
  readonly store: ReadableStore;
  readonly path: string;
  readonly opened?: Readable | undefined;
}

/** The work on the archives of places, and which of them are included. */
export interface PlaceWork {
  readonly command: Exclude<SharedPlan["command"], undefined>;
  readonly options?: JsonObject;
  /** Only archives, not Zarr arrays (default false). */
  readonly archivesOnly?: boolean;
  /** Also makes units for what cannot be opened (default false). */
  readonly takesDamaged?: boolean;
}

/** Plans work on everything at some places. Throws `NOT_FOUND` if there is nothing, `CONFLICT` if the destination is taken. */
export async function planPlaces(
  { command, options = {}, archivesOnly = false, takesDamaged = false }: PlaceWork,
  places: readonly PlanPlace[],
  destination: Destination,
  { signal, onProgress, openPlace }: Pick<ConvertOptions, "signal" | "onProgress" | "openPlace">,
  facts: SharedPlanFacts,
): Promise<SharedPlan> {
  await assertOutputFree(destination);
  const reading = { signal, openPlace };
  const sources: SharedSource[] = [];
  for (const [place, from] of places.entries()) {
    const { store, path } = from;
    const before = sources.length;
    const describe = async (found: FoundReadable): Promise<SharedSource> => {
      const where = {
        path: store.describe(found.path),
        node: "",
        found: { key: found.path, isZarr: false, place },
      };
      try {
        if (found.error !== undefined && !takesDamaged) throw found.error;
        return { ...where, ...(await stateOf(from, found, reading)) };
      } catch (error) {
        signal?.throwIfAborted();
        // One archive of many that cannot be read must not keep the others from being planned.
        if (found.path === path && found.error === undefined) throw error;
        return { ...where, nbytes: 0, failure: failureOf(error, where.path) };
      }
    };
    const all: FoundReadable[] = [];
    for await (const found of readablesAt(from, archivesOnly, reading)) all.push(found);
    for await (const each of mapAhead(all, LOOKED_AHEAD, describe, signal)) {
      sources.push(each);
      const [done, total] = [sources.length, before + all.length];
      onProgress?.({ done, total, label: each.path, unit: "archives" });
    }
    if (sources.length === before)
      throw new SuperchunkError("NOT_FOUND", `found ${archivesOnly ? NO_ARCHIVE : NOTHING}`, {
        path: store.describe(path),
        field: "src",
      });
  }
  return namedPlan({ command, ...facts, options, isTree: true, isInGroup: false, sources });
}

/** Every archive at or below a place, and every Zarr array. */
async function* readablesAt(
  { store, path, opened: known }: PlanPlace,
  archivesOnly: boolean,
  reading: OpenOptions,
): AsyncGenerator<FoundReadable> {
  if (known !== undefined) return yield { path };
  if (path === "" || (await store.stat(path, reading)) === undefined) {
    if (archivesOnly) return yield* findArchives(store, path, reading);
    for await (const found of findReadables(store, path, reading)) if (found.group === undefined) yield found;
    return;
  }
  // Verifying what cannot be opened reports the error.
  const opened = await open(store, path, reading).catch(() => undefined);
  if (opened?.kind !== "group") return yield { path };
  for await (const found of findReadables(opened))
    if (found.group === undefined) yield { ...found, path: joinKey(path, found.path) };
}

/** A digest that changes when an archive does, and its size; 0 for what cannot be opened. */
async function stateOf(
  { store, opened: known }: PlanPlace,
  { path, array }: FoundReadable,
  reading: OpenOptions,
): Promise<Peeked> {
  if (array !== undefined)
    return { versions: await digestOf(await fingerprintZarr(array)), nbytes: array.nbytes };
  const peeked = known === undefined ? await peek(store, path, reading.signal) : undefined;
  if (peeked !== undefined) return peeked;
  const opened = known ?? (await openIfWhole(store, path, reading));
  const nbytes = opened === undefined || opened.kind === "group" ? 0 : opened.nbytes;
  return { versions: await versionsOf(store, path, opened), nbytes };
}

/** The archive, if it can be opened. */
export async function openIfWhole(
  store: ReadableStore,
  key: string,
  reading: OpenOptions,
): Promise<Readable | undefined> {
  try {
    return await open(store, key, reading);
  } catch (error) {
    reading.signal?.throwIfAborted();
    if (isSuperchunkError(error)) return undefined;
    throw error;
  }
}

/** Throws `CONFLICT` if an opened archive has changed since it was planned. */
export async function assertUnchanged(
  store: ReadableStore,
  { path, found, versions }: SharedSource,
  opened: Readable | undefined,
): Promise<void> {
  if ((await versionsOf(store, found?.key ?? "", opened)) === versions) return;
  throw new SuperchunkError("CONFLICT", "the archive has changed since the plan was made; plan again", {
    path,
  });
}

/** The place of a source, and its key there. */
export function locateSource(
  places: readonly PlanPlace[],
  { found }: SharedSource,
): { readonly place: PlanPlace; readonly store: ReadableStore; readonly key: string } {
  const place = at(places, found?.place ?? -1);
  return { place, store: place.store, key: found?.key ?? "" };
}

async function versionsOf(store: ReadableStore, key: string, opened: Readable | undefined): Promise<string> {
  const isArray = opened?.kind === "array" && "model" in opened;
  return digestOf(isArray ? await fingerprintZarr(opened) : await metadataVersions(store, key));
}
