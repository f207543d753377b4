/**
 * Chunks of a Zarr array decoded and encoded by the codecs of its new document, object by object.
 *
 * Knows chains and shards; must not know why, or what the new document says beside codecs.
 */
import type { ChunkEncoder } from "../../codec/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import type { ItemTransform } from "../../values/item-transform.ts";
import { innerGrid, leafOf } from "../../zarr/codecs/chain.ts";
import { DOCUMENT, parseDocument } from "../../zarr/document/metadata-v3.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { decodeStages } from "../../zarr/read/leaf.ts";
import { type ChunkPlace, placeDetails, readPlace } from "../../zarr/read/place.ts";
import { ShardCache } from "../../zarr/read/shard-cache.ts";
import { DEFAULT_INDEX, encodeShardIndex, type ShardEntry } from "../../zarr/read/shard-index.ts";
import { storedPositions } from "../../zarr/read/stored-positions.ts";
import type { CopyOptions } from "./transformer-convert.ts";

/** How chunks are recoded. */
export interface RecodeOptions extends CopyOptions {
  /** What encodes Blosc chunks (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
  /** What becomes of the items. */
  readonly transform?: ItemTransform | undefined;
}

/** Chunks of a shard that are encoded at a time. */
const AT_ONCE = 4;

/**
 * Puts the chunks or shards of an array under the keys that its new document gives them, encoded as that says.
 *
 * @throws the codes of damage, with the chunk's place; LIMIT for chunks that Blosc cannot hold; CONFLICT
 */
export async function recodeObjects(
  array: ZarrArray,
  document: JsonObject,
  target: WritableStore,
  path: string,
  { signal, keep = false, onObject, encoder, transform }: RecodeOptions,
): Promise<void> {
  const { model, store } = array;
  const converted = parseDocument(document, path, target.describe(joinKey(path, DOCUMENT)));
  if ("consolidated" in converted) return;
  const { stages } = leafOf(model.chain);
  const encodings = leafOf(converted.chain).stages;
  const nbytes = array.chunkShape.reduce((product, n) => product * n, array.dtype.itemSize);
  const { serializer } = model.chain;
  const cache = new ShardCache(store);

  const recode = async (encoded: Uint8Array, place: ChunkPlace): Promise<Uint8Array> => {
    const items = await decodeStages(stages, encoded, nbytes, place);
    let bytes = transform === undefined ? items : transform.apply(items);
    try {
      for (const stage of encodings) bytes = await stage.encode(bytes, encoder);
    } catch (error) {
      throw isSuperchunkError(error) ? error.at(placeDetails(place)) : error;
    }
    return bytes;
  };

  for await (const position of storedPositions(store, model, signal)) {
    signal?.throwIfAborted();
    const key = model.chunkKey(position);
    const to = converted.chunkKey(position);
    const there = keep ? await target.stat(to, { signal }) : undefined;
    if (there !== undefined) {
      onObject?.(0, there.size, true);
      continue;
    }
    const place = { key, path: store.describe(key), offset: 0, slot: undefined, memory: undefined };
    if (serializer.kind === "bytes") {
      const encoded = await store.get(key, { signal });
      if (encoded === undefined) continue;
      const bytes = await recode(encoded, { ...place, nbytes: encoded.length });
      await target.put(to, bytes, { ifAbsent: true, signal });
      onObject?.(1, bytes.length, false);
      continue;
    }
    const grid = innerGrid(
      serializer,
      model.axes.map((axis) => axis.lengthOf(0)),
    );
    const shard = await cache.open(key, grid, serializer.index);
    const places = (shard?.entries ?? []).flatMap((entry, slot): (ChunkPlace & { slot: number })[] =>
      entry === undefined ? [] : [{ ...place, ...entry, slot }],
    );
    if (shard === undefined || places.length === 0) continue;
    const entries = new Array<ShardEntry | undefined>(shard.entries.length).fill(undefined);
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      let offset = 0;
      for (let at = 0; at < places.length; at += AT_ONCE) {
        const lot = places.slice(at, at + AT_ONCE);
        const encoded = await Promise.all(
          lot.map(async (each) => recode(await readPlace(store, each, 0, each.nbytes ?? 0, signal), each)),
        );
        for (const [i, bytes] of encoded.entries()) {
          const slot = lot[i]?.slot ?? 0;
          entries[slot] = { offset, nbytes: bytes.length };
          offset += bytes.length;
          yield bytes;
        }
      }
      yield await encodeShardIndex(entries, grid, DEFAULT_INDEX);
    };
    const { size } = await target.put(to, pieces(), { ifAbsent: true, signal });
    onObject?.(places.length, size, false);
  }
}
