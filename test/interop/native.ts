/** The unit tests of the native codec, with the libblosc that python-blosc includes: most machines have none. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { cacheFolder } from "./environments.ts";
import type { Suite } from "./suite.ts";

/** Fewer mean that the library was not found, and the tests were skipped. */
const LEAST_TESTS = 20;

export const native: Suite = {
  name: "native",
  peers: ["python-blosc"],
  async run({ checks, peer }) {
    if (peer("python-blosc") === undefined) return;
    const library = readdirSync(cacheFolder)
      .filter((name) => name.startsWith("python-blosc"))
      .map((name) => join(cacheFolder, name, "python", "lib", "libblosc.so.1"))
      .find((path) => existsSync(path));
    if (library === undefined) return checks.fail("libblosc", "python-blosc was installed without it");
    const vitest = join(repositoryRoot, "node_modules", "vitest", "vitest.mjs");
    const { status, stdout } = spawnSync(
      process.execPath,
      [vitest, "run", join("test", "node", "threads", "native.test.ts"), "--reporter=json"],
      { cwd: repositoryRoot, env: { ...process.env, SUPERCHUNK_LIBBLOSC: library }, maxBuffer: 64 << 20 },
    );
    checks.equal(`the tests with ${library} pass`, status, 0);
    const { numPassedTests = 0, numPendingTests = 0 } = JSON.parse(
      String(stdout).slice(String(stdout).indexOf("{")) || "{}",
    ) as { numPassedTests?: number; numPendingTests?: number };
    checks.equal("none of them is skipped", numPendingTests, 0);
    checks.equal(`they are all there (${numPassedTests})`, numPassedTests >= LEAST_TESTS, true);
  },
};
