/** What `compact` would do, from the metadata and the heads of superchunks. Writes nothing. */

import { checkChange } from "../../src/dual/live.ts";
import type { CutOptions } from "../../src/index.ts";
import { ArrayWriter } from "../../src/write/array/array-writer.ts";
import { planFold } from "../../src/write/array/compact.ts";
import { readWritable } from "../../src/write/array/create.ts";
import { ArrayRoot } from "../../src/write/array/root.ts";
import { settleSettings } from "../../src/write/layout/settings.ts";
import type { Context } from "../context.ts";
import { withStore } from "./writing.ts";

/** The plan. */
export interface CompactPlan {
  /** Other settings were chosen: every chunk is decoded and encoded anew. */
  readonly isRecoded: boolean;
  /** It is a Zarr array as well, whose shards are written anew too. */
  readonly isShownAnew: boolean;
  /** Superchunks that there will be, by the settings of now. */
  readonly superchunks: number;
  readonly superchunksWritten: number;
  /** Superchunks that stay as they are under another name. */
  readonly superchunksRenamed: number;
  /** Stored bytes of the whole array. */
  readonly cbytes: number;
}

/**
 * Plans `compact`.
 *
 * @throws BAD_ARGUMENT, LIMIT for settings that do not fit; UNSUPPORTED for those that readers of Zarr would mistake; and the
 * codes of opening
 */
export async function planCompact(path: string, changes: CutOptions, context: Context): Promise<CompactPlan> {
  return withStore(path, async (store, key) => {
    const { settings, committed, sizes } = await readWritable(store, key, { signal: context.signal });
    const isRecoded = Object.values(changes).some((value) => value !== undefined);
    if (isRecoded) {
      const wanted = settleSettings(settings, changes, settings);
      const isFree = changes.superchunklen === undefined;
      if (settings.zarr) await checkChange({ store, path: key }, settings, wanted, isFree);
    }
    const { cbytes } = committed;
    const writer = new ArrayWriter(new ArrayRoot(store, key, sizes), settings, committed);
    const { kept, rewritten } = await planFold(writer, true);
    const superchunks = kept.size + rewritten.length;
    const moved = [...kept].filter(([place, number]) => number !== place + 1).length;
    return {
      isRecoded,
      isShownAnew: isRecoded && settings.zarr,
      superchunks,
      superchunksWritten: isRecoded ? superchunks : rewritten.length,
      superchunksRenamed: isRecoded ? 0 : moved,
      cbytes,
    };
  });
}
