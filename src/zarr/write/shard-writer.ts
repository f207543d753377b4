/** What takes whole shards over from the thread that writes an array. Must not know what it is: threads, for example. */
import type { WritableStore } from "../../store/types.ts";
import type { ItemView } from "../../values/copy-items.ts";
import type { ArrayModel } from "../document/model.ts";
import type { ChunkOrder } from "./chunk-order.ts";

/** A shard of which every item that lies in the array is given. */
export interface WholeShard {
  readonly model: ArrayModel;
  /** Key of its object. */
  readonly key: string;
  /** The array's first item that the shard holds, and how many along each dimension lie in the array. */
  readonly start: readonly number[];
  readonly counts: readonly number[];
  /** In the byte order of memory; they stay as they are until the shard is written. */
  readonly items: ItemView;
  readonly chunkOrder: ChunkOrder;
  readonly writeEmptyChunks: boolean;
  /** Where it aborts, the shard is not wanted any more. */
  readonly signal: AbortSignal | undefined;
}

/** Encodes and writes whole shards beside the calling thread. */
export interface ShardWriter {
  /** Shards that it takes over at a time, at most. */
  readonly parallel: number;
  /**
   * Writes a shard as `set` would, and resolves with true then; with false where it does not take it over, which the
   * caller writes as ever then. Nothing writes any more when it settles, also after a failure or an abort.
   *
   * @throws as `set`; the reason of the signal where that aborted before the shard was written
   */
  write(store: WritableStore, shard: WholeShard): Promise<boolean>;
}
