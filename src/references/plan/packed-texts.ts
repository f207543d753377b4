/**
 * Many texts that are needed once more, in order, in little memory: a million keys of files take some megabytes.
 *
 * Must not know what the texts say.
 */
import { deflateZlib, inflateZlib } from "../../format/deflate.ts";

/** Characters of a piece, about. */
const PIECE = 1 << 16;
/** Characters that each text takes in a piece besides its own. */
const AROUND = 3;
/** What repeats itself as keys do is soon found. */
const LEVEL = 1;

/** A list of texts that only grows. */
export class PackedTexts {
  readonly #pieces: { readonly bytes: Uint8Array; readonly length: number }[] = [];
  #open: string[] = [];
  #characters = 0;

  /** Adds a text at the end. */
  add(text: string): void {
    this.#open.push(text);
    this.#characters += text.length + AROUND;
    if (this.#characters < PIECE) return;
    const plain = new TextEncoder().encode(JSON.stringify(this.#open));
    this.#pieces.push({ bytes: deflateZlib(plain, LEVEL), length: plain.length });
    this.#open = [];
    this.#characters = 0;
  }

  /** Takes all texts away. */
  clear(): void {
    this.#pieces.length = 0;
    this.#open = [];
    this.#characters = 0;
  }

  /** The texts, in the order in which they were added. */
  *[Symbol.iterator](): Generator<string, void, undefined> {
    const decoder = new TextDecoder();
    for (const { bytes, length } of this.#pieces)
      yield* JSON.parse(decoder.decode(inflateZlib(bytes, length, "", 0))) as string[];
    yield* this.#open;
  }
}
