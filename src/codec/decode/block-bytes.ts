/** The compressed bytes of one block, in memory or elsewhere: fetched as they are asked for. */
export interface BlockBytes {
  /** Compressed bytes of the block. */
  readonly length: number;
  /**
   * At least `least` bytes from `at` on, as far as the block goes: a view that is valid until the next call.
   * The caller asks for nothing beyond the block.
   */
  read(at: number, least: number): Uint8Array;
}

/** A block that is in memory. */
export function bytesInMemory(bytes: Uint8Array): BlockBytes {
  return { length: bytes.length, read: (at) => bytes.subarray(at) };
}
