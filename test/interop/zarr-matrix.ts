/**
 * Kinds of Zarr arrays that are written by one program and read by another, also in several steps: every two
 * settings meet in some case. All combinations, of smaller arrays, are in `product-cases.ts`.
 */
import type { JsonValue } from "../../src/format/types.ts";
import type { ZarrSpecification } from "../../src/zarr/write/create.ts";
import { BIG, blosc, CRC, gzip, LITTLE, sharding, turned, withoutOrder, zstd } from "./zarr-codecs.ts";
import { EXTENSIONS, makeItems, sizeOf, TYPES } from "./zarr-types.ts";

/** An array of the matrix with its values. */
export interface MatrixCase {
  readonly name: string;
  readonly spec: ZarrSpecification;
  /** numpy's spelling. */
  readonly dtype: string;
  /** Items in C order, little-endian. */
  readonly bytes: Uint8Array;
  readonly isNested: boolean;
  readonly isRectilinear: boolean;
  readonly isExtension: boolean;
  readonly isBigComplex: boolean;
  /** Type, dimensions, codecs, location of the index, nesting, edges. */
  readonly facets: readonly string[];
}

/** Pairs of two facets that no case combines. */
export function listUncovered(cases: readonly MatrixCase[]): string[] {
  const seen = new Set<string>();
  const values: Set<string>[] = [];
  for (const { facets } of cases) {
    facets.forEach((a, i) => {
      values[i] = (values[i] ?? new Set()).add(a);
      for (const b of facets.slice(i + 1)) seen.add(`${a} with ${b}`);
    });
  }
  return values.flatMap((first, i) =>
    values
      .slice(i + 1)
      .flatMap((second) =>
        [...first].flatMap((a) => [...second].map((b) => `${a} with ${b}`)).filter((pair) => !seen.has(pair)),
      ),
  );
}

/** Codecs of the innermost chunks, by name. */
const CHAINS: Readonly<Record<string, (size: number, dimensions: number) => readonly JsonValue[]>> = {
  bytes: () => [LITTLE],
  "big-endian bytes": () => [BIG],
  "blosc lz4": (size) => [LITTLE, blosc("lz4", "shuffle", size)],
  "blosc zstd bitshuffle": (size) => [LITTLE, blosc("zstd", "bitshuffle", size)],
  "blosc zlib, crc32c": (size) => [LITTLE, blosc("zlib", "noshuffle", size), CRC],
  gzip: () => [LITTLE, gzip(4)],
  zstd: () => [LITTLE, zstd(3)],
  "transpose, zstd": (_, dimensions) => [turned(dimensions), LITTLE, zstd(1)],
  "zstd, crc32c": () => [LITTLE, zstd(1), CRC],
};

/** Where an array ends: inside chunks and shards, or with a shard. */
const EDGES = ["edges within chunks", "whole shards"] as const;
type Edges = (typeof EDGES)[number];

/** Array by its edges, inner chunk, nested chunk and shard, by number of dimensions. */
const SHAPES = [
  { shape: { [EDGES[0]]: [103], [EDGES[1]]: [96] }, inner: [8], innermost: [4], shard: [32] },
  {
    shape: { [EDGES[0]]: [19, 23], [EDGES[1]]: [24, 12] },
    ...{ inner: [4, 6], innermost: [2, 3], shard: [12, 12] },
  },
  {
    shape: { [EDGES[0]]: [7, 9, 11], [EDGES[1]]: [4, 16, 8] },
    ...{ inner: [2, 4, 4], innermost: [1, 2, 4], shard: [4, 8, 8] },
  },
] as const;

/**
 * All cases: the full product of dimensions, codecs, index locations, nesting and edges, with data types alternating
 * such that each meets each of the others, and some special kinds.
 */
export function listMatrix(): MatrixCase[] {
  const cases: MatrixCase[] = [];
  const types = Object.keys(TYPES);
  for (const [c, chain] of Object.keys(CHAINS).entries()) {
    let turn = 5 * c;
    for (const [round, isNested] of [false, true, true, false].entries()) {
      for (const [dimensions, shapes] of SHAPES.entries()) {
        for (const [at, indexLocation] of (["end", "start"] as const).entries()) {
          const edges = EDGES[(Math.floor(round / 2) + dimensions + at) % 2] ?? EDGES[0];
          const dtype = types[turn++ % types.length] ?? "<i4";
          cases.push(
            makeCase(`${dimensions + 1}-d`, shapes, dtype, chain, { indexLocation }, isNested, edges),
          );
        }
      }
    }
  }
  const flat = SHAPES[1];
  for (const dtype of Object.keys(TYPES))
    cases.push(makeCase("each type", flat, dtype, "blosc lz4", {}, false));
  for (const dtype of Object.keys(EXTENSIONS))
    for (const isNested of [false, true])
      cases.push(makeCase("numpy's type", flat, dtype, "zstd, crc32c", {}, isNested));
  cases.push(
    makeCase("index without crc32c", flat, "<i4", "gzip", { indexCodecs: [LITTLE] }, false),
    makeCase("big-endian index", flat, "<i4", "gzip", { indexCodecs: [BIG, CRC] }, false),
    makeCase("transposed twice", SHAPES[2], "<f8", "transpose, zstd", { order: [1, 2, 0] }, false),
    makeCase("transposed", flat, "<i4", "blosc lz4", { order: [1, 0] }, false),
    makeCase("no shards", flat, "<f8", "blosc lz4", { shardShape: undefined }, false),
    makeCase("dots in keys", flat, "<f8", "blosc lz4", { separator: "." }, false),
    makeCase("unequal shards", flat, "<i4", "zstd", unequalShards([4, 6], "zstd"), false),
    ...(["end", "start"] as const).map((indexLocation) => {
      const innermost = sharding([1, 3], [LITTLE, CRC], indexLocation);
      const codecs = [sharding(flat.innermost, [innermost], indexLocation)];
      return makeCase("three levels", flat, "<i4", "zstd", { indexLocation, codecs }, true);
    }),
    makeCase(
      "unequal chunks",
      flat,
      "<f4",
      "zstd",
      {
        shardShape: undefined,
        chunkGrid: {
          name: "rectilinear",
          configuration: {
            kind: "inline",
            chunk_shapes: [
              [3, 10, 6],
              [20, 3],
            ],
          },
        },
      },
      false,
    ),
  );
  return cases;
}

/** Shards of any length whose inner chunks divide each of them. */
function unequalShards(inner: readonly number[], chain: string): Partial<ZarrSpecification> {
  const codecs = CHAINS[chain]?.(4, inner.length) ?? [];
  return {
    shardShape: undefined,
    codecs: [sharding(inner, codecs, "end")],
    chunkGrid: {
      name: "rectilinear",
      configuration: { kind: "inline", chunk_shapes: [[4, 8, 8], [[12, 2]]] },
    },
  };
}

function makeCase(
  label: string,
  shapes: (typeof SHAPES)[number],
  dtype: string,
  chain: string,
  change: Partial<ZarrSpecification>,
  isNested: boolean,
  edges: Edges = EDGES[0],
): MatrixCase {
  const size = sizeOf(dtype);
  const leaf = (CHAINS[chain]?.(size, shapes.inner.length) ?? []).map((codec) =>
    size === 1 ? withoutOrder(codec) : codec,
  );
  const codecs: readonly JsonValue[] = isNested
    ? [sharding(shapes.innermost, leaf, change.indexLocation ?? "end")]
    : leaf;
  const spec: ZarrSpecification = {
    shape: shapes.shape[edges],
    dataType: TYPES[dtype] ?? EXTENSIONS[dtype] ?? dtype,
    chunkShape: shapes.inner,
    shardShape: shapes.shard,
    codecs,
    attributes: { note: "é" },
    ...change,
  };
  const shape = shapes.shape[edges];
  const count = shape.reduce<number>((product, n) => product * n, 1);
  const where = change.indexLocation === undefined ? "" : `, index at the ${change.indexLocation}`;
  const name = `${label}, ${dtype}, ${chain}${where}${isNested ? ", nested" : ""}, ${edges}`;
  return {
    name,
    spec,
    dtype,
    // Whole chunks of the fill value at the beginning.
    bytes: makeItems(shape, dtype, (item) => item < count / 3),
    isNested,
    isExtension: dtype in EXTENSIONS,
    isBigComplex: chain.startsWith("big") && dtype.startsWith("<c"),
    isRectilinear: change.chunkGrid !== undefined,
    facets: [
      dtype,
      `${shapes.inner.length}-d`,
      chain,
      change.indexLocation ?? "",
      `nested ${isNested}`,
      edges,
    ],
  };
}
