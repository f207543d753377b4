/**
 * What a writer tells the keeper of another format of the same rows, so that both stay right. Types only.
 */

import type { JsonObject } from "../../format/types.ts";
import type { ArraySettings } from "../layout/settings.ts";
import type { Committed } from "./root.ts";
import type { ChunkPlace } from "./superchunk-file.ts";

/** Keeps another format of an array's rows right while the array is written. */
export interface ArrayMirror {
  /** What a full superchunk gets behind its chunks, which lie at these places in the file. */
  makeTail(places: readonly ChunkPlace[]): Promise<Uint8Array>;
  /** Rows are about to be committed. Their superchunks are durable. Where it throws, nothing is committed. */
  beforeCommit(next: Committed): Promise<void>;
  /** Rows are committed. May be called again for the same ones; where it throws, that will be tried again. */
  afterCommit(now: Committed): Promise<void>;
  /** The same rows lie in other superchunks than before. */
  noteMoved(before: Committed, now: Committed): void;
  /** The attributes have changed. */
  setAttributes(attrs: JsonObject, now: Committed): Promise<void>;
  /**
   * Looks whether the array can be shown with other settings, and takes note of them, durably. Resolves with these; where
   * `isFree`, with another superchunklen if readers that know the former one could take shards for others.
   *
   * @throws UNSUPPORTED for what the other format cannot show, or not under names that readers know; CONFLICT where something
   * is in the way
   */
  admit(settings: ArraySettings, isFree?: boolean): Promise<ArraySettings>;
  /** Lets a change be made of the settings that were admitted, and shows it. Where showing fails, that will be tried again. */
  change(step: () => Promise<void>): Promise<void>;
  /** Nothing more will be written. */
  close(now: Committed): Promise<void>;
}
