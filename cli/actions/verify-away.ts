/** Archives of a batch that another thread verifies. */
import { type VerifiedArchive, verifyInThread } from "../../src/node/index.ts";
import type { NamedArchive } from "../input/tree.ts";

/** Archives after which another thread is worth its start. */
const WORTH = 128;

/** Verifies an archive in another thread; undefined if it is the caller's. */
export type VerifyAway = (named: NamedArchive, signal: AbortSignal) => Promise<VerifiedArchive | undefined>;

/** For a batch with so many archives under way, of which one is always the caller's. */
export function verifyAway(jobs: number): VerifyAway {
  let [seen, away] = [0, 0];
  return async ({ inFolder }, signal) => {
    if (inFolder === undefined || ++seen <= WORTH || away >= jobs - 1) return undefined;
    away++;
    try {
      return await verifyInThread(inFolder.root, inFolder.key, { signal });
    } finally {
      away--;
    }
  };
}
