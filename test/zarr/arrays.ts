/** Arrays for tests: specifications of every kind of chain, and an array in memory to compare with. */
import type { JsonValue } from "../../src/format/types.ts";
import type { ZarrSpecification } from "../../src/zarr/write/create.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const BIG = { name: "bytes", configuration: { endian: "big" } };
const CRC = { name: "crc32c" };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "zstd", clevel: 3, shuffle: "bitshuffle", typesize: 4, blocksize: 0 },
};
const GZIP = { name: "gzip", configuration: { level: 3 } };
const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };

const base = { shape: [13, 17], dataType: "int32", fillValue: -7 } as const;

/** The codec of a shard, by default of chunks of 1 by 2. */
export function nested(
  codecs: readonly JsonValue[],
  location: "start" | "end" = "end",
  indexCodecs: readonly JsonValue[] = [LITTLE, CRC],
  chunkShape: readonly number[] = [1, 2],
): JsonValue {
  return {
    name: "sharding_indexed",
    configuration: { chunk_shape: chunkShape, codecs, index_codecs: indexCodecs, index_location: location },
  };
}

/** One of every kind, two-dimensional int32, fill value -7. */
export const SPECIFICATIONS: Readonly<Record<string, ZarrSpecification>> = {
  "no shards, bytes": { ...base, chunkShape: [4, 5], codecs: [LITTLE] },
  "no shards, blosc, transposed": { ...base, chunkShape: [4, 5], order: [1, 0] },
  "shards, bytes": { ...base, chunkShape: [2, 3], shardShape: [6, 6], codecs: [LITTLE] },
  "shards, blosc, index at the start": {
    ...base,
    chunkShape: [2, 3],
    shardShape: [6, 6],
    codecs: [LITTLE, BLOSC],
    indexLocation: "start",
  },
  "shards, gzip, no crc32c": {
    ...base,
    chunkShape: [2, 3],
    shardShape: [6, 6],
    codecs: [LITTLE, GZIP],
    indexCodecs: [LITTLE],
  },
  "shards, big-endian index and values": {
    ...base,
    chunkShape: [2, 3],
    shardShape: [4, 9],
    codecs: [BIG, ZSTD, CRC],
    indexCodecs: [BIG, CRC],
  },
  "shards, transposed inside and outside": {
    ...base,
    chunkShape: [2, 3],
    shardShape: [6, 6],
    order: [1, 0],
    codecs: [{ name: "transpose", configuration: { order: [1, 0] } }, LITTLE, BLOSC],
  },
  "shards, transposed index": {
    ...base,
    chunkShape: [2, 3],
    shardShape: [6, 6],
    codecs: [LITTLE],
    indexCodecs: [{ name: "transpose", configuration: { order: [2, 0, 1] } }, LITTLE, CRC],
  },
  "shards in shards": { ...base, chunkShape: [2, 6], shardShape: [8, 12], codecs: [nested([LITTLE, ZSTD])] },
  "shards in shards, indexes at the start": {
    ...base,
    chunkShape: [2, 6],
    shardShape: [8, 12],
    indexLocation: "start",
    codecs: [nested([LITTLE, BLOSC], "start", [BIG])],
  },
  "shards in shards, compressed between": {
    ...base,
    chunkShape: [2, 6],
    shardShape: [8, 12],
    codecs: [nested([LITTLE]), GZIP],
  },
  "shards in shards in shards": {
    ...base,
    chunkShape: [4, 6],
    shardShape: [8, 12],
    codecs: [nested([nested([LITTLE])], "end", [LITTLE, CRC], [2, 2])],
  },
  "shards in shards in shards, transposed, indexes at the start and at the end": {
    ...base,
    chunkShape: [4, 6],
    shardShape: [8, 12],
    indexLocation: "start",
    codecs: [
      { name: "transpose", configuration: { order: [1, 0] } },
      nested([nested([LITTLE, CRC], "start", [BIG])], "end", [LITTLE], [2, 2]),
    ],
  },
  "shards in shards, transposed outside": {
    ...base,
    chunkShape: [2, 6],
    shardShape: [8, 12],
    order: [1, 0],
    codecs: [nested([LITTLE, ZSTD], "end", [LITTLE, CRC], [3, 1])],
  },
  "unequal shards": {
    ...base,
    chunkShape: [1, 1],
    codecs: [nested([LITTLE], "end", [LITTLE, CRC], [1, 1])],
    chunkGrid: {
      name: "rectilinear",
      configuration: {
        kind: "inline",
        chunk_shapes: [
          [3, [2, 5]],
          [10, 7],
        ],
      },
    },
  },
};

/** An array in memory with the same interface, slow and plain. */
export class Model {
  readonly values: number[];
  readonly columns: number;

  constructor(shape: readonly [number, number], fill: number) {
    this.columns = shape[1];
    this.values = new Array<number>(shape[0] * shape[1]).fill(fill);
  }

  /** Indices of the items of a selection of two slices, in C order. */
  items(rows: readonly number[], columns: readonly number[]): number[] {
    return rows.flatMap((row) => columns.map((column) => row * this.columns + column));
  }
}
