/**
 * From a transformer hierarchy to Zarr v3's `sharding_indexed`: payloads are copied, the index gets its crc32c.
 *
 * Knows both layouts; payloads are not looked into.
 */
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { innerGrid } from "../../zarr/codecs/chain.ts";
import { DOCUMENT, parseDocument } from "../../zarr/document/metadata-v3.ts";
import { encodeDocument } from "../../zarr/document/zarr-metadata.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { ZarrGroup } from "../../zarr/read/group.ts";
import { openZarr } from "../../zarr/read/open.ts";
import { ShardCache } from "../../zarr/read/shard-cache.ts";
import { DEFAULT_INDEX, encodeShardIndex, type ShardEntry } from "../../zarr/read/shard-index.ts";
import { storedPositions } from "../../zarr/read/stored-positions.ts";
import { planV3 } from "../plan/v3-document.ts";

/** What a conversion did. */
export interface TransformerConversion {
  readonly arrays: number;
  readonly groups: number;
  readonly shards: number;
  readonly chunks: number;
}

/** Bytes copied at a time. */
const COPY = 4 << 20;

/**
 * Converts a node of a hierarchy, and all below it, to Zarr v3 at a path where nothing is.
 *
 * Throws `UNSUPPORTED` for what Zarr v3 has no words for (zlib, data types), `CONFLICT` where something is.
 */
export async function convertTransformer(
  source: ReadableStore,
  path: string,
  target: WritableStore,
  targetPath: string,
): Promise<TransformerConversion> {
  const node = await openZarr(source, path);
  const done = { arrays: 0, groups: 0, shards: 0, chunks: 0 };
  await convertNode(node, target, targetPath, done);
  return done;
}

type Counts = { -readonly [name in keyof TransformerConversion]: number };

async function convertNode(
  node: ZarrArray | ZarrGroup,
  target: WritableStore,
  path: string,
  done: Counts,
): Promise<void> {
  if (node.dialect !== "zarr3-transformer") {
    throw new SuperchunkError("BAD_ARGUMENT", "the node is not of a storage transformer's hierarchy", {
      path: node.store.describe(node.path),
      expected: "zarr3-transformer",
      found: node.dialect,
    });
  }
  if (node.kind === "array") {
    await convertArray(node, target, path, done);
    done.arrays++;
    return;
  }
  for (const name of await node.members())
    await convertNode(await node.open(name), target, joinKey(path, name), done);
  await putDocument(target, path, { zarr_format: 3, node_type: "group", attributes: node.attrs });
  done.groups++;
}

async function convertArray(
  array: ZarrArray,
  target: WritableStore,
  path: string,
  done: Counts,
): Promise<void> {
  const { document } = planV3(array, { recode: false });
  await copyObjects(array, document, target, path, {
    onObject: (chunks) => {
      done.chunks += chunks;
      if (array.model.chain.serializer.kind === "sharding") done.shards++;
    },
  });
  await putDocument(target, path, document);
}

/** How objects are copied. */
export interface CopyOptions {
  readonly signal?: AbortSignal | undefined;
  /** Objects that are there already are whole, and stay (default: `CONFLICT`). */
  readonly keep?: boolean | undefined;
  /** Called for each object with its chunks (a shard's stored ones; 1 for others), its bytes, and whether it was kept. */
  readonly onObject?: ((chunks: number, nbytes: number, isKept: boolean) => void) | undefined;
}

/**
 * Copies the chunks or shards of an array to the keys that its new document gives them, shards with an index that has a
 * crc32c. Throws what reading an index throws, `TRUNCATED`, `CONFLICT`.
 */
export async function copyObjects(
  array: ZarrArray,
  document: JsonObject,
  target: WritableStore,
  path: string,
  { signal, keep = false, onObject }: CopyOptions = {},
): Promise<void> {
  const { model, store } = array;
  const key = joinKey(path, DOCUMENT);
  const converted = parseDocument(document, path, target.describe(key));
  if ("consolidated" in converted) return;
  const { serializer } = model.chain;
  const isWhole = serializer.kind === "bytes" || model.dialect === "zarr3";
  const cache = new ShardCache(store);
  const shape = model.axes.map((axis) => axis.lengthOf(0));
  for await (const each of storedPositions(store, model, signal)) {
    signal?.throwIfAborted();
    const from = model.chunkKey(each);
    const to = converted.chunkKey(each);
    if (keep) {
      const there = await target.stat(to, { signal });
      if (there !== undefined) onObject?.(0, there.size, true);
      if (there !== undefined) continue;
    }
    if (isWhole) {
      const info = await store.stat(from, { signal });
      if (info === undefined) continue;
      const pieces = readPieces(store, from, [{ offset: 0, nbytes: info.size }], signal);
      await target.put(to, pieces, { ifAbsent: true, stablePieces: true, signal });
      onObject?.(1, info.size, false);
      continue;
    }
    const grid = innerGrid(serializer, shape);
    const shard = await cache.open(from, grid, serializer.index);
    if (shard === undefined || shard.entries.every((entry) => entry === undefined)) continue;
    let offset = 0;
    const entries = shard.entries.map((entry) => {
      if (entry === undefined) return undefined;
      const placed = { offset, nbytes: entry.nbytes };
      offset += entry.nbytes;
      return placed;
    });
    const stored = shard.entries.filter((entry) => entry !== undefined);
    const index = await encodeShardIndex(entries, grid, DEFAULT_INDEX);
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      yield* readPieces(store, from, stored, signal);
      yield index;
    };
    await target.put(to, pieces(), { ifAbsent: true, stablePieces: true, signal });
    onObject?.(stored.length, offset + index.length, false);
  }
}

/** Ranges of an object one after another, in pieces of bounded size. Throws `TRUNCATED`. */
async function* readPieces(
  store: ReadableStore,
  key: string,
  ranges: readonly ShardEntry[],
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  for (const { offset, nbytes } of ranges) {
    for (let at = 0; at < nbytes; at += COPY) {
      const length = Math.min(COPY, nbytes - at);
      const bytes = await store.getRange(key, { offset: offset + at, length }, { signal });
      if (bytes?.length !== length) {
        throw new SuperchunkError("TRUNCATED", "the object became shorter while it was copied", {
          path: store.describe(key),
          offset: offset + at,
          expected: length,
          found: bytes?.length ?? 0,
        });
      }
      yield bytes;
    }
  }
}

async function putDocument(target: WritableStore, path: string, document: JsonObject): Promise<void> {
  await target.put(joinKey(path, DOCUMENT), encodeDocument(document), { ifAbsent: true });
}
