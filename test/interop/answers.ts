/** What peers are asked, and what they answer. */
import type { ExactJson, FixtureDType } from "../fixtures/manifest.ts";

/** What a peer is asked to read. Paths are absolute. */
export interface Job {
  readonly path: string;
  /** Type in which the values are hashed, spelled as in the manifest; absent for plain bytes and groups. */
  readonly dtype?: FixtureDType;
  /** A column of the table at the path. */
  readonly column?: string;
  /** The path is a group with an array for each field of the type: its values are to be joined. */
  readonly fields?: boolean;
  /** Array in the store at the path. */
  readonly arrayPath?: string;
  /** List all that is below a group, or the columns of a table. */
  readonly group?: boolean;
  /** Bytes of the file at the path that hold a Blosc chunk, or the data to encode as one. */
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
  | { readonly kind: "group"; readonly members: readonly string[]; readonly attrs: ExactJson }
  | { readonly kind: "error"; readonly error: string };
