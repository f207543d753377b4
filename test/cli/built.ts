/** The package as it is installed, built from the current sources. */
import { copyFileSync, cpSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
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

async function buildAll(): Promise<string> {
  const outdir = folderOfProcess();
  const sources = (...names: string[]): string => join(repositoryRoot, ...names);
  // Each entry finds the workers next to it.
  const workers = ["threads/chunk-worker", "threads/convert-worker", "fs/head-worker"].flatMap((name) =>
    ["cli", "src/node"].map((place) => ({
      in: sources("src", "node", `${name}.ts`),
      out: `${place}/${basename(name)}`,
    })),
  );
  await build({
    entryPoints: [
      { in: sources("cli", "main.ts"), out: "cli/main" },
      { in: sources("src", "node", "index.ts"), out: "src/node/index" },
      ...workers,
    ],
    outdir,
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    target: "node20",
    // Each process reads all of it.
    minifyWhitespace: true,
    minifySyntax: true,
    logLevel: "silent",
  });
  return outdir;
}
