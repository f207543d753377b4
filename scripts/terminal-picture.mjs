/**
 * Makes docs/images/terminal.svg: the command's output for a real archive, as shown in the README.
 *
 * The lines are the actual output of the built command, in a folder with a copy of a fixture's archive.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "superchunk-picture-"));

/** The typed commands, and which output lines are shown (default: all). */
const STEPS = [
  { words: "info daily_equities.bcolz", shows: (line) => !line.startsWith("attribute") },
  { words: "verify daily_equities.bcolz" },
  { words: "convert daily_equities.bcolz daily.zarr --verify" },
  { words: "cat daily.zarr --slice 0:3" },
];
const LINE = 19;
const CHARACTER = 8.43;
const MARGIN = 18;

const lines = [];
try {
  const source = join(root, "fixtures", "corpus", "ctable", "bcolz-daily-equities");
  cpSync(source, join(folder, "daily_equities.bcolz"), { recursive: true });
  for (const { words, shows = () => true } of STEPS) {
    const args = [join(root, "dist", "cli", "main.js"), ...words.split(" ")];
    const said = execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
    if (lines.length > 0) lines.push({ text: "" });
    lines.push({ text: `$ superchunk ${words}`, isTyped: true });
    lines.push(
      ...said
        .trimEnd()
        .split("\n")
        .filter(shows)
        .map((text) => ({ text })),
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

const width = Math.ceil(Math.max(...lines.map(({ text }) => text.length)) * CHARACTER + 2 * MARGIN);
const height = lines.length * LINE + 2 * MARGIN;
const escapeText = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const rows = lines.map(({ text, isTyped }, i) => {
  const y = MARGIN + (i + 1) * LINE - 5;
  return `<text x="${MARGIN}" y="${y}"${isTyped ? ' class="typed"' : ""} xml:space="preserve">${escapeText(text)}</text>`;
});
const title =
  "superchunk looks at a bcolz table, verifies it, converts it to Zarr, and prints its first rows";
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">
<title>${title}</title>
<style>text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dae0 } .typed { fill: #8fd18f }</style>
<rect width="${width}" height="${height}" rx="8" fill="#1e2127"/>
${rows.join("\n")}
</svg>
`;
mkdirSync(join(root, "docs", "images"), { recursive: true });
writeFileSync(join(root, "docs", "images", "terminal.svg"), svg);
console.log(`docs/images/terminal.svg: ${lines.length} lines`);
