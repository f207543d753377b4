/** What a view of archives as Zarr is to those who read through it. Types only. */

import type { ChunkEncoder } from "../codec/types.ts";
import type { LayoutOptions } from "../convert/pipeline.ts";
import type { ErrorCode } from "../errors.ts";
import type { StoreOptions } from "../store/types.ts";

/** What decides how archives are shown. */
export interface ViewOptions
  extends Pick<LayoutOptions, "portable" | "dtype" | "shape" | "dimensionNames" | "columns"> {
  /** What encodes chunks that are not shown as they are (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** Options of reading whole objects. */
export interface ViewReadOptions extends StoreOptions {
  /** Buffers that may be read into; the one that holds what is handed out is taken out. For who reads much. */
  readonly buffers?: Uint8Array[] | undefined;
}

/** A part of an object, in zarrita's words. */
export type ViewRange =
  | { readonly offset: number; readonly length: number }
  | { readonly suffixLength: number };

/** A node of a view. */
export interface ViewNode {
  /** Path in the view, without a leading `/`; `""` is the root. */
  readonly path: string;
  readonly kind: "array" | "group";
  /** How messages name its archive; absent for folders. */
  readonly source?: string;
  /** In items; arrays only. */
  readonly shape?: readonly number[];
  /** The data type as Zarr has it, its name only; arrays only. */
  readonly dataType?: string;
  /** Uncompressed bytes; arrays only. */
  readonly nbytes?: number;
  /** Why it cannot be read, in words: then it is in no group's metadata. */
  readonly error?: string;
  /** The error's code. */
  readonly code?: ErrorCode;
}

/**
 * A store with the interface of zarrita's: keys start with `/`, what does not exist is `undefined`, bytes are the
 * caller's own. What exists and cannot be read throws a `SuperchunkError`; nothing is ever replaced by fill values.
 */
export interface ZarrView {
  get(key: string, options?: ViewReadOptions): Promise<Uint8Array | undefined>;
  getRange(key: string, range: ViewRange, options?: StoreOptions): Promise<Uint8Array | undefined>;
  /** The nodes directly under a path, itself first; none where there is no group or array. */
  list(path?: string, options?: StoreOptions): Promise<readonly ViewNode[]>;
}
