/**
 * A verification as a plan that many processes share: a unit for each archive and each Zarr array. Its receipt holds the
 * findings, and the end of the plan combines all of them into one report.
 *
 * Knows archives and their findings; must not know how units are distributed.
 */

import type { Finding, OpenOptions, VerifyReport } from "../archive/kinds/types.ts";
import { isUnfollowed } from "../archive/open/discover.ts";
import { isSuperchunkError } from "../errors.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { open } from "../open/open.ts";
import { assertUnchanged, type PlanPlace, placeOf } from "./places.ts";
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
  const { store, key } = placeOf(places, source);
  let dialect: string | null = null;
  try {
    const opened = await open(store, key, reading);
    dialect = opened.dialect;
    await assertUnchanged(store, source, opened);
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

/** The findings about the archive, together with those about its Zarr array. */
export function withFindings(report: VerifyReport, beside: readonly Finding[] | undefined): VerifyReport {
  if (beside === undefined) return report;
  // In a linked carray file, the index follows the chunk. The archive's quick check of its view is replaced by the view's own
  // findings.
  const own = report.findings.filter(({ code }) => code !== "TRAILING" && code !== "BEHIND");
  const isRight = beside.every(({ severity }) => severity !== "error");
  return { ...report, ok: report.ok && isRight, findings: [...own, ...beside] };
}

function lineOf(finding: Finding): JsonObject {
  return defined({ ...finding });
}

/** An object in a form that JSON can hold, without undefined members. */
function defined(fields: Readonly<Record<string, unknown>>): JsonObject {
  const plain = (value: unknown): JsonValue => {
    if (typeof value === "bigint") return value.toString();
    if (typeof value === "number" && !Number.isFinite(value)) return String(value);
    return (value instanceof Uint8Array ? [...value.subarray(0, 64)] : value) as JsonValue;
  };
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known.map(([name, value]) => [name, plain(value)]));
}
