/** Finds the archives, Zarr arrays and groups below a folder. */

import type { OpenOptions } from "../archive/kinds/types.ts";
import type { FindOptions } from "../archive/open/discover.ts";
import { isSuperchunkError } from "../errors.ts";
import { checkLater, joinKey, refuseListed, showListed } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import { isIndexGroup, type ZarrGroup } from "../zarr/read/group.ts";
import type { OpenZarrOptions } from "../zarr/read/open.ts";
import { openFound } from "./open-node.ts";

/** An archive, a Zarr array or a group that was found. */
export interface FoundReadable {
  /** Key in the store. For a node of the older transformer, its path below the hierarchy's root. */
  readonly path: string;
  /** Set for what is in an index of a PyTables table: only PyTables reads it. */
  readonly isIndex?: true;
  /** Set for a group. Its arrays follow separately. */
  readonly group?: ZarrGroup;
  /** Set if it cannot be opened. */
  readonly error?: unknown;
  /** Set for a Zarr array. */
  readonly array?: ZarrArray;
}

/** Options of `findReadables`. */
export type FindReadablesOptions = OpenOptions &
  Pick<FindOptions, "onUnfinished"> &
  Pick<OpenZarrOptions, "measureText"> & {
    /** Called with the key of each packed file (`.zip`, `.tar.gz` …). It may hold archives, but is not opened. */
    readonly onPacked?: ((key: string) => void) | undefined;
  };

/** Implements the exported `findReadables`. */
export async function* findReadables(
  source: ReadableStore | ZarrArray | ZarrGroup,
  path = "",
  options: FindReadablesOptions = {},
): AsyncGenerator<FoundReadable> {
  await checkLater(options, "find");
  if ("kind" in source) {
    yield* walkNodes(path, async () => source);
    return;
  }
  const store = source;
  const { signal, measureText, onPacked } = options;
  // A page of Zarr alone needs neither.
  const { findArchives, isZarrFolder } = await import("../archive/open/discover.ts");
  const { unpackerOf } = await import("../format/header.ts");
  const onFile = (key: string): void => {
    if (unpackerOf(key) !== undefined) onPacked?.(key);
  };
  for await (const found of findArchives(store, path, { ...options, isOther: isZarrFolder, onFile })) {
    if (found.error !== undefined) yield { path: found.path, error: found.error };
    else if (found.kind !== "other") yield { path: found.path };
    else yield* walkNodes(found.path, () => openFound(store, found.path, { signal, measureText }));
  }
}

/** A node and everything below it, groups first; what cannot be opened does not hide the rest. */
async function* walkNodes(
  path: string,
  openIt: () => Promise<ZarrArray | ZarrGroup>,
  isBelow = false,
): AsyncGenerator<FoundReadable> {
  let names: string[];
  let group: ZarrGroup;
  try {
    const node = await openIt();
    if (node.kind === "array") {
      yield { path, array: node };
      return;
    }
    group = node;
    names = await group.members();
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    yield { path, error };
    return;
  }
  const index = isBelow && isIndexGroup(group) ? ({ isIndex: true } as const) : undefined;
  yield { path, group, ...index };
  for (const name of names) {
    const error = refuseListed(name, group.store.describe(path));
    if (error !== undefined) yield { path: showListed(path, name), error };
    else
      for await (const each of walkNodes(joinKey(path, name), () => group.open(name), true))
        yield { ...each, ...index };
  }
}
