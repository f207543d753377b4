/** Copies an archive from the file system into a store in memory, so that tests can damage it. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { MemoryStore } from "../../src/store/memory.ts";

export interface MemoryArchive {
  readonly store: MemoryStore;
  /** Key of the archive: the file's name, or `""` for a folder. */
  readonly path: string;
  readonly files: readonly (readonly [key: string, bytes: Uint8Array])[];
}

/** Loads a file or a folder. */
export async function loadFolder(location: string): Promise<MemoryArchive> {
  const isFile = statSync(location).isFile();
  const names = isFile
    ? [basename(location)]
    : (readdirSync(location, { recursive: true }) as string[]).sort();
  const files: [string, Uint8Array][] = [];
  for (const name of names) {
    const path = isFile ? location : join(location, name);
    if (statSync(path).isFile()) files.push([name.replaceAll("\\", "/"), new Uint8Array(readFileSync(path))]);
  }
  const store = new MemoryStore();
  for (const [key, bytes] of files) await store.put(key, bytes);
  return { store, path: isFile ? basename(location) : "", files };
}
