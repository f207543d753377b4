/** Chunks built by hand, right or wrong. */

export interface ChunkParts {
  readonly version?: number;
  readonly versionlz?: number;
  readonly flags?: number;
  readonly typesize?: number;
  readonly nbytes?: number;
  readonly blocksize?: number;
  readonly ctbytes?: number;
  /** The streams of each block; each is stored after its length. */
  readonly blocks?: readonly (readonly Uint8Array[])[];
  /** Physical order of the blocks. */
  readonly order?: readonly number[];
}

export const FLAGS = {
  lz4: 1 << 5,
  snappy: 2 << 5,
  zlib: 3 << 5,
  zstd: 4 << 5,
  notSplit: 0x10,
  memcpyed: 2,
} as const;

/** A chunk of these parts; missing ones are computed so that the chunk is right. */
export function makeChunk(parts: ChunkParts): Uint8Array {
  const blocks = parts.blocks ?? [];
  const order = parts.order ?? blocks.map((_, i) => i);
  const head = 16 + 4 * blocks.length;
  const size = head + blocks.flat().reduce((sum, stream) => sum + 4 + stream.length, 0);
  const chunk = new Uint8Array(size);
  const view = new DataView(chunk.buffer);
  view.setUint8(0, parts.version ?? 2);
  view.setUint8(1, parts.versionlz ?? 1);
  view.setUint8(2, parts.flags ?? 0);
  view.setUint8(3, parts.typesize ?? 1);
  view.setUint32(4, parts.nbytes ?? 0, true);
  view.setUint32(8, parts.blocksize ?? parts.nbytes ?? 0, true);
  view.setUint32(12, parts.ctbytes ?? size, true);
  let at = head;
  for (const block of order) {
    view.setUint32(16 + 4 * block, at, true);
    for (const stream of blocks[block] ?? []) {
      view.setUint32(at, stream.length, true);
      chunk.set(stream, at + 4);
      at += 4 + stream.length;
    }
  }
  return chunk;
}

/** The error that `work` throws; fails the test if it returns. */
export function errorOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
