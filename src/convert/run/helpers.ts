/**
 * Helpers: other threads that convert sources of a hierarchy beside the main one, each with its own stores.
 *
 * What is handed over can be sent to another thread. A helper makes its sources durable and publishes them, like the main
 * thread's batch; the record, the groups of folders and the root belong to the main thread alone.
 */
import type { PackedError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import type { FoundAt, SourceItem } from "../pipeline.ts";
import type { Converted } from "./outcomes.ts";

/** Sources handed to a helper at a time. */
export const HANDED = 16;

export interface HandedSource {
  readonly found: FoundAt;
  readonly node: string;
  /** Fingerprint with which an earlier run had started the source. */
  readonly begun: string | undefined;
}

/** The outcome of a source; empty if it is left to the caller. */
export interface HandedOutcome {
  readonly fingerprint?: string;
  readonly done?: Omit<Converted, "described"> & {
    /** Its documents for the root document, as JSON; empty if they were not requested. */
    readonly described: readonly (readonly [path: string, document: string])[];
  };
  readonly error?: PackedError;
}

/** Another thread that converts sources. */
export interface Helper {
  /** Returns the outcomes of the sources, in their order. Throws if the thread has ended, and on an abort. */
  run(sources: readonly HandedSource[], describes: boolean, signal: AbortSignal): Promise<HandedOutcome[]>;
  /** Resolves when everything that it converted is durable and has its documents. */
  finish(signal: AbortSignal): Promise<void>;
}

/** The helpers available to a conversion. */
export interface Helpers {
  readonly count: number;
  /** With fewer sources, they are not worth their start. */
  readonly leastSources: number;
  /** Starts the next one and waits until it is ready; undefined if threads cannot be started. */
  start(isResumed: boolean): Promise<Helper | undefined>;
}

/** Parses the documents of a source. */
export function parseDescribed(
  described: readonly (readonly [path: string, document: string])[],
): (readonly [path: string, document: JsonObject])[] {
  return described.map(([path, text]) => [path, parseJson(text, path) as JsonObject]);
}

/** The sources of a conversion, from which this thread and helpers take. */
export interface SharedSources {
  readonly queue: Iterator<[number, SourceItem]>;
  /** Sources that only this thread can convert. */
  readonly left: [number, SourceItem][];
}

/** The next sources for a helper: those that were found by a search. Others are left to this thread. */
export function nextToHand({
  queue,
  left,
}: SharedSources): { readonly index: number; readonly item: SourceItem; readonly found: FoundAt }[] {
  const handed = [];
  while (handed.length < HANDED) {
    const { value, done } = queue.next();
    if (done === true) break;
    const [index, item] = value;
    if (item.found === undefined) left.push(value);
    else handed.push({ index, item, found: item.found });
  }
  return handed;
}
