/**
 * What a partial write does to a shard: which bytes stay, which are written where. Pure.
 *
 * The three strategies of the sharding specification's notes for implementers.
 */
import type { ShardEntries, ShardEntry, ShardIndexLayout } from "../read/shard-index.ts";
import { shardIndexLength } from "../read/shard-index.ts";

/**
 * How changed inner chunks get into a shard that is there:
 * - `rewrite`: a new object of what is kept and what is new; readers see the old one or the new one, whole.
 * - `append`: new chunks and a new index behind what is there; no byte that an index names is used anew.
 * - `fixed`: a chunk that fits its old place goes there, others behind; readers meanwhile may see half a change.
 */
export type ShardStrategy = "rewrite" | "append" | "fixed";

/** A shard as it is stored. */
export interface ShardState {
  readonly size: number;
  readonly entries: ShardEntries;
}

/** New encoded chunks by slot; undefined: the chunk goes. In the order in which they were given. */
export type ShardUpdates = ReadonlyMap<number, Uint8Array | undefined>;

/** What is to be done. */
export type ShardPlan =
  /** Nothing is left: the object goes. */
  | { readonly kind: "delete" }
  /** A new object: of each slot, bytes that are kept or new ones. */
  | { readonly kind: "rewrite"; readonly parts: readonly ShardPart[] }
  /** Writes into the object; the index, made from `entries`, is written to `indexAt` last. */
  | {
      readonly kind: "patch";
      readonly entries: ShardEntries;
      readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
      readonly indexAt: number;
    };

/** A chunk of a new object. */
export interface ShardPart {
  readonly slot: number;
  readonly source: ShardEntry | Uint8Array;
}

/** Bytes of a shard that no chunk uses, the index not counted. */
export function unusedBytes({ size, entries }: ShardState, layout: ShardIndexLayout): number {
  const used = entries.reduce((sum, entry) => sum + (entry?.nbytes ?? 0), 0);
  return size - shardIndexLength(entries.length, layout) - used;
}

/**
 * Plans a write. `maxUnused`: bytes that no chunk uses, after which `append` and `fixed` rewrite the shard.
 */
export function planShardWrite(
  state: ShardState,
  updates: ShardUpdates,
  layout: ShardIndexLayout,
  strategy: ShardStrategy,
  maxUnused: number,
): ShardPlan {
  const kept = [...state.entries.keys()].filter(
    (slot) => state.entries[slot] !== undefined && !updates.has(slot),
  );
  const fresh = [...updates.keys()].filter((slot) => updates.get(slot) !== undefined);
  if (kept.length + fresh.length === 0) return { kind: "delete" };
  if (strategy !== "rewrite") {
    const patch = planPatch(state, updates, layout, strategy);
    const size =
      layout.location === "end" ? patch.end + shardIndexLength(state.entries.length, layout) : patch.end;
    if (unusedBytes({ size, entries: patch.entries }, layout) <= maxUnused) {
      return {
        kind: "patch",
        entries: patch.entries,
        writes: patch.writes,
        indexAt: layout.location === "start" ? 0 : patch.end,
      };
    }
  }
  const parts: ShardPart[] = [];
  for (const slot of [...kept, ...fresh]) {
    const source = updates.get(slot) ?? state.entries[slot];
    if (source !== undefined) parts.push({ slot, source });
  }
  return { kind: "rewrite", parts };
}

interface Patch {
  readonly entries: (ShardEntry | undefined)[];
  readonly writes: { offset: number; bytes: Uint8Array }[];
  /** First byte behind all chunks. */
  readonly end: number;
}

function planPatch(
  state: ShardState,
  updates: ShardUpdates,
  layout: ShardIndexLayout,
  strategy: "append" | "fixed",
): Patch {
  const indexLength = shardIndexLength(state.entries.length, layout);
  const dataEnd = layout.location === "end" ? state.size - indexLength : state.size;
  const entries = [...state.entries];
  const writes: Patch["writes"] = [];
  // Appending keeps the old index where it is; in fixed order the new one takes its place.
  let end = strategy === "append" ? state.size : dataEnd;
  const roomOf = strategy === "fixed" ? roomFinder(state.entries, dataEnd) : () => 0;
  for (const [slot, bytes] of updates) {
    const old = state.entries[slot];
    if (bytes === undefined) {
      entries[slot] = undefined;
      continue;
    }
    // An entry without bytes may name any place, that of another chunk too.
    const fits = old !== undefined && old.nbytes > 0 && bytes.length <= roomOf(old);
    const offset = fits ? old.offset : end;
    if (!fits) end += bytes.length;
    entries[slot] = { offset, nbytes: bytes.length };
    writes.push({ offset, bytes });
  }
  return { entries, writes, end };
}

/** How many bytes from a chunk's start on are no other chunk's. */
function roomFinder(entries: ShardEntries, dataEnd: number): (entry: ShardEntry) => number {
  const starts = entries
    .filter((entry): entry is ShardEntry => entry !== undefined && entry.nbytes > 0)
    .map(({ offset }) => offset)
    .sort((a, b) => a - b);
  return ({ offset }) => {
    let low = 0;
    let high = starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    return (starts[low] ?? dataEnd) - offset;
  };
}
