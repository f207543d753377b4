/**
 * Reads everything and says what is wrong: every header, size, offset, digest and payload. A damaged chunk is one
 * finding, and the others are looked at all the same.
 */

import { isSuperchunkError } from "../errors.ts";
import { digestLength } from "../format/checksums.ts";
import { type FetchedChunk, fetchChunks } from "./chunk-fetch.ts";
import type { ChunkSequence, PlacedChunk } from "./sequence.ts";
import type { ArrayArchive, Finding, LongOptions, VerifyReport } from "./types.ts";

const PLACES = 1024;

export interface VerifyContext {
  readonly sequence: ChunkSequence;
  readonly itemSize: number | undefined;
  /** How messages name the archive. */
  readonly path: string;
  readonly warnings: readonly string[];
  /** Why the values are not read, if so: then nothing is. */
  readonly unreadable: string | undefined;
  decode(chunk: FetchedChunk, out: Uint8Array): Promise<void>;
}

/** Verifies one sequence. Throws only where it is aborted or the store fails. */
export async function verifySequence(context: VerifyContext, options: LongOptions): Promise<VerifyReport> {
  const { sequence, path } = context;
  const tally = new Tally(context, options);
  for (const message of context.warnings) tally.warn("WARNING", message, { path });
  if (context.unreadable !== undefined) {
    // What such chunks should decode to is not known either.
    tally.warn("UNSUPPORTED", context.unreadable, { path });
    return tally.report();
  }
  for (let at = 0; at < sequence.nchunks; at += PLACES) {
    options.signal?.throwIfAborted();
    const places = await tally.guard(() =>
      sequence.places(at, Math.min(sequence.nchunks, at + PLACES), options.signal),
    );
    // Where the tables are damaged, single places may still be found one at a time; the first error says why not.
    if (places === undefined) return tally.report();
    await verifyPlaces(tally, sequence, places, options.signal);
  }
  await tally.guard(async () => {
    for (const name of await listLeftovers(sequence, options.signal)) {
      tally.warn(
        "LEFTOVER",
        "the object does not belong to the archive any more (left over from a trim, or another program's)",
        {
          path: sequence.store.describe(name),
        },
      );
    }
  });
  return tally.report();
}

async function listLeftovers(
  sequence: ChunkSequence,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  try {
    return await sequence.leftovers(signal);
  } catch (error) {
    // A store that cannot list cannot have its leftovers told.
    if (isSuperchunkError(error, "UNSUPPORTED")) return [];
    throw error;
  }
}

/** After an error the chunks behind the damaged one are fetched in a new run. */
async function verifyPlaces(
  tally: Tally,
  sequence: ChunkSequence,
  places: readonly PlacedChunk[],
  signal: AbortSignal | undefined,
): Promise<void> {
  let next = 0;
  while (next < places.length) {
    await tally.guard(
      async () => {
        for await (const chunk of fetchChunks(sequence.store, places.slice(next), { verify: true, signal })) {
          next = chunk.place.index - (places[0]?.index ?? 0);
          await tally.chunk(chunk);
          next++;
        }
      },
      () => next++,
    );
  }
}

/** Counts, and collects findings. */
class Tally {
  readonly #context: VerifyContext;
  readonly #options: LongOptions;
  readonly #findings: Finding[] = [];
  readonly #typesizes = new Set<number>();
  #out = new Uint8Array(0);
  #chunks = 0;
  #nbytes = 0;
  #cbytes = 0;
  #digests = 0;

  constructor(context: VerifyContext, options: LongOptions) {
    this.#context = context;
    this.#options = options;
  }

  async chunk(chunk: FetchedChunk): Promise<void> {
    const { place, header } = chunk;
    if (this.#out.length < header.nbytes) this.#out = new Uint8Array(header.nbytes);
    await this.#context.decode(chunk, this.#out.subarray(0, header.nbytes));
    this.#checkTypesize(chunk);
    if (place.prologue > 0 && chunk.behind > 0) {
      this.warn("TRAILING", `${chunk.behind} bytes or more lie behind the chunk; they are ignored`, {
        path: this.#describe(place),
        chunk: place.index,
      });
    }
    this.#chunks++;
    this.#nbytes += header.nbytes;
    this.#cbytes += header.ctbytes;
    if (digestLength(place.checksum) > 0) this.#digests++;
    this.#options.onProgress?.({ done: this.#nbytes, total: this.#context.sequence.nbytes });
  }

  #checkTypesize({ place, header }: FetchedChunk): void {
    const { itemSize } = this.#context;
    // Blosc stores item sizes over 255 as 1.
    const expected = itemSize === undefined || itemSize > 255 ? 1 : itemSize;
    if (itemSize === undefined || header.typesize === expected || this.#typesizes.has(header.typesize))
      return;
    this.#typesizes.add(header.typesize);
    this.warn(
      "TYPESIZE",
      `typesize is ${header.typesize}, but an item of the dtype has ${itemSize} bytes: the values are right, they may compress worse`,
      {
        path: this.#describe(place),
        chunk: place.index,
        offset: place.offset + 3,
      },
    );
  }

  #describe(place: PlacedChunk): string {
    return this.#context.sequence.store.describe(place.key);
  }

  warn(code: string, message: string, where: Pick<Finding, "path" | "chunk" | "offset">): void {
    this.#findings.push({ severity: "warning", code, message, ...where });
  }

  /** Runs a step; damage that it meets becomes a finding. */
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
        ...(chunk === undefined ? {} : { chunk }),
        ...(offset === undefined ? {} : { offset }),
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
    };
  }
}

/** Verifies parts (columns) one after the other, with one progress over all of their `nbytes`. */
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

/** Reports of parts as one. */
export function joinReports(reports: readonly VerifyReport[]): VerifyReport {
  const sum = (pick: (report: VerifyReport) => number): number =>
    reports.reduce((total, report) => total + pick(report), 0);
  return {
    ok: reports.every((report) => report.ok),
    chunks: sum((r) => r.chunks),
    nbytes: sum((r) => r.nbytes),
    cbytes: sum((r) => r.cbytes),
    digests: sum((r) => r.digests),
    findings: reports.flatMap((report) => report.findings),
  };
}
