/** What `set` would do, from the metadata alone: refuses what it would refuse, and writes nothing. */
import { requireInPlace, requireOneName } from "../../src/archive/journal/journal.ts";
import type { DType } from "../../src/format/types.ts";
import type { Selection } from "../../src/values/selection.ts";
import { readWritable, refuseInPlace } from "../../src/write/array/create.ts";
import { layOutColumns, superchunkKeys } from "../../src/write/layout/columns.ts";
import { planSetting, type SettingPlan, superchunksOf } from "../../src/write/layout/setting-plan.ts";
import type { Context } from "../context.ts";
import { openRoot } from "./writable-root.ts";
import { withStore } from "./writing.ts";

/** Where values are set: an array, or nowhere. */
export interface SetTarget {
  readonly dtype: DType;
  readonly shape: readonly number[];
  set(selection: Selection, values: Uint8Array): Promise<void>;
}

/** What was asked for. */
export interface SetRequest {
  readonly selectionOf: (shape: readonly number[]) => Selection;
  /** Gives the values to a target. Throws `BAD_ARGUMENT` for those that do not fit. */
  readonly fill: (target: SetTarget, selection: Selection) => Promise<void>;
}

/** Plans `set`. Throws what `set` would throw before it writes. */
export async function planSet(
  path: string,
  inPlace: boolean,
  { selectionOf, fill }: SetRequest,
  context: Context,
): Promise<SettingPlan> {
  await (await openRoot(path, context)).close();
  return withStore(path, async (store, key) => {
    const { settings, committed } = await readWritable(store, key, { signal: context.signal });
    const { dtype, rowShape, chunklen } = settings;
    const shape = [committed.rows, ...rowShape];
    const selection = selectionOf(shape);
    const facts = { shape, itemSize: dtype.itemSize, chunklen, layout: committed.layout };
    const plan = planSetting(facts, selection);
    if (inPlace) {
      requireInPlace(store, key);
      await refuseInPlace(store, key, settings);
      const columns = layOutColumns(key, settings);
      for (const file of superchunkKeys(columns, [...superchunksOf(facts, selection)]))
        await requireOneName(store, file);
    }
    await fill({ dtype, shape, set: async () => undefined }, selection);
    return plan;
  });
}
