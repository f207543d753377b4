import type { ThreadTuning } from "../../../src/node/threads/thread-decoder.ts";

/** Small jobs, and threads for however little there is. */
export const EAGER: ThreadTuning = {
  worthStarting: 0,
  worthUsing: 0,
  jobBytes: 100_000,
  directJobBytes: 100_000,
  minJobBytes: 0,
};
