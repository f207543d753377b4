/** Runs other programs: output collected, input given, nothing left running. */
import { spawn } from "node:child_process";
import { createServer } from "node:net";

/** What a program did. */
export interface ProgramResult {
  /** Exit code; null if a signal ended it or it could not be started. */
  readonly code: number | null;
  readonly stdout: string;
  /** Its messages, or why it could not be started. */
  readonly stderr: string;
}

export interface ProgramOptions {
  readonly input?: string;
  /** Variables added to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Kills it after so many seconds (default 300). */
  readonly timeoutSeconds?: number;
}

/** Runs a program to its end. Never rejects: a missing program has code null. */
export function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), (options.timeoutSeconds ?? 300) * 1000);
    const end = (result: ProgramResult): void => {
      clearTimeout(timer);
      resolve(result);
    };
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => stdout.push(piece));
    child.stderr.on("data", (piece: Buffer) => stderr.push(piece));
    child.on("error", (error) => end({ code: null, stdout: "", stderr: error.message }));
    child.on("close", (code) => end({ code, stdout: text(stdout), stderr: text(stderr) }));
    // A program that ends without reading its input is judged by its exit code.
    child.stdin.on("error", () => {});
    child.stdin.end(options.input ?? "");
  });
}

/** The last lines of a program's messages, for a report. */
export function lastLines({ code, stdout, stderr }: ProgramResult, count = 3): string {
  const lines = `${stderr}\n${stdout}`.split("\n").filter((line) => line.trim() !== "");
  const said = stderr.trim() === "" ? lines : stderr.split("\n").filter((line) => line.trim() !== "");
  return `exit code ${code}: ${said.slice(-count).join(" | ")}`;
}

function text(pieces: readonly Buffer[]): string {
  return Buffer.concat(pieces).toString("utf8");
}

/** Another one in each process, so that two at a time do not try the same ports. */
let lastPort = 20_000 + 10 * (process.pid % 1000);

/**
 * A free port of this machine, another one each time. It is below the ports that systems give to connections: one of those
 * could take it before the server listens, or while the server is restarted.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = ++lastPort;
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
