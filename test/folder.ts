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

/** A new, empty folder. It goes after the test that asks for it, or with the process where a hook of a file asks. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "superchunk-test-"));
  made.add(folder);
  try {
    onTestFinished(() => remove(folder));
  } catch {
    // Not in a test: it goes with the process.
  }
  return folder;
}
