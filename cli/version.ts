/** The version of the package. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** `version` in the package's own `package.json`, from wherever the command runs. */
export function readVersion(): string {
  const path = createRequire(import.meta.url).resolve("superchunk/package.json");
  const found: unknown = JSON.parse(readFileSync(path, "utf8"));
  if (typeof found !== "object" || found === null || !("version" in found)) return "unknown";
  return String(found.version);
}
