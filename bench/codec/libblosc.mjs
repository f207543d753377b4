/** libblosc as a peer, through the python-blosc that `npm run test:interop` installs. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const environments = fileURLToPath(new URL("../../.cache/interop/", import.meta.url));

function findPython() {
  if (!existsSync(environments)) return undefined;
  const name = readdirSync(environments).find((each) => each.startsWith("python-blosc-"));
  const python = name === undefined ? undefined : join(environments, name, "python", "bin", "python");
  return python !== undefined && existsSync(python) ? python : undefined;
}

/**
 * Median seconds (and the size, of encoding) for each job `{work, data, …}`; undefined where python-blosc is not there:
 * `npm run test:interop` installs it.
 */
export function timeLibblosc(jobs) {
  const python = findPython();
  if (python === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  try {
    const described = jobs.map(({ data, ...job }, i) => {
      const file = join(folder, String(i));
      writeFileSync(file, data);
      return { ...job, file };
    });
    const script = fileURLToPath(new URL("libblosc.py", import.meta.url));
    const { status, stdout, stderr } = spawnSync(python, [script], {
      input: JSON.stringify(described),
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`libblosc: ${stderr}`);
    return JSON.parse(stdout);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
