/** Which archives a path given on the command line stands for: itself, or all that lie under a folder. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { findArchives } from "../src/array/discover.ts";
import { open as openIn } from "../src/array/open.ts";
import type { Archive, OpenOptions } from "../src/array/types.ts";
import { isArchive } from "../src/bridge/index.ts";
import { SuperchunkError } from "../src/errors.ts";
import { FileStore, locate, open } from "../src/node/index.ts";

/** An archive that a path stands for. */
export interface NamedArchive {
  /** How to name it: as typed, and below that. */
  readonly path: string;
  open(options: OpenOptions): Promise<Archive>;
}

/** The archives at or under `path`. A file or a URL is taken at its word. Throws `NOT_FOUND` where there is none. */
export async function* archivesUnder(path: string, signal: AbortSignal): AsyncIterable<NamedArchive> {
  if (/^s3:\/\//i.test(path)) {
    yield* archivesInBucket(path, signal);
    return;
  }
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
    if (count === 0) throw noArchive(path);
  } finally {
    await store.close();
  }
}

/** The archives at or under an address of S3, which tells folders by what is listed there. */
async function* archivesInBucket(address: string, signal: AbortSignal): AsyncIterable<NamedArchive> {
  const { store, path } = await locate(address);
  try {
    if (await isArchive(store, path, { signal })) {
      yield { path: address, open: (options) => open(address, options) };
      return;
    }
    const [base = address, query] = address.split("?");
    const behind = query === undefined ? "" : `?${query}`;
    let count = 0;
    for await (const found of findArchives(store, path, { signal })) {
      count++;
      const below = path === "" ? found.path : found.path.slice(path.length + 1);
      const own = `${base.replace(/\/+$/, "")}/${below}`;
      yield { path: own, open: (options) => open(`${own}${behind}`, options) };
    }
    if (count === 0) throw noArchive(address);
  } finally {
    await store.close?.();
  }
}

function noArchive(path: string): SuperchunkError {
  return new SuperchunkError(
    "NOT_FOUND",
    "no archive in this folder or below; superchunk knows .blp files and the folders of bcolz, BLZ and superchunk",
    { path },
  );
}

/** True for a folder of the file system; false for files, URLs and what is not there. */
async function isFolder(path: string): Promise<boolean> {
  if (/^https?:\/\//i.test(path)) return false;
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
