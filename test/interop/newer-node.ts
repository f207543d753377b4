/**
 * This Node with a newer C library, if the system's is too old for Icechunk's native code (glibc 2.38).
 *
 * Debian 13's packages are unpacked into the cache, with their own lists; nothing is installed.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { type Absent, cacheFolder } from "./environments.ts";
import { lastLines, runProgram } from "./program.ts";

const PACKAGES = ["libc6", "libstdc++6", "libgcc-s1"];

/** A program, and the arguments before the script, with which Icechunk's package loads. */
export interface NodeCommand {
  readonly program: string;
  readonly args: readonly string[];
}

/** Finds or makes a Node that loads Icechunk's package. Resolves with the reason if there is none. */
export async function findNodeForIcechunk(): Promise<NodeCommand | Absent> {
  const own: NodeCommand = { program: process.execPath, args: [] };
  if (await loads(own)) return own;
  if (process.platform !== "linux" || process.arch !== "x64")
    return { absent: `Icechunk has no build for ${process.platform} ${process.arch}` };
  const folder = join(cacheFolder, "debian-13");
  const libraries = join(folder, "root", "usr", "lib", "x86_64-linux-gnu");
  const newer: NodeCommand = {
    program: join(libraries, "ld-linux-x86-64.so.2"),
    args: ["--library-path", `${libraries}:/usr/lib/x86_64-linux-gnu`, process.execPath],
  };
  if (!existsSync(join(folder, "ready"))) {
    const failure = await unpack(folder);
    if (failure !== undefined) return { absent: failure };
  }
  return (await loads(newer))
    ? newer
    : { absent: "Icechunk's package does not load with Debian 13's C library" };
}

async function loads({ program, args }: NodeCommand): Promise<boolean> {
  const script = 'await import("@earthmover/icechunk")';
  const { code } = await runProgram(program, [...args, "--input-type=module", "-e", script], {
    cwd: repositoryRoot,
  });
  return code === 0;
}

async function unpack(folder: string): Promise<string | undefined> {
  for (const name of ["lists/partial", "cache/archives/partial", "packages"])
    await mkdir(join(folder, name), { recursive: true });
  const sources = join(folder, "debian-13.sources");
  await writeFile(
    sources,
    "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
  );
  const own = [
    `Dir::Etc::sourcelist=${sources}`,
    "Dir::Etc::sourceparts=-",
    `Dir::State::lists=${join(folder, "lists")}`,
    `Dir::Cache=${join(folder, "cache")}`,
    "Dir::State::status=/dev/null",
  ].flatMap((option) => ["-o", option]);
  const packages = join(folder, "packages");
  for (const args of [["update"], ["download", ...PACKAGES]]) {
    const done = await runProgram("apt-get", [...own, "--quiet", ...args], { cwd: packages });
    if (done.code !== 0) return `apt-get ${args.join(" ")} failed with ${lastLines(done)}`;
  }
  for (const file of await readdir(packages)) {
    const done = await runProgram("dpkg", ["-x", join(packages, file), join(folder, "root")]);
    if (done.code !== 0) return `dpkg -x ${file} failed with ${lastLines(done)}`;
  }
  await writeFile(join(folder, "ready"), "");
  return undefined;
}
