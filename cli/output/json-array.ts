/** Prints a JSON array member by member. */
import { type JsonValue, stringifyJson } from "../../src/index.ts";
import type { Output } from "./output.ts";

/** Prints `[`, one member per line, `]`. */
export class JsonArray {
  readonly #out: Output;
  #count = 0;

  constructor(out: Output) {
    this.#out = out;
  }

  /** Prints one member. Returns a promise only if the caller must wait. */
  add(member: unknown): Promise<void> | undefined {
    const separator = this.#count++ === 0 ? "[\n" : ",\n";
    return this.#out.text(separator + stringifyJson(member as JsonValue));
  }

  /** Prints the end of the array; `[]` if it has no members. */
  async end(): Promise<void> {
    await this.#out.line(this.#count === 0 ? "[]" : "\n]");
  }
}
