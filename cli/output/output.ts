/**
 * Output of the command: with backpressure, and a quiet end when the reader of a pipe goes away.
 *
 * Knows streams; must not know archives.
 */
import type { Readable, Writable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { WriteStream } from "node:tty";
import { type JsonValue, SuperchunkError, stringifyJson } from "../../src/index.ts";

export type TerminalStream = Writable & Partial<Readonly<Pick<WriteStream, "isTTY" | "columns" | "rows">>>;

/** Input, output and abort signal of a run. */
export interface Io {
  readonly stdin: Readable;
  readonly stdout: TerminalStream;
  readonly stderr: TerminalStream;
  readonly signal: AbortSignal;
  /** Removes secrets from text for people. */
  readonly hide?: (text: string) => string;
  /** Verdicts are coloured on stdout (default false). */
  readonly hasColour?: boolean;
  /** Plots and maps are drawn in ASCII (default false). */
  readonly isAscii?: boolean;
  /** Calls that clear the bars that are drawn: text goes to the same terminal. */
  readonly bars?: Set<() => void>;
}

/** Thrown when the reader of stdout has gone: the command ends quietly, as done. */
export class ClosedPipe extends Error {
  override readonly name = "ClosedPipe";
}

const BUFFERED = 1 << 16;

/**
 * Characters that `printable` escapes, except for line ends and tabs. Text for people contains none of them. JSON may contain the
 * later ones, and CSV any: such data is printed unchanged, but not on a terminal.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

function escapeJson(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** True if verdicts are coloured: decided by NO_COLOR and FORCE_COLOR, else by whether the terminal shows colour. */
export function showsColour(
  isTerminal: boolean,
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  const { NO_COLOR = "", FORCE_COLOR = "", TERM } = environment;
  if (FORCE_COLOR !== "") return FORCE_COLOR !== "0" && FORCE_COLOR !== "false";
  return isTerminal && NO_COLOR === "" && TERM !== "dumb";
}

/** True if the locale names an encoding other than UTF-8, or is C. Without a locale, nothing says that Unicode is not shown. */
export function showsOnlyAscii({
  LC_ALL,
  LC_CTYPE,
  LANG,
}: Readonly<Record<string, string | undefined>>): boolean {
  const locale = LC_ALL || LC_CTYPE || LANG || "";
  return /^(?:C|POSIX)$/.test(locale) || /\.(?!utf-?8)/i.test(locale);
}

/** The characters of plots and maps, and those in ASCII that are drawn instead. */
const DRAWN = "▁▂▃▄▅▆▇█▓▒░·×│┤└─";
const IN_ASCII = "_.:-=+*#%+._x||+-";

function inAscii(line: string): string {
  return line
    .replace(/[\u2800-\u28ff]/g, (dots) => {
      const count = (dots.charCodeAt(0) & 0xff).toString(2).replaceAll("0", "").length;
      return count > 4 ? "#" : count > 2 ? ":" : count > 0 ? "." : " ";
    })
    .replace(/[─-▓·×]/g, (character) => IN_ASCII[DRAWN.indexOf(character)] ?? character);
}

/** Colours of verdicts. */
const COLOURS: ReadonlyMap<string, string> = new Map([
  ["DAMAGED", "1;31"],
  ["FAILED", "1;31"],
  ["BEHIND", "33"],
  ["PARTLY", "33"],
  ["ok", "32"],
  ["SAME", "2"],
  ["LINK", "2"],
]);

/** Writes text in pieces of about 64 kB, and bytes immediately. Waits when the stream asks for it. */
export class Output {
  readonly #stream: TerminalStream;
  readonly #signal: AbortSignal;
  readonly #hide: (text: string) => string;
  readonly #hasColour: boolean;
  readonly #isAscii: boolean;
  readonly #bars: ReadonlySet<() => void>;
  readonly isTerminal: boolean;
  /** True once anything has been printed. */
  started = false;
  #pending = "";
  #failure: Error | undefined;

  /** Printing throws the reason of `signal` after an abort. `hide` removes secrets from text. */
  constructor({
    stdout: stream,
    signal,
    hide = (text) => text,
    hasColour = false,
    isAscii = false,
    bars = new Set(),
  }: Omit<Io, "stderr" | "stdin">) {
    this.#hide = hide;
    this.#hasColour = hasColour;
    this.#isAscii = isAscii;
    this.#bars = bars;
    this.#stream = stream;
    this.#signal = signal;
    this.isTerminal = stream.isTTY === true;
    stream.on("error", (error: Error) => {
      this.#failure ??= error;
    });
  }

  /** Columns of the terminal; undefined if there is none, or its width is unknown. */
  get columns(): number | undefined {
    return (this.isTerminal && this.#stream.columns) || undefined;
  }

  /** Prints lines in place of what a terminal shows, as many as fit; after an empty line if lines cannot be replaced. */
  picture(lines: readonly string[]): Promise<void> | undefined {
    const { rows = 0 } = this.#stream;
    if (!this.isTerminal || rows < 2 || process.env["TERM"] === "dumb")
      return this.text(["", ...lines, ""].slice(this.started ? 0 : 1).join("\n"));
    const more = lines.length < rows ? [] : [`… ${lines.length - rows + 2} more lines`];
    this.#pending += "\x1b[H\x1b[J";
    return this.text(`${[...lines.slice(0, rows - 1 - more.length), ...more].join("\n")}\n`);
  }

  /** Prints text. Returns a promise only if the caller must wait. On a terminal, control characters are escaped. */
  text(text: string): Promise<void> | undefined {
    this.started = true;
    const open = this.#hide(text);
    this.#pending += this.isTerminal ? open.replace(STEERING, escapeJson) : open;
    return this.#pending.length >= BUFFERED ? this.flush() : undefined;
  }

  line(text: string): Promise<void> | undefined {
    return this.text(`${text}\n`);
  }

  async lines(lines: Iterable<string>): Promise<void> {
    for (const line of lines) await this.line(line);
  }

  /** Prints lines with characters of plots and maps. */
  drawing(lines: readonly string[]): Promise<void> {
    return this.lines(this.#isAscii ? lines.map(inAscii) : lines);
  }

  /** Prints a line, with its first word coloured if colour is shown. */
  verdict(text: string): Promise<void> | undefined {
    const [word = ""] = /^\S+/.exec(text) ?? [];
    const colour = this.#hasColour ? (COLOURS.get(word) ?? "") : "";
    if (colour === "") return this.line(text);
    this.#pending += `\x1b[${colour}m`;
    this.text(word);
    this.#pending += "\x1b[0m";
    return this.line(text.slice(word.length));
  }

  /** Prints bytes. The caller may reuse them once the promise resolves. */
  async bytes(bytes: Uint8Array): Promise<void> {
    this.started = true;
    await this.flush();
    if (bytes.length > 0) await this.#write(bytes);
  }

  /** Resolves when everything printed has been passed to the system. */
  async flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    if (text !== "") await this.#write(text);
  }

  async #write(piece: string | Uint8Array): Promise<void> {
    if (this.isTerminal) for (const clear of this.#bars) clear();
    await new Promise<void>((resolve, reject) => {
      const fail = (error: Error): void => reject(isClosedPipe(error) ? new ClosedPipe() : explain(error));
      if (this.#failure !== undefined) fail(this.#failure);
      else this.#stream.write(piece, (error) => (error ? fail(error) : resolve()));
    });
    // Reads of small chunks and writes to a pipe may all be synchronous. Without a turn of the event loop now and then,
    // signals would never arrive.
    await setImmediate();
    this.#signal.throwIfAborted();
  }
}

/** Marks an error as one of printing, so that the archive is not blamed. */
function explain(error: Error): Error {
  const code = "code" in error ? String(error.code) : error.message;
  const details = { path: "stdout", cause: error };
  return code === "ENOSPC"
    ? new SuperchunkError("NO_SPACE", "the disk is full: the output is incomplete (ENOSPC)", details)
    : new SuperchunkError("IO", `the output is incomplete (${code} while writing)`, details);
}

function isClosedPipe(error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED" || code === "EOF";
}

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
