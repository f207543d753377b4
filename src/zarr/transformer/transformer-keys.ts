/**
 * Keys of chunks and of the shards that hold them, in the sharding storage transformer's arithmetic.
 *
 * Knows numbers and names; must not know stores. @see FORMAT.md [FK-03]
 */

import { at } from "../../bytes/at.ts";
import { badArgument } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import { elementsOf } from "../../values/selection.ts";
import { checkCapacity } from "../write/check-settings.ts";

/** What is sharded, and how. */
export interface TransformerSettings {
  /** Key prefix of an array's chunks: `data/root/path`. */
  readonly prefix: string;
  /** Chunks of a shard along each dimension; `[1]` for an array without dimensions. */
  readonly chunksPerShard: readonly number[];
  /** Chunks of the array along each dimension: `listing` goes no further. */
  readonly chunkCounts: readonly number[];
  readonly separator?: "/" | "." | undefined;
}

/** Where a chunk is. */
export interface ChunkSlot {
  readonly shardKey: string;
  readonly slot: number;
}

/** Translates keys of one array. */
export class TransformerKeys {
  readonly #settings: TransformerSettings;
  readonly #separator: "/" | ".";
  readonly #pattern: RegExp;

  /** Throws `BAD_ARGUMENT` for settings that contradict themselves, `LIMIT` for shards of too many chunks. */
  constructor(settings: TransformerSettings) {
    checkSettings(settings);
    this.#settings = settings;
    this.#separator = settings.separator ?? "/";
    const numbers = settings.chunksPerShard
      .map(() => "(0|[1-9]\\d*)")
      .join(this.#separator === "." ? "\\." : "/");
    this.#pattern = new RegExp(`^c${numbers}$`);
  }

  /** Shard and slot of a chunk's key; undefined for any other key. */
  placeOf(key: string): ChunkSlot | undefined {
    const position = this.positionOf(key);
    if (position === undefined) return undefined;
    const { chunksPerShard } = this.#settings;
    let slot = 0;
    const shard = position.map((index, d) => {
      const per = at(chunksPerShard, d);
      slot = slot * per + (index % per);
      return Math.floor(index / per);
    });
    return { shardKey: this.#join(shard), slot };
  }

  /** Position of a chunk, or of a shard, by its key; undefined for any other key. */
  positionOf(key: string): readonly number[] | undefined {
    const { prefix } = this.#settings;
    if (!key.startsWith(`${prefix}/`)) return undefined;
    const position = this.#pattern
      .exec(key.slice(prefix.length + 1))
      ?.slice(1)
      .map(Number);
    // Beyond, several keys would be one number: what no array has is no chunk's key.
    return position?.every(Number.isSafeInteger) === true ? position : undefined;
  }

  /** Key of the chunk in a slot; undefined behind the array's end. */
  keyOf(shard: readonly number[], slot: number): string | undefined {
    const { chunksPerShard, chunkCounts } = this.#settings;
    const position = [...shard];
    let rest = slot;
    for (let d = position.length - 1; d >= 0; d--) {
      const per = at(chunksPerShard, d);
      position[d] = at(shard, d) * per + (rest % per);
      rest = Math.floor(rest / per);
      if (at(position, d) >= at(chunkCounts, d)) return undefined;
    }
    return this.#join(position);
  }

  #join(position: readonly number[]): string {
    return joinKey(this.#settings.prefix, `c${position.join(this.#separator)}`);
  }
}

function checkSettings({ prefix, chunksPerShard, chunkCounts, separator = "/" }: TransformerSettings): void {
  if (prefix === "")
    throw badArgument("prefix", "empty", "the prefix of an array's chunks, such as data/root/name");
  joinKey(prefix);
  if (separator !== "/" && separator !== ".") throw badArgument("separator", separator, "/ or .");
  checkCounts("chunksPerShard", chunksPerShard, 1);
  checkCounts("chunkCounts", chunkCounts, 0);
  if (chunksPerShard.length === 0)
    throw badArgument("chunksPerShard", "empty", "a number for each dimension, and [1] for an array without");
  if (chunksPerShard.length !== chunkCounts.length)
    throw badArgument("chunkCounts", chunkCounts, `${chunksPerShard.length} numbers, as chunksPerShard`);
  checkCapacity(elementsOf(chunksPerShard), { field: "chunksPerShard" });
}

function checkCounts(field: string, counts: readonly number[], least: number): void {
  if (!counts.every((n) => Number.isSafeInteger(n) && n >= least))
    throw badArgument(field, counts, `whole numbers of at least ${least}`);
}
