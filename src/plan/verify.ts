/**
 * A verification, or a repair, as a plan that many processes share: a unit for each archive and each Zarr array. Its receipt holds the
 * findings, and the end of the plan combines all of them into one report.
 *
 * Knows archives and their findings; must not know how units are distributed.
 */

import type { Finding, OpenOptions, VerifyReport } from "../archive/kinds/types.ts";
import { isUnfollowed } from "../archive/open/discover.ts";
import { defined } from "../bytes/arrays.ts";
import { type RepairOptions, type RepairReport, repairArray } from "../convert/run/repair.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { open } from "../open/open.ts";
import { joinKey } from "../store/key.ts";
import type { WritableStore } from "../store/types.ts";
import { makeAside } from "./aside.ts";
import { assertUnchanged, locateSource, openIfWhole, type PlanPlace } from "./places.ts";
import type { SharedSource } from "./plan.ts";

/** Finds faults besides the archive's own, for example in its Zarr view. */
export type VerifyBeside = (path: string, signal: AbortSignal) => Promise<readonly Finding[] | undefined>;

/** Verifies a source of the plan; returns the line of the report. Throws errors that are not an archive's fault. */
export async function verifySource(
  places: readonly PlanPlace[],
  source: SharedSource,
  reading: Pick<OpenOptions, "openPlace"> & { readonly signal: AbortSignal },
  beside: VerifyBeside,
): Promise<JsonObject> {
  const { signal } = reading;
  const { path } = source;
  const { store, key } = locateSource(places, source);
  let dialect: string | null = null;
  try {
    const opened = await open(store, key, reading);
    dialect = opened.dialect;
    await assertUnchanged(store, source, opened);
    const subject = opened.kind === "group" ? await opened.arrays() : opened;
    const report = withFindings(await subject.verify({ signal }), await beside(path, signal));
    return {
      path,
      dialect,
      ...report,
      findings: report.findings.map((each) => plainOf({ ...each })),
    } as unknown as JsonObject;
  } catch (error) {
    signal.throwIfAborted();
    // Another machine may have what is missing here, for example a mounted disk.
    if (!isSuperchunkError(error) || error.code === "IO" || error.code === "NOT_FOUND") throw error;
    const { cause: _, ...details } = error.details;
    const reported = { code: error.code, message: error.message, ...details };
    if (isUnfollowed(error, path)) return plainOf({ path, notFollowed: plainOf(reported) });
    return { path, dialect, ok: false, error: plainOf(reported) };
  }
}

/** The findings about the archive, together with those about its Zarr array. */
function withFindings(report: VerifyReport, beside: readonly Finding[] | undefined): VerifyReport {
  if (beside === undefined) return report;
  // In a linked carray file, the index follows the chunk. The archive's quick check of its view is replaced by the view's own
  // findings.
  const own = report.findings.filter(({ code }) => code !== "TRAILING" && code !== "BEHIND");
  const isRight = beside.every(({ severity }) => severity !== "error");
  return { ...report, ok: report.ok && isRight, findings: [...own, ...beside] };
}

/** An object in a form that JSON can hold, without undefined members. */
function plainOf(fields: Readonly<Record<string, unknown>>): JsonObject {
  const plain = (value: unknown): JsonValue => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value === "number" && !Number.isFinite(value)) return String(value);
    return (value instanceof Uint8Array ? [...value.subarray(0, 64)] : value) as JsonValue;
  };
  return Object.fromEntries(Object.entries(defined(fields)).map(([name, value]) => [name, plain(value)]));
}

// Repairs of many archives: a unit copies the undamaged part of one damaged archive. Undamaged archives are not copied.

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
  const { place, store, key } = locateSource(places, source);
  const opened = await openIfWhole(store, key, options);
  await assertUnchanged(store, source, opened);
  const shown = await lookAtShown(opened, options.signal);
  if (shown !== undefined) return { path, ...shown };
  if (opened?.dialect === "zarr3-transformer" && (await store.stat(joinKey(key, "zarr.json"))) === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "an array of an older Zarr hierarchy is repaired with its hierarchy: superchunk repair FOLDER DST, with the folder of its zarr.json",
      { path },
    );
  const looked = await repairArray(store, key, { ...options, dryRun: true }).catch(async (error: unknown) => {
    // An array whose document in an older Zarr hierarchy is damaged has no folder of its own: say what is damaged.
    if (isSuperchunkError(error, "NOT_FOUND"))
      await open(store, key, { openPlace: options.openPlace, signal: options.signal });
    throw error;
  });
  if (looked.problems.length + looked.lost.length === 0) return { path, status: "whole", rows: looked.rows };
  if (looked.holes.length > 0 && options.holes === undefined)
    return { path, status: "refused", ...foundOf(looked), holes: looked.holes.length };
  const destination = joinKey(into.path, nodeOf(places, place, path, key));
  const move = { aside: into.made, to: destination, signal: options.signal };
  const report = await makeAside(into.store, move, (copy) =>
    repairArray(store, key, { ...options, into: { store: into.store, path: copy } }),
  );
  return { path, to: into.store.describe(destination), status: "repaired", ...foundOf(report) };
}

/** HDF5, Blosc2 and older Zarr hierarchies are verified: `repair` does not take them, but there is nothing to do for undamaged ones. */
async function lookAtShown(
  opened: Awaited<ReturnType<typeof openIfWhole>>,
  signal: AbortSignal,
): Promise<{ readonly status: "whole"; readonly rows: number | null } | undefined> {
  if (opened === undefined || !["hdf5", "blosc2", "zarr3-transformer"].includes(opened.dialect))
    return undefined;
  const subject = opened.kind === "group" ? await opened.arrays() : opened;
  if (!(await subject.verify({ signal })).ok) return undefined;
  return { status: "whole", rows: subject.kind === "array" ? (subject.shape.at(0) ?? 1) : null };
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
