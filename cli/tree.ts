/** Which archives a path given on the command line stands for: itself, or all that lie under a folder. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { findArchives } from "../src/array/discover.ts";
import { SuperchunkError } from "../src/errors.ts";
import { FileStore } from "../src/node/index.ts";

/** The paths of the archives at or under `path`, for `open`. A file or a URL is taken at its word. */
export async function* archivesUnder(path: string, signal: AbortSignal): AsyncIterable<string> {
  if (!(await isFolder(path))) {
    yield path;
    return;
  }
  const store = new FileStore(path);
  try {
    let count = 0;
    for await (const found of findArchives(store, "", { signal })) {
      count++;
      yield found.path === "" ? path : join(path, found.path);
    }
    if (count === 0) {
      throw new SuperchunkError(
        "NOT_FOUND",
        "no archive in this folder or below; superchunk knows .blp files and the folders of bcolz, BLZ and superchunk",
        { path },
      );
    }
  } finally {
    await store.close();
  }
}

/** True where `path` is one archive, false for a folder in which archives may lie. */
export async function isArchive(path: string): Promise<boolean> {
  if (!(await isFolder(path))) return true;
  const store = new FileStore(path);
  try {
    for await (const found of findArchives(store, "")) return found.path === "";
    return false;
  } finally {
    await store.close();
  }
}

/** True for a folder of the file system; false for files, URLs and what is not there. */
export async function isFolder(path: string): Promise<boolean> {
  if (/^https?:\/\//i.test(path)) return false;
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
