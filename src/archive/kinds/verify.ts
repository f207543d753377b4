/**
 * Reads everything and reports what is wrong: every header, size, offset, digest and payload. A damaged chunk is one
 * finding, and checking continues after it.
 */

import { defined } from "../../bytes/arrays.ts";
import { CRC32C_OF_SUMMED, crc32c, DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import { HEADER_LENGTH, typesizeFor } from "../../codec/header.ts";
import { isSuperchunkError, resultOr } from "../../errors.ts";
import { filledText, type RowSpan, VIEW_IS_BEHIND } from "../../format/layout.ts";
import type { DType } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkSequence, PlacedChunk } from "../places/sequence.ts";
import type { DecodedChunk } from "../read/chunk-fetch.ts";
import type { ArrayArchive, Finding, Identity, LongOptions, VerifyReport } from "./types.ts";
import { whileUnchanged } from "./unchanged.ts";

const PLACES = 1024;
/** Most bytes that are read after the last chunk of an object. */
const MOST_REST = 16 << 20;

export interface VerifyContext {
  readonly sequence: ChunkSequence;
  /** Undefined if the values are not read. */
  readonly dtype: DType | undefined;
  /** Name in messages. */
  readonly path: string;
  readonly warnings: readonly string[];
  /** Rows that a repair filled. [FG-15] */
  readonly filled: readonly RowSpan[] | undefined;
  /** Key of the folder that a writer's unfinished change would be in; undefined for a format without. */
  readonly changing: string | undefined;
  /** Why the values are not read, if so. Then chunks are checked, but not what they mean. */
  readonly unreadable: string | undefined;
  readonly identity: Identity | undefined;
  /** Yields the decoded chunks of the places, in order, their digests checked. */
  scan(
    places: AsyncIterable<readonly PlacedChunk[]>,
    signal: AbortSignal | undefined,
  ): AsyncIterable<DecodedChunk>;
}

/** Verifies one sequence. Throws only if it is aborted, the store fails, or something else takes its place (`STALE`). */
export function verifySequence(context: VerifyContext, options: LongOptions): Promise<VerifyReport> {
  const { sequence, identity } = context;
  const objects = identity === undefined ? [] : [identity];
  return whileUnchanged(sequence.store, objects, () => checkSequence(context, options), options);
}

async function checkSequence(context: VerifyContext, options: LongOptions): Promise<VerifyReport> {
  const { sequence, path } = context;
  const tally = new Tally(context, options);
  for (const { code, message } of findingsOf(context, path)) tally.warn(code, message, { path });
  if (context.changing !== undefined && (await isUnfinished(sequence.store, context.changing)))
    tally.warn("WARNING", UNFINISHED, { path });
  if (context.unreadable !== undefined) tally.warn("UNSUPPORTED", context.unreadable, { path });
  const unreached = await verifyChunks(tally, context, options.signal);
  if (unreached > 0) return { ...tally.report(), unreached };
  await tally.guard(() => tally.checkEnds(options.signal));
  await tally.guard(async () => {
    for (const name of await listLeftovers(sequence, options.signal))
      tally.warn(
        "LEFTOVER",
        "the object does not belong to the archive any more (left over from a trim, or another program's)",
        { path: sequence.store.describe(name) },
      );
  });
  return tally.report();
}

/** In the folder of a carray or a table: the commit that says to put the chunks beside it in place. [FA-12] */
export const REDO_COMMIT = "__redo__/commit";

/** What a reader sees of a carray or a table whose change of values or rows is committed, and not in all files. [FA-12] */
export const UNFINISHED =
  "a change is not complete: some chunks may have the old values. A writer is at work, or was killed; the next command that writes completes it";

/** True if the folder of a carray or a table has such a change. */
export async function isUnfinished(store: ReadableStore, path: string): Promise<boolean> {
  const bytes = await store.get(joinKey(path, REDO_COMMIT)).catch(() => undefined);
  return bytes?.[0] === 0x7b; // some servers answer unknown paths with a page, and not with JSON
}

/** Warnings about an archive's harmless oddities, and about rows that a repair filled. */
export function findingsOf(
  {
    warnings,
    filled = [],
  }: { readonly warnings: readonly string[]; readonly filled?: readonly RowSpan[] | undefined },
  path: string,
): Finding[] {
  const texts = new Set(filled.map(filledText));
  return warnings.map((message) => {
    const code = texts.has(message) ? "FILLED" : message === VIEW_IS_BEHIND ? "BEHIND" : "WARNING";
    return { severity: "warning", code, message, path };
  });
}

async function listLeftovers(
  sequence: ChunkSequence,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  // A store that cannot list cannot find leftovers.
  return resultOr([], "UNSUPPORTED", () => sequence.leftovers(signal));
}

/**
 * Checks every chunk; after an error it continues after the damaged chunk in a new run. If the tables that locate chunks
 * are damaged, it ends there: returns the number of chunks that it did not reach. A survey looks for them.
 */
async function verifyChunks(
  tally: Tally,
  { sequence, scan }: VerifyContext,
  signal: AbortSignal | undefined,
): Promise<number> {
  let next = 0;
  let lost: { readonly error: unknown } | undefined;
  async function* places(): AsyncGenerator<readonly PlacedChunk[]> {
    for (let at = next; at < sequence.nchunks; at += PLACES) {
      const end = Math.min(sequence.nchunks, at + PLACES);
      try {
        yield await sequence.places(at, end, signal);
      } catch {
        // Find the chunks before the damage one by one.
        for (let index = at; index < end; index++) {
          try {
            yield await sequence.places(index, index + 1, signal);
          } catch (error) {
            lost = { error };
            return;
          }
        }
      }
    }
  }
  while (lost === undefined && next < sequence.nchunks) {
    signal?.throwIfAborted();
    await tally.guard(
      async () => {
        for await (const chunk of scan(places(), signal)) {
          next = chunk.place.index;
          tally.chunk(chunk);
          next++;
        }
      },
      () => {
        lost = undefined; // the next run finds it again
        next++;
      },
    );
  }
  if (lost === undefined) return 0;
  const { error } = lost;
  await tally.guard(() => Promise.reject(error));
  return sequence.nchunks - next;
}

/** Counts, and collects findings. */
class Tally {
  readonly #context: VerifyContext;
  readonly #options: LongOptions;
  readonly #findings: Finding[] = [];
  readonly #typesizes = new Set<number>();
  /** Chunks after which an object has more bytes, and where they end. */
  readonly #ends: (readonly [PlacedChunk, number])[] = [];
  #chunks = 0;
  #nbytes = 0;
  #cbytes = 0;
  #digests = 0;

  constructor(context: VerifyContext, options: LongOptions) {
    this.#context = context;
    this.#options = options;
  }

  chunk(chunk: DecodedChunk): void {
    const { place } = chunk;
    this.#checkTypesize(chunk);
    // A superchunk of version 4 has room for longer chunks.
    const isAlone = place.prologue > 0 || (place.endsObject === true && place.header?.version !== 4);
    if (isAlone && chunk.trailing > 0)
      this.#ends.push([place, place.offset + chunk.ctbytes + DIGEST_LENGTHS[place.checksum]]);
    this.#chunks++;
    this.#nbytes += chunk.bytes.length;
    this.#cbytes += chunk.ctbytes;
    if (DIGEST_LENGTHS[place.checksum] > 0) this.#digests++;
    this.#options.onProgress?.({ done: this.#nbytes, total: this.#context.sequence.nbytes });
  }

  /** Warns of bytes after the last chunk of an object, unless they make it a shard as well. */
  async checkEnds(signal: AbortSignal | undefined): Promise<void> {
    const { store } = this.#context.sequence;
    for (const [place, end] of this.#ends) {
      const rest = await store.getRange(place.key, { offset: end, length: MOST_REST }, { signal });
      if (rest === undefined || rest.length === 0 || (await endsShard(rest))) continue;
      const count = rest.length < MOST_REST ? rest.length : `${MOST_REST} or more`;
      const where = { path: this.#describe(place), chunk: place.index };
      this.warn("TRAILING", `${count} bytes follow the chunk; they are ignored`, where);
    }
  }

  #checkTypesize({ place, typesize }: DecodedChunk): void {
    const { dtype } = this.#context;
    if (dtype === undefined || this.#typesizes.has(typesize)) return;
    // bcolz and BLZ shuffle text by characters.
    const character = dtype.kind === "bytes" ? 1 : dtype.kind === "unicode" ? 4 : undefined;
    if (typesize === typesizeFor(dtype.itemSize) || typesize === character) return;
    this.#typesizes.add(typesize);
    this.warn(
      "TYPESIZE",
      `typesize is ${typesize}, but an item of the dtype has ${dtype.itemSize} bytes: the values are right, but may compress worse`,
      { path: this.#describe(place), chunk: place.index, offset: place.offset + 3 },
    );
  }

  #describe(place: PlacedChunk): string {
    return this.#context.sequence.store.describe(place.key);
  }

  warn(code: string, message: string, where: Pick<Finding, "path" | "chunk" | "offset">): void {
    this.#findings.push({ severity: "warning", code, message, ...where });
  }

  /** Runs a step; damage becomes a finding. */
  async guard<T>(step: () => Promise<T>, onDamage?: () => void): Promise<T | undefined> {
    try {
      return await step();
    } catch (error) {
      if (
        !isSuperchunkError(error) ||
        !(error.isDamage || error.code === "UNSUPPORTED" || error.code === "LIMIT")
      )
        throw error;
      const { path = this.#context.path, chunk, offset } = error.details;
      this.#findings.push({
        severity: "error",
        code: error.code,
        message: error.summary,
        path,
        ...defined({ chunk, offset }),
      });
      onDamage?.();
      return undefined;
    }
  }

  report(): VerifyReport {
    const findings = this.#findings;
    const ok = findings.every((finding) => finding.severity !== "error");
    return {
      ok,
      chunks: this.#chunks,
      nbytes: this.#nbytes,
      cbytes: this.#cbytes,
      digests: this.#digests,
      findings,
      ...(this.#context.unreadable === undefined ? {} : { unchecked: this.#context.unreadable }),
    };
  }
}

/** True for the index of a shard, with its checksum, or a padded copy of the short last chunk and the index. */
async function endsShard(rest: Uint8Array): Promise<boolean> {
  const copied =
    rest.length < HEADER_LENGTH ? 0 : new DataView(rest.buffer, rest.byteOffset).getUint32(12, true);
  for (const index of [rest, rest.subarray(copied)])
    if (index.length % 16 === 4 && (await crc32c(index)) === CRC32C_OF_SUMMED) return true;
  return false;
}

/** Verifies parts (columns) one after the other. Progress covers all of their `nbytes`. */
export async function verifyParts(
  parts: Iterable<ArrayArchive>,
  nbytes: number,
  options: LongOptions,
): Promise<VerifyReport> {
  const reports: VerifyReport[] = [];
  const { signal, onProgress } = options;
  let before = 0;
  for (const part of parts) {
    const done = before;
    reports.push(
      await part.verify({
        signal,
        onProgress: onProgress && ((p) => onProgress({ done: done + p.done, total: nbytes })),
      }),
    );
    before += part.nbytes;
  }
  return joinReports(reports);
}

/** Combines the reports of parts. */
export function joinReports(reports: readonly VerifyReport[]): VerifyReport {
  const sum = (pick: (report: VerifyReport) => number): number =>
    reports.reduce((total, report) => total + pick(report), 0);
  const unchecked = reports.find((report) => report.unchecked !== undefined)?.unchecked;
  const unreached = sum((r) => r.unreached ?? 0);
  return {
    ...(unreached === 0 ? {} : { unreached }),
    ...(unchecked === undefined ? {} : { unchecked }),
    ok: reports.every((report) => report.ok),
    chunks: sum((r) => r.chunks),
    nbytes: sum((r) => r.nbytes),
    cbytes: sum((r) => r.cbytes),
    digests: sum((r) => r.digests),
    findings: reports.flatMap((report) => report.findings),
  };
}
