/** What `create` and `edit` can be asked for. Types only. */
import type { ChunkEncoder } from "../codec/types.ts";
import type { DType, JsonObjectInput, JsonValue } from "../format/types.ts";
import type { PlaceRule, StoredPlace } from "../places/declared.ts";
import type { OpenPlace } from "../places/placed-store.ts";
import type { PlaceAccess } from "../references/containers/container-reader.ts";
import type { StoreOptions } from "../store/types.ts";
import type { WriteOptions, WriterLock } from "../write/array/create.ts";
import type { SharedOptions } from "../write/array/shared-array.ts";
import type { AppendOptions, EditFormat } from "../write/editable.ts";
import type { ChunkSettings, Optimize, Reserve } from "../write/layout/settings.ts";
import type { ReadSettings } from "../zarr/read/leaf.ts";
import type { ZarrSpecification } from "../zarr/write/create.ts";
import type { WriteSettings } from "../zarr/write/write-settings.ts";

/** How something is opened for editing. */
export interface EditOptions
  extends StoreOptions,
    Pick<WriteOptions, "modify" | "mirror" | "ownPlaces">,
    Omit<WriteSettings, "encoder">,
    ReadSettings,
    PlaceAccess {
  /** What it has to be (default: whatever it is). With `bloscpack` there are the verbs of a Bloscpack file beside the others. */
  readonly format?: EditFormat | undefined;
  /** Makes chunks; default: the calling thread. */
  readonly encoder?: ChunkEncoder | undefined;
  /** Keeps other writers out: called with the key of the lock's file, or undefined for Zarr, which has none. Without it, only comparing at each commit does. */
  readonly lock?: ((key: string | undefined) => Promise<WriterLock>) | undefined;
  /**
   * Of an array of superchunks: others append at the same time, on this machine or on others, and open it with this option too
   * (default false). There are `append`, `flush` and `close`; each commit takes the lock by itself.
   */
  readonly shared?: boolean | SharedOptions | undefined;
  /** Opens the places of an array of superchunks; default: those that `containers` and `allow` let it use, as `open`. */
  readonly openPlace?: OpenPlace | undefined;
  /** Takes no lock and writes nothing (default false): only the verbs that plan work, and those that read. */
  readonly readOnly?: boolean | undefined;
}

/** What is to be made. */
export interface CreateOptions
  extends Omit<EditOptions, "shared" | "ownPlaces">,
    ChunkSettings,
    Pick<AppendOptions, "publish" | "onProgress"> {
  /** Default `blz`: an array of superchunks, which is the format of this library. */
  readonly format?: EditFormat | undefined;
  /** As numpy spells it (`<f8`, `int32`, `[["a","<i4"],["v","<f4",[3]]]`), as Zarr does (`{ "name": …, "configuration": … }`), or parsed. A struct is a table in bcolz. */
  readonly dtype?: JsonValue | DType | undefined;
  /** Of `zarr`: an array (default), or a group, which needs no dtype. Of `bcolz`: an array, or a table (default for a struct). */
  readonly kind?: "array" | "group" | "table" | undefined;
  /** Of `zarr`: shape of a chunk, or of an inner chunk of a shard (default: `chunkLength` rows of about 1 MiB). */
  readonly chunkShape?: readonly number[] | undefined;
  /** Of `zarr`: shape of a shard; default: no shards. */
  readonly shardShape?: readonly number[] | undefined;
  /** Of `zarr`: codecs of a chunk, in place of `compressor`. */
  readonly codecs?: readonly JsonValue[] | undefined;
  /** Of `zarr`: names of the dimensions. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  /** Of `zarr`: further members of the specification. */
  readonly specification?: Omit<ZarrSpecification, "shape" | "dataType" | "chunkShape"> | undefined;
  /** Rows and the shape of a row, default no rows of single values. Rows are filled with the default value. */
  readonly shape?: number | readonly number[] | undefined;
  /**
   * The rows that it begins with, in any form that `append` takes, in place of a length in `shape`. It is there with all of them; where that
   * fails, also while a stream comes, nothing of it is left.
   */
  readonly data?: unknown;
  /** Default value; default zero, empty, NaT. */
  readonly fillValue?: JsonValue | undefined;
  /** User attributes. */
  readonly attrs?: JsonObjectInput | undefined;
  /**
   * Of `blz`: chunks of about 1 MiB (`read`) or of at most 128 KiB (`update`). Default: `update`; with `zarr` by `expectedLength`, up to
   * 1 MiB, because readers of Zarr take long for each chunk.
   */
  readonly optimize?: Optimize | undefined;
  /** Of `blz`: room behind each chunk for `modify: "in-place"`. */
  readonly reserve?: Reserve | undefined;
  /** Of `blz`: the fields of a struct lie in a folder each (default true). */
  readonly columns?: boolean | undefined;
  /** Of `blz`: the folder is kept a Zarr v3 array as well (default false). */
  readonly zarr?: boolean | undefined;
  /**
   * Of `blz`: folders (`file:`, `s3:`) in which superchunks lie besides the array's own, with names or without. Readers are to allow them, by
   * `allow`; here they are allowed.
   */
  readonly places?: readonly (string | StoredPlace)[] | undefined;
  /** Of `blz`, with `places`: which one a new superchunk goes to (default `round`). */
  readonly placeBy?: PlaceRule | undefined;
  /** Removes an archive that is there (default false: `CONFLICT`). */
  readonly overwrite?: boolean | undefined;
}
