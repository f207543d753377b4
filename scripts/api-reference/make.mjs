/**
 * Makes docs/api from the doc comments of the public entries: `npm run docs`.
 *
 * Fails where typedoc saw fewer names than the entries export: a tool that read nothing reports success too.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..", "..");
const run = (command, args) => {
  const { status } = spawnSync(command, args, {
    cwd: here,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) process.exit(status ?? 1);
};

if (!existsSync(join(here, "node_modules", "typedoc"))) run("npm", ["ci", "--ignore-scripts", "--silent"]);
run("npx", ["--no-install", "typedoc", "--logLevel", "Error"]);

const pages = readdirSync(join(root, "docs", "api")).map((name) =>
  readFileSync(join(root, "docs", "api", name), "utf8"),
);
const { exports: entries } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
let names = 0;
const missing = [];
for (const entry of Object.values(entries)) {
  if (typeof entry === "string") continue;
  for (const name of Object.keys(await import(pathToFileURL(join(root, entry.default)).href))) {
    names++;
    const heading = new RegExp(`^#+ (?:Abstract )?${name}(?:\\(\\))?$`, "m");
    if (!pages.some((page) => heading.test(page.replaceAll("\\", "")))) missing.push(name);
  }
}
if (names === 0 || missing.length > 0) {
  console.error(`docs: the reference lacks ${missing.join(", ") || "everything"}`);
  process.exit(1);
}
console.log(`docs: ${names} exported values in docs/api`);
