/** What callers may ask of a conversion, and what they learn of it. Types only. */
import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import type { Renaming } from "../../zarr/document/node-names.ts";
import type { ShardSizing } from "./grid.ts";

/** What decides the bytes of the result. */
export interface LayoutOptions extends ShardSizing {
  /**
   * `rectilinear`: an array whose last chunk is short gets a grid of unequal chunks, each an object, so that nothing is
   * padded, and nothing compressed anew where archives are joined. Few readers know such grids. Default `regular`.
   */
  readonly grid?: "regular" | "rectilinear" | undefined;
  /** Only data types that every Zarr v3 reader takes: dates as int64, strings and structs with an extra dimension. */
  readonly portable?: boolean | undefined;
  /** For archives of plain bytes: what the bytes are; default uint8. */
  readonly dtype?: DType | undefined;
  /** For archives of plain bytes: how the values are arranged, in C order; default one dimension. */
  readonly shape?: readonly number[] | undefined;
  /** Names of the dimensions; default those of the attribute `_ARRAY_DIMENSIONS`. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  /** False: refuse (`UNSUPPORTED`) where chunks cannot be copied, instead of recoding them. Default true. */
  readonly recode?: boolean | undefined;
  /** Of tables and nested arrays, only these columns. Default all. */
  readonly columns?: readonly string[] | undefined;
}

/** How a conversion is run. */
export interface ConvertOptions extends LayoutOptions, LongOptions {
  /** Go on with an unfinished conversion of the same source with the same options. */
  readonly resume?: boolean | undefined;
  /** Replace an existing Zarr hierarchy. */
  readonly overwrite?: boolean | undefined;
  /** Read the whole result back and compare it with the source. */
  readonly verify?: boolean | undefined;
  /** What encodes chunks that cannot be copied (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** What becomes of an array: copied chunk by chunk, some chunks or all recoded, only described (no values), or refused. */
export type PlannedAction = "copy" | "mixed" | "recode" | "empty" | "refuse";

/** One array of a {@link ConversionPlan}. */
export interface PlannedArray {
  /** Path in the destination, below the conversion's own; `""` is that itself. */
  readonly node: string;
  /** How messages name the source. */
  readonly source: string;
  readonly action: PlannedAction;
  /** Why chunks are recoded, or the array is refused. */
  readonly reason?: string;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Chunks in the result. */
  readonly chunks: number;
  readonly shards: number;
  /** In items of the Zarr array; absent where refused. */
  readonly shape?: readonly number[];
  readonly dataType?: JsonValue;
  readonly chunkShape?: readonly number[];
  readonly shardShape?: readonly number[];
  /** What could not be carried over, in words. */
  readonly notes: readonly string[];
}

/** What a conversion would do. */
export interface ConversionPlan {
  readonly source: string;
  /** `array`: a single Zarr array; `group`: an array for each column. */
  readonly kind: "array" | "group";
  readonly arrays: readonly PlannedArray[];
  /** Paths of the groups, the outermost first. */
  readonly groups: readonly string[];
  readonly renamed: readonly Renaming[];
  /** Uncompressed bytes of all arrays. */
  readonly nbytes: number;
}

/** What a conversion did. */
export interface ConvertResult {
  readonly arrays: number;
  readonly groups: number;
  /** Chunks whose bytes went over unchanged. */
  readonly chunksCopied: number;
  /** Short last chunks that were filled up to a whole one, as Zarr wants it. */
  readonly chunksPadded: number;
  /** Chunks that were decoded and encoded anew. */
  readonly chunksRecoded: number;
  readonly shards: number;
  /** Shards of them that an earlier, unfinished run had made. */
  readonly shardsKept: number;
  /** Bytes of shards and documents written. */
  readonly bytesWritten: number;
  /** Uncompressed bytes converted. */
  readonly nbytes: number;
  readonly seconds: number;
  /** True where the result was read back and compared. */
  readonly verified: boolean;
  readonly notes: readonly string[];
  readonly renamed: readonly Renaming[];
}
