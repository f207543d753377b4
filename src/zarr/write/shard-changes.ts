/** A change of a shard as changes of its inner chunks. Must not know where shards go. */

import { at } from "../../bytes/at.ts";
import type { ItemView } from "../../values/copy-items.ts";
import { innerGrid, permute, type ShardingSerializer } from "../codecs/chain.ts";
import { combine, partOfView, regularAxis, type Segment, segmentsOf } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import { type EncodeSettings, encodeChunk } from "./encode-chunk.ts";
import type { Region, RegionMerge } from "./region-merge.ts";
import type { InnerChunk } from "./shard-pieces.ts";

/** Items that a shard gets. One entry for each dimension of the array. */
export interface ShardChange {
  /** Which of its items. */
  readonly segments: readonly Segment[];
  readonly view: ItemView;
  /** Where the shard lies. */
  readonly region: Region;
}

/** The inner chunks that a change touches, in C order. */
export function changesOf(
  model: ArrayModel,
  serializer: ShardingSerializer,
  { segments, view, region }: ShardChange,
  settings: EncodeSettings,
  regions: RegionMerge,
): { readonly grid: readonly number[]; readonly changes: readonly InnerChunk[] } {
  const { order } = model.chain;
  const { chunkShape, inner } = serializer;
  const stored = permute(region.shape, order);
  const grid = innerGrid(serializer, stored);
  const turned: ItemView = { ...view, strides: permute(view.strides, order) };
  const lists = permute(segments, order).map((extent, d) => [
    ...segmentsOf(regularAxis(at(stored, d), at(chunkShape, d)), extent),
  ]);
  const changes: InnerChunk[] = [];
  for (const combined of combine(lists)) {
    const parts = [...combined];
    let slot = 0;
    parts.forEach(({ chunk }, d) => {
      slot = slot * at(grid, d) + chunk;
    });
    changes.push({
      slot,
      encode: async (signal, room) => {
        const change = partOfView(turned, parts);
        const items = await regions.mergeInner(parts, change, region.start, chunkShape, signal);
        return encodeChunk(inner, items, chunkShape, settings, room);
      },
    });
  }
  return { grid, changes };
}
