/**
 * From a transformer hierarchy to Zarr v3's `sharding_indexed`: payloads are copied, the index gets its crc32c.
 *
 * Knows both layouts; payloads are not looked into.
 */
import { SuperchunkError } from "../errors.ts";
import { stringifyJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/array.ts";
import { innerGrid } from "../zarr/chain.ts";
import { combine } from "../zarr/chunk-grid.ts";
import type { ZarrGroup } from "../zarr/group.ts";
import { DOCUMENT, parseDocument } from "../zarr/metadata-v3.ts";
import { openZarr } from "../zarr/open.ts";
import { ShardCache } from "../zarr/shard-cache.ts";
import { DEFAULT_INDEX, encodeShardIndex } from "../zarr/shard-index.ts";
import { mapDType } from "./zarr-dtype.ts";

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
  const { model, store } = array;
  const document = v3Document(array);
  const key = joinKey(path, DOCUMENT);
  const converted = parseDocument(document, path, target.describe(key));
  if ("consolidated" in converted) return;
  const { serializer } = model.chain;
  const cache = new ShardCache(store);
  const shape = model.axes.map((axis) => axis.lengthOf(0));
  for (const each of combine(model.axes.map(({ count }) => Array.from({ length: count }, (_, i) => i)))) {
    const from = model.chunkKey(each);
    const to = converted.chunkKey(each);
    if (serializer.kind === "bytes") {
      const bytes = await store.get(from);
      if (bytes === undefined) continue;
      await target.put(to, bytes, { ifAbsent: true });
      done.chunks++;
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
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      for (const entry of shard.entries) {
        if (entry === undefined) continue;
        for (let at = 0; at < entry.nbytes; at += COPY) {
          const length = Math.min(COPY, entry.nbytes - at);
          const bytes = await store.getRange(from, { offset: entry.offset + at, length });
          if (bytes?.length !== length) {
            throw new SuperchunkError("TRUNCATED", "the shard became shorter while it was copied", {
              path: store.describe(from),
              offset: entry.offset + at,
              expected: length,
              found: bytes?.length ?? 0,
            });
          }
          yield bytes;
        }
      }
      yield await encodeShardIndex(entries, grid, DEFAULT_INDEX);
    };
    await target.put(to, pieces(), { ifAbsent: true, stablePieces: true });
    done.shards++;
    done.chunks += entries.filter((entry) => entry !== undefined).length;
  }
  await putDocument(target, path, document);
}

/** The array's document in Zarr v3's words. Throws `UNSUPPORTED`. */
function v3Document(array: ZarrArray): JsonObject {
  const { model, store } = array;
  const path = store.describe(array.path);
  const type = mapDType(array.dtype, { path, fillValue: array.fillValue });
  if (type.transform !== undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the values cannot be copied as they are: ${type.transform.reason}`,
      {
        path,
        field: "data_type",
      },
    );
  }
  const leaf = model.chain.serializer.kind === "bytes" ? model.chain : model.chain.serializer.inner;
  const stages = leaf.stages.map((stage): JsonValue => {
    if (stage.v3 !== undefined) return stage.v3;
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the codec "${stage.name}" has no name in Zarr v3; write the values anew`,
      {
        path,
        field: "compressor",
        found: stage.name,
      },
    );
  });
  const transpose: JsonValue[] =
    leaf.order === undefined ? [] : [{ name: "transpose", configuration: { order: leaf.order } }];
  const chain: JsonValue[] = [...transpose, type.bytesCodec, ...stages];
  const { serializer } = model.chain;
  const codecs: JsonValue[] =
    serializer.kind === "bytes"
      ? chain
      : [
          {
            name: "sharding_indexed",
            configuration: {
              chunk_shape: serializer.chunkShape,
              codecs: chain,
              index_codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
              index_location: "end",
            },
          },
        ];
  return {
    zarr_format: 3,
    node_type: "array",
    shape: model.shape,
    data_type: type.dataType,
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: model.axes.map((axis) => axis.lengthOf(0)) },
    },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: type.fill.json,
    codecs,
    attributes: model.attributes,
    storage_transformers: [],
  };
}

async function putDocument(target: WritableStore, path: string, document: JsonObject): Promise<void> {
  const bytes = new TextEncoder().encode(stringifyJson(document, { indent: 2 }));
  await target.put(joinKey(path, DOCUMENT), bytes, { ifAbsent: true });
}
