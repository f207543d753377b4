/** Shows whether `dist` is what scripts/package.mjs would make. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** One digest of all that scripts/package.mjs reads, and of `dist`: names and contents, installed packages, and the version of Node.js. */
export function packageDigest(root) {
  const hash = createHash("sha256").update(process.version);
  const add = (path) => {
    const found = statSync(join(root, path), { throwIfNoEntry: false });
    if (found?.isDirectory() === true) {
      for (const name of readdirSync(join(root, path)).sort())
        if (name !== "node_modules") add(`${path}/${name}`);
      return;
    }
    hash.update(`\0${path}\0${found?.size}\0`);
    if (found !== undefined) hash.update(readFileSync(join(root, path)));
  };
  const settings = readdirSync(root).filter((name) => /^(?:tsconfig.*|package)\.json$/.test(name));
  const packages = ["node_modules", "scripts/tools/node_modules"].map((name) => `${name}/.package-lock.json`);
  for (const path of [...settings.sort(), ...packages, "src", "build/src", "build/cli", "scripts", "dist"])
    add(path);
  return hash.digest("hex");
}
