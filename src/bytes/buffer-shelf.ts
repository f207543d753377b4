/** Buffers that are used again: new memory costs more to get than to decode into. */

/** Bytes that a shelf keeps. */
const MAX_KEPT = 32 << 20;

export class BufferShelf {
  readonly #kept: ArrayBuffer[] = [];
  #bytes = 0;

  /** A buffer of at least that length, or undefined. Its contents are whatever they were. */
  take(length: number): ArrayBuffer | undefined {
    const at = this.#kept.findIndex((buffer) => buffer.byteLength >= length);
    const [buffer] = at < 0 ? [] : this.#kept.splice(at, 1);
    this.#bytes -= buffer?.byteLength ?? 0;
    return buffer;
  }

  /** Keeps a buffer that is free again, or drops it where there are enough. */
  put(buffer: ArrayBuffer): void {
    if (buffer.byteLength === 0 || this.#bytes + buffer.byteLength > MAX_KEPT) return;
    this.#bytes += buffer.byteLength;
    this.#kept.push(buffer);
  }
}
