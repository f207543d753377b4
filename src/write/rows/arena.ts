/**
 * Room for encoded chunks, used again and again: a chunk goes where the one before it ends, so that a superchunk is
 * written in few long pieces, and nothing has to be collected. Must not know what a chunk is.
 */

/** Bytes of a block at least. */
const BLOCK = 4 << 20;
/** Blocks that are kept for the next chunks. */
const MAX_IDLE = 16;

/**
 * Blocks of arenas that have nothing to do for the time being, for whichever has next, unless the engine needed their memory
 * before: so that an array that is written behind another one does not take its memory a second time.
 */
const loose: WeakRef<Uint8Array>[] = [];

/** Blocks that were filled, to be given back when their bytes are not needed any more. */
export type FilledBlocks = readonly Uint8Array[];

export class ChunkArena {
  #blocks: Uint8Array[] = [];
  #idle: Uint8Array[] = [];
  #at = 0;

  /** A place for at most `length` bytes; it is given out again unless {@link keep} follows. */
  reserve(length: number): Uint8Array {
    const last = this.#blocks[this.#blocks.length - 1];
    if (last !== undefined && last.length - this.#at >= length)
      return last.subarray(this.#at, this.#at + length);
    const fits = this.#idle.findIndex((block) => block.length >= length);
    const [idle] = fits >= 0 ? this.#idle.splice(fits, 1) : [];
    const block = idle ?? takeLoose(length) ?? new Uint8Array(Math.max(BLOCK, length));
    this.#blocks.push(block);
    this.#at = 0;
    return block.subarray(0, length);
  }

  /** Keeps the first `length` bytes of the place that was reserved last. */
  keep(length: number): void {
    this.#at += length;
  }

  /** Hands over all blocks with what is kept in them; the next chunk begins a new one. */
  take(): FilledBlocks {
    const blocks = this.#blocks;
    this.#blocks = [];
    this.#at = 0;
    return blocks;
  }

  /** Takes blocks back to be filled again. */
  giveBack(blocks: FilledBlocks): void {
    for (const block of blocks) if (this.#idle.length < MAX_IDLE) this.#idle.push(block);
  }

  /** Lets go of the blocks that are free. */
  rest(): void {
    for (const block of this.#idle) loose.push(new WeakRef(block));
    this.#idle = [];
  }
}

/** A block of at least that length that is not in use. */
function takeLoose(length: number): Uint8Array | undefined {
  let found: Uint8Array | undefined;
  const left = loose.filter((reference) => {
    const block = reference.deref();
    if (block === undefined || found !== undefined || block.length < length) return block !== undefined;
    found = block;
    return false;
  });
  loose.splice(0, loose.length, ...left);
  return found;
}
