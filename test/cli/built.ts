/** The package as it is installed, built into a folder from the sources as they are. */
import { copyFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { repositoryRoot } from "../fixtures/manifest.ts";

/**
 * Builds the command and the entry `superchunk/node`, so that a stale `dist` cannot pass for the product. Resolves
 * with the path of the command.
 */
export async function buildPackage(folder: string): Promise<string> {
  copyFileSync(join(repositoryRoot, "package.json"), join(folder, "package.json"));
  symlinkSync(join(repositoryRoot, "node_modules"), join(folder, "node_modules"), "junction");
  await build({
    entryPoints: [join(repositoryRoot, "cli", "main.ts"), join(repositoryRoot, "src", "node", "index.ts")],
    outbase: repositoryRoot,
    outdir: join(folder, "dist"),
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    target: "node20",
    logLevel: "silent",
  });
  return join(folder, "dist", "cli", "main.js");
}
