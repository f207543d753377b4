/** A JSON array printed while its members come. */
import { type JsonValue, stringifyJson } from "../../src/index.ts";
import type { Output } from "./output.ts";

/** Prints `[`, a member to a line, `]`. */
export class JsonArray {
  readonly #out: Output;
  #count = 0;

  constructor(out: Output) {
    this.#out = out;
  }

  /** Prints one member; returns a promise only where it has to be waited for. */
  add(member: unknown): Promise<void> | undefined {
    const separator = this.#count++ === 0 ? "[\n" : ",\n";
    return this.#out.text(separator + stringifyJson(member as JsonValue));
  }

  /** Prints the end of the array; `[]` where there was no member. */
  async end(): Promise<void> {
    await this.#out.line(this.#count === 0 ? "[]" : "\n]");
  }
}
