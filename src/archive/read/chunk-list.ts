/**
 * Lists chunks: where each lies and what its header says.
 *
 * Knows how many headers one question brings; must not know what the list is for.
 */
import type { ChunkHeader } from "../../codec/types.ts";
import { mapAhead } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkInfo, ListChunksOptions } from "../kinds/types.ts";
import type { ChunkSequence, PlacedChunk } from "../places/sequence.ts";
import { headerOf, readHeaders } from "./block-read.ts";
import { fetchChunks, missingChunk, toHex } from "./chunk-fetch.ts";

/** Places that are made at a time. */
const PLACES = 1024;
/** Objects that are looked at together. */
const LOT = 128;
/** Lots of objects that are looked at ahead of the consumer. */
const LOTS_AHEAD = 4;
const CHUNK_HEADER = 16;

/** The chunks of a sequence, in order. Throws the codes of damage. */
export function listChunks(
  sequence: ChunkSequence,
  options: ListChunksOptions = {},
): AsyncGenerator<ChunkInfo> {
  const { getHeads } = sequence.store;
  return sequence.hasObjectForEach === true && getHeads !== undefined
    ? listObjects(sequence, getHeads.bind(sequence.store), options)
    : listRuns(sequence, options);
}

/** The chunks of a sequence with an object for each, whose beginnings are read many at a time. */
async function* listObjects(
  sequence: ChunkSequence,
  getHeads: NonNullable<ReadableStore["getHeads"]>,
  { first = 0, end = sequence.nchunks, onObject, onProgress, signal }: ListChunksOptions,
): AsyncGenerator<ChunkInfo> {
  const { store } = sequence;
  const last = Math.min(end, sequence.nchunks);
  function* starts(): Generator<number> {
    for (let at = first; at < last; at += LOT) yield at;
  }
  const look = async (at: number, signal: AbortSignal) => {
    const places = await sequence.places(at, Math.min(last, at + LOT), signal);
    const length = Math.max(...places.map(({ offset }) => offset)) + CHUNK_HEADER;
    const keys = places.map(({ key }) => key);
    return { places, heads: await getHeads(keys, length, { signal }) };
  };
  for await (const { places, heads } of mapAhead(starts(), LOTS_AHEAD, look, signal)) {
    for (const [i, place] of places.entries()) {
      const head = heads[i];
      const path = store.describe(place.key);
      if (head === undefined) throw missingChunk(path, place);
      const announced = onObject?.(place.key, head.info);
      if (announced !== undefined) await announced;
      yield describeChunk(place, headerOf(head.bytes, place, path), undefined);
      onProgress?.({ done: place.index + 1 - first, total: last - first });
    }
  }
}

/** The chunks of any sequence, run by run of neighbours in one object. */
async function* listRuns(sequence: ChunkSequence, options: ListChunksOptions): AsyncGenerator<ChunkInfo> {
  const { first = 0, digests = true, signal } = options;
  let key: string | undefined;
  const last = Math.min(options.end ?? sequence.nchunks, sequence.nchunks);
  for (let at = first; at < last; at += PLACES) {
    const places = await sequence.places(at, Math.min(last, at + PLACES), signal);
    for (const run of runsOf(places, digests)) {
      signal?.throwIfAborted();
      const [{ key: own }] = run;
      if (own !== key) await options.onObject?.(own);
      key = own;
      for (const info of await describeRun(sequence.store, run, digests, signal)) {
        yield info;
        options.onProgress?.({ done: info.index + 1 - first, total: last - first });
      }
    }
  }
}

async function describeRun(
  store: ReadableStore,
  run: readonly PlacedChunk[],
  digests: boolean,
  signal: AbortSignal | undefined,
): Promise<readonly ChunkInfo[]> {
  const [first] = run;
  if (!digests || first?.checksum === "None") {
    const headers = await readHeaders(store, run, signal);
    return headers.flatMap((header, i) => {
      const place = run[i];
      return place === undefined ? [] : [describeChunk(place, header, undefined)];
    });
  }
  const infos: ChunkInfo[] = [];
  for await (const chunk of fetchChunks(store, run, { verify: false, signal }))
    infos.push(describeChunk(chunk.place, chunk.header, toHex(chunk.digest)));
  return infos;
}

/** Chunks of one object that are described together. */
const RUN = 256;

/** Neighbours in one object, in runs; those whose digests are wanted one by one: their payloads are read too. */
function* runsOf(
  places: readonly PlacedChunk[],
  digests: boolean,
): Generator<readonly [PlacedChunk, ...PlacedChunk[]]> {
  let run: [PlacedChunk, ...PlacedChunk[]] | undefined;
  for (const place of places) {
    const previous = run?.at(-1);
    const isAlone = digests && place.checksum !== "None";
    // In some files the chunks do not lie in their order.
    const follows = previous?.key === place.key && place.offset > previous.offset;
    if (run !== undefined && follows && !isAlone && run.length < RUN) {
      run.push(place);
      continue;
    }
    if (run !== undefined) yield run;
    run = [place];
  }
  if (run !== undefined) yield run;
}

function describeChunk(place: PlacedChunk, header: ChunkHeader, digest: string | undefined): ChunkInfo {
  const { index, key, offset, nbytes, available, checksum } = place;
  const { ctbytes, typesize, blocksize, compressor, shuffle, memcpyed } = header;
  return {
    index,
    key,
    offset,
    nbytes,
    available,
    checksum,
    ctbytes,
    typesize,
    blocksize,
    compressor,
    shuffle,
    memcpyed,
    digest,
  };
}
