/** Options of `create` and `edit`. Types only. */
import type { ChunkEncoder } from "../codec/types.ts";
import type { DType, JsonValue } from "../format/types.ts";
import type { PlaceOpening } from "../places/placed-store.ts";
import type { PlaceAccess } from "../references/containers/container-reader.ts";
import type { StoreOptions } from "../store/types.ts";
import type { ArrayOptions, WriteOptions } from "../write/array/create.ts";
import type { SharedOptions } from "../write/array/shared-array.ts";
import type { AppendOptions, EditFormat, WriterLock } from "../write/editable.ts";
import type { ChunkSettings, Optimize, Reserve } from "../write/layout/settings.ts";
import type { ReadSettings } from "../zarr/read/leaf.ts";
import type { ZarrSpecification } from "../zarr/write/create.ts";
import type { WriteSettings } from "../zarr/write/write-settings.ts";

/** Options of opening for editing. */
export interface EditOptions
  extends StoreOptions,
    Pick<WriteOptions, "modify" | "mirror" | "ownPlaces">,
    PlaceOpening,
    Omit<WriteSettings, "encoder">,
    ReadSettings,
    PlaceAccess {
  /** Required format (default: any). `bloscpack` adds the methods that only a Bloscpack file has. */
  readonly format?: EditFormat | undefined;
  /** Encodes chunks; default: the calling thread. */
  readonly encoder?: ChunkEncoder | undefined;
  /**
   * Keeps out other writers; called with the key of the lock file (undefined for Zarr, which has none). Default: each commit only compares.
   */
  readonly lock?: ((key: string | undefined) => Promise<WriterLock>) | undefined;
  /**
   * For an array of superchunks: other writers, on this machine or elsewhere, append at the same time and also open it with this option
   * (default false). Only `append`, `flush` and `close` are available; each commit takes the lock by itself.
   */
  readonly shared?: boolean | SharedOptions | undefined;
  /** Takes no lock and writes nothing (default false). Only methods that plan or read work. */
  readonly readOnly?: boolean | undefined;
}

/** Options of a new array, table, file or group. */
export interface CreateOptions
  extends Omit<EditOptions, "shared" | "ownPlaces">,
    ChunkSettings,
    Pick<
      ArrayOptions,
      "shape" | "fillValue" | "attrs" | "columns" | "zarr" | "places" | "placeBy" | "overwrite"
    >,
    Pick<AppendOptions, "publish" | "onProgress"> {
  /** Default `blz`: an array of superchunks, this library's own format. */
  readonly format?: EditFormat | undefined;
  /**
   * In numpy's form (`<f8`, `int32`, `[["a","<i4"],["v","<f4",[3]]]`), in Zarr's (`{ "name": …, "configuration": … }`), or parsed. In bcolz
   * a struct makes a table.
   */
  readonly dtype?: JsonValue | DType | undefined;
  /** `zarr`: an array (default), or a group, which needs no dtype. `bcolz`: an array, or a table (default for a struct). */
  readonly kind?: "array" | "group" | "table" | undefined;
  /** `zarr`: shape of a chunk, or of an inner chunk of a shard (default: `chunkLength` rows of about 1 MiB). */
  readonly chunkShape?: readonly number[] | undefined;
  /** `zarr`: shape of a shard; default: no shards. */
  readonly shardShape?: readonly number[] | undefined;
  /** `zarr`: codecs of a chunk, instead of `compressor`. */
  readonly codecs?: readonly JsonValue[] | undefined;
  /** `zarr`: names of the dimensions. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  /** `zarr`: further members of the specification. */
  readonly specification?: Omit<ZarrSpecification, "shape" | "dataType" | "chunkShape"> | undefined;
  /**
   * First rows, in any form that `append` takes. If `shape` has a number of rows too, a list or a typed array must have as many. The array
   * appears with all of them; a failure, also in the middle of a stream, leaves nothing behind.
   */
  readonly data?: unknown;
  /**
   * `blz`: chunks of about 1 MiB (`read`) or of at most 128 KiB (`update`). Default `update`; with `zarr`, chosen from `expectedLength`, up
   * to 1 MiB, because Zarr readers are slow with many chunks.
   */
  readonly optimize?: Optimize | undefined;
  /** `blz`: space after each chunk for `modify: "in-place"`. */
  readonly reserve?: Reserve | undefined;
}

/** Names of the options of both `create` and `edit`, and of `create` alone. */
export const BOTH =
  "allow cachedEntries chunkOrder concurrency containers credentials customCodecs decoder encoder format immutable lock maxGap maxUnused mirror modify openContainer openPlace placeAddress readOnly redirects shardWriter signal strategy writeEmptyChunks";
export const NEW =
  "attrs checksum chunkLength chunkShape codecs columns compressor data dimensionNames dtype expectedLength fillValue kind onProgress optimize overwrite placeBy places publish reserve shape shardShape specification superchunkLength zarr";
