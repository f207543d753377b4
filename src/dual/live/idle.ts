/** A mirror of an array that is not shown yet, or is not to be shown any more. */
import type { ArrayMirror } from "../../write/array/mirror.ts";
import { indexOfPlaces } from "./shard-file.ts";

/** Gives superchunks their index, and shows nothing. */
export const IDLE_MIRROR: ArrayMirror = {
  makeTail: indexOfPlaces,
  beforeCommit: async () => undefined,
  afterCommit: async () => undefined,
  noteMoved: () => undefined,
  setAttributes: async () => undefined,
  admit: async (settings) => settings,
  change: (step) => step(),
  close: async () => undefined,
};
