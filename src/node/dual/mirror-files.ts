/**
 * The files of an array that is kept a Zarr array as well: shards with holes in them, put in the place of others.
 *
 * Knows how bytes that stay are copied, by sharing blocks where the file system can; must not know what is in a shard.
 */
import * as fs from "node:fs";
import type { FileRange, MirrorFiles, ShardReplacement } from "../../dual/live/types.ts";
import { splitKey } from "../../store/key.ts";
import { explainError } from "../fs/fs-errors.ts";
import { Folders, joinPath } from "../fs/fs-folders.ts";
import { openPlain } from "../fs/fs-open.ts";
import { newMark, publishFile } from "../fs/fs-publish.ts";
import { readFully } from "../fs/fs-read.ts";
import type { FolderReader } from "../fs/fs-reader.ts";
import { writeFully } from "../fs/fs-write.ts";
import { linkFilesBelow } from "./link-files.ts";

/** Bytes that are copied at a time. */
const PIECE = 4 << 20;
const READ_ONLY_MODE = 0o444;

/** The files below a folder; of a store, what is durable there is known together. */
export function mirrorFilesIn(at: string | FolderReader): MirrorFiles {
  const folders = typeof at === "string" ? new Folders(at) : at.folders;
  return Object.assign(linkFilesBelow(folders, folders), {
    replace: (replacement: ShardReplacement) => replaceShard(folders, replacement),
  });
}

async function replaceShard(folders: Folders, replacement: ShardReplacement): Promise<number> {
  const { key, kept, writes, size } = replacement;
  const shown = folders.describe(key);
  const { folder, name } = splitKey(key);
  let written = 0;
  try {
    const parent = await folders.make(folder, true);
    await publishFile({
      folder: parent,
      name,
      shown,
      durableIn: folders,
      ifAbsent: false,
      ifVersion: undefined,
      signal: undefined,
      findVersion: () => undefined,
      beforeReplace: () => undefined,
      freeHandles: () => undefined,
      write: async (file, temporary) => {
        if (kept.length > 0) written += await keepBytes(joinPath(parent, name), temporary, file, kept);
        for (const { offset, bytes } of writes) {
          await writeFully(file, bytes, offset);
          written += bytes.length;
        }
        fs.ftruncateSync(file, size);
        fs.fchmodSync(file, READ_ONLY_MODE);
      },
    });
  } catch (error) {
    throw explainError(error, shown, "writing it anew", true);
  }
  return written;
}

/** Brings ranges of one file into another. The bytes that had to be copied. */
async function keepBytes(
  from: string,
  to: string,
  file: number,
  kept: readonly FileRange[],
): Promise<number> {
  const source = openPlain(from);
  try {
    if (await shareBlocks(from, to)) return 0;
    const buffer = new Uint8Array(
      Math.min(
        PIECE,
        kept.reduce((most, { start, end }) => Math.max(most, end - start), 0),
      ),
    );
    let copied = 0;
    for (const { start, end } of kept) {
      for (let at = start; at < end; ) {
        const read = await readFully(source, at, buffer.subarray(0, Math.min(buffer.length, end - at)));
        if (read === 0) break; // the plan goes by this file's own index, which does not lead past its end
        await writeFully(file, buffer.subarray(0, read), at);
        at += read;
        copied += read;
      }
    }
    return copied;
  } finally {
    fs.closeSync(source);
  }
}

/** Devices, and whether files on them can share blocks. */
const SHARING = new Map<number, boolean>();

/** Makes a file the same as another one without copying bytes. False where the file system cannot. */
async function shareBlocks(from: string, to: string): Promise<boolean> {
  const { dev } = await fs.promises.stat(from);
  const can = SHARING.get(dev) ?? (await tryToShare(from, to));
  SHARING.set(dev, can);
  if (can) await fs.promises.copyFile(from, to, fs.constants.COPYFILE_FICLONE_FORCE);
  return can;
}

/** Tries it on another temporary file: where it fails, its target is removed. */
async function tryToShare(from: string, to: string): Promise<boolean> {
  const trial = to.replace(/[0-9a-f]{16}\.tmp$/, `${newMark()}.tmp`);
  try {
    await fs.promises.copyFile(from, trial, fs.constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false; // whatever it was, copying tells it again
  } finally {
    await fs.promises.rm(trial, { force: true });
  }
}
