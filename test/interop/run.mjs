/**
 * Runs the suites that compare this library with other programs: `npm run test:interop [-- SUITE…]`,
 * with `--no-build` on what is in `build` already.
 *
 * The suites are TypeScript, which Node 20 does not run: they are bundled into `build`, where packages still resolve,
 * and imported from there. `.cache/interop` may be shared by several copies of the repository.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
mkdirSync(join(root, ".cache", "interop"), { recursive: true });

// The command under test is the built one, and it must be that of these sources.
const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
const skipsBuild = process.argv.includes("--no-build");
for (const args of skipsBuild
  ? []
  : [
      ["run", "--silent", "build:kernels"],
      ["exec", "--", "tsc", "-b", "tsconfig.node.json"],
    ]) {
  if (spawnSync("npm", args, options).status === 0) continue;
  console.error("test:interop: the build failed, so there is no command to test");
  process.exit(1);
}

// Its own file, because several runs may go on at a time.
const bundle = join(root, "build", `suites-${process.pid}.js`);
await build({
  entryPoints: [join(root, "test", "interop", "main.ts")],
  outfile: bundle,
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  logLevel: "warning",
});
const { main } = await import(pathToFileURL(bundle).href).finally(() => rmSync(bundle));
process.exitCode = await main(process.argv.slice(2).filter((argument) => argument !== "--no-build"));
