/**
 * Salvages many archives in shared units: a unit looks for the intact parts of one archive, and if anything is wrong, writes a
 * copy of them to the destination. Archives without damage stay where they are.
 *
 * Knows archives and their copies; must not know how units are distributed.
 */

import { type RepairOptions, type RepairReport, repairArray } from "../convert/run/repair.ts";
import { isSuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { open, type Readable } from "../open/open.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { makeAside } from "./aside.ts";
import { assertUnchanged, type PlanPlace, placeOf } from "./places.ts";
import type { SharedSource } from "./plan.ts";

/** Where copies go. */
export interface RepairPlace {
  readonly store: WritableStore;
  readonly path: string;
  /** Folder of copies being made. */
  readonly made: string;
}

/** Repairs the archive of a source into a copy, if anything is wrong; returns the line of the report. */
export async function repairSource(
  places: readonly PlanPlace[],
  source: SharedSource,
  into: RepairPlace,
  options: Pick<RepairOptions, "holes" | "scan" | "openPlace"> & { readonly signal: AbortSignal },
): Promise<JsonObject> {
  const { path } = source;
  const { place, store, key } = placeOf(places, source);
  await assertUnchanged(store, source, await openWhole(store, key, options));
  const looked = await repairArray(store, key, { ...options, dryRun: true });
  if (looked.problems.length + looked.lost.length === 0) return { path, status: "whole", rows: looked.rows };
  if (looked.holes.length > 0 && options.holes === undefined)
    return { path, status: "refused", ...foundOf(looked), holes: looked.holes.length };
  const node = nodeOf(places, place, path, key);
  const destination = joinKey(into.path, node);
  const line = { path, to: into.store.describe(destination), status: "repaired" };
  const move = { aside: into.made, to: destination, signal: options.signal };
  const report = await makeAside(into.store, move, (copy) =>
    repairArray(store, key, { ...options, into: { store: into.store, path: copy } }),
  );
  return { ...line, ...foundOf(report) };
}

function foundOf({ rows, rowsBefore, problems, lost, filled }: RepairReport): JsonObject {
  const made = filled.reduce((sum, { from, to }) => sum + to - from, 0);
  return { rows, rowsBefore: rowsBefore ?? null, filled: made, problems: [...problems], lost: [...lost] };
}

/** Path of a copy below the destination: that of the archive below its place; with several places, below their names. */
function nodeOf(places: readonly PlanPlace[], place: PlanPlace, path: string, key: string): string {
  const name = path.replaceAll("\\", "/").replace(/\/+$/, "").split("/").at(-1) ?? "archive";
  if (key === place.path) return name;
  const below = place.path === "" ? key : key.slice(place.path.length + 1);
  const [folder = ""] = place.store.describe(place.path).replace(/\/+$/, "").split("/").slice(-1);
  return places.length === 1 ? below : joinKey(folder, below);
}

/** The archive, if it can be opened. */
async function openWhole(
  store: ReadableStore,
  key: string,
  { signal, openPlace }: Pick<RepairOptions, "openPlace"> & { readonly signal: AbortSignal },
): Promise<Readable | undefined> {
  try {
    return await open(store, key, { signal, openPlace });
  } catch (error) {
    signal.throwIfAborted();
    if (isSuperchunkError(error)) return undefined;
    throw error;
  }
}
