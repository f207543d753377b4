/**
 * `npm run torture`: the harnesses of this folder with as many runs as fit into a night, and a table of their
 * figures at the end. Every seed is fixed. `npm run torture -- NAME` runs the files whose path contains NAME.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const names = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "superchunk-torture-"));
const figures = join(folder, "figures");
const tests = names.length === 0 ? ["test/attack"] : names.map((name) => `test/attack/${name}`);
const { status } = spawnSync("npx", ["vitest", "run", "--mode", "all", ...tests], {
  stdio: "inherit",
  env: { ...process.env, SUPERCHUNK_FIGURES: figures },
});
const lines = existsSync(figures) ? readFileSync(figures, "utf8").trim().split("\n") : [];
for (const line of lines) {
  const { harness, figures: counts } = JSON.parse(line);
  process.stdout.write(`\n${harness}\n`);
  for (const [what, count] of Object.entries(counts))
    process.stdout.write(`  ${what.padEnd(40)} ${String(count).padStart(10)}\n`);
}
rmSync(folder, { recursive: true, force: true });
process.exitCode = status ?? 1;
