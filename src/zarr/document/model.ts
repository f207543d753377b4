/** The common model of the documents of all Zarr versions. Plain data; no I/O. */
import type { DType, JsonObject, JsonValue, ZarrDialect } from "../../format/types.ts";
import type { Chain } from "../codecs/chain.ts";
import type { GridAxis } from "./chunk-grid.ts";

/** An array as its document describes it. */
export interface ArrayModel {
  readonly dialect: ZarrDialect;
  /** Dialect to report if the document was made for another format that is shown as Zarr (default: `dialect`). */
  readonly shownAs?: ZarrDialect | undefined;
  /** Location of the array in its store: the key of its folder; in a hierarchy of the transformer, its root and the path in it. */
  readonly path: string;
  /** Dtype of the values in memory: little-endian in version 3, as stored in version 2. */
  readonly dtype: DType;
  /** True if the document says raw bytes, because Zarr has no data type for items that lie as `dtype` says. */
  readonly isRaw?: boolean;
  /** Set for values of variable length. */
  readonly variable?: "text" | "bytes";
  /** True if `dtype` is not as long as the longest value, which was not looked for. */
  readonly isUnmeasured?: boolean;
  readonly shape: readonly number[];
  readonly axes: readonly GridAxis[];
  readonly chain: Chain;
  /** One item in the byte order of `dtype`. */
  readonly fillItem: Uint8Array;
  readonly fillValue: JsonValue;
  readonly attributes: JsonObject;
  readonly dimensionNames: readonly (string | null)[] | undefined;
  /** Folder that holds all chunks and shards. */
  readonly dataFolder: string;
  /** Returns the key of the chunk or shard at a position of the grid. */
  chunkKey(position: readonly number[]): string;
  /** The documents as stored. */
  readonly document: JsonObject;
  readonly metadataKeys: readonly string[];
  readonly warnings: readonly string[];
}

/** A group as its document describes it. */
export interface GroupModel extends Pick<ArrayModel, "dialect" | "path" | "attributes" | "document"> {
  /** Documents of the nodes below by relative path, if they are stored with the group's own. */
  readonly consolidated: JsonObject | undefined;
}
