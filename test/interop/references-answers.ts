/** What Python and JavaScript read with the lines that `virtualize` prints. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { create as createArray } from "../../src/node/edit.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { type Printed, runCommands } from "./commands.ts";
import type { Environment } from "./environments.ts";
import type { NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import type { SuiteContext } from "./suite.ts";

/** Lines, and the names of the arrays to read. */
export interface Question {
  readonly id: number;
  readonly lines?: string | undefined;
  readonly virtualizarr?: string | undefined;
  readonly names: readonly string[];
  /** The numpy dtypes as which Python hashes them; little-endian if absent. */
  readonly dtypes?: Readonly<Record<string, string>>;
}

/** Shape and sha256 of each array, or why there are none. */
export interface Answer {
  readonly values?: Readonly<Record<string, unknown>>;
  readonly error?: string;
}

const readers = join(repositoryRoot, "test", "interop", "readers");

/** Runs lines of Python. The environment's last messages replace missing answers. */
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

/** Makes an array in the folder `long` whose last chunk is padded, and longer than a set in JSON holds. */
export async function makeLong(folder: string): Promise<{
  readonly source: string;
  readonly wanted: { readonly dtype: string; readonly shape: readonly number[]; readonly sha256: string };
}> {
  const source = join(folder, "long");
  const values = Float64Array.from({ length: 50_000 }, (_, i) => Math.sin(i * i));
  const array = await createArray(source, { dtype: "<f8", chunkLength: 32_768 });
  await array.append(values);
  await array.close();
  const sha256 = createHash("sha256").update(new Uint8Array(values.buffer)).digest("hex");
  return { source, wanted: { dtype: "<f8", shape: [values.length], sha256 } };
}

/** Lines by which a set of references is opened. */
export interface OpeningLines {
  readonly Python: string;
  readonly JavaScript: string;
}

/** The lines that `virtualize --json` printed. */
export function linesIn({ out }: Printed): OpeningLines {
  return (JSON.parse(out) as { open: OpeningLines }).open;
}

/** Checks that both languages read these arrays with the lines: shape and sha256 by name. */
export async function checkLines(
  { checks, folder }: SuiteContext,
  node: NodeCommand,
  python: Environment,
  {
    label,
    lines,
    wanted,
    dtypes,
  }: Pick<Question, "dtypes"> & {
    label: string;
    lines: OpeningLines;
    wanted: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  const question = { id: 0, names: Object.keys(wanted), ...(dtypes === undefined ? {} : { dtypes }) };
  const [[inPython], [inNode]] = await Promise.all([
    askPython(python, [{ ...question, lines: lines.Python }]),
    askJavaScript(node, folder, [{ ...question, lines: lines.JavaScript }]),
  ]);
  checks.equal(`${label}: Python`, inPython?.values ?? inPython?.error, wanted);
  checks.equal(`${label}: JavaScript`, inNode?.values ?? inNode?.error, wanted);
}

/** Runs `virtualize` for each of the sets, and checks what is read with the lines that it prints. */
export async function checkSets(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
  sets: readonly { readonly label: string; readonly argv: readonly string[] }[],
  wanted: Readonly<Record<string, unknown>>,
): Promise<void> {
  const commands = sets.map(({ argv }) => ["virtualize", ...argv, "--json"]);
  const printed = await runCommands(node, context.folder, commands);
  for (const [i, { label }] of sets.entries()) {
    const one = printed[i];
    if (one?.code !== 0) context.checks.fail(label, one?.err ?? "nothing was printed");
    else await checkLines(context, node, python, { label, lines: linesIn(one), wanted });
  }
}
