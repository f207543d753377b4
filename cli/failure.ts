/**
 * What an error means to the one who typed the command: one line, and an exit code.
 *
 * 0 done, 1 failed, 2 wrong use, 3 stored bytes contradict themselves or their checksums, 130 and 143 interrupted. @see FORMAT.md [FX-01]
 */

import { resolve } from "node:path";
import { CommanderError } from "commander";
import { type ErrorCode, SuperchunkError } from "../src/index.ts";

/** Exit codes of the command, but for those of signals. */
export const EXIT = { done: 0, failed: 1, wrongUse: 2, damaged: 3 } as const;

/** Given as the reason when a signal ends the work. */
export class Interruption extends Error {
  override readonly name = "Interruption";
  /** 128 and the signal's number, as shells count. */
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
  readonly path?: string;
  readonly offset?: number;
  readonly chunk?: number;
  readonly field?: string;
  readonly expected?: unknown;
  readonly found?: unknown;
}

/** The exit code for an error: see the head of this file. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof Interruption) return error.exitCode;
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.wrongUse;
  if (!(error instanceof SuperchunkError)) return EXIT.failed;
  if (error.isDamage) return EXIT.damaged;
  return error.code === "BAD_ARGUMENT" ? EXIT.wrongUse : EXIT.failed;
}

/** What stands before an archive in a list of several where it is one that failed. */
export function stateOf({ isDamage }: SuperchunkError): "DAMAGED" | "FAILED" {
  return isDamage ? "DAMAGED" : "FAILED";
}

/** The error in one line, without a line break at its end. */
export function describeFailure(error: unknown): string {
  const { code, message } = toJsonFailure(error);
  const text =
    code === "INTERNAL" ? `internal error: ${message}; run again with --debug and report it` : message;
  return text.replace(/\s*[\r\n]+\s*/g, " ").trim();
}

/** The error with its place as fields. `expected` and `found` are given as JSON can hold them. */
export function toJsonFailure(error: unknown): JsonFailure {
  if (error instanceof SuperchunkError) {
    const { path, offset, chunk, field, expected, found } = error.details;
    return {
      code: error.code,
      message: inCommandWords(error.message),
      ...(path === undefined ? {} : { path }),
      ...(offset === undefined ? {} : { offset }),
      ...(chunk === undefined ? {} : { chunk }),
      ...(field === undefined ? {} : { field }),
      ...(expected === undefined ? {} : { expected: plain(expected) }),
      ...(found === undefined ? {} : { found: plain(found) }),
    };
  }
  if (error instanceof CommanderError)
    return { code: "USAGE", message: error.message.replace(/^error: /, "") };
  if (error instanceof Interruption) return { code: "INTERRUPTED", message: error.message };
  if (isSystemError(error)) {
    return {
      code: error.code === "ENOSPC" ? "NO_SPACE" : "IO",
      message: systemText(error),
      ...(error.path === undefined ? {} : { path: error.path }),
    };
  }
  return { code: "INTERNAL", message: error instanceof Error ? error.message : String(error) };
}

/** Options of the library that its messages name, as `{holes: "fill"}`, and that the command has too. */
const OPTIONS = /\{(allow|chunklen|damaged|dtype|fill|holes|scan|shape)(?:: (true|"[^"]*"))?\}/g;

/** A message of the library with its options as those of the command: `--holes fill`. */
export function inCommandWords(message: string): string {
  return message.replace(OPTIONS, (_, name: string, value = "true") => {
    const text = String(value);
    return text === "true" ? `--${name}` : `--${name} ${text.replace(/^"(\w+)"$/, "$1")}`;
  });
}

/** The message of an error of the archive at `path`, in words of the command, without that path before it. */
export function messageAt(path: string, { message }: SuperchunkError): string {
  const text = inCommandWords(message);
  const root = [path, resolve(path)].find(
    (each) => text.startsWith(each) && /^(: |\/)/.test(text.slice(each.length)),
  );
  return root === undefined ? text : text.slice(root.length).replace(/^(: |\/)/, "");
}

/** A value as JSON can hold it. */
export function plain(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (value instanceof Uint8Array) return [...value.subarray(0, 64)];
  return value;
}

/** `out/report: read-only file system (EROFS in open)`, of `EROFS: read-only file system, open 'out/report'`. */
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
