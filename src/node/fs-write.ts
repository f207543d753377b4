/**
 * Writing all of some bytes, however many calls the system takes for it. Must not know where they come from.
 */
import * as fs from "node:fs";
import type { FileHandle } from "node:fs/promises";

/** Bytes handed over in one call: below the limit of the system (2 GiB). */
const MAX_CALL = 64 << 20;

/** Writes all of `bytes` at `position`, however many calls it takes. */
export async function writeFully(
  file: FileHandle,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    signal?.throwIfAborted();
    const { bytesWritten } = await file.write(
      bytes,
      done,
      Math.min(MAX_CALL, bytes.length - done),
      position + done,
    );
    done += bytesWritten;
  }
}

/** The same at once, for a few bytes. */
export function writeFullySync(file: number, bytes: Uint8Array, position: number): void {
  let done = 0;
  while (done < bytes.length) {
    done += fs.writeSync(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
  }
}
