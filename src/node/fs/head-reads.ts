/**
 * Checks many plain files and reads their first bytes, with synchronous calls.
 *
 * Everything else at a path, including links, which are not followed here, is left to callers that can find out what it is.
 * Must not know roots and keys.
 */
import * as fs from "node:fs";
import { openPlain } from "./fs-handles.ts";

/** A request to check files and read their first bytes. */
export interface HeadJob {
  /** Absolute paths, separated by NUL. */
  readonly paths: string;
  /** Bytes to read of each; 0 only checks. */
  readonly length: number;
}

/** What was found at the paths of a job. */
export interface HeadReply {
  /** The first bytes, each in a slot of the job's length. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Bytes read of each; {@link OTHER} if it is not a plain file or could not be read. */
  readonly read: Int32Array<ArrayBuffer>;
  /** Size, mtime in nanoseconds, inode and number of names of each. */
  readonly facts: BigInt64Array<ArrayBuffer>;
}

/** Not a plain file, or one that could not be read. */
export const OTHER = -1 as const;

/** Number of {@link HeadReply.facts} for each path. */
export const HEAD_FACTS = 5 as const;

/** Does a job. Never throws: a path that cannot be read is {@link OTHER}. */
export function readHeads({ paths, length }: HeadJob): HeadReply {
  const names = paths.split("\0");
  const bytes = new Uint8Array(new ArrayBuffer(names.length * length));
  const read = new Int32Array(new ArrayBuffer(names.length * 4)).fill(OTHER);
  const facts = new BigInt64Array(new ArrayBuffer(names.length * HEAD_FACTS * 8));
  names.forEach((path, i) => {
    try {
      const target = bytes.subarray(i * length, (i + 1) * length);
      read[i] = length === 0 ? noteFile(path, facts, i) : readFileHead(path, target, facts, i);
    } catch {
      // The caller tries again, and reports the error.
    }
  });
  return { bytes, read, facts };
}

/** Checks a path without following links. */
function noteFile(path: string, facts: BigInt64Array, i: number): number {
  const info = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return info?.isFile() === true ? note(info, facts, i) : OTHER;
}

/** Reads the first bytes of a file, after checking it through the same handle. */
function readFileHead(path: string, target: Uint8Array, facts: BigInt64Array, i: number): number {
  const file = openPlain(path);
  try {
    const info = fs.fstatSync(file, { bigint: true });
    if (!info.isFile()) return OTHER;
    note(info, facts, i);
    const wanted = info.size < BigInt(target.length) ? Number(info.size) : target.length;
    let done = 0;
    while (done < wanted) {
      const got = fs.readSync(file, target, done, wanted - done, done);
      if (got === 0) break;
      done += got;
    }
    return done;
  } finally {
    fs.closeSync(file);
  }
}

function note(info: fs.BigIntStats, facts: BigInt64Array, i: number): 0 {
  const at = i * HEAD_FACTS;
  facts[at] = info.size;
  facts[at + 1] = info.mtimeNs;
  facts[at + 2] = info.ino;
  facts[at + 3] = info.nlink;
  facts[at + 4] = info.ctimeNs;
  return 0;
}
