/** Other versions of Node.js, from the npm registry. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const platform = process.platform === "win32" ? "win" : process.platform;
const packageName = `node-${platform}-${process.arch}`;

/** The binary of a version or major, installed in `.cache/node` if it is not there. */
export function findNode(version) {
  if (process.versions.node === version || process.versions.node.startsWith(`${version}.`))
    return process.execPath;
  const folder = join(root, ".cache", "node", version);
  const binary = join(folder, "node_modules", packageName, "bin", platform === "win" ? "node.exe" : "node");
  if (existsSync(binary)) return binary;
  mkdirSync(folder, { recursive: true });
  // The folder needs a package of its own; otherwise npm would install into the project.
  writeFileSync(join(folder, "package.json"), "{}\n");
  const install = [
    "install",
    "--no-save",
    "--no-package-lock",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
  ];
  const { status } = spawnSync("npm", [...install, `${packageName}@${version}`], {
    cwd: folder,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0 || !existsSync(binary)) throw new Error(`npm could not install ${packageName}@${version}`);
  return binary;
}
