/** Child processes that are killed while they work. */
import { spawn } from "node:child_process";

/**
 * Runs a script of Node and kills it `delay` ms after its first output. Returns its output, without an unfinished
 * line. Throws if it ended by itself.
 */
export function runAndKill(argv: readonly string[], delay: number): Promise<string> {
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let failure = "";
  child.stdout.on("data", (data: Buffer) => {
    out += data.toString();
  });
  child.stdout.once("data", () => setTimeout(() => child.kill("SIGKILL"), delay));
  child.stderr.on("data", (data: Buffer) => {
    failure += data.toString();
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (_code, signal) => {
      if (signal === "SIGKILL") resolve(out.slice(0, out.lastIndexOf("\n") + 1));
      else reject(new Error(`the loop ended by itself: ${failure}`));
    });
  });
}
