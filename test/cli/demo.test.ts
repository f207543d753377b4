import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { buildPackage } from "./built.ts";

it("the demo converts three real archives, and zarrita reads every value of the results", async () => {
  const folder = temporaryFolder();
  try {
    await buildPackage(folder);
    const temporary = join(folder, "tmp");
    for (const name of ["scripts", "tmp"]) mkdirSync(join(folder, name));
    copyFileSync(join(repositoryRoot, "scripts", "demo.mjs"), join(folder, "scripts", "demo.mjs"));
    symlinkSync(join(repositoryRoot, "fixtures"), join(folder, "fixtures"), "junction");
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, "scripts", "demo.mjs")], {
      cwd: folder,
      env: { ...process.env, TMPDIR: temporary, TEMP: temporary, TMP: temporary },
    });
    const [made = ""] = readdirSync(temporary);
    expect(readdirSync(join(temporary, made)).sort()).toEqual([
      "array-f8.zarr",
      "blz-f8.zarr",
      "daily-equities.zarr",
    ]);
    expect(stdout.match(/equal to the archive/g)).toHaveLength(9);
    expect(stdout).toContain(
      "zarrita reads close: 226 x uint32, 51654, 50967, 52198, ...: equal to the archive",
    );
    expect(stdout).toContain(
      "zarrita reads 3000 x float64, 1.5484064169080625, NaN, 0, ...: equal to the archive",
    );
    expect(stdout).toContain("What to try next:");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
