/** Virtual references: what says where a chunk of a Zarr array lies in an object that was not copied. Types only. */

/** What an object was when its chunks were found: readers refuse an object that no longer is. */
export interface Guard {
  /** Bytes of the object. */
  readonly size: number;
  /** Strong ETag, quotes included; where the server has one. */
  readonly etag?: string;
  /** Seconds since 1970, rounded up: the object was not written to after them. */
  readonly lastModified?: number;
}

/** A chunk that lies in an object. */
export interface ChunkReference {
  readonly kind: "virtual";
  /** Path of the array's node. */
  readonly node: string;
  /** Position in the array's grid of chunks, in the order of its axes. */
  readonly index: readonly number[];
  /** URL of the object. */
  readonly location: string;
  /** Byte offset of the Blosc header in the object. */
  readonly offset: number;
  /** Bytes of the Blosc chunk, its digest not counted. */
  readonly length: number;
  /** Undefined where guards were turned off. */
  readonly guard: Guard | undefined;
}

/** A chunk that is stored beside the references: filled up, compressed again, or small enough. */
export interface NativeChunk {
  readonly kind: "native";
  readonly node: string;
  readonly index: readonly number[];
  /** The Blosc chunk, the receiver's own. */
  readonly bytes: Uint8Array;
  /** Why it is not referenced. */
  readonly reason: "padded" | "recoded" | "inlined";
}

/** One chunk of a plan. */
export type PlannedChunk = ChunkReference | NativeChunk;

/** Counts of what a plan has given. */
export interface ReferenceCounts {
  virtual: number;
  padded: number;
  recoded: number;
  inlined: number;
}
