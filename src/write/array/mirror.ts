/**
 * What a writer tells the keeper of another format of the same rows, so that both stay right. Types only.
 */

import type { JsonObject } from "../../format/types.ts";
import type { WritableStore } from "../../store/types.ts";
import type { ArraySettings } from "../layout/settings.ts";
import type { ArrayWriter } from "./array-writer.ts";
import type { Committed } from "./commit-line.ts";

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

/** A chunk in a file, in bytes, without its digest. */
export interface ChunkPlace {
  readonly offset: number;
  readonly nbytes: number;
}

/** Makes mirrors of arrays. */
export interface MirrorMaker {
  /**
   * Looks whether an array can be made with a mirror; writes nothing.
   *
   * @throws UNSUPPORTED for rows that the other format cannot hold; CONFLICT where something is in the way
   */
  check(
    place: { readonly store: WritableStore; readonly path: string },
    settings: ArraySettings,
  ): Promise<void>;
  /** Of an array that was made just now, and is empty. */
  create(writer: ArrayWriter, attrs: JsonObject): Promise<ArrayMirror>;
  /** Of an array that has one. */
  open(writer: ArrayWriter, attrs: JsonObject): Promise<ArrayMirror>;
  /** Looks whether an array that has one can get other settings; writes nothing. Throws as {@link ArrayMirror.admit}. */
  checkChange(
    place: { readonly store: WritableStore; readonly path: string },
    change: { readonly before: ArraySettings; readonly wanted: ArraySettings; readonly isFree: boolean },
  ): Promise<void>;
  /** Removes what mirrors of an array at this place have left, which is to be removed as well. */
  clear(store: WritableStore, path: string): Promise<void>;
}
