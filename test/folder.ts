/** Temporary folders for tests. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

const made = new Set<string>();
process.once("exit", () => made.forEach(remove));
// The runner ends its processes with this signal, which by itself ends them without the event.
process.once("SIGTERM", () => {
  made.forEach(remove);
  process.kill(process.pid, "SIGTERM");
});

function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  made.delete(folder);
}

/** A new, empty folder that is removed with the process. */
export function folderOfProcess(): string {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "superchunk-test-"));
  made.add(folder);
  return folder;
}

/** A new, empty folder. It is removed after the test that requests it, or with the process if a file's hook requests it. */
export function temporaryFolder(): string {
  const folder = folderOfProcess();
  try {
    onTestFinished(() => remove(folder));
  } catch {
    // Outside a test it is removed with the process.
  }
  return folder;
}
