/** Finds the Pythons of a machine: on the path, of pyenv, of uv. */
import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { runProgram } from "./program.ts";

/** A Python that can make virtual environments. */
export interface Python {
  readonly executable: string;
  /** For example `3.12.1`. */
  readonly version: string;
}

const ABOUT = "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)";

/** The first Python of one of the versions (`3.12`), which are in order of preference; undefined if there is none. */
export async function findPython(versions: readonly string[]): Promise<Python | undefined> {
  for (const version of versions) {
    for (const candidate of await listCandidates(version)) {
      const { code, stdout } = await runProgram(candidate, ["-c", ABOUT]);
      const [found, executable] = stdout.trim().split(/\r?\n/);
      if (code !== 0 || found === undefined || executable === undefined) continue;
      if (found === version || found.startsWith(`${version}.`)) return { executable, version: found };
    }
  }
  return undefined;
}

async function listCandidates(version: string): Promise<string[]> {
  return [...listPyenv(version), `python${version}`, "python3", "python", ...(await askUv(version))];
}

/** pyenv's own folder, since its shims on the path refuse versions that are not selected. */
function listPyenv(version: string): string[] {
  const folder = join(process.env["PYENV_ROOT"] ?? join(homedir(), ".pyenv"), "versions");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${version}.`))
    .map((name) => join(folder, name, "bin", "python"));
}

async function askUv(version: string): Promise<string[]> {
  const { code, stdout } = await runProgram("uv", ["python", "find", version]);
  return code === 0 ? [stdout.trim()] : [];
}
