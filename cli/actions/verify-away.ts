/** Verifies archives of a batch in another thread. */
import { type VerifiedArchive, verifyInThread } from "../../src/node/index.ts";
import type { NamedArchive } from "../input/tree.ts";

/** Number of archives from which on another thread pays off. */
const WORTH = 128;

/** Verifies an archive in another thread; undefined if the caller should verify it. */
export type VerifyAway = (named: NamedArchive, signal: AbortSignal) => Promise<VerifiedArchive | undefined>;

/** For a batch with `jobs` archives under way, one of which is always the caller's. */
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
