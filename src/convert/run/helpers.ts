/**
 * Sources of a hierarchy that others convert beside the one that was asked: other threads, each with stores of its own.
 *
 * What goes over can be sent to another thread. A helper makes its sources durable and publishes them, as the batch of the
 * caller does; the record, the groups of folders and the root are the caller's alone.
 */
import type { PackedError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import type { FoundAt, NodeFailure, SourceResult } from "../pipeline.ts";

/** Sources from which on helpers are worth their start. */
export const MANY_SOURCES = 100;
/** Sources that a helper is handed at a time. */
export const HANDED = 16;

/** A source that is handed over. */
export interface HandedSource {
  readonly found: FoundAt;
  readonly node: string;
  /** Fingerprint of the source as an earlier run had begun it. */
  readonly begun: string | undefined;
}

/** What became of it; nothing where it is left to the caller. */
export interface HandedOutcome {
  readonly fingerprint?: string;
  readonly done?: {
    readonly result: SourceResult;
    readonly failures: readonly NodeFailure[];
    /** Its documents for the root's, as JSON; empty where they were not asked for. */
    readonly described: readonly (readonly [path: string, document: string])[];
    readonly nodes: number;
  };
  readonly error?: PackedError;
}

/** Another thread that converts sources. */
export interface Helper {
  /** What became of the sources, in their order. Throws where the thread has ended, and on an abort. */
  run(sources: readonly HandedSource[], describes: boolean, signal: AbortSignal): Promise<HandedOutcome[]>;
  /** Resolves when all that it converted is durable and has its documents. */
  finish(signal: AbortSignal): Promise<void>;
}

/** Those that can be had for a conversion. */
export interface Helpers {
  readonly count: number;
  /** The next one, once it is ready; undefined if threads do not start. */
  start(isResumed: boolean): Promise<Helper | undefined>;
}

/** The documents of a source again. */
export function describedIn(
  described: readonly (readonly [path: string, document: string])[],
): (readonly [path: string, document: JsonObject])[] {
  return described.map(([path, text]) => [path, parseJson(text, path) as JsonObject]);
}
