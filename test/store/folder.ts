/** A temporary folder for a test. */
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { temporaryFolder } from "../folder.ts";

/** A new folder, and how to remove it. */
export async function makeFolder(): Promise<{ readonly path: string; dispose(): Promise<void> }> {
  const path = temporaryFolder();
  return { path, dispose: () => fs.rm(path, { recursive: true, force: true }) };
}

/** Writes objects as files, without the store under test. */
export async function writeFiles(
  root: string,
  objects: Iterable<readonly [string, Uint8Array]>,
): Promise<void> {
  for (const [key, bytes] of objects) {
    await fs.mkdir(dirname(join(root, key)), { recursive: true });
    await fs.writeFile(join(root, key), bytes);
  }
}

/** Runs a test with a file store in a new folder. */
export async function withStore(act: (store: FileStore, root: string) => Promise<void>): Promise<void> {
  const { path, dispose } = await makeFolder();
  const store = new FileStore(path);
  try {
    await act(store, path);
  } finally {
    await store.close();
    await dispose();
  }
}
