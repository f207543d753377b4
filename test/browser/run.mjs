/** Runs the browser test: `npm run test:browser`, with `--no-build` on the existing `dist`. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { load } from "./bundle.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

// The page is made from the built package, like its users' pages.
if (!process.argv.includes("--no-build")) {
  const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
  if (spawnSync("npm", ["run", "--silent", "package"], options).status !== 0) {
    console.error("test:browser: the build failed, so there is nothing to test");
    process.exit(1);
  }
}

const { main } = await load("main");
process.exitCode = await main();
