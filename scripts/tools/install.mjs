/** Installs the tools of this folder if they are missing. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const toolsFolder = fileURLToPath(new URL(".", import.meta.url));

export function installTools() {
  if (existsSync(new URL("node_modules/.package-lock.json", import.meta.url))) return;
  const args = ["ci", "--ignore-scripts", "--loglevel=error", "--no-audit", "--no-fund"];
  const { status } = spawnSync("npm", args, {
    cwd: toolsFolder,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) process.exit(status ?? 1);
}
