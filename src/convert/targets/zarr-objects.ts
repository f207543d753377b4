/**
 * Converts a Zarr array of any version to Zarr v3: a task for each stored object. Chunks are copied as stored, into shards
 * whose index has a crc32c. If the new document names other codecs, chunks are decoded and encoded.
 *
 * Knows chains and shards; must not know why chunks are recoded, or how arrays are ordered and published.
 */
import { at, elementsOf } from "../../bytes/arrays.ts";
import { CRC32C_OF_SUMMED, startCrc32c } from "../../bytes/checksum.ts";
import { HEADER_LENGTH } from "../../codec/header.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { isGenerating, type ReadableStore, saysEncoded } from "../../store/types.ts";
import { wholeChunk } from "../../zarr/codecs/bytes-codecs.ts";
import { type Chain, leafOf, shardIndexOf } from "../../zarr/codecs/chain.ts";
import type { Stage } from "../../zarr/codecs/stage.ts";
import { countPositions, parseKeyEncoding } from "../../zarr/document/chunk-grid.ts";
import { DOCUMENT, encodeDocument } from "../../zarr/document/make-v3.ts";
import { parseDocument } from "../../zarr/document/metadata-v3.ts";
import type { ArrayModel } from "../../zarr/document/model.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { checkSize, decodeStages } from "../../zarr/read/leaf.ts";
import { openZarrArray } from "../../zarr/read/open.ts";
import { type EncodedPlace, placeDetails, readPlace, ShardCache } from "../../zarr/read/shard-cache.ts";
import {
  DEFAULT_INDEX,
  emptyEntries,
  encodeShardIndex,
  type ShardEntry,
} from "../../zarr/read/shard-index.ts";
import { listStoredChunks, storedPositions } from "../../zarr/read/stored-chunks.ts";
import { onlyChunk } from "../../zarr/read/verify.ts";
import type { ArrayRun, Task, TaskContext } from "../pipeline.ts";
import { noteOn } from "../plan/conversion-jobs.ts";
import { notesOnArray, type Recoding, storedCodecs, type ZarrArrayJob } from "../plan/zarr-jobs.ts";
import { compareZarr } from "../run/compare.ts";

/** Bytes copied at a time. */
const COPY = 4 << 20;
/** Chunks of a shard encoded at a time. */
const AT_ONCE = 4;

/** A planned array that will be written below `prefix`. */
export function objectRun(job: ZarrArrayJob, prefix: string): ArrayRun {
  const { path, node: array, document, recoding, nbytes, itemShape } = job;
  const own = joinKey(prefix, path);
  const key = joinKey(own, DOCUMENT);
  const write = objectWriter(job, own);
  // Objects of one array count alike, also short ones at its end.
  const share = Math.floor(nbytes / Math.max(1, countPositions(array.model.axes)));
  return {
    node: path,
    path: array.store.describe(array.path),
    arrays: 1,
    nbytes,
    notes: notesOnArray(job).map((note) => noteOn(path, note)),
    root: own,
    keepsTasks: true,
    async *tasks(signal) {
      const field = "chunk_key_encoding";
      const keyOf = parseKeyEncoding(own, document[field], { path: key, field });
      for await (const position of storedPositions(array.store, array.model, signal))
        yield {
          key: keyOf([...position, ...itemShape.map(() => 0)]),
          part: position,
          nbytes: share,
        };
    },
    async run(task, context) {
      const isMade = await write(task, context);
      if (isMade) context.advance(task.nbytes);
      return isMade;
    },
    documents: [{ key, bytes: encodeDocument(document) }],
    async compare(store, signal) {
      const copy = await openZarrArray(store, own, { signal });
      await compareZarr(array, copy, { transform: recoding?.transform, signal });
    },
  };
}

async function parseArray(document: JsonObject, path: string): Promise<ArrayModel> {
  const { plainDocument } = await import("../../zarr/read/variable.ts");
  const parsed = parseDocument(plainDocument(document), path, joinKey(path, DOCUMENT));
  if ("consolidated" in parsed) throw new TypeError("the document of an array is that of a group");
  return parsed;
}

/** Returns the function that makes a task's object; it returns false if nothing is stored. */
function objectWriter(
  { node: array, document, recoding, whyEncoded }: ZarrArrayJob,
  own: string,
): ArrayRun["run"] {
  const { model, store } = array;
  const { serializer } = model.chain;
  const { itemSize } = model.dtype;
  const cache = new ShardCache(store);
  // If the store encodes some chunks of an array, it copies the others.
  const kindOf = async (key: string): Promise<"copied" | "recoded"> =>
    whyEncoded !== undefined && saysEncoded(store) && (await store.whyEncoded(key)) !== undefined
      ? "recoded"
      : "copied";
  let recoder: Recoder | undefined;

  return async (task: Task, context: TaskContext): Promise<boolean> => {
    const { signal, counts } = context;
    signal?.throwIfAborted();
    const from = model.chunkKey(task.part);
    if (recoding !== undefined) recoder ??= recoderOf(array, await parseArray(document, own), recoding);
    const place = { key: from, path: store.describe(from), offset: 0 };
    const shape = model.axes.map((axis, i) => axis.lengthOf(at(task.part, i)));
    if (serializer.kind === "bytes" || (recoding === undefined && model.dialect === "zarr3")) {
      if (recoder === undefined && isGenerating(store) && store.getPieces !== undefined) {
        const pieces = await store.getPieces(from, { signal });
        if (pieces === undefined) return false;
        const chunk = { place: { ...place, nbytes: undefined }, decoded: elementsOf(shape) * itemSize };
        const checked = serializer.kind === "bytes" ? checkedPieces(pieces, [chunk], model) : pieces;
        await context.store.put(task.key, checked, { signal });
        counts[await kindOf(from)]++;
        return true;
      }
      const info = await store.stat(from, { signal });
      if (info === undefined) return false;
      const whole = { ...place, nbytes: info.size };
      if (recoder === undefined) {
        const isSharded = serializer.kind === "sharding" && model.chain.stages.length === 0;
        const chunks = isSharded
          ? await chunksAt(store, model, task.part, cache, signal)
          : [{ place: whole, decoded: elementsOf(shape) * itemSize }];
        const pieces = readObjectPieces(store, from, whole, signal);
        await context.store.put(task.key, checkedPieces(pieces, chunks, model), { signal });
        counts[await kindOf(from)]++;
      } else {
        const encoded = await readPlace(store, whole, 0, info.size, signal);
        await context.store.put(task.key, await recoder(encoded, whole, context), { signal });
        counts.recoded++;
      }
      return true;
    }
    const index = shardIndexOf(model.chain, serializer, shape);
    const shard = await cache.open(from, index);
    if (shard === undefined) return false;
    const places = shard.entries.flatMap((entry, slot) =>
      entry === undefined ? [] : [{ ...place, ...entry, slot }],
    );
    if (places.length === 0) return false;
    const stored =
      recoder === undefined ? copies(array, places, signal) : recoded(store, places, recoder, context);
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      const entries = emptyEntries(shard.entries.length);
      let offset = 0;
      for await (const { slot, nbytes, pieces: bytes } of stored) {
        entries[slot] = { offset, nbytes };
        offset += nbytes;
        yield* bytes;
      }
      yield await encodeShardIndex(entries, index.grid, DEFAULT_INDEX);
    };
    await context.store.put(task.key, pieces(), { signal });
    counts[recoder === undefined ? await kindOf(from) : "recoded"] += places.length;
    return true;
  };
}

interface ShardChunk {
  readonly slot: number;
  readonly nbytes: number;
  readonly pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

type SlotPlace = EncodedPlace & ShardEntry & { readonly slot: number };

/** The inner chunks of a shard as stored. */
function* copies(
  { store, model, chunkShape }: ZarrArray,
  places: readonly SlotPlace[],
  signal: AbortSignal | undefined,
): Generator<ShardChunk> {
  const decoded = elementsOf(chunkShape) * model.dtype.itemSize;
  for (const place of places) {
    const { key, slot, offset, nbytes } = place;
    const pieces = readObjectPieces(store, key, { offset, nbytes }, signal);
    yield { slot, nbytes, pieces: checkedPieces(pieces, [{ place, decoded }], model, offset) };
  }
}

async function* recoded(
  store: ReadableStore,
  places: readonly SlotPlace[],
  recode: Recoder,
  context: TaskContext,
): AsyncGenerator<ShardChunk> {
  for (let at = 0; at < places.length; at += AT_ONCE) {
    const lot = places.slice(at, at + AT_ONCE);
    const made = lot.map(async (place) => {
      const bytes = await recode(
        await readPlace(store, place, 0, place.nbytes, context.signal),
        place,
        context,
      );
      return { slot: place.slot, nbytes: bytes.length, pieces: [bytes] };
    });
    yield* await Promise.all(made);
  }
}

/** Decodes a stored chunk with the array's codecs and encodes it with those of its new document. */
type Recoder = (encoded: Uint8Array, place: EncodedPlace, context: TaskContext) => Promise<Uint8Array>;

function recoderOf(array: ZarrArray, converted: ArrayModel, { transform }: Recoding): Recoder {
  const { stages, variable } = storedCodecs(array);
  const encodings = leafOf(converted.chain).stages;
  const nbytes = variable !== undefined ? undefined : elementsOf(array.chunkShape) * array.dtype.itemSize;
  return async (encoded, place, { encoder }) => {
    const items = await decodeStages(stages, encoded, nbytes, place);
    let bytes = transform === undefined ? items : transform.apply(items);
    try {
      for (const stage of encodings) bytes = await stage.encode(bytes, encoder);
    } catch (error) {
      throw isSuperchunkError(error) ? error.at(placeDetails(place)) : error;
    }
    return bytes;
  };
}

/** A range of an object in pieces of bounded size. Throws `TRUNCATED`. */
export async function* readObjectPieces(
  store: ReadableStore,
  key: string,
  { offset, nbytes }: ShardEntry,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < nbytes; at += COPY) {
    const length = Math.min(COPY, nbytes - at);
    const bytes = await store.getRange(key, { offset: offset + at, length }, { signal });
    if (bytes?.length !== length)
      throw new SuperchunkError("TRUNCATED", "the object became shorter while it was copied", {
        path: store.describe(key),
        offset: offset + at,
        expected: length,
        found: bytes?.length ?? 0,
      });
    yield bytes;
  }
}

// Checks what shows, without decoding, whether stored chunks can be read, while their bytes pass: their lengths, the headers of
// Blosc chunks, the crc32c that they end with, and the indexes of shards. A chunk without a crc32c that passes may still be damaged inside.

/** A chunk of an object that passes. */
interface PassingChunk {
  /** `nbytes` is undefined for a chunk that is the whole object, whose length shows at its end. */
  readonly place: EncodedPlace;
  /** Bytes of its values. */
  readonly decoded: number;
}

/** The chunks in the object at a position of the grid, by offset. Reads the indexes of shards, and throws their errors. */
async function chunksAt(
  store: ReadableStore,
  model: ArrayModel,
  position: readonly number[],
  cache: ShardCache,
  signal: AbortSignal | undefined,
): Promise<readonly PassingChunk[]> {
  const chunks: PassingChunk[] = [];
  const listed = listStoredChunks(store, onlyChunk(model, position), cache, signal);
  for await (const { key, offset, nbytes, slot, shape } of listed) {
    const place = { key, path: store.describe(key), offset, nbytes, ...(slot === undefined ? {} : { slot }) };
    chunks.push({ place, decoded: elementsOf(shape) * model.dtype.itemSize });
  }
  return chunks.sort((a, b) => a.place.offset - b.place.offset);
}

/**
 * Passes the pieces of an object on, and checks its chunks, which are given by offset. `base` is the byte of the object that the pieces
 * start with.
 * @throws BAD_FIELD, TRUNCATED, UNSUPPORTED
 */
async function* checkedPieces(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  chunks: readonly PassingChunk[],
  model: ArrayModel,
  base = 0,
): AsyncGenerator<Uint8Array> {
  const { sums, check } = checksOf(model.chain);
  const head = new Uint8Array(HEADER_LENGTH);
  let [next, held, position] = [0, 0, base];
  let sum = sums > 0 ? await startCrc32c() : undefined;
  for await (const piece of pieces) {
    for (; next < chunks.length; next++, held = 0) {
      const chunk = at(chunks, next);
      const { offset, nbytes = Infinity } = chunk.place;
      const from = offset + held - position;
      const part = piece.subarray(from, from + nbytes - held);
      if (held < HEADER_LENGTH) head.set(part.subarray(0, HEADER_LENGTH - held), held);
      held += part.length;
      sum?.update(part);
      if (held < nbytes) break;
      check(chunk, head.subarray(0, held), nbytes, sum?.digest());
      if (sum !== undefined) sum = await startCrc32c();
    }
    position += piece.length;
    yield piece;
  }
  const last = chunks[next];
  if (last !== undefined) check(last, head.subarray(0, held), last.place.nbytes ?? held, sum?.digest());
}

/** The checks of the chunks of a chain. */
interface Checks {
  /** How many crc32c a chunk ends with. The last is the sum of everything before it. */
  readonly sums: number;
  /** Checks a chunk of `stored` bytes, of which it is given the first ones, and the crc32c of all with `sums`. */
  check(chunk: PassingChunk, head: Uint8Array, stored: number, crc32c: number | undefined): void;
}

function checksOf(chain: Chain): Checks {
  const { stages, isLeaf } = outermost(chain);
  const isVariable = stages[0]?.decodeSpan !== undefined;
  // A crc32c follows what it is the sum of.
  const sums = stages.length - 1 - stages.findLastIndex(({ v3 }) => v3?.["name"] !== "crc32c");
  const stage = stages.at(-1 - sums);
  const isKnown = isLeaf && !isVariable;
  const isOnly = stages.length === sums + 1;
  const check: Checks["check"] = ({ place, decoded }, head, stored, sum) => {
    const nbytes = stored - sums * SUM;
    try {
      if (stage === undefined && isKnown) checkSize(nbytes, decoded, place);
      else if (nbytes <= 0 && stage?.isCustom !== true) throw emptyChunk(stored);
      else if (stage?.isBlosc === true) wholeChunk(head, isOnly && isKnown ? decoded : undefined, nbytes);
      if (sum !== undefined && sum !== CRC32C_OF_SUMMED) throw wrongSum(stored);
    } catch (error) {
      throw isSuperchunkError(error) ? error.inObject(placeDetails(place)) : error;
    }
  };
  return { sums, check };
}

/** Bytes of a crc32c. */
const SUM = 4;

/** The codecs of the bytes that an index, or a key, names: those of innermost chunks, or of a shard that is compressed as a whole. */
function outermost({ serializer, stages }: Chain): {
  readonly stages: readonly Stage[];
  readonly isLeaf: boolean;
} {
  if (serializer.kind === "bytes") return { stages, isLeaf: true };
  return stages.length > 0 ? { stages, isLeaf: false } : outermost(serializer.inner);
}

function emptyChunk(stored: number): SuperchunkError {
  return new SuperchunkError(
    "TRUNCATED",
    `the chunk has ${stored} bytes, too few for its codecs. It is damaged; look for another copy`,
    { offset: 0, field: "chunk", found: stored },
  );
}

function wrongSum(stored: number): SuperchunkError {
  return new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the crc32c at the end of the chunk is not that of the ${stored - SUM} bytes before it. The chunk is damaged; look for another copy`,
    { offset: 0, field: "crc32c" },
  );
}
