/** The chunks that a view made, kept for those who ask again, within a bound of bytes. */

/** Bytes of made chunks that are kept. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** Remembers bytes by a name; what was asked for longest ago is forgotten first. */
export class MadeChunks {
  readonly #chunks = new Map<string, Uint8Array>();
  #bytes = 0;

  /** The bytes, which must not be written. */
  find(name: string): Uint8Array | undefined {
    const bytes = this.#chunks.get(name);
    if (bytes === undefined) return undefined;
    this.#chunks.delete(name);
    this.#chunks.set(name, bytes);
    return bytes;
  }

  keep(name: string, bytes: Uint8Array): void {
    if (bytes.length > KEPT_BYTES / 2 || this.#chunks.has(name)) return;
    this.#chunks.set(name, bytes);
    this.#bytes += bytes.length;
    for (const [oldest, { length }] of this.#chunks) {
      if (this.#bytes <= KEPT_BYTES) return;
      this.#chunks.delete(oldest);
      this.#bytes -= length;
    }
  }
}
