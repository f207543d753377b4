/** Runs the built command, as its users do. */
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { type ProgramResult, runProgram } from "./program.ts";

/** Runs `superchunk` with these arguments. */
export function runCommand(...args: readonly string[]): Promise<ProgramResult> {
  return runProgram(process.execPath, [join(repositoryRoot, "build", "cli", "main.js"), ...args]);
}
