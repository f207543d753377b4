/**
 * Runs the browser test: `npm run test:browser`, with `--no-build` on what is in `dist` already.
 *
 * It is TypeScript, which Node 20 does not run: it is bundled into `.cache/browser`, where packages still resolve.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cache = join(root, ".cache", "browser");
mkdirSync(cache, { recursive: true });

// The page is made from the built package, as its users' pages are.
if (!process.argv.includes("--no-build")) {
  const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
  if (spawnSync("npm", ["run", "--silent", "build"], options).status !== 0) {
    console.error("test:browser: the build failed, so there is nothing to test");
    process.exit(1);
  }
}

const bundle = join(cache, "main.js");
await build({
  entryPoints: [join(root, "test", "browser", "main.ts")],
  outfile: bundle,
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
});
const { main } = await import(pathToFileURL(bundle).href);
process.exitCode = await main();
