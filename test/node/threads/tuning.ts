import type { ThreadTuning } from "../../../src/node/threads/thread-decoder.ts";

/** Small jobs, and threads however little there is to do. */
export const EAGER: ThreadTuning = {
  worthStarting: 0,
  worthUsing: 0,
  jobBytes: 100_000,
  directJobBytes: 100_000,
  minJobBytes: 0,
};
