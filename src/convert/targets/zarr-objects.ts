/**
 * Converts a Zarr array of any version to Zarr v3: a task for each stored object. Chunks are copied as stored, into shards
 * whose index has a crc32c. If the new document names other codecs, chunks are decoded and encoded.
 *
 * Knows chains and shards; must not know why chunks are recoded, or how arrays are ordered and published.
 */
import { at, elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { isGenerating, type ReadableStore, saysEncoded } from "../../store/types.ts";
import { leafOf, shardIndexOf } from "../../zarr/codecs/chain.ts";
import { countPositions, parseKeyEncoding } from "../../zarr/document/chunk-grid.ts";
import { DOCUMENT, encodeDocument } from "../../zarr/document/make-v3.ts";
import { parseDocument } from "../../zarr/document/metadata-v3.ts";
import type { ArrayModel } from "../../zarr/document/model.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { decodeStages } from "../../zarr/read/leaf.ts";
import { openZarrArray } from "../../zarr/read/open.ts";
import { type EncodedPlace, placeDetails, readPlace, ShardCache } from "../../zarr/read/shard-cache.ts";
import {
  DEFAULT_INDEX,
  emptyEntries,
  encodeShardIndex,
  type ShardEntry,
} from "../../zarr/read/shard-index.ts";
import { storedPositions } from "../../zarr/read/stored-chunks.ts";
import type { ArrayRun, Task, TaskContext } from "../pipeline.ts";
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
  const notes = notesOnArray(array);
  const write = objectWriter(job, own);
  // Objects of one array count alike, also short ones at its end.
  const share = Math.floor(nbytes / Math.max(1, countPositions(array.model.axes)));
  return {
    node: path,
    path: array.store.describe(array.path),
    arrays: 1,
    nbytes,
    notes: path === "" ? notes : notes.map((note) => `${path}: ${note}`),
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
        await context.store.put(task.key, pieces, { signal });
        counts[await kindOf(from)]++;
        return true;
      }
      const info = await store.stat(from, { signal });
      if (info === undefined) return false;
      // The object is copied unseen; but with a damaged index, no reader would find any of its chunks.
      if (serializer.kind === "sharding" && model.chain.stages.length === 0)
        await cache.open(from, shardIndexOf(model.chain, serializer, shape));
      const whole = { ...place, nbytes: info.size };
      if (recoder === undefined) {
        const pieces = readObjectPieces(store, from, whole, signal);
        await context.store.put(task.key, pieces, { signal });
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
      recoder === undefined ? copies(store, places, signal) : recoded(store, places, recoder, context);
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

function* copies(
  store: ReadableStore,
  places: readonly SlotPlace[],
  signal: AbortSignal | undefined,
): Generator<ShardChunk> {
  for (const { key, slot, offset, nbytes } of places)
    yield { slot, nbytes, pieces: readObjectPieces(store, key, { offset, nbytes }, signal) };
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
