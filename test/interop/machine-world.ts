/** A folder of archives that many processes convert together, and what one `convert` makes of it. */
import { chmod, cp, mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { lastLines, type ProgramResult, runProgram } from "./program.ts";
import type { SuiteContext } from "./suite.ts";

/** A folder with archives, what one `convert` makes of it, and programs that are started there. */
export interface MachineWorld {
  readonly folder: string;
  /** What one `convert` made: bytes by path. */
  readonly wanted: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  run(program: string, ...args: readonly string[]): Promise<ProgramResult>;
}

/** Makes a folder with the corpus' tables, several times, and what `add` puts there, and converts it once. */
export async function makeMachineWorld(
  parent: string,
  path = "",
  add?: (data: string, run: MachineWorld["run"]) => Promise<void>,
): Promise<MachineWorld> {
  const folder = join(parent, "machines");
  await rm(folder, { recursive: true, force: true });
  const bin = join(folder, "bin");
  await mkdir(bin, { recursive: true });
  const command = join(repositoryRoot, "build", "cli", "main.js");
  await writeFile(join(bin, "superchunk"), `#!/bin/sh\nexec '${process.execPath}' '${command}' "$@"\n`);
  await chmod(join(bin, "superchunk"), 0o755);
  for (let copy = 0; copy < 30; copy++)
    await cp(join(corpusFolder, "ctable"), join(folder, "data", "bundles", `${copy}`), { recursive: true });
  const env = { PATH: [bin, path, process.env["PATH"]].filter((each) => each !== "").join(delimiter) };
  const run = (program: string, ...args: readonly string[]): Promise<ProgramResult> =>
    runProgram(program, args, { cwd: folder, env, timeoutSeconds: 900 });
  await add?.(join(folder, "data", "bundles"), run);
  const straight = join(folder, "straight.zarr");
  const made = await run("superchunk", "convert", "data/bundles", straight);
  // 3: an archive is damaged, and left out.
  if (made.code !== (add === undefined ? 0 : 3)) throw new Error(lastLines(made));
  return { folder, wanted: await bytesOf(straight), env, run };
}

/** The bytes of every file below a folder. */
async function bytesOf(folder: string): Promise<Record<string, string>> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const bytes: Record<string, string> = {};
  for (const file of files) bytes[file.slice(folder.length)] = (await readFile(file)).toString("base64");
  return bytes;
}

/** Checks that a destination is what one `convert` made; reports which files are not. */
export async function checkResult(
  { checks }: SuiteContext,
  world: MachineWorld,
  name: string,
): Promise<void> {
  const { folder, wanted } = world;
  const found = await bytesOf(join(folder, `${name}.zarr`));
  const names = [...new Set([...Object.keys(found), ...Object.keys(wanted)])].sort();
  checks.equal(
    `${name}: files that differ`,
    names.filter((each) => found[each] !== wanted[each]).slice(0, 20),
    [],
  );
}

/** One array that is cut into tasks, and an archive that no run can convert. */
export async function addHard(data: string, run: MachineWorld["run"]): Promise<void> {
  await run("superchunk", "create", join(data, "large"), "--dtype", "<f8", "--shape", "12000000");
  const damaged = join(data, "damaged");
  const sizes = ["--shape", "3000", "--chunklen", "500", "--superchunklen", "2"];
  await run("superchunk", "create", damaged, "--dtype", "<f8", ...sizes);
  const file = await open(join(damaged, "data", "__3__.bin"), "r+");
  await file.write("damage", 60);
  await file.close();
}

/** Plans, and names the plan's file. */
export async function planned({ run }: MachineWorld, name: string): Promise<string> {
  const made = await run("superchunk", "plan", "data/bundles", `${name}.zarr`, "-o", `${name}.json`);
  if (made.code !== 0) throw new Error(lastLines(made));
  return `${name}.json`;
}
