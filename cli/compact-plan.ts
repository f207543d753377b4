/** What `compact` would do, from the metadata and the heads of superchunks. Writes nothing. */
import { readGeneration } from "../src/array/generation.ts";
import { ArrayWriter } from "../src/array/write/array-writer.ts";
import { planFold } from "../src/array/write/compact.ts";
import { settingsOf } from "../src/array/write/create.ts";
import { ArrayRoot } from "../src/array/write/root.ts";
import { type CutOptions, settleSettings } from "../src/array/write/settings.ts";
import type { JsonObject } from "../src/format/types.ts";
import type { Context } from "./context.ts";
import { withStore } from "./writing.ts";

/** The plan. */
export interface CompactPlan {
  /** Other settings were chosen: every chunk is decoded and encoded anew. */
  readonly isRecoded: boolean;
  /** Superchunks that there will be, by the settings of now. */
  readonly superchunks: number;
  readonly superchunksWritten: number;
  /** Superchunks that stay as they are under another name. */
  readonly superchunksRenamed: number;
  /** Stored bytes of the whole array. */
  readonly cbytes: number;
}

/** Plans `compact`. Throws `BAD_ARGUMENT`, `LIMIT` for settings that do not fit, and the codes of opening. */
export async function planCompact(path: string, changes: CutOptions, context: Context): Promise<CompactPlan> {
  return withStore(path, async (store, key) => {
    const generation = await readGeneration(store, key, undefined, { signal: context.signal });
    const settings = settingsOf(generation);
    const isRecoded = Object.values(changes).some((value) => value !== undefined);
    if (isRecoded) settleSettings(settings, changes, settings);
    const { layout, folder } = generation;
    const cbytes = Number((folder.metadata["sizes"] as JsonObject)["cbytes"] ?? 0);
    const root = new ArrayRoot(store, key, generation.sizes);
    const writer = new ArrayWriter(root, settings, { layout, rows: folder.heldRows, cbytes });
    const { kept, rewritten } = await planFold(writer);
    const superchunks = kept.size + rewritten.length;
    const moved = [...kept].filter(([place, number]) => number !== place + 1).length;
    return {
      isRecoded,
      superchunks,
      superchunksWritten: isRecoded ? superchunks : rewritten.length,
      superchunksRenamed: isRecoded ? 0 : moved,
      cbytes,
    };
  });
}
