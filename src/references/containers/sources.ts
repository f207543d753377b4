/**
 * The archives that references were written from: if one has changed, the references show its earlier state.
 *
 * Knows guards; must not know references' forms. @see FORMAT.md [FV-03]
 */
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { type Guard, guardOf } from "./guard.ts";

/** State, when the references were written, of an object that every change of an archive replaces. */
export interface ReferredSource extends Guard {
  readonly location: string;
}

/** The object in an array's folder that each writer replaces. */
const SIZES = "meta/sizes";

/** The source for an array in the folder `path`; undefined if no object of it shows changes. */
export async function sourceOf(
  store: ReadableStore,
  path: string,
  toLocation: (described: string) => string,
  options: StoreOptions,
): Promise<ReferredSource | undefined> {
  const key = path === "" ? SIZES : `${path}/${SIZES}`;
  const info = await store.stat(key, options);
  if (info === undefined || (info.etag === undefined && info.modified === undefined)) return undefined;
  const described = store.describe(key);
  return { location: toLocation(described), ...guardOf(info, described) };
}

export function formatSources(sources: readonly ReferredSource[]): JsonValue {
  return sources.map(({ location, size, etag, lastModified }) => ({
    location,
    size,
    ...(etag === undefined ? {} : { etag }),
    ...(lastModified === undefined ? {} : { lastModified }),
  }));
}

/** Sources from JSON; none for undefined. Throws `BAD_FIELD`. */
export function parseSources(value: JsonValue | undefined, path: string): readonly ReferredSource[] {
  if (value === undefined) return [];
  const isSource = (each: JsonValue): boolean => {
    if (each === null || typeof each !== "object" || Array.isArray(each)) return false;
    const { location, size, etag = "", lastModified = 0 } = each as JsonObject;
    return (
      typeof location === "string" &&
      typeof etag === "string" &&
      [size, lastModified].every((number) => Number.isSafeInteger(number) && (number as number) >= 0)
    );
  };
  if (Array.isArray(value) && value.every(isSource)) return value as unknown as readonly ReferredSource[];
  throw new SuperchunkError("BAD_FIELD", "sources is not a list of objects with their sizes", {
    path,
    field: "sources",
  });
}
