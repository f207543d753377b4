/** What mirroring asks of the place it works in. Types only. */
import type { LinkFiles } from "../link/types.ts";

/** When what was flushed becomes visible as Zarr: at every flush, with every full superchunk, or now and then. */
export type PublishPolicy = "flush" | "full" | { readonly everySeconds: number };

/** Bytes `[start, end)` of a file. */
export interface FileRange {
  readonly start: number;
  readonly end: number;
}

/** A file that takes the place of a shard. */
export interface ShardReplacement {
  readonly key: string;
  /** Bytes of the old file that stay where they are. */
  readonly kept: readonly FileRange[];
  readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** What is neither kept nor written is a hole. */
  readonly size: number;
}

/** The files of an array that is mirrored: both sides are its own folder. */
export interface MirrorFiles extends LinkFiles {
  /**
   * Puts a new file, without permission to be written to, in the place of an old one, at once. Durable when resolved, with
   * the bytes that were written or copied.
   */
  replace(replacement: ShardReplacement): Promise<number>;
}
