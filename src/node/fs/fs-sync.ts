/**
 * Bringing what was written to the disk, and what may be said of it afterwards.
 *
 * Systems tell a failed write-back once: a later sync of the same file or folder succeeds over what is lost. So where a sync of a
 * folder failed, or of a file that has its name already, nothing more below the root is called durable. A new file that has no name
 * yet is not meant: it is removed, and who tries again writes all of it. Must not know what is in files.
 */
import * as fs from "node:fs";
import { promisify } from "node:util";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { explainError, systemCode } from "./fs-errors.ts";

/** The system's own, for a new file that has no name yet; all others are synced by {@link Durability}. */
export const syncAll: (file: number) => Promise<void> = promisify(fs.fsync);
/** The same for the bytes alone: times need not be durable. */
export const syncBytes: (file: number) => Promise<void> = promisify(fs.fdatasync);

/** Opens a folder and nothing else, and waits for nothing. Windows has neither flag, and is not asked. */
const FOLDER = fs.constants.O_RDONLY | (fs.constants.O_DIRECTORY ?? 0) | (fs.constants.O_NONBLOCK ?? 0);

/** `details.field` of the error of a sync that failed. */
const FIELD = "sync";

/** True where an error says that something may be lost that was written before. */
function isLostWrite(error: unknown): error is SuperchunkError {
  return isSuperchunkError(error) && error.details.field === FIELD;
}

/** What below one root is durable. */
export class Durability {
  #failure: SuperchunkError | undefined;

  /** Throws `IO` where an earlier sync failed. */
  assert(): void {
    if (this.#failure === undefined) return;
    const { path, found } = this.#failure.details;
    throw lost(
      "IO",
      `nothing more is called durable here, since an earlier sync failed (${String(found)})`,
      path,
      this.#failure,
    );
  }

  /** Takes note of a sync that failed elsewhere, in another thread. Other errors are none of it. */
  note(error: unknown): void {
    if (isLostWrite(error)) this.#failure ??= error;
  }

  /**
   * Makes the entries of a folder durable. On Windows, which cannot sync a folder, it does nothing: there a crash of the
   * machine right after may lose the entry, never the old object.
   *
   * @throws IO, or NO_SPACE, where that failed, and IO from then on
   */
  async syncFolder(path: string): Promise<void> {
    this.assert();
    if (process.platform === "win32") return;
    // Only what waits for the disk leaves the thread.
    const folder = fs.openSync(path, FOLDER);
    try {
      await this.#sync(path, syncAll, folder, isUnknown);
    } finally {
      fs.closeSync(folder);
    }
  }

  /** The same for the bytes of an open file that has its name; `data`: its times need not be. */
  async syncFile(path: string, file: number, data = false): Promise<void> {
    this.assert();
    await this.#sync(path, data ? syncBytes : syncAll, file, () => false);
  }

  async #sync(
    path: string,
    sync: (file: number) => Promise<void>,
    file: number,
    isHarmless: (error: unknown) => boolean,
  ): Promise<void> {
    try {
      await sync(file);
    } catch (error) {
      if (isHarmless(error)) return;
      const told = explainError(error, path, "syncing", true);
      const { code, summary } = isSuperchunkError(told)
        ? told
        : { code: "IO" as const, summary: String(told) };
      this.#failure ??= lost(code, summary, path, error);
      throw this.#failure;
    }
    // What another sync was told meanwhile may be about these bytes as well.
    this.assert();
  }
}

/** Makes the entries of a folder durable at once, where the system can do that. */
export function syncFolderNow(path: string): void {
  if (process.platform === "win32") return;
  const folder = fs.openSync(path, FOLDER);
  try {
    fs.fsyncSync(folder);
  } catch (error) {
    if (!isUnknown(error)) throw error;
  } finally {
    fs.closeSync(folder);
  }
}

/** Some network and FUSE file systems know no sync of folders, and say so with these two. */
function isUnknown(error: unknown): boolean {
  return systemCode(error) === "EINVAL" || systemCode(error) === "ENOTSUP";
}

function lost(
  code: SuperchunkError["code"],
  what: string,
  path: string | undefined,
  cause: unknown,
): SuperchunkError {
  const found = isLostWrite(cause) ? cause.details.found : systemCode(cause);
  return new SuperchunkError(
    code,
    `${what}. What was written since the last flush may be lost, though it can still be read: the system tells that only once. Look at the disk, mount it anew, open the data again, "superchunk verify" them, and write again what was not flushed`,
    { ...(path === undefined ? {} : { path }), field: FIELD, found, cause },
  );
}
