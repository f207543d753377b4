/**
 * A verification as a plan that many processes share: a unit for each archive and each Zarr array. Its receipt holds what was found, and
 * the end of the plan puts all of that together as one report.
 *
 * Knows archives and their findings; must not know how units are given out.
 */

import type { Finding, VerifyReport } from "../archive/kinds/types.ts";
import { isUnfollowed } from "../archive/open/discover.ts";
import { at } from "../bytes/at.ts";
import { failureOf } from "../convert/failure.ts";
import type { ConvertOptions, Destination } from "../convert/pipeline.ts";
import { digestOf } from "../convert/run/conversion.ts";
import { fingerprintZarr, metadataVersions } from "../convert/sources/items.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { type FoundReadable, findReadables } from "../open/find-readables.ts";
import { open, type Readable } from "../open/open.ts";
import { joinKey } from "../store/key.ts";
import { mapAhead } from "../store/pool.ts";
import type { ReadableStore } from "../store/types.ts";
import { assertReportFree, digestOfPlan, type SharedPlanFacts } from "./job.ts";
import { peek } from "./peek.ts";
import type { SharedPlan, SharedSource } from "./plan.ts";

/** Archives that are looked at ahead. */
const LOOKED_AHEAD = 32;

/** A place of which everything is verified. */
export interface VerifyPlace {
  readonly store: ReadableStore;
  readonly path: string;
}

/** What finds faults beside an archive: of its Zarr view, for example. */
export type VerifyBeside = (path: string, signal: AbortSignal) => Promise<readonly Finding[] | undefined>;

/** Plans to verify all that lies at some places. Throws `NOT_FOUND` where that is nothing, `CONFLICT` where the report is there already. */
export async function planVerify(
  places: readonly VerifyPlace[],
  destination: Destination,
  { signal, onProgress }: Pick<ConvertOptions, "signal" | "onProgress">,
  facts: SharedPlanFacts,
): Promise<SharedPlan> {
  await assertReportFree(destination);
  const sources: SharedSource[] = [];
  for (const [place, { store, path }] of places.entries()) {
    const before = sources.length;
    const describe = async (found: FoundReadable): Promise<SharedSource> => {
      const where = {
        path: store.describe(found.path),
        node: "",
        found: { key: found.path, isZarr: false, place },
      };
      if (found.error !== undefined)
        return { ...where, nbytes: 0, failure: failureOf(found.error, where.path) };
      const { versions, nbytes } = await lookAt(store, found, signal);
      return { ...where, versions, nbytes };
    };
    const all: FoundReadable[] = [];
    for await (const found of readablesAt(store, path, signal)) all.push(found);
    for await (const each of mapAhead(all, LOOKED_AHEAD, describe, signal)) {
      sources.push(each);
      const [done, total] = [sources.length, before + all.length];
      onProgress?.({ done, total, label: each.path, unit: "archives" });
    }
    if (sources.length === before)
      throw new SuperchunkError("NOT_FOUND", "no archive and no Zarr array lies there", {
        path: store.describe(path),
        field: "src",
      });
  }
  const plan = {
    ...{ format: "superchunk-plan" as const, version: 1 as const, command: "verify" as const },
    ...facts,
    ...{ options: {}, isTree: true, isInGroup: false, sources },
  };
  return { ...plan, id: await digestOfPlan(plan) };
}

/** Every archive and Zarr array at or below a place. A file is taken at its word. */
async function* readablesAt(
  store: ReadableStore,
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<FoundReadable> {
  if (path === "" || (await store.stat(path, { signal })) === undefined) {
    for await (const found of findReadables(store, path, { signal }))
      if (found.group === undefined) yield found;
    return;
  }
  let opened: Readable;
  try {
    opened = await open(store, path, { signal });
  } catch {
    yield { path }; // verifying it says what is wrong
    return;
  }
  if (opened.kind !== "group") yield { path };
  else
    for await (const found of findReadables(opened))
      if (found.group === undefined) yield { ...found, path: joinKey(path, found.path) };
}

/** What changes when an archive does, and its size; of what cannot be opened 0. */
async function lookAt(
  store: ReadableStore,
  { path, array }: FoundReadable,
  signal: AbortSignal | undefined,
): Promise<{ readonly versions: string; readonly nbytes: number }> {
  if (array !== undefined)
    return { versions: await digestOf(await fingerprintZarr(array)), nbytes: array.nbytes };
  const peeked = await peek(store, path, signal);
  if (peeked !== undefined) return peeked;
  try {
    const opened = await open(store, path, { signal });
    const nbytes = opened.kind === "group" ? 0 : opened.nbytes;
    return { versions: await versionsOf(store, path, opened), nbytes };
  } catch (error) {
    signal?.throwIfAborted();
    if (!isSuperchunkError(error)) throw error;
    return { versions: await versionsOf(store, path, undefined), nbytes: 0 };
  }
}

async function versionsOf(store: ReadableStore, key: string, opened: Readable | undefined): Promise<string> {
  const isArray = opened?.kind === "array" && "model" in opened;
  return digestOf(isArray ? await fingerprintZarr(opened) : await metadataVersions(store, key));
}

/** Verifies what a source of the plan names: the line of the report. Throws what is not the fault of an archive. */
export async function verifySource(
  places: readonly VerifyPlace[],
  { path, found, versions }: SharedSource,
  signal: AbortSignal,
  beside: VerifyBeside,
): Promise<JsonObject> {
  const { store } = at(places, found?.place ?? -1);
  const key = found?.key ?? "";
  let dialect: string | null = null;
  try {
    const opened = await open(store, key, { signal });
    dialect = opened.dialect;
    if ((await versionsOf(store, key, opened)) !== versions)
      throw new SuperchunkError("CONFLICT", "the archive has changed since the plan was made; plan again", {
        path,
      });
    const subject = opened.kind === "group" ? await opened.arrays() : opened;
    const report = withFindings(await subject.verify({ signal }), await beside(path, signal));
    return { path, dialect, ...report, findings: report.findings.map(lineOf) } as unknown as JsonObject;
  } catch (error) {
    signal.throwIfAborted();
    if (!isSuperchunkError(error)) throw error;
    const { expected, found: was, ...details } = error.details;
    const { code, message } = error;
    const fields = {
      offset: details.offset,
      chunk: details.chunk,
      field: details.field,
      expected,
      found: was,
    };
    const told = { code, message, path: details.path, ...fields };
    if (isUnfollowed(error, path)) return defined({ path, notFollowed: defined(told) });
    return { path, dialect, ok: false, error: defined(told) };
  }
}

/** What was found of the archive, and of the Zarr array that it is as well. */
export function withFindings(report: VerifyReport, beside: readonly Finding[] | undefined): VerifyReport {
  if (beside === undefined) return report;
  // Behind the chunk of a linked carray file stands its index.
  // What the archive says of its view by one look, the view itself says after many.
  const own = report.findings.filter(({ code }) => code !== "TRAILING" && code !== "BEHIND");
  const isRight = beside.every(({ severity }) => severity !== "error");
  return { ...report, ok: report.ok && isRight, findings: [...own, ...beside] };
}

function lineOf(finding: Finding): JsonObject {
  return defined({ ...finding });
}

/** An object as JSON can hold it, without what is undefined. */
function defined(fields: Readonly<Record<string, unknown>>): JsonObject {
  const plain = (value: unknown): JsonValue => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value === "number" && !Number.isFinite(value)) return String(value);
    return (value instanceof Uint8Array ? [...value.subarray(0, 64)] : value) as JsonValue;
  };
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known.map(([name, value]) => [name, plain(value)]));
}
