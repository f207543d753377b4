/**
 * Reading from an open file until the buffer is full or the file ends.
 *
 * Knows short reads; must not know paths.
 */
import * as fs from "node:fs";

/** Bytes asked for in one call: below the limit of the system (2 GiB), and often enough to notice an abort. */
const MAX_CALL = 64 << 20;

/** Fills `target` from `offset`; resolves with the bytes read, fewer than its length only at the end of the file. */
export async function readFully(
  fd: number,
  offset: number,
  target: Uint8Array,
  signal?: AbortSignal,
): Promise<number> {
  let done = 0;
  while (done < target.length) {
    signal?.throwIfAborted();
    const got = await readOnce(fd, target, done, Math.min(MAX_CALL, target.length - done), offset + done);
    if (got === 0) break;
    done += got;
  }
  return done;
}

/** The same at once, for `length` bytes of the target from `at`: all of it if not said. */
export function readFullySync(
  fd: number,
  offset: number,
  target: Uint8Array,
  at = 0,
  length: number = target.length - at,
): number {
  let done = 0;
  while (done < length) {
    const got = fs.readSync(fd, target, at + done, Math.min(MAX_CALL, length - done), offset + done);
    if (got === 0) break;
    done += got;
  }
  return done;
}

/** Fresh memory that is about to be read into: not cleared first, its own buffer, at offset 0. */
export function allocateTarget(length: number): Uint8Array {
  const slow = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(slow.buffer, slow.byteOffset, length);
}

function readOnce(
  fd: number,
  target: Uint8Array,
  at: number,
  length: number,
  position: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, at, length, position, (error, got) => (error ? reject(error) : resolve(got)));
  });
}
