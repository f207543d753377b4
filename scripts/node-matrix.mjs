/**
 * Runs the tests on every supported major version of Node: `node scripts/node-matrix.mjs [MAJOR…]`.
 *
 * The binaries come from npm and are kept in `.cache/node`. Without arguments the running major version is left out, because
 * `npm test` has tested it. The oldest supported version is tested exactly.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findNode } from "./tools/node-binary.mjs";

/** The newest version of each major, and the oldest that `engines` in package.json allows. */
const VERSIONS = ["20.15.0", "22", "24"];

// `npm test` has done the long random searches; a few rounds show what another Node changes.
const env = { SCHEDULES: "100", MODEL_RUNS: "50", KILLS: "10", ...process.env };

const root = fileURLToPath(new URL("..", import.meta.url));
const chosen = process.argv.slice(2);

const results = [];
for (const version of VERSIONS) {
  const isOwn = process.versions.node === version || process.versions.node.startsWith(`${version}.`);
  const wanted = chosen.length > 0 ? chosen.some((major) => version.split(".")[0] === major) : !isOwn;
  if (!wanted) continue;
  const node = findNode(version);
  const found = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout?.trim() ?? "";
  if (!found.startsWith(`v${version}`))
    throw new Error(`${node} is Node ${found || "that does not run"}, not ${version}`);
  console.log(`\n== tests on Node ${found}`);
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const { status } = spawnSync(node, [vitest, "run", "--reporter=dot"], { cwd: root, stdio: "inherit", env });
  results.push({ version: found, passed: status === 0 });
}

for (const { version, passed } of results) console.log(`Node ${version}: ${passed ? "passed" : "FAILED"}`);
if (results.length === 0) throw new Error(`no version to test; there are ${VERSIONS.join(", ")}`);
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1;
