/**
 * A worker thread that does one job after the other.
 *
 * Reads files itself, synchronously: it has nothing else to do meanwhile, and the bytes stay in its processor's cache. Knows
 * jobs; must not know their order among workers.
 */

import { parentPort } from "node:worker_threads";
import type { PlacedChunk } from "../../archive/places/sequence.ts";
import { missingChunk } from "../../archive/read/block-read.ts";
import {
  boundOf,
  checkChunk,
  type DecodeChunk,
  decodeFetched,
  type FetchedChunk,
  fetchChunks,
} from "../../archive/read/chunk-fetch.ts";
import { at, keepLast } from "../../bytes/arrays.ts";
import {
  decodeHeader,
  decodeSync,
  encodeInto,
  leaseDecoder,
  prepare,
  prepareEncode,
} from "../../codec/index.ts";
import { packError, placedError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import { FolderReader } from "../fs/fs-reader.ts";
import { loadNativeBlosc } from "./native-blosc.ts";
import {
  type DecodeBytes,
  type DecodeJob,
  type DecodePlaces,
  type EncodeJob,
  FACTS,
  nextPlace,
  openTargets,
  type ShardJob,
  type ThreadJob,
  type ThreadOrder,
  type ThreadReply,
  unpackPlaces,
} from "./thread-messages.ts";

/** Stores to keep, with the folders that they have examined. */
const MAX_STORES = 16;
/** Chunks up to this decoded size get memory before they are checked. */
const TRUSTED = 64 << 20;

/** Bytes of chunks that are read one by one: smaller ones are faster several in one read; the size of larger ones must be checked first. */
const MIN_DIRECT = 64 << 10;
const MAX_DIRECT = 16 << 20;

const prologue = new Uint8Array(16);
const stores = new Map<number, FolderReader>();
/** Read buffers, reused. */
const buffers: Uint8Array[] = [];

async function run(job: ThreadJob, signal: AbortSignal): Promise<ThreadReply> {
  try {
    if (job.kind === "shard") return await runShard(job, signal);
    return job.kind === "encode" ? await runEncode(job) : await runDecode(job);
  } catch (error) {
    return { buffers: [], facts: new Float64Array(0), error: packError(error) };
  }
}

/** The chunks of the pieces up to the first one that cannot be encoded. */
async function runEncode({ blosc, input, output, pieces }: EncodeJob): Promise<ThreadReply> {
  const native = blosc === "native" ? await loadNativeBlosc() : undefined;
  const facts: number[] = [];
  let [from, to] = [0, 0];
  for (const { length, options } of pieces) {
    const data = new Uint8Array(input, from, length);
    const room = new Uint8Array(output, to);
    if (native === undefined) await prepareEncode(options.cname);
    const chunk = native?.encode(data.slice(), options) ?? encodeInto(data, room, options);
    if (chunk.buffer !== output) room.set(chunk);
    facts.push(chunk.length);
    from = nextPlace(from, length);
    to = nextPlace(to, chunk.length);
  }
  return { buffers: [], facts: Float64Array.from(facts) };
}

async function runShard(job: ShardJob, signal: AbortSignal): Promise<ThreadReply> {
  // Loaded on demand, because it needs all the code for Zarr.
  const { writeShard } = await import("./shard-job.ts");
  await writeShard(job, signal);
  return { buffers: [], facts: new Float64Array(0) };
}

async function runDecode(job: DecodeJob): Promise<ThreadReply> {
  const facts: number[] = [];
  const outputs: ArrayBuffer[] = [];
  let error: ThreadReply["error"];
  try {
    const decode: DecodeChunk | undefined =
      job.blosc === "native" ? (await loadNativeBlosc()).decode : undefined;
    const targets = job.targets === undefined ? undefined : await openTargets(job.targets);
    const room = targets ?? makeRoom(job, outputs);
    if (job.kind === "places") await decodePlaces(job, decode, room, facts);
    else await decodeBytes(job, decode, room, facts);
  } catch (cause) {
    error = packError(cause);
    if (job.own) outputs.length = Math.min(outputs.length, facts.length / FACTS);
  }
  const input = job.kind === "bytes" ? job.input : undefined;
  return { buffers: outputs, facts: Float64Array.from(facts), input, error };
}

type Room = (nbytes: number, total: number) => Uint8Array;

/** Memory for the next chunk: in the job's buffer, or a separate buffer. */
function makeRoom(job: DecodeJob, outputs: ArrayBuffer[]): Room {
  if (job.own)
    return (nbytes) => {
      const buffer = new ArrayBuffer(nbytes);
      outputs.push(buffer);
      return new Uint8Array(buffer);
    };
  if (job.output !== undefined) outputs.push(job.output);
  let at = 0;
  return (nbytes, total) => {
    let [buffer] = outputs;
    if (at === 0 && (buffer === undefined || buffer.byteLength < total)) {
      buffer = new ArrayBuffer(total > TRUSTED ? total : (total + 0xffff) & ~0xffff);
      outputs[0] = buffer;
    }
    at += nbytes;
    return new Uint8Array(buffer ?? new ArrayBuffer(nbytes), at - nbytes, nbytes);
  };
}

async function decodePlaces(
  job: DecodePlaces,
  decode: DecodeChunk | undefined,
  room: Room,
  facts: number[],
): Promise<void> {
  const places = unpackPlaces(job.places);
  const total = places.reduce((sum, place) => sum + place.nbytes, 0);
  const reader = readerOf(job);
  const store = readingAtOnce(reader);
  try {
    const [first] = places;
    if (decode === undefined && first !== undefined && readsDirectly(first)) {
      for (const place of places) {
        const { header, trailing } = await decodeDirectly(reader, place, job.verify, (nbytes) =>
          room(nbytes, total),
        );
        facts.push(header.nbytes, header.ctbytes, header.typesize, trailing);
      }
      return;
    }
    const options = { verify: job.verify, buffers, readAhead: 1 };
    for await (const chunk of fetchChunks(store, places, options)) {
      const { header, trailing } = chunk;
      await decodeFetched(store, chunk, room(header.nbytes, total), decode);
      facts.push(header.nbytes, header.ctbytes, header.typesize, trailing);
    }
  } finally {
    await reader.close();
  }
}

/** Chunks of middle size are read one by one. All chunks of a job but the last have the same size. */
function readsDirectly(place: PlacedChunk): boolean {
  const bound = boundOf(place);
  return bound >= MIN_DIRECT && bound <= MAX_DIRECT;
}

/** Reads a chunk straight into a kernel's memory and decodes it there: the bytes are copied once, into the result. */
async function decodeDirectly(
  reader: FolderReader,
  place: PlacedChunk,
  verify: boolean,
  room: (nbytes: number) => Uint8Array,
): Promise<FetchedChunk> {
  const path = reader.describe(place.key);
  if (place.prologue > 0) {
    const read = reader.readIntoSync(place.key, place.offset - place.prologue, prologue);
    if (read === undefined) throw missingChunk(path, place);
    place.checkPrologue?.(prologue.subarray(0, Math.min(read, place.prologue)), path);
  }
  const lease = leaseDecoder(boundOf(place));
  try {
    const read = reader.readIntoSync(place.key, place.offset, lease.input);
    if (read === undefined) throw missingChunk(path, place);
    const chunk = await checkChunk(lease.input.subarray(0, read), place, path, verify);
    const { header } = chunk;
    const out = room(header.nbytes);
    try {
      if (header.nbytes > 0) lease.decodeInto(out, header.ctbytes);
    } catch (error) {
      throw placedError(error, path, place);
    }
    return chunk;
  } finally {
    lease.release();
  }
}

async function decodeBytes(
  { input, sizes }: DecodeBytes,
  decode: DecodeChunk | undefined,
  room: Room,
  facts: number[],
): Promise<void> {
  let total = 0;
  for (let i = 1; i < sizes.length; i += 3) total += at(sizes, i);
  let start = 0;
  for (let i = 0; i < sizes.length; i += 3) {
    const ctbytes = at(sizes, i);
    const chunk = new Uint8Array(input, start, ctbytes);
    start += ctbytes;
    const header = decodeHeader(chunk);
    const out = room(header.nbytes, total);
    await prepare(header.compressor);
    if (header.nbytes > 0) {
      if (decode === undefined) decodeSync(chunk, { out });
      else decode(chunk, out);
    }
    facts.push(header.nbytes, ctbytes, header.typesize, at(sizes, i + 2));
  }
}

function readerOf({ store, root }: DecodePlaces): FolderReader {
  let reader = stores.get(store);
  if (reader === undefined) {
    reader = new FolderReader(root, { maxOpenFiles: 2 });
    keepLast(stores, store, reader, MAX_STORES);
  }
  return reader;
}

/** The same store without the capability to read in the background. */
function readingAtOnce(reader: FolderReader): ReadableStore {
  return {
    describe: (key) => reader.describe(key),
    get: (key, options) => reader.get(key, options),
    getRange: (key, range, options) => reader.getRange(key, range, options),
    stat: (key, options) => reader.stat(key, options),
    list: (folder, options) => reader.list(folder, options),
    readIntoSync: (key, offset, target) => reader.readIntoSync(key, offset, target),
  };
}

let turn: Promise<void> = Promise.resolve();
/** The abort controllers of unanswered jobs. */
const stops = new Map<number, AbortController>();

parentPort?.on("message", (message: ThreadOrder) => {
  const { id } = message;
  if ("cancelled" in message) {
    stops.get(id)?.abort();
    return;
  }
  const { job } = message;
  const stop = new AbortController();
  stops.set(id, stop);
  const answer = async (): Promise<void> => {
    const reply = await run(job, stop.signal);
    stops.delete(id);
    const transfer = reply.input === undefined ? reply.buffers : [...reply.buffers, reply.input];
    parentPort?.postMessage({ id, reply }, transfer);
  };
  // Shards run side by side: one waits for the disk while another is encoded.
  if (job.kind === "shard") void answer();
  else turn = turn.then(answer);
});
parentPort?.postMessage({ ready: true });
