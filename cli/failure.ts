/**
 * Converts an error for the user of the command: one line, and an exit code.
 *
 * 0 done, 1 failed, 2 wrong use, 3 stored bytes contradict themselves or their checksums, 130 and 143 interrupted. @see FORMAT.md [FX-01]
 */

import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { CommanderError } from "commander";
import { type ErrorCode, type ErrorDetails, SuperchunkError } from "../src/index.ts";
import { quoted } from "./values/cell-text.ts";

/** Exit codes of the command, except those of signals. */
export const EXIT = { done: 0, failed: 1, wrongUse: 2, damaged: 3 } as const;

/** The abort reason when a signal ends the work. */
export class Interruption extends Error {
  override readonly name = "Interruption";
  /** 128 plus the signal's number, as in shells. */
  readonly exitCode: number;

  constructor(signal: "SIGINT" | "SIGTERM") {
    super(`interrupted by ${signal}`);
    this.exitCode = signal === "SIGINT" ? 130 : 143;
  }
}

/** The error as `--json` prints it: `{"error": …}`. */
export interface JsonFailure {
  readonly code: ErrorCode | "USAGE" | "INTERRUPTED" | "INTERNAL";
  readonly message: string;
  readonly path?: string | undefined;
  readonly offset?: number | undefined;
  readonly chunk?: number | undefined;
  readonly field?: string | undefined;
  readonly expected?: unknown;
  readonly found?: unknown;
}

/** The exit code for an error; see the top of this file. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof Interruption) return error.exitCode;
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.wrongUse;
  if (!(error instanceof SuperchunkError)) return EXIT.failed;
  if (error.isDamage) return EXIT.damaged;
  return error.code === "BAD_ARGUMENT" ? EXIT.wrongUse : EXIT.failed;
}

/** The error for an argument or option that is wrong, or does not fit the others. */
export function wrongUse(field: string, message: string, details: ErrorDetails = {}): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", message, { field, ...details });
}

/** The option for a flag: `--shard-size` for `shardSize`. */
export function optionOf(flag: string): string {
  return `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The word before a failed archive in a list of several. */
export function stateOf({ isDamage }: SuperchunkError): "DAMAGED" | "FAILED" {
  return isDamage ? "DAMAGED" : "FAILED";
}

/** The error as one line, without a line break. */
export function describeFailure(error: unknown): string {
  const { code, message } = toJsonFailure(error);
  const text =
    code === "INTERNAL" ? `internal error: ${message}; run again with --debug and report it` : message;
  return text.replace(/\s*[\r\n]+\s*/g, " ").trim();
}

/** For a `-` where a path is expected. */
const NO_STDIN = ". This command does not read stdin: write it to a file first";

/** The error with its place as fields, undefined where it has none. `expected` and `found` are converted to JSON. */
export function toJsonFailure(error: unknown): JsonFailure {
  if (error instanceof SuperchunkError) {
    const { path, offset, chunk, field, expected, found } = error.details;
    const more = path === "-" && error.code === "NOT_FOUND" ? NO_STDIN : "";
    const from = (): string => `DST --from ${path === undefined ? "FILE" : quoted(path)}`;
    const message = inCommandWords(error.message).replace("DST --from FILE", from) + more;
    const values = { expected: plain(expected), found: plain(found) };
    return { code: error.code, message, path, offset, chunk, field, ...values };
  }
  if (error instanceof CommanderError)
    return { code: "USAGE", message: error.message.replace(/^error: /, "") };
  if (error instanceof Interruption) return { code: "INTERRUPTED", message: error.message };
  if (isSystemError(error))
    return {
      code: error.code === "ENOSPC" ? "NO_SPACE" : "IO",
      message: systemText(error),
      ...(error.path === undefined ? {} : { path: error.path }),
    };
  return { code: "INTERNAL", message: error instanceof Error ? error.message : String(error) };
}

/** Library options in messages, such as `{holes: "fill"}`, that the command has too. */
const OPTIONS =
  /\{(allow|breakLock|chunklen|columns|damaged|dimensionNames|dtype|fill|holes|link|overwrite|portable|prices|resume|scan|shape|shards|to|verifyOnly|withoutFailed|zipline)(?:: (true|false|"[^"]*"))?\}/g;

/** Rewrites library options in a message as command options: `--holes fill`. */
export function inCommandWords(message: string): string {
  return message.replace(OPTIONS, (_, name: string, value = "true") => {
    const option = optionOf(name.replace(/^columns$/, "column"));
    if (value === "false") return option.replace("--", "--no-");
    return value === "true" ? option : `${option} ${value.replace(/^"(\w+)"$/, "$1")}`;
  });
}

/** The message of an error of the archive at `path`, in the command's words, without that path before it. */
export function messageAt(path: string, { message }: SuperchunkError): string {
  const text = inCommandWords(message);
  const root = [path, resolve(path)].find(
    (each) => text.startsWith(each) && /^(: |\/)/.test(text.slice(each.length)),
  );
  return root === undefined ? text : text.slice(root.length).replace(/^(: |\/)/, "");
}

/**
 * The text with the real path at its beginning replaced by the typed one. Links in a typed path are followed before a file is opened, so
 * that its errors name what the user did not type.
 */
export function asTyped(typed: string, text: string): string {
  let real: string;
  try {
    real = realpathSync.native(typed);
  } catch {
    return text; // an address, or nothing
  }
  const isThere = text.startsWith(real) && /^(?:$|: |\/)/.test(text.slice(real.length));
  return isThere ? resolve(typed) + text.slice(real.length) : text;
}

/** The error of the archive at a typed path, with its path as {@link asTyped}. */
export function errorAsTyped(typed: string, error: SuperchunkError): SuperchunkError {
  const { path } = error.details;
  const shown = path === undefined ? undefined : asTyped(typed, path);
  return shown === path
    ? error
    : new SuperchunkError(error.code, error.summary, { ...error.details, path: shown ?? "" });
}

/** A value as JSON can hold it. */
export function plain(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (value instanceof Uint8Array) return [...value.subarray(0, 64)];
  return value;
}

/** Formats `EROFS: read-only file system, open 'out/report'` as `out/report: read-only file system (EROFS in open)`. */
function systemText({ message, code, path }: SystemError): string {
  const [, text, doing] = /^\w+: (.*), (\w+)(?: '.*)?$/.exec(message) ?? [];
  return text === undefined
    ? message
    : `${path === undefined ? "" : `${path}: `}${text} (${code} in ${doing})`;
}

interface SystemError extends Error {
  readonly code: string;
  readonly path?: string;
}

function isSystemError(error: unknown): error is SystemError {
  return (
    error instanceof Error &&
    "code" in error &&
    typeof error.code === "string" &&
    /^E[A-Z0-9]+$/.test(error.code)
  );
}
