/**
 * An archive as a transformer shard: its Blosc chunks are copied, a short last one is padded.
 *
 * zarr 2.18 reads what comes out. Knows archives and the transformer's layout.
 */
import type { ArrayArchive, BytesArchive } from "../array/types.ts";
import { decode, encode } from "../codec/index.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import type { JsonValue } from "../format/types.ts";
import type { WritableStore } from "../store/types.ts";
import { TRANSFORMER_INDEX } from "../zarr/metadata-transformer.ts";
import { encodeShardIndex, type ShardEntry } from "../zarr/shard-index.ts";
import { createTransformerArray } from "../zarr/transformer-create.ts";

/** Chunks in a shard unless asked otherwise. */
const CHUNKS_PER_SHARD = 1024;

/**
 * Writes an archive of plain bytes or an array of whole rows as an array of a transformer hierarchy.
 *
 * @param chunksPerShard chunks along the first dimension of a shard
 * @returns chunks that were copied, and chunks that were padded
 * @throws UNSUPPORTED for archives in F order or cut within rows, and for structured values; CONFLICT where the array is
 */
export async function exportToTransformer(
  archive: ArrayArchive | BytesArchive,
  store: WritableStore,
  base: string,
  path: string,
  chunksPerShard: number = CHUNKS_PER_SHARD,
): Promise<{ readonly copied: number; readonly padded: number }> {
  const { shape, dataType, rows, itemSize, fillValue } = describe(archive);
  const { cname, clevel, shuffle } = await archive.summary();
  const perShard = Math.max(1, Math.min(chunksPerShard, archive.nchunks));
  const array = await createTransformerArray(store, base, path, {
    shape,
    dataType,
    chunkShape: [rows, ...shape.slice(1)],
    chunksPerShard: [perShard, ...shape.slice(1).map(() => 1)],
    compressor: {
      codec: "blosc",
      configuration: {
        cname: cname ?? "lz4",
        clevel: clevel ?? 5,
        shuffle: ["noshuffle", "shuffle", "bitshuffle"].indexOf(shuffle ?? "shuffle"),
        blocksize: 0,
      },
    },
    fillValue,
    attributes: archive.attrs,
  });
  let padded = 0;
  for (let shard = 0; shard * perShard < archive.nchunks; shard++) {
    const first = shard * perShard;
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      const entries = new Array<ShardEntry | undefined>(perShard).fill(undefined);
      let offset = 0;
      for await (const { place, bytes } of archive.encodedChunks(
        first,
        Math.min(first + perShard, archive.nchunks),
      )) {
        const isShort = place.nbytes < archive.chunkBytes;
        if (isShort) padded++;
        const chunk = isShort ? await pad(bytes, archive.chunkBytes, itemSize) : bytes;
        entries[place.index - first] = { offset, nbytes: chunk.length };
        offset += chunk.length;
        yield chunk;
      }
      yield await encodeShardIndex(entries, [perShard], TRANSFORMER_INDEX);
    };
    await store.put(array.model.chunkKey([shard, ...shape.slice(1).map(() => 0)]), pieces(), {
      ifAbsent: true,
    });
  }
  return { copied: archive.nchunks - padded, padded };
}

function describe(archive: ArrayArchive | BytesArchive): {
  shape: readonly number[];
  dataType: string;
  rows: number;
  itemSize: number;
  fillValue: JsonValue;
} {
  if (archive.kind === "bytes") {
    const rows = Math.max(1, archive.chunkBytes);
    return { shape: [archive.nbytes], dataType: "|u1", rows, itemSize: 1, fillValue: 0 };
  }
  const { dtype, shape, order, chunkLength } = archive;
  const type = formatDType(dtype);
  const path = archive.store.describe(archive.path);
  if (typeof type !== "string") {
    throw new SuperchunkError("UNSUPPORTED", "zarr 2.18's version 3 has no structured data types", {
      path,
      field: "dtype",
      found: dtype.kind,
    });
  }
  if (shape.length === 0 || chunkLength === undefined || (order === "F" && shape.length > 1)) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the archive's chunks are not whole rows in C order, so they cannot be copied; convert it to Zarr v3",
      { path, field: "chunks", found: order },
    );
  }
  return {
    shape,
    dataType: type,
    rows: chunkLength,
    itemSize: dtype.itemSize,
    fillValue: zeroOf(dtype.kind),
  };
}

function zeroOf(kind: string): JsonValue {
  if (kind === "bool") return false;
  return kind === "bytes" || kind === "unicode" ? "" : 0;
}

async function pad(chunk: Uint8Array, nbytes: number, typesize: number): Promise<Uint8Array> {
  const items = new Uint8Array(nbytes);
  items.set(await decode(chunk, { maxNbytes: nbytes }));
  return encode(items, { cname: "lz4", typesize: Math.min(255, typesize) });
}
