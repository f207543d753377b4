/** What every command gets: its streams, and where it leaves its exit code. */
import { stringifyJson } from "../src/format/json.ts";
import type { JsonValue } from "../src/format/types.ts";
import { describeFailure, EXIT } from "./failure.ts";
import { type Io, Output } from "./output/output.ts";
import { printable } from "./values/cell-text.ts";

/** One run of the command. */
export class Context {
  readonly io: Io;
  readonly out: Output;
  readonly signal: AbortSignal;
  /** 0 until something is noted. */
  exitCode: number = EXIT.done;

  constructor(io: Io) {
    this.io = io;
    this.out = new Output(io.stdout, io.signal);
    this.signal = io.signal;
  }

  /** Notes an outcome that is not an exception; damage outranks plain failure. */
  note(exitCode: number): void {
    this.exitCode = Math.max(this.exitCode, exitCode);
  }

  /** A line for people on stderr. */
  message(text: string): void {
    this.io.stderr.write(`superchunk: ${printable(text)}\n`);
  }

  /** The one line of an error on stderr. */
  failure(error: unknown): void {
    this.message(describeFailure(error));
  }

  /** Prints one JSON document. */
  async json(value: unknown): Promise<void> {
    await this.out.line(stringifyJson(value as JsonValue, { indent: 2 }));
  }
}
