/** The package as it is installed, built from the current sources. */
import { copyFileSync, cpSync, readFileSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { type BuildOptions, build } from "esbuild";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { folderOfProcess } from "../folder.ts";

/** `dist`, built once for all tests of a process. */
let built: Promise<string> | undefined;

/**
 * Puts the command and the entry `superchunk/node` into a folder, so that a stale `dist` cannot pass for the product. Resolves
 * with the path of the command.
 */
export async function buildPackage(folder: string): Promise<string> {
  built ??= buildAll();
  cpSync(await built, join(folder, "dist"), { recursive: true });
  copyFileSync(join(repositoryRoot, "package.json"), join(folder, "package.json"));
  symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"), "junction");
  return join(folder, "dist", "cli", "main.js");
}

/** Packages that are installed next to it. All others are bundled, as in what is published: a process that loads them file by file starts slowly. */
const { dependencies, peerDependencies } = JSON.parse(
  readFileSync(join(repositoryRoot, "package.json"), "utf8"),
) as Readonly<Record<"dependencies" | "peerDependencies", object>>;

/** How sources are bundled for a process of its own. */
export const BUNDLED: BuildOptions = {
  bundle: true,
  platform: "node",
  format: "esm",
  external: Object.keys({ ...dependencies, ...peerDependencies }),
  target: "node20",
  // Each process reads all of it.
  minifyWhitespace: true,
  minifySyntax: true,
  logLevel: "silent",
};

async function buildAll(): Promise<string> {
  const outdir = folderOfProcess();
  const sources = (...names: string[]): string => join(repositoryRoot, ...names);
  const workers = ["threads/chunk-worker", "threads/convert-worker", "fs/head-worker"];
  await build({
    ...BUNDLED,
    entryPoints: [
      { in: sources("cli", "main.ts"), out: "cli/main" },
      { in: sources("src", "node", "index.ts"), out: "src/node/index" },
      ...workers.map((name) => ({ in: sources("src", "node", `${name}.ts`), out: `cli/${basename(name)}` })),
    ],
    outdir,
  });
  // Each entry finds the workers next to it.
  for (const name of workers.map((worker) => `${basename(worker)}.js`))
    copyFileSync(join(outdir, "cli", name), join(outdir, "src", "node", name));
  return outdir;
}
