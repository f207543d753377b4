/** What callers may ask of the way back, and what they learn of it. Types only. */
import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import type { WritableStore } from "../../store/types.ts";
import type { BackColumn, BytesAs } from "../sources/source.ts";
import type { CopyingEncoder } from "./copying-encoder.ts";

/** What can be written. */
export type BackFormat = "npy" | "bloscpack" | "bcolz" | "blz";

/** How it is converted back. */
export interface BackOptions extends LongOptions, BytesAs {
  /** Of tables, only these columns. */
  readonly columns?: readonly string[] | undefined;
  /** Replace what is there (default false: `CONFLICT`), where it is what a conversion makes. */
  readonly overwrite?: boolean | undefined;
  /** Read the result back and compare every value with the source. */
  readonly verify?: boolean | undefined;
  /** False: refuse (`UNSUPPORTED`) where chunks cannot be copied, instead of compressing them anew. Default true. */
  readonly recode?: boolean | undefined;
  /** What encodes chunks that cannot be copied (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** What was done. */
export interface BackResult {
  readonly arrays: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  readonly chunksCopied: number;
  /** Chunks that were compressed anew. */
  readonly chunksRecoded: number;
  readonly seconds: number;
  /** True where the result was read back and compared. */
  readonly verified: boolean;
  /** What the format has no place for, in words. */
  readonly notes: readonly string[];
}

/** What the writers of all formats share. */
export interface BackRun {
  readonly target: WritableStore;
  readonly options: BackOptions;
  /** What compresses chunks anew. */
  readonly encoder: ChunkEncoder;
  /** Tells of what is lost. */
  note(text: string): void;
  /** Counts an array that is written, and what its encoder did. */
  count(column: BackColumn, encoder: CopyingEncoder | undefined): void;
  /** The same bytes; tells progress. */
  watch(data: AsyncIterable<Uint8Array>, column: BackColumn): AsyncIterable<Uint8Array>;
}
