/** The context of a command: its streams, and its exit code. Also what commands have in common. */
import { Command as BaseCommand } from "commander";
import { type JsonValue, stringifyJson } from "../src/index.ts";
import { describeFailure, EXIT, inCommandWords } from "./failure.ts";
import { type Io, Output } from "./output/output.ts";
import { printable } from "./values/cell-text.ts";

/** Settings that may follow the `?` of an address in a bucket. Anything else there may be a token. */
const SETTINGS: ReadonlySet<string> = new Set(["endpoint", "region", "anonymous"]);

/**
 * Removes secrets from printed text: user, password and query of each address among the arguments. Commands name archives as
 * typed, and a log must not contain their credentials.
 */
function hiderOf(argv: readonly string[]): (text: string) => string {
  const secrets = new Map<string, string>();
  for (const typed of argv) {
    const [, scheme = "", authority = "", query = ""] =
      /^([a-z][a-z0-9+.-]*):\/{1,2}([^/?#]*)[^?#]*(\?[^#]*)?/i.exec(typed) ?? [];
    const user = authority.slice(0, authority.lastIndexOf("@") + 1);
    const names = [...new URLSearchParams(query).keys()];
    const isOpen =
      /^(?:s3|gs|az)$/i.test(scheme) &&
      !query.includes("@") &&
      !/%40/.test(query) &&
      names.every((name) => SETTINGS.has(name));
    const hidden = [
      ...(user === "" ? [] : [[user, "***@"] as const]),
      ...(query.length < 2 || isOpen ? [] : [[query, "?…"] as const]),
    ];
    if (hidden.length === 0) continue;
    // As typed, as JSON strings contain it, and as URLs encode it.
    for (const [secret, shown] of hidden)
      for (const form of [secret, JSON.stringify(secret).slice(1, -1), encodeURI(secret), decodedOr(secret)])
        secrets.set(form, shown);
    if (!URL.canParse(typed)) continue;
    const { username, password, search } = new URL(typed);
    if (username !== "" || password !== "")
      secrets.set(`${username}${password === "" ? "" : `:${password}`}@`, "***@");
    if (search.length > 1 && !isOpen) secrets.set(search, "?…");
  }
  if (secrets.size === 0) return (text) => text;
  return (text) => [...secrets].reduce((rest, [secret, shown]) => rest.replaceAll(secret, shown), text);
}

function decodedOr(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Options of a command that are given or not, by the names that commander gives them. */
export type Switches<Name extends string> = { readonly [name in Name]?: boolean };

/** One run of the command. */
export class Context {
  readonly io: Io & Required<Pick<Io, "bars">>;
  /** Removes the secrets of the arguments from text for people. */
  readonly hide: (text: string) => string;
  readonly out: Output;
  readonly signal: AbortSignal;
  /** 0 until something is noted. */
  exitCode: number = EXIT.done;
  /** The first argument, which is a path in most commands. */
  subject: string | undefined;
  /** The value of `--allow`. */
  allow: readonly string[] | undefined;

  constructor(io: Io, argv: readonly string[] = []) {
    this.hide = hiderOf(argv);
    this.io = { ...io, hide: this.hide, bars: new Set() };
    this.out = new Output(this.io);
    this.signal = io.signal;
  }

  /** Notes an outcome that is not an exception; damage outranks plain failure. */
  note(exitCode: number): void {
    this.exitCode = Math.max(this.exitCode, exitCode);
  }

  /** Prints a line for people on stderr. */
  message(text: string): void {
    for (const clear of this.io.bars) clear();
    this.io.stderr.write(`superchunk: ${printable(this.hide(inCommandWords(text)))}\n`);
  }

  /** Prints the one-line form of an error on stderr. */
  failure(error: unknown): void {
    this.message(describeFailure(error));
  }

  /** Prints one JSON document, indented or in one line. */
  async json(value: unknown, isIndented = true): Promise<void> {
    await this.out.line(stringifyJson(value as JsonValue, isIndented ? { indent: 2 } : {}));
  }

  /** Tells an outcome: its facts as JSON with `--json`, else a line for people. */
  async tell(json: boolean | undefined, facts: unknown, text: string): Promise<void> {
    if (json === true) await this.json(facts);
    else this.message(text);
  }
}

/** A command: one of commander, with what several commands have in common. */
export class Command extends BaseCommand {
  override createCommand(name?: string): Command {
    return new Command(name);
  }

  /** Adds the option `--allow` of commands that read references and arrays with places. */
  addAllowOption(): this {
    return this.option(
      "--allow <place...>",
      "for references and arrays with places: allow reading from this folder, or below this address (s3://bucket/)",
    );
  }

  /** Adds the options of commands that change an archive under a lock. */
  addLockOptions(): this {
    return this.option("--break-lock", "take the lock from its holder").addAllowOption();
  }

  /** Adds notes and examples after the options in the help. */
  notes(text: string): this {
    return this.addHelpText("after", text);
  }
}
