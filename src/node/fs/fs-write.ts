/**
 * Writing all of some bytes, however many calls the system takes for it. Must not know where they come from.
 */
import * as fs from "node:fs";

/** Bytes handed over in one call: below the limit of the system (2 GiB). */
const MAX_CALL = 64 << 20;
/** So few are copied by the system sooner than another thread is woken for it. */
const SMALL = 16 << 10;

/** Writes all of `bytes` at `position`, however many calls it takes; a few at once. */
export async function writeFully(
  file: number,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  signal?.throwIfAborted();
  if (bytes.length <= SMALL) return writeFullySync(file, bytes, position);
  for (let done = 0; done < bytes.length; ) {
    signal?.throwIfAborted();
    done += await writeOnce(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
  }
}

function writeOnce(
  file: number,
  bytes: Uint8Array,
  at: number,
  length: number,
  position: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(file, bytes, at, length, position, (error, written) =>
      error ? reject(error) : resolve(written),
    );
  });
}

/**
 * The same for a file that others read. What makes it longer is written first, and cut off again where writing fails, as
 * on a full disk: the file is then what it was, also for who reads it from its end, such as the index of a shard.
 */
export async function writeIntoFile(
  file: number,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  const { size } = fs.fstatSync(file);
  const inside = Math.min(bytes.length, Math.max(0, size - position));
  try {
    if (inside < bytes.length) await writeFully(file, bytes.subarray(inside), position + inside, signal);
  } catch (error) {
    cutTo(file, size);
    throw error;
  }
  await writeFully(file, bytes.subarray(0, inside), position);
}

function cutTo(file: number, size: number): void {
  try {
    if (fs.fstatSync(file).size > size) fs.ftruncateSync(file, size);
  } catch {
    // What kept from writing is the error to tell.
  }
}

/** The same at once, for a few bytes. */
export function writeFullySync(file: number, bytes: Uint8Array, position: number): void {
  let done = 0;
  while (done < bytes.length) {
    done += fs.writeSync(file, bytes, done, Math.min(MAX_CALL, bytes.length - done), position + done);
  }
}
