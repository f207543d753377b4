/**
 * Bundles a program of this folder (TypeScript, which Node 20 does not run) into `.cache/browser`, where packages
 * still resolve.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The exports of a program. */
export async function load(name) {
  const cache = join(root, ".cache", "browser");
  mkdirSync(cache, { recursive: true });
  const outfile = join(cache, `${name}.js`);
  await build({
    entryPoints: [join(root, "test", "browser", `${name}.ts`)],
    outfile,
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    logLevel: "warning",
  });
  return import(pathToFileURL(outfile).href);
}
