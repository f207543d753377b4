/** Lists the chunks of a sequence with their headers. Pages that show other formats do not load this code. */

import { toHex } from "../../bytes/arrays.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { mapAhead } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkInfo, ListChunksOptions } from "../kinds/types.ts";
import type { ChunkSequence, PlacedChunk } from "../places/sequence.ts";
import {
  checkChunkHeader,
  FIRST_READ,
  firstLength,
  missingChunk,
  PAGE,
  readNow,
  readPrefix,
  readsNow,
  type SyncStore,
  startHead,
} from "./block-read.ts";
import { fetchChunks } from "./chunk-fetch.ts";

const PLACES = 1024;
/** Objects examined together. */
const LOT = 128;
/** Lots of objects examined ahead of the consumer. */
const LOTS_AHEAD = 4;

/** Lists the chunks of a sequence, in order. Throws the codes of damage. */
export function listChunks(sequence: ChunkSequence, options: ListChunksOptions): AsyncGenerator<ChunkInfo> {
  const { getHeads } = sequence.store;
  return sequence.hasObjectForEach === true && getHeads !== undefined
    ? listObjects(sequence, getHeads.bind(sequence.store), options)
    : listRuns(sequence, options);
}

/** Lists a sequence with one object per chunk, reading the first bytes of many objects at a time. */
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
    const length = Math.max(...places.map(({ offset }) => offset)) + HEADER_LENGTH;
    const keys = places.map(({ key }) => key);
    return { places, heads: await getHeads(keys, length, { signal }) };
  };
  for await (const { places, heads } of mapAhead(starts(), LOTS_AHEAD, look, signal))
    for (const [i, place] of places.entries()) {
      signal?.throwIfAborted();
      const head = heads[i];
      const path = store.describe(place.key);
      if (head === undefined) throw missingChunk(path, place);
      const announced = onObject?.(place.key, head.info);
      if (announced !== undefined) await announced;
      yield describeChunk(place, startHead(head.bytes, place, path).header, undefined);
      onProgress?.({ done: place.index + 1 - first, total: last - first });
    }
}

/** Lists any sequence, in runs of chunks that are neighbours in one object. */
async function* listRuns(sequence: ChunkSequence, options: ListChunksOptions): AsyncGenerator<ChunkInfo> {
  const { first = 0, digests = true, signal } = options;
  let key: string | undefined;
  const last = Math.min(options.end ?? sequence.nchunks, sequence.nchunks);
  for (let at = first; at < last; at += PLACES) {
    const places = await sequence.places(at, Math.min(last, at + PLACES), signal);
    for (const run of runsInObjects(places, digests)) {
      signal?.throwIfAborted();
      const [{ key: own }] = run;
      if (own !== key) await options.onObject?.(own);
      key = own;
      for (const info of await describeRun(sequence.store, run, digests, signal)) {
        signal?.throwIfAborted();
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

/** Chunks of one object described together. */
const RUN = 256;

/** Groups chunks of one object into runs. A chunk whose digest is wanted is a run of its own, because its payload is read too. */
function* runsInObjects(
  places: readonly PlacedChunk[],
  digests: boolean,
): Generator<readonly [PlacedChunk, ...PlacedChunk[]]> {
  let run: [PlacedChunk, ...PlacedChunk[]] | undefined;
  for (const place of places) {
    const previous = run?.at(-1);
    const isAlone = digests && place.checksum !== "None";
    // In some files the chunks are not stored in order.
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

/**
 * Reads and checks the headers of consecutive chunks of one object. If they are close together, one read covers many;
 * otherwise a store with latency is asked for them concurrently.
 */
async function readHeaders(
  store: ReadableStore,
  places: readonly PlacedChunk[],
  signal?: AbortSignal,
): Promise<readonly ChunkHeader[]> {
  const [first] = places;
  const last = places.at(-1);
  if (first === undefined || last === undefined) return [];
  const length = last.offset + FIRST_READ - first.offset;
  const isClose = length > 0 && length <= places.length * PAGE;
  if (places.length === 1 || !isClose || first.prologue > 0 || last.key !== first.key) {
    if (!readsNow(store))
      return Promise.all(
        places.map(async (place) => (await readPrefix(store, place, FIRST_READ, signal)).header),
      );
    signal?.throwIfAborted();
    return places.map((place) => readHeaderNow(store, place));
  }
  const path = store.describe(first.key);
  const bytes = await store.getRange(first.key, { offset: first.offset, length }, { signal });
  if (bytes === undefined) throw missingChunk(path, first);
  return places.map((place) => {
    const start = place.offset - first.offset;
    if (start < 0) throw new RangeError("chunks of a run must follow one another");
    return checkChunkHeader(
      bytes.subarray(start, start + Math.min(FIRST_READ, place.available)),
      place,
      path,
    );
  });
}

function readHeaderNow(store: SyncStore, place: PlacedChunk): ChunkHeader {
  const path = store.describe(place.key);
  const bytes = readNow(store, place, -place.prologue, firstLength(place, place.prologue + HEADER_LENGTH));
  return startHead(bytes, place, path).header;
}
