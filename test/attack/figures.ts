/** Figures of the harnesses, for the table at the end of `npm run torture`. */
import { appendFileSync } from "node:fs";

/** Records what a harness counted; does nothing outside `npm run torture`. */
export function note(harness: string, figures: Readonly<Record<string, number | string>>): void {
  const file = process.env["SUPERCHUNK_FIGURES"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ harness, figures })}\n`);
}

/** The runs of a harness: `torture` in `npm run torture`, `all` in `npm run test:all`, otherwise `few`. */
export function runsOf(few: number, all: number, torture: number): number {
  if (process.env["SUPERCHUNK_FIGURES"] !== undefined) return torture;
  return process.env["SUPERCHUNK_TESTS"] === "all" ? all : few;
}
