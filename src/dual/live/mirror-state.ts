/**
 * `meta/zarr`: what a mirror must know of the past. Reads it, and turns it into bytes; who writes it knows when. @see FORMAT.md [FY-06]
 */
import { SuperchunkError } from "../../errors.ts";
import { MAX_DIMENSIONS } from "../../format/folder.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { StoredLayout } from "../../format/layout.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { showJson } from "../../zarr/document/metadata-fields.ts";
import { isNodePath, type ShardForm } from "./forms.ts";

/** Name of the state, in the array's folder. */
export const MIRROR_STATE = "meta/zarr";
const VERSION = 1;

export interface MirrorState {
  /** No shard that is a data file now was ever read behind this byte when it was not. */
  readonly high: number;
  /** The commit that all shards and documents show; undefined while a writer is at work, or where one was killed. */
  readonly shown: Pick<StoredLayout, "id" | "generation"> | undefined;
  /** Every form that shards may have had under these keys, once there was more than one; a node without a column is a former one. */
  readonly forms: readonly ShardForm[];
}

export function encodeMirrorState({ high, shown, forms }: MirrorState): Uint8Array {
  const json: JsonObject = {
    superchunk_mirror: VERSION,
    high,
    ...(shown === undefined ? {} : { generation: shown.generation, id: shown.id }),
    ...(forms.length === 0 ? {} : { forms: forms.map((form): JsonObject => ({ ...form })) }),
  };
  return new TextEncoder().encode(`${stringifyJson(json)}\n`);
}

/** Throws `BAD_FIELD`, and `UNSUPPORTED` for a newer version. */
export function parseMirrorState(bytes: Uint8Array, path: string): MirrorState {
  const json = parseJson(bytes, path);
  const state = typeof json === "object" && json !== null && !Array.isArray(json) ? (json as JsonObject) : {};
  const { superchunk_mirror: version, high, generation, id, forms = [] } = state;
  if (version !== VERSION) {
    throw new SuperchunkError(
      typeof version === "number" && version > VERSION ? "UNSUPPORTED" : "BAD_FIELD",
      `superchunk_mirror is ${showJson(version)}; this version of superchunk knows ${VERSION}. Look for a newer superchunk, or run "superchunk unlink" and "superchunk link"`,
      { path, field: "superchunk_mirror", expected: VERSION, found: version },
    );
  }
  if (!isCount(high)) throw bad(path, "high", high);
  if (generation !== undefined && !isCount(generation)) throw bad(path, "generation", generation);
  if (!Array.isArray(forms) || !forms.every(isForm))
    throw bad(path, "forms", forms, "a list of node, dimensions, capacity, chunkBytes and item");
  if (id !== undefined && typeof id !== "string") throw bad(path, "id", id, "a string");
  const shown = generation === undefined || id === undefined ? undefined : { id, generation };
  return { high, shown, forms };
}

/** True where all shards and documents show this commit. A repaired array may count generations anew, under another id. */
export function showsCommit({ shown }: MirrorState, { id, generation }: StoredLayout): boolean {
  return shown?.id === id && shown.generation === generation;
}

/** The state that earlier writers left; undefined where there is none. Throws as {@link parseMirrorState}. */
export async function readMirrorState(store: ReadableStore, path: string): Promise<MirrorState | undefined> {
  const key = joinKey(path, MIRROR_STATE);
  const bytes = await store.get(key);
  return bytes === undefined ? undefined : parseMirrorState(bytes, store.describe(key));
}

function isForm(value: JsonValue): value is JsonObject & ShardForm {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { node, dimensions, capacity, chunkBytes, item } = value as JsonObject;
  return (
    typeof node === "string" &&
    isNodePath(node) &&
    typeof item === "string" &&
    isCount(dimensions) &&
    dimensions <= MAX_DIMENSIONS &&
    isCount(capacity) &&
    isCount(chunkBytes)
  );
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function bad(path: string, field: string, found: unknown, expected = "an integer from 0"): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} is ${showJson(found)}; expected ${expected}. The file is damaged; run "superchunk unlink" and "superchunk link"`,
    { path, field, expected, found },
  );
}
