/**
 * Python environments with the peers in them, made once and kept in `.cache/interop`.
 *
 * Knows how each is made; must not know what is read in it. Everything comes from PyPI (and Debian's archive,
 * unpacked without installing); versions are pinned in `requirements/`, whose texts are part of an environment's
 * name, so that a change makes a new one.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { unpackDebian } from "./debian.ts";
import { lastLines, runProgram } from "./program.ts";
import { findPython, type Python } from "./pythons.ts";

/** How an environment is made. */
export interface EnvironmentRecipe {
  /** Also the name of `requirements/NAME.txt`. */
  readonly name: string;
  /** Suitable versions of Python, the best first. */
  readonly pythons: readonly string[];
  /** `requirements/NAME.txt` of what must be installed before the rest is built. */
  readonly build?: string;
  /** Debian packages whose libraries it needs. */
  readonly debian?: readonly string[];
  /** A program that must be on the path. */
  readonly program?: string;
}

/** An available environment. */
export interface Environment {
  readonly executable: string;
  /** Variables that its programs need. */
  readonly env: Readonly<Record<string, string>>;
}

/** Why an environment is not available. */
export interface Absent {
  readonly absent: string;
}

/** Folder of everything that is kept between runs. */
export const cacheFolder: string = join(repositoryRoot, ".cache", "interop");

const interopFolder = join(repositoryRoot, "test", "interop");

/** Makes an environment, or finds it. Resolves with the reason if that is impossible. */
export async function prepareEnvironment(recipe: EnvironmentRecipe): Promise<Environment | Absent> {
  const python = await findPython(recipe.pythons);
  if (python === undefined) {
    return {
      absent: `needs Python ${recipe.pythons.join(" or ")} (found neither on the path nor with pyenv or uv)`,
    };
  }
  if (recipe.program !== undefined && (await runProgram(recipe.program, ["-version"])).code !== 0)
    return { absent: `needs ${recipe.program} (not found on the path)` };
  const folder = join(cacheFolder, `${recipe.name}-${await fingerprint(recipe, python)}`);
  const ready = join(folder, "ready");
  const env = recipe.debian === undefined ? {} : debianVariables(folder);
  if (!existsSync(ready)) {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    const failure = await build(recipe, python, folder, env);
    if (failure !== undefined) return { absent: failure };
    // Written last: an environment whose creation was interrupted has none, and is made again.
    await writeFile(ready, `Python ${python.version}\n`);
  }
  return { executable: executableOf(folder), env };
}

async function build(
  recipe: EnvironmentRecipe,
  python: Python,
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  if (recipe.debian !== undefined) {
    const failure = await unpackDebian(recipe.debian, folder);
    if (failure !== undefined) return failure;
  }
  const made = await runProgram(python.executable, ["-m", "venv", join(folder, "python")]);
  if (made.code !== 0) return `venv failed with ${lastLines(made)}`;
  const lists = recipe.build === undefined ? [recipe.name] : [recipe.build, recipe.name];
  for (const list of lists) {
    const isolation = list === recipe.name && recipe.build !== undefined ? ["--no-build-isolation"] : [];
    const args = [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "--no-deps",
      ...isolation,
    ];
    const result = await runProgram(
      executableOf(folder),
      [...args, "-r", join(interopFolder, "requirements", `${list}.txt`)],
      { env, timeoutSeconds: 900 },
    );
    if (result.code !== 0) return `pip install -r requirements/${list}.txt failed with ${lastLines(result)}`;
  }
  return undefined;
}

/** Variables with which compilers and programs find the unpacked libraries. */
function debianVariables(folder: string): Record<string, string> {
  const usr = join(folder, "debian", "usr");
  const libraries = join(usr, "lib", process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu");
  return {
    BLOSC_DIR: usr,
    CFLAGS: `-I${join(usr, "include")}`,
    LDFLAGS: `-L${libraries}`,
    LD_LIBRARY_PATH: libraries,
  };
}

async function fingerprint(recipe: EnvironmentRecipe, python: Python): Promise<string> {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([recipe, python, process.platform, process.arch]));
  for (const list of [recipe.build, recipe.name]) {
    if (list !== undefined) hash.update(await readFile(join(interopFolder, "requirements", `${list}.txt`)));
  }
  return hash.digest("hex").slice(0, 12);
}

function executableOf(folder: string): string {
  return process.platform === "win32"
    ? join(folder, "python", "Scripts", "python.exe")
    : join(folder, "python", "bin", "python");
}
