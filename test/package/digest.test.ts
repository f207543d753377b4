/** `npm run package` leaves `dist` as it is only if nothing has changed. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { temporaryFolder } from "../folder.ts";

const script = pathToFileURL(join(import.meta.dirname, "../../scripts/package-digest.mjs")).href;
const { packageDigest } = (await import(script)) as { packageDigest: (root: string) => string };

const FILES = [
  "package.json",
  "tsconfig.base.json",
  "node_modules/.package-lock.json",
  "scripts/tools/node_modules/.package-lock.json",
  "scripts/package.mjs",
  "src/page/style.css",
  "build/src/index.js",
  "build/cli/main.js",
  "dist/src/index.js",
];

function put(root: string, name: string, text: string): void {
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), text);
}

test("the digest of the package changes with every input and every result, and with nothing else", () => {
  const root = temporaryFolder();
  for (const name of FILES) put(root, name, "old");
  const old = packageDigest(root);
  for (const name of ["README.md", "test/a.test.ts", "build/.types-of-tests/a.d.ts", "node_modules/a/b.js"])
    put(root, name, "of no meaning for the package");
  expect(packageDigest(root)).toBe(old);
  for (const name of FILES) {
    put(root, name, "new");
    expect(packageDigest(root), name).not.toBe(old);
    rmSync(join(root, name));
    expect(packageDigest(root), name).not.toBe(old);
    put(root, name, "old");
    expect(packageDigest(root), name).toBe(old);
  }
  renameSync(join(root, "dist/src/index.js"), join(root, "dist/src/other.js"));
  expect(packageDigest(root)).not.toBe(old);
});
