/** What can be asked of an append to a Bloscpack file, and what is to be made of the file. */

import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChecksumName, DType, JsonInput } from "../../format/types.ts";
import type { PutSource } from "../../store/types.ts";
import {
  type BloscpackCompression,
  type BloscpackMetadataOptions,
  type CountOrFactor,
  settleChunkSize,
} from "./bloscpack-options.ts";
import type { BloscpackState } from "./bloscpack-state.ts";
import { encodeChunks } from "./bloscpack-write.ts";
import { cutPieces } from "./cut-pieces.ts";

/** Options of `appendToBloscpack`. Compression defaults to that of the file's last chunk, at clevel 7. */
export interface BloscpackAppendOptions extends BloscpackCompression, LongOptions {
  /** Change the file where it lies (default false: a new file is renamed over it). Plain bytes only. */
  readonly inPlace?: boolean | undefined;
  /** Where the offsets table has no room left, write the file with a larger one (default false: `LIMIT`). */
  readonly grow?: boolean | undefined;
  /** Room in the larger table (default `10x`). */
  readonly maxAppChunks?: CountOrFactor | undefined;
  /** Uncompressed bytes of a chunk, of a file that holds nothing yet (default 1 MiB). */
  readonly chunkSize?: number | undefined;
  /** New user metadata in place of the old. */
  readonly metadata?: JsonInput | undefined;
  /** How it is compressed: codec and level; checksum and room stay as they are. */
  readonly metadataOptions?: Pick<BloscpackMetadataOptions, "codec" | "level"> | undefined;
  /** What the bytes are, where they come from an array: must be the file's own dtype and row shape. */
  readonly array?: { readonly dtype: DType; readonly shape: readonly number[] } | undefined;
}

/** What an append did. Sizes in bytes. */
export interface BloscpackAppendResult {
  readonly nchunks: number;
  readonly nbytes: number;
  readonly bytesAppended: number;
  readonly chunksAdded: number;
  /** Chunks copied into the new file as they are, and their stored bytes; 0 in place. */
  readonly chunksCopied: number;
  readonly bytesCopied: number;
}

/** What an append is to make of a file. */
export interface AppendPlan {
  readonly state: BloscpackState;
  readonly compression: BloscpackCompression & Pick<LongOptions, "onProgress" | "signal">;
  readonly chunkSize: number;
  readonly checksum: ChecksumName;
  readonly itemSize: number;
}

/** Makes every choice that is open. */
export function planAppend(state: BloscpackState, options: BloscpackAppendOptions): AppendPlan {
  const { lastHeader, header, nbytes, archive } = state;
  const itemSize = archive.kind === "array" ? archive.dtype.itemSize : 1;
  const { signal, onProgress, encoder } = options;
  return {
    state,
    chunkSize: nbytes === 0 ? settleChunkSize(options.chunkSize, itemSize) : state.chunkSize,
    checksum: header.checksum,
    itemSize,
    compression: {
      typesize: options.typesize ?? (header.typesize > 0 ? header.typesize : lastHeader?.typesize),
      clevel: options.clevel,
      cname: options.cname ?? (nbytes === 0 ? undefined : lastHeader?.compressor),
      shuffle: options.shuffle ?? (nbytes === 0 ? undefined : lastHeader?.shuffle),
      encoder,
      signal,
      onProgress,
    },
  };
}

/** The last chunk filled up, and those behind it. */
export function newChunks(plan: AppendPlan, source: PutSource): ReturnType<typeof encodeChunks> {
  const { state, compression, chunkSize, checksum } = plan;
  const pieces = cutPieces(source, chunkSize, compression.signal, state.last);
  return encodeChunks(pieces, checksum, undefined, compression);
}
