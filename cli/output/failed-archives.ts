/** Reports archives that failed while others did not: lines on stderr, and the exit code. */
import { type ErrorCode, SuperchunkError } from "../../src/index.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { formatCount } from "../input/units.ts";

/** Most failures to print on stderr; the report has all of them. */
const FAILURES_PRINTED = 20;

/** Prints one line per failure; `what` says what did not happen, for example `not converted`. */
export function printFailures(
  failures: readonly { readonly path: string; readonly code?: ErrorCode; readonly message?: string }[],
  what: string,
  context: Context,
): void {
  for (const { path, code, message } of failures.slice(0, FAILURES_PRINTED))
    context.message(`${what}: ${withPlace(path, message ?? "")} (${code})`);
  const omitted = failures.length - FAILURES_PRINTED;
  if (omitted > 0) context.message(`and ${formatCount(omitted)} more ${what}: --json lists them`);
}

/** A message, preceded by its path unless it begins with that. */
export function withPlace(path: string, message: string): string {
  return message.startsWith(path) ? message : `${path}: ${message}`;
}

/** Sets the exit code for the failures. */
export function noteFailures(entries: readonly { readonly code?: ErrorCode }[], context: Context): void {
  for (const { code } of entries) {
    if (code !== undefined) context.note(new SuperchunkError(code, "").isDamage ? EXIT.damaged : EXIT.failed);
  }
}
