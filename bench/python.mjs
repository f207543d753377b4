/** The Python environments of the peers: those from `npm run test:interop`, and one of the benchmarks' own. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const cache = fileURLToPath(new URL("../.cache/interop", import.meta.url));

/** The Python of an environment; undefined if `npm run test:interop` has not made it. */
export function findPython(environment) {
  const names = existsSync(cache) ? readdirSync(cache) : [];
  const found = names.find((name) => new RegExp(`^${environment}-[0-9a-f]+$`).test(name));
  return found === undefined ? undefined : join(cache, found, "python", "bin", "python");
}

/** A Python with the packages of a requirements file, made on first use; undefined if that fails. */
export function makePython(requirements) {
  const digest = createHash("sha256").update(readFileSync(requirements)).digest("hex").slice(0, 12);
  const folder = fileURLToPath(new URL(`../.cache/bench/python-${digest}`, import.meta.url));
  const python = join(folder, "bin", "python");
  if (existsSync(join(folder, "ready"))) return python;
  const base = findPython("zarr") ?? "python3";
  for (const [program, args] of [
    [base, ["-m", "venv", "--clear", folder]],
    [python, ["-m", "pip", "install", "--quiet", "--no-deps", "-r", fileURLToPath(requirements)]],
  ]) {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    if (status === 0) continue;
    console.error(`${fileURLToPath(requirements)}: ${stderr ?? "no such program"}`);
    return undefined;
  }
  writeFileSync(join(folder, "ready"), "");
  return python;
}
