/** Runs the command in this process with captured streams. */
import { PassThrough, Readable, Writable } from "node:stream";
import type { TerminalStream } from "../../cli/output/output.ts";
import { run } from "../../cli/run.ts";

export interface RunResult {
  readonly code: number;
  readonly out: string;
  readonly bytes: Buffer;
  readonly err: string;
}

export interface RunSettings {
  /** stdout and stderr say that they are terminals. */
  readonly terminal?: boolean;
  /** Width of the terminal; default 100. */
  readonly columns?: number;
  /** Rows of the terminal; default 0, which is unknown. */
  readonly rows?: number;
  /** Whether verdicts are coloured; default false. */
  readonly hasColour?: boolean;
  readonly isAscii?: boolean;
  /** Bytes, or a source that is read when the command asks. */
  readonly stdin?: Uint8Array | AsyncIterable<Uint8Array>;
  readonly signal?: AbortSignal;
  /** Called after each write to stdout. */
  readonly onOut?: () => void;
  /** Called after each write to stderr. */
  readonly onErr?: () => void;
}

/** Runs `superchunk ...argv`. */
export async function runCli(argv: readonly string[], settings: RunSettings = {}): Promise<RunResult> {
  const stdout = new Capture(settings, settings.onOut);
  const stderr = new Capture(settings, settings.onErr);
  const { stdin: given } = settings;
  const stdin =
    given === undefined || given instanceof Uint8Array ? new PassThrough().end(given) : Readable.from(given);
  const signal = settings.signal ?? new AbortController().signal;
  const { hasColour = false, isAscii = false } = settings;
  const code = await run(argv, { stdin, stdout, stderr, signal, hasColour, isAscii });
  return {
    code,
    out: stdout.bytes.toString("utf8"),
    bytes: stdout.bytes,
    err: stderr.bytes.toString("utf8"),
  };
}

class Capture extends Writable implements TerminalStream {
  readonly isTTY: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly #pieces: Buffer[] = [];
  readonly #onWrite: (() => void) | undefined;

  constructor({ terminal = false, columns = 100, rows = 0 }: RunSettings, onWrite?: () => void) {
    super();
    this.#onWrite = onWrite;
    this.isTTY = terminal;
    this.columns = columns;
    this.rows = rows;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    // A copy, because the writer may reuse the bytes once they are taken.
    this.#pieces.push(Buffer.from(piece));
    this.#onWrite?.();
    done();
  }
}
