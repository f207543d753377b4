/** Jobs for peers, and their answers. */
import type { ExactJson, FixtureDType } from "../fixtures/manifest.ts";

/** One call of the draft's store interface, values in hexadecimal. */
export type StoreCall =
  | readonly ["set", key: string, value: string]
  | readonly ["setPartial", key: string, start: number, value: string]
  | readonly ["erase", key: string]
  | readonly ["erasePrefix", prefix: string];

/** What a peer should read. Paths are absolute. */
export interface Job {
  readonly path: string;
  /** Type in which the values are hashed, spelled as in the manifest; absent for plain bytes and groups. */
  readonly dtype?: FixtureDType;
  /** The values have variable length, and none is longer than those of `dtype`. */
  readonly text?: boolean;
  /** A column of the table at the path. */
  readonly column?: string;
  /** The path is a group with one array per field of the type: its values are to be joined. */
  readonly fields?: boolean;
  /** Array in the store at the path. */
  readonly arrayPath?: string;
  /** List everything below a group, or the columns of a table. */
  readonly group?: boolean;
  /** Bytes of the file at the path that hold a Blosc chunk, or the data to encode as one; of a carray the rows to be read. */
  readonly offset?: number;
  readonly length?: number;
  /** Settings with which the data become a chunk, the shuffle by its number in c-blosc. */
  readonly encode?: {
    readonly cname: string;
    readonly clevel: number;
    readonly shuffle: number;
    readonly typesize: number;
  };
  /** File that the chunk is written to. */
  readonly to?: string;
  /** What a writer should make, or do with what is at the path. */
  readonly make?:
    | "zarr"
    | "version 2"
    | "calls"
    | "bytes"
    | "array"
    | "append"
    | "carray"
    | "chunklen"
    | "grow"
    | "trim"
    | "addcol";
  /** A writer reads back what it wrote, unless false. */
  readonly readBack?: boolean;
  /** File with the bytes to write. */
  readonly from?: string;
  readonly shape?: readonly number[];
  readonly order?: "C" | "F";
  readonly chunklen?: number;
  readonly rows?: number;
  /** JSON text of a Bloscpack file's metadata. */
  readonly metadata?: string;
  /** How bloscpack packs metadata that replace others. */
  readonly newMetadata?: { readonly codec: string; readonly level: number };
  /** Settings of a Bloscpack file, as bloscpack names them. */
  readonly settings?: {
    readonly typesize: number;
    readonly clevel: number;
    readonly shuffle: boolean;
    readonly cname: string;
    readonly chunk_size?: number;
    readonly offsets?: boolean;
    readonly checksum?: string;
    readonly max_app_chunks?: number | `${number}x`;
  };
  /** Settings of an array of Zarr v2, as zarr 2.18 names them. */
  readonly version2?: {
    readonly chunks: readonly number[];
    readonly order: "C" | "F";
    readonly dimension_separator: "." | "/";
    readonly compressor: { readonly id: string; readonly [setting: string]: string | number } | null;
  };
  /** Calls of a transformer's store, and parts of values that are to be read after them: key, start, length. */
  readonly calls?: readonly StoreCall[];
  readonly parts?: readonly (readonly [key: string, start: number, length: number])[];
  /** How long to read an array, again and again. */
  readonly seconds?: number;
  /** Fill value that the array must have. */
  readonly fill?: ExactJson;
}

/** What a peer found. */
export type Answer =
  | {
      readonly kind: "values";
      readonly shape: readonly number[];
      readonly sha256: string;
      readonly attrs: ExactJson;
    }
  /** Written, but not read back. */
  | { readonly kind: "done" }
  | { readonly kind: "group"; readonly members: readonly string[]; readonly attrs: ExactJson }
  | { readonly kind: "error"; readonly error: string };
