/** What Python and JavaScript read by the lines that `virtualize` prints. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";

/** Lines, and the names of the arrays to read. */
export interface Question {
  readonly id: number;
  readonly lines?: string | undefined;
  readonly virtualizarr?: string | undefined;
  readonly names: readonly string[];
  /** As which of numpy's dtypes Python hashes them; little-endian without. */
  readonly dtypes?: Readonly<Record<string, string>>;
}

/** Shape and sha256 of each array, or why there are none. */
export interface Answer {
  readonly values?: Readonly<Record<string, unknown>>;
  readonly error?: string;
}

const readers = join(repositoryRoot, "test", "interop", "readers");

/** Runs lines of Python. What the environment ends with stands for answers that are missing. */
export async function askPython(python: Environment, questions: readonly Question[]): Promise<Answer[]> {
  const result = await runProgram(python.executable, [join(readers, "references.py")], {
    input: JSON.stringify(questions),
    env: { ...python.env, PYTHONDONTWRITEBYTECODE: "1" },
    timeoutSeconds: 600,
  });
  const answers = new Map<number, Answer>();
  for (const line of result.stdout.split("\n")) {
    if (!line.startsWith("{")) continue;
    const answer = JSON.parse(line) as Answer & { id: number };
    answers.set(answer.id, answer);
  }
  return questions.map(({ id }) => answers.get(id) ?? { error: `no answer, ${lastLines(result)}` });
}

/** Runs lines of JavaScript with a Node that loads Icechunk's package. */
export async function askJavaScript(
  { program, args }: NodeCommand,
  folder: string,
  questions: readonly Question[],
): Promise<Answer[]> {
  const results = join(folder, "javascript.json");
  const script = join(readers, "references.mjs");
  const done = await runProgram(program, [...args, script, folder, results], {
    input: JSON.stringify(questions),
    timeoutSeconds: 600,
  });
  if (done.code !== 0) return questions.map(() => ({ error: `no answer, ${lastLines(done)}` }));
  const found = JSON.parse(await readFile(results, "utf8")) as (Answer & { id: number })[];
  const answers = new Map(found.map((answer) => [answer.id, answer]));
  return questions.map(({ id }) => answers.get(id) ?? { error: "no answer" });
}
