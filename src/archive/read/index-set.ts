/** A set of chunk indices: one bit each, in pages that are made when one of theirs is added. */
import { at } from "../../bytes/at.ts";

const PAGE_BITS = 1 << 15;

export class IndexSet {
  readonly #pages = new Map<number, Uint8Array>();

  add(index: number): void {
    const page = Math.floor(index / PAGE_BITS);
    let bits = this.#pages.get(page);
    if (bits === undefined) {
      bits = new Uint8Array(PAGE_BITS / 8);
      this.#pages.set(page, bits);
    }
    const bit = index % PAGE_BITS;
    bits[bit >> 3] = at(bits, bit >> 3) | (1 << (bit & 7));
  }

  has(index: number): boolean {
    const bit = index % PAGE_BITS;
    const byte = this.#pages.get(Math.floor(index / PAGE_BITS))?.[bit >> 3] ?? 0;
    return (byte & (1 << (bit & 7))) !== 0;
  }
}
