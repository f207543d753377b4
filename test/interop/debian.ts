/** Libraries from Debian's archive, unpacked into a folder: nothing is installed, no privileges are needed. */
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { lastLines, runProgram } from "./program.ts";

/** Unpacks packages into `folder/debian`. Resolves with the reason if that is impossible. */
export async function unpackDebian(packages: readonly string[], folder: string): Promise<string | undefined> {
  const downloads = join(folder, "packages");
  await mkdir(downloads, { recursive: true });
  let downloaded = await runProgram("apt-get", ["download", "--quiet", ...packages], { cwd: downloads });
  if (downloaded.code !== 0 && downloaded.code !== null) {
    // A fresh machine has no lists of packages yet.
    await runProgram("apt-get", ["update", "--quiet"]);
    downloaded = await runProgram("apt-get", ["download", "--quiet", ...packages], { cwd: downloads });
  }
  if (downloaded.code !== 0)
    return `apt-get download ${packages.join(" ")} failed with ${lastLines(downloaded)}`;
  for (const file of await readdir(downloads)) {
    const unpacked = await runProgram("dpkg", ["-x", join(downloads, file), join(folder, "debian")]);
    if (unpacked.code !== 0) return `dpkg -x ${file} failed with ${lastLines(unpacked)}`;
  }
  return undefined;
}
