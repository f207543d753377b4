/** Temporary folders for tests. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

const made = new Set<string>();
process.once("exit", () => made.forEach(remove));

function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  made.delete(folder);
}

/** A new, empty folder. It is removed after the test that requests it, or with the process if a file's hook requests it. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "superchunk-test-"));
  made.add(folder);
  try {
    onTestFinished(() => remove(folder));
  } catch {
    // Outside a test it is removed with the process.
  }
  return folder;
}
