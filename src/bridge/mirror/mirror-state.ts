/**
 * `meta/zarr`: what a mirror must know of the past. Bytes <-> plain objects. @see FORMAT.md [FY-06]
 */
import { SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";

/** Name of the state, in the array's folder. */
export const MIRROR_STATE = "meta/zarr";
const VERSION = 1;

export interface MirrorState {
  /** No shard that is a data file now was ever read behind this byte when it was not. */
  readonly high: number;
  /** The generation that all shards and documents show; undefined while a writer is at work, or where one was killed. */
  readonly shown: number | undefined;
}

export function encodeMirrorState({ high, shown }: MirrorState): Uint8Array {
  const json: JsonObject = {
    superchunk_mirror: VERSION,
    high,
    ...(shown === undefined ? {} : { generation: shown }),
  };
  return new TextEncoder().encode(`${stringifyJson(json)}\n`);
}

/** Throws `BAD_FIELD`, and `UNSUPPORTED` for a newer version. */
export function parseMirrorState(bytes: Uint8Array, path: string): MirrorState {
  const json = parseJson(bytes, path);
  const state = typeof json === "object" && json !== null && !Array.isArray(json) ? (json as JsonObject) : {};
  const { superchunk_mirror: version, high, generation } = state;
  if (version !== VERSION) {
    throw new SuperchunkError(
      typeof version === "number" && version > VERSION ? "UNSUPPORTED" : "BAD_FIELD",
      `superchunk_mirror is ${JSON.stringify(version) ?? "missing"}; this version of superchunk knows ${VERSION}. Look for a newer superchunk, or run "superchunk unlink" and "superchunk link"`,
      { path, field: "superchunk_mirror", expected: VERSION, found: version },
    );
  }
  if (!isCount(high)) throw bad(path, "high", high);
  if (generation !== undefined && !isCount(generation)) throw bad(path, "generation", generation);
  return { high, shown: generation };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function bad(path: string, field: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} is ${JSON.stringify(found) ?? "missing"}; expected an integer from 0. The file is damaged; run "superchunk unlink" and "superchunk link"`,
    { path, field, expected: "an integer from 0", found },
  );
}
