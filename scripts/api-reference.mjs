/**
 * Makes docs/api from the doc comments of the public entries: `npm run docs`.
 *
 * Fails if the pages lack an exported name, because a tool that read nothing reports success too.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { installTools, toolsFolder } from "./tools/install.mjs";
import { shortPages } from "./tools/short-pages.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
installTools();
const typedoc = join(toolsFolder, "node_modules", "typedoc", "bin", "typedoc");
const { exports: entries } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
/** The source file of each entry, derived from its built file. */
const sources = Object.values(entries)
  .filter((entry) => typeof entry !== "string")
  .map((entry) => join(root, entry.default.replace("./dist/", "").replace(/\.js$/, ".ts")));
const options = ["--logLevel", "Error", ...sources.flatMap((source) => ["--entryPoints", source])];
const { status } = spawnSync(process.execPath, [typedoc, ...options], {
  cwd: toolsFolder,
  stdio: "inherit",
});
if (status !== 0) process.exit(status ?? 1);

const folder = join(root, "docs", "api");
writeFileSync(join(folder, "README.md"), firstPage());
/** Paths of the pages: entries in folders have their pages in folders. */
const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".md"));
const read = names.map((name) => [name, readFileSync(join(folder, name), "utf8")]);
for (const [name, text] of shortPages(new Map(read))) writeFileSync(join(folder, name), text);
const pages = names.map((name) => readFileSync(join(folder, name), "utf8").replaceAll("\\", ""));
let count = 0;
const missing = [];
for (const entry of Object.values(entries)) {
  if (typeof entry === "string") continue;
  for (const name of Object.keys(await import(pathToFileURL(join(root, entry.default)).href))) {
    count++;
    const heading = new RegExp(`^#+ (?:Abstract )?${name}(?:\\(\\))?$`, "m");
    if (!pages.some((page) => heading.test(page))) missing.push(name);
  }
}
if (count === 0 || missing.length > 0) {
  console.error(`docs: the reference lacks ${missing.join(", ") || "everything"}`);
  process.exit(1);
}
console.log(`docs: ${count} exported values in docs/api`);

/** The index page: the types of each entry, and its page. */
function firstPage() {
  const rows = Object.entries(entries)
    .filter(([, entry]) => typeof entry !== "string")
    .map(([name, { types }]) => {
      const page = types.replace("./dist/src/", "").replace(/(?:\/index)?\.d\.ts$/, ".md");
      return `| \`superchunk${name.slice(1)}\` | \`${types.slice(2)}\` | [${page}](${page}) |\n`;
    });
  return `# API reference

Every exported name is described in the types of its entry, where editors show it, and on a page that is made from them. The package holds the types; the pages are in the repository.

| entry | types | page |
|---|---|---|
${rows.join("")}`;
}
