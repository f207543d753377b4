/**
 * Checks many plain files and reads their first bytes, with synchronous calls.
 *
 * Everything else at a path, including links, which are not followed here, is left to callers that can find out what it is.
 * Must not know roots and keys.
 */
import * as fs from "node:fs";
import type { ObjectHead } from "../../store/types.ts";
import { describeFile, lstatIfThere, openPlain, readFullySync } from "./fs-handles.ts";

/** A request to check files and read their first bytes. */
export interface HeadJob {
  /** Absolute paths; undefined for a file that is not there. */
  readonly paths: readonly (string | undefined)[];
  /** Bytes to read of each; 0 only checks. */
  readonly length: number;
}

/** What was found at each path; undefined if that is not a plain file or could not be read. */
export type HeadReply = (ObjectHead | undefined)[];

/** Does a job. Never throws: what could not be read is for the caller to try again, and to report. */
export function readHeads({ paths, length }: HeadJob): HeadReply {
  return paths.map((path) => {
    try {
      if (path === undefined) return undefined;
      return length === 0 ? checkFile(path) : readFileHead(path, length);
    } catch {
      return undefined;
    }
  });
}

/** Checks a path without following links. */
function checkFile(path: string): ObjectHead | undefined {
  const info = lstatIfThere(path);
  return info?.isFile() === true ? { bytes: new Uint8Array(0), info: describeFile(info) } : undefined;
}

/** Reads the first bytes of a file, after checking it through the same handle. */
function readFileHead(path: string, length: number): ObjectHead | undefined {
  if (fs.constants.O_NOFOLLOW === undefined) return undefined; // Windows has no flag against following links
  const file = openPlain(path);
  try {
    const info = fs.fstatSync(file, { bigint: true });
    if (!info.isFile()) return undefined;
    const bytes = new Uint8Array(Math.min(length, Number(info.size)));
    return { bytes: bytes.subarray(0, readFullySync(file, 0, bytes)), info: describeFile(info) };
  } finally {
    fs.closeSync(file);
  }
}
