/** Which archives a path given on the command line stands for: itself, or all that lie under a folder. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { findArchives } from "../src/array/discover.ts";
import { open as openIn } from "../src/array/open.ts";
import type { Archive, OpenOptions } from "../src/array/types.ts";
import { SuperchunkError } from "../src/errors.ts";
import { FileStore, open } from "../src/node/index.ts";

/** An archive that a path stands for. */
export interface NamedArchive {
  /** How to name it: as typed, and below that. */
  readonly path: string;
  open(options: OpenOptions): Promise<Archive>;
}

/** The archives at or under `path`. A file or a URL is taken at its word. Throws `NOT_FOUND` where there is none. */
export async function* archivesUnder(path: string, signal: AbortSignal): AsyncIterable<NamedArchive> {
  if (!(await isFolder(path))) {
    yield { path, open: (options) => open(path, options) };
    return;
  }
  const store = new FileStore(path);
  try {
    let count = 0;
    for await (const found of findArchives(store, "", { signal })) {
      count++;
      yield {
        path: found.path === "" ? path : join(path, found.path),
        // A store of its own, which the archive closes; its root keeps links from leading out of the folder.
        open: (options) => openIn(new FileStore(path), found.path, options),
      };
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

/** True for a folder of the file system; false for files, URLs and what is not there. */
async function isFolder(path: string): Promise<boolean> {
  if (/^https?:\/\//i.test(path)) return false;
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
