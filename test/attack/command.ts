/** The command as a process that is ended if it hangs, so that a hang is an outcome and does not block the test. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { build } from "esbuild";
import { BUNDLED, buildPackage } from "../cli/built.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

/** How a process ended. */
export interface Outcome {
  /** Exit code; undefined if a signal ended it. */
  readonly code: number | undefined;
  /** True if it had to be killed because it took too long. */
  readonly hung: boolean;
  readonly out: string;
  readonly err: string;
}

/** Milliseconds after which a process counts as hanging: far more than any of these takes on a busy machine. */
export const PATIENCE_MS = 120_000;

/** What a process gets apart from its arguments. */
export interface RunSettings {
  /** Input of the process, which stays open if undefined. */
  readonly stdin?: string | Uint8Array | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Runs `program …argv`. */
export async function runProcess(
  program: string,
  argv: readonly string[],
  { stdin = "", env = {}, cwd }: RunSettings = {},
): Promise<Outcome> {
  const child = spawn(program, argv, {
    env: { ...process.env, ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (piece: Buffer) => out.push(piece));
  child.stderr.on("data", (piece: Buffer) => err.push(piece));
  child.stdin.on("error", () => undefined); // it may have ended before reading
  child.stdin.end(stdin);
  let hung = false;
  const timer = setTimeout(() => {
    hung = true;
    child.kill("SIGKILL");
  }, PATIENCE_MS);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  return {
    code: code ?? undefined,
    hung,
    out: Buffer.concat(out).toString(),
    err: Buffer.concat(err).toString(),
  };
}

/** Runs a function on each item, a few at a time, and returns the results in the items' order. */
export async function eachOf<T, R>(
  items: readonly T[],
  width: number,
  act: (item: T, i: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const next = items.entries();
  const work = async (): Promise<void> => {
    for (const [i, item] of next) results[i] = await act(item, i);
  };
  await Promise.all(Array.from({ length: width }, work));
  return results;
}

/**
 * Builds a module that runs the command inside a process (`run` of cli/run.ts), with its workers next to it. Returns
 * its path.
 */
export async function buildRun(folder: string): Promise<string> {
  await buildPackage(folder);
  const outfile = join(folder, "dist", "cli", "run.js");
  await build({ ...BUNDLED, entryPoints: [join(repositoryRoot, "cli", "run.ts")], outfile });
  return outfile;
}
