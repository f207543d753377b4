/** How an array is written, by itself and in a single call. Plain data. */
import type { ChunkEncoder } from "../../codec/types.ts";
import type { ChunkOrder } from "./chunk-order.ts";
import type { ShardStrategy } from "./shard-plan.ts";
import type { ShardWriter } from "./shard-writer.ts";

/** How an array is written. */
export interface WriteSettings {
  /** How changed inner chunks get into a shard that is there (default `rewrite`). */
  readonly strategy?: ShardStrategy | undefined;
  /** Bytes of a shard that no chunk uses, above which `append` and `fixed` rewrite it (default: no limit for `append`, 64 MiB for `fixed`). */
  readonly maxUnused?: number | undefined;
  /** Order of the inner chunks in a shard that is written whole (default `row-major`). */
  readonly chunkOrder?: ChunkOrder | undefined;
  /** Store chunks that hold nothing but the fill value (default false). */
  readonly writeEmptyChunks?: boolean | undefined;
  /** What encodes Blosc chunks, such as a pool of threads (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
  /** What takes whole shards over, such as threads that encode and write them (default: nothing does). */
  readonly shardWriter?: ShardWriter | undefined;
}

/** Options of a single call: those of the array, unless given. */
export interface SetOptions extends WriteSettings {
  readonly signal?: AbortSignal | undefined;
}
