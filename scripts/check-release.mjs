/**
 * Refuses to publish the package before it says where it comes from: `npm publish` runs this first (`prepublishOnly`), in the
 * package's folder. A dry run only warns, so that the other steps of a release can be tried at any time.
 */
import { readFileSync } from "node:fs";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));

/** Members that a release needs, and their address in a manifest. */
const ADDRESSES = {
  repository: (value) => value?.url ?? value,
  homepage: (value) => value,
  bugs: (value) => value?.url ?? value,
};

const missing = Object.entries(ADDRESSES)
  .filter(([name, addressOf]) => !/^(?:git\+)?https:\/\/[^/]+\/./.test(addressOf(manifest[name]) ?? ""))
  .map(([name]) => name);

if (missing.length > 0) {
  const isDry = process.env.npm_config_dry_run === "true";
  console.error(
    `${isDry ? "npm publish will refuse this" : "not published"}: package.json has no https address as ${missing.join(", ")}. ` +
      'Provenance needs "repository", which names the repository that CI runs in; npm shows "homepage", and "bugs" to those who want to report a fault. ' +
      "Fill them in, and commit: see Release in CONTRIBUTING.md",
  );
  if (!isDry) process.exitCode = 1;
}
