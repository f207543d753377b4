/** Many commands of the built `superchunk`, in one process of the given Node. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";

/** What a command printed. */
export interface Printed {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const script = join(repositoryRoot, "test", "interop", "run-commands.mjs");

/** Runs them one after another; if the process does not finish, all of them have failed with its last output. */
export async function runCommands(
  { program, args }: NodeCommand,
  folder: string,
  commands: readonly (readonly string[])[],
): Promise<readonly Printed[]> {
  const results = join(folder, "commands.json");
  const done = await runProgram(program, [...args, script, results], { input: JSON.stringify(commands) });
  if (done.code !== 0) return commands.map(() => ({ code: done.code ?? 1, out: "", err: lastLines(done) }));
  return JSON.parse(await readFile(results, "utf8")) as Printed[];
}
