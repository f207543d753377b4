/** Counts what was proved and what was not, and reports it. */
import { isDeepStrictEqual } from "node:util";
import type { Answer } from "./answers.ts";

/** The checks of one run. */
export class Checks {
  passed = 0;
  failed = 0;

  /** Passes if both are deeply equal. The name says what was proved, or what was not. */
  equal(name: string, found: unknown, expected: unknown): void {
    if (isDeepStrictEqual(found, expected)) this.passed++;
    else this.fail(name, `expected ${show(expected)}, found ${show(found)}`);
  }

  /** Passes if the answer has these values. */
  values(name: string, answer: Answer, expected: { shape: readonly number[]; sha256: string | null }): void {
    if (answer.kind === "error") this.fail(name, answer.error);
    else if (answer.kind !== "values") this.fail(name, `found no values but "${answer.kind}"`);
    else
      this.equal(
        name,
        { shape: answer.shape, sha256: answer.sha256 },
        { shape: expected.shape, sha256: expected.sha256 },
      );
  }

  /** Passes if the answer is an error: a reader listed as unable to read something must really refuse it. */
  refused(name: string, answer: Answer): void {
    if (answer.kind === "error") this.passed++;
    else this.fail(name, "was read; the table of what readers do not take is out of date");
  }

  /** A check that failed. */
  fail(name: string, reason: string): void {
    this.failed++;
    console.log(`FAILED ${name}: ${reason}`);
  }
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${each}n` : each)) ?? String(value);
}
