/** Memory that chunks are read into and sent from, used again: making it anew for each answer costs more than reading. */

/** Buffers that are kept, and bytes of one that is. */
const MOST_KEPT = 16;
const MOST_BYTES = 16 << 20;

/** A buffer lent to one answer. */
export interface LentBuffer {
  /** What is handed to who reads: the buffer is in it until it is used. */
  readonly list: Uint8Array[];
  /** Gives it back once nothing is sent from it any more. `bytes` is what was sent. */
  giveBack(bytes: Uint8Array | undefined): void;
}

/** Lends buffers as large as the last one that was needed. */
export class ServeBuffers {
  readonly #kept: Uint8Array[] = [];
  #size = 1 << 16;

  lend(): LentBuffer {
    const buffer = this.#kept.pop() ?? new Uint8Array(this.#size);
    const list = [buffer];
    return {
      list,
      giveBack: (bytes) => {
        const isFree = list.length > 0 || bytes?.buffer === buffer.buffer;
        if (isFree && buffer.length === this.#size && this.#kept.length < MOST_KEPT) this.#kept.push(buffer);
        // Where a read failed it may still go on, into a buffer that nobody else may get then.
        if (isFree || bytes === undefined || bytes.buffer.byteLength <= this.#size) return;
        // It was too small; those of its size are let go.
        this.#size = Math.min(MOST_BYTES, bytes.buffer.byteLength);
        this.#kept.length = 0;
      },
    };
  }
}
