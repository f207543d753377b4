/** Arrays as single files: `.npy` and Bloscpack. Knows what these hold; must not know where values come from. */

import type { BytesArchive } from "../../archive/kinds/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeNpyHeader } from "../../format/npy.ts";
import type { JsonValue } from "../../format/types.ts";
import type { BloscpackOptions } from "../../write/bloscpack/bloscpack-options.ts";
import { compressArray, compressBytes } from "../../write/bloscpack/bloscpack-write.ts";
import type { BackColumn } from "../sources/source.ts";
import type { BackRun } from "./back-types.ts";
import { CopyingEncoder } from "./copying-encoder.ts";

/** The values of an array behind numpy's header. Throws `UNSUPPORTED`, `CONFLICT`. */
export async function writeNpy(run: BackRun, column: BackColumn, key: string): Promise<void> {
  const { dtype, shape, attrs, fillValue } = column;
  if (dtype.kind === "object") throw noObjects(column.path);
  const header = encodeNpyHeader(dtype, shape);
  const { signal, overwrite } = run.options;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield header;
    yield* run.watch(column.stream({ signal }), column);
  }
  tellLost(run, column, Object.keys(attrs).length > 0, !isNothing(fillValue), ".npy");
  await run.target.put(key, pieces(), { ifAbsent: overwrite !== true, signal });
  run.count(column, undefined);
}

/** An array as a Bloscpack file, in the memory order in which it is stored. Throws `UNSUPPORTED`, `CONFLICT`. */
export async function writeBloscpack(run: BackRun, column: BackColumn, key: string): Promise<void> {
  const { dtype, shape, order, attrs, fillValue } = column;
  if (dtype.kind === "object") throw noObjects(column.path);
  const { encoder, data } = storedChunks(run, column);
  tellLost(run, column, false, !isNothing(fillValue), "Bloscpack");
  await compressArray({ dtype, shape, order, data }, run.target, key, {
    ...bloscpackOptions(run, column, encoder),
    metadata: Object.keys(attrs).length === 0 ? undefined : attrs,
  });
  run.count(column, encoder);
}

/** Plain bytes as a Bloscpack file. */
export async function writeBloscpackBytes(
  run: BackRun,
  archive: BytesArchive,
  column: BackColumn,
  key: string,
): Promise<void> {
  const { encoder, data } = storedChunks(run, column);
  await compressBytes(data, run.target, key, {
    ...bloscpackOptions(run, column, encoder),
    metadata: Object.keys(archive.metadata).length === 0 ? undefined : archive.metadata,
    size: archive.nbytes,
  });
  run.count(column, encoder);
}

/** Bytes in stored order. */
function storedChunks(
  run: BackRun,
  column: BackColumn,
): { encoder: CopyingEncoder; data: AsyncIterable<Uint8Array> } {
  const encoder = new CopyingEncoder(run.encoder);
  const { signal } = run.options;
  const data = column.chunks?.offer(encoder, signal) ?? column.stream({ signal });
  return { encoder, data: run.watch(data, column) };
}

function bloscpackOptions(
  { options }: BackRun,
  { chunks, settings }: BackColumn,
  encoder: CopyingEncoder,
): BloscpackOptions {
  const { cname, clevel, shuffle, typesize, checksum } = settings;
  return {
    ...(cname === undefined ? {} : { cname }),
    ...(clevel === undefined ? {} : { clevel }),
    ...(shuffle === undefined ? {} : { shuffle }),
    typesize,
    chunkSize: chunks !== undefined && chunks.chunkBytes > 0 ? chunks.chunkBytes : undefined,
    checksum,
    encoder,
    force: options.overwrite,
    signal: options.signal,
  };
}

function tellLost(
  run: BackRun,
  { path }: BackColumn,
  attributes: boolean,
  fill: boolean,
  format: string,
): void {
  const lost = [...(attributes ? ["attributes"] : []), ...(fill ? ["the fill value"] : [])];
  if (lost.length > 0)
    run.note(`${path}: ${lost.join(" and ")} not carried over: ${format} has no place for it`);
}

/** True for what is the default without a word on it: none, zero (not -0), false, the empty string, and lists of these. */
function isNothing(fill: JsonValue | undefined): boolean {
  if (Array.isArray(fill)) return (fill as readonly JsonValue[]).every(isNothing);
  return fill === undefined || fill === null || Object.is(fill, 0) || fill === false || fill === "";
}

/** The error for arrays of Python objects. */
export function noObjects(path: string): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", "Python objects are never read, nor written", {
    path,
    field: "dtype",
  });
}
