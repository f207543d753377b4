/**
 * The full product of data type, dimensions, inner codecs, index location, nesting and edges.
 *
 * Small arrays, because there are thousands: two shards, the first missing, with missing inner chunks in the second.
 * Larger ones, and special kinds, are in `zarr-matrix.ts`.
 */
import type { JsonValue } from "../../src/format/types.ts";
import type { ZarrSpecification } from "../../src/zarr/write/create.ts";
import { BIG, blosc, CRC, gzip, LITTLE, sharding, turned, withoutOrder, zstd } from "./zarr-codecs.ts";
import { makeFill, makeItems, sizeOf, TYPES } from "./zarr-types.ts";

/** Settings of an array, by which the product is made. */
export interface ProductSettings {
  /** numpy's spelling. */
  readonly dtype: string;
  readonly dimensions: number;
  /** Name of the codecs of the innermost chunks. */
  readonly codecs: string;
  readonly indexLocation: "end" | "start";
  readonly isNested: boolean;
  readonly edges: string;
  readonly hasIndexCrc: boolean;
}

/** An array of the product. */
export interface ProductCase {
  readonly name: string;
  readonly settings: ProductSettings;
  readonly spec: ZarrSpecification;
  readonly values: ProductValues;
}

/** Values of all cases that have the same type, shape and fill value. */
export interface ProductValues {
  /** Name of a file for them. */
  readonly key: string;
  /** Items in C order, little-endian. */
  readonly bytes: Uint8Array;
}

/** Codecs of the innermost chunks, by name. */
const CHAINS: Readonly<Record<string, (size: number, dimensions: number) => readonly JsonValue[]>> = {
  bytes: () => [LITTLE],
  "big-endian bytes, crc32c": () => [BIG, CRC],
  "blosc lz4": (size) => [LITTLE, blosc("lz4", "shuffle", size)],
  "blosc lz4hc bitshuffle": (size) => [LITTLE, blosc("lz4hc", "bitshuffle", size)],
  "blosc blosclz": (size) => [LITTLE, blosc("blosclz", "shuffle", size)],
  "blosc zstd bitshuffle": (size) => [LITTLE, blosc("zstd", "bitshuffle", size)],
  "blosc zlib, crc32c": (size) => [LITTLE, blosc("zlib", "noshuffle", size), CRC],
  gzip: () => [LITTLE, gzip(4)],
  zstd: () => [LITTLE, zstd(3)],
  "zstd with checksum, crc32c": () => [LITTLE, zstd(1, true), CRC],
  "transpose, gzip, crc32c": (_, dimensions) => [turned(dimensions), LITTLE, gzip(1), CRC],
  "transpose, big-endian, blosc lz4": (size, dimensions) => [
    turned(dimensions),
    BIG,
    blosc("lz4", "shuffle", size),
  ],
};

interface Edges {
  readonly name: string;
  readonly shape: readonly number[];
  /** Items before this position along the second-to-last dimension (the only one of one) are the fill value. */
  readonly missing: number;
}

/** Shard, inner chunk, and the chunk in that if it is a shard itself, by number of dimensions. */
const SHAPES: readonly {
  readonly edges: readonly Edges[];
  readonly shard: readonly number[];
  readonly inner: readonly number[];
  readonly innermost: readonly number[];
}[] = [
  {
    edges: [
      { name: "one item", shape: [], missing: 0 },
      { name: "the fill value", shape: [], missing: 1 },
    ],
    ...{ shard: [], inner: [], innermost: [] },
  },
  {
    edges: [
      { name: "whole shards", shape: [16], missing: 12 },
      { name: "edges within chunks", shape: [11], missing: 8 },
    ],
    ...{ shard: [8], inner: [4], innermost: [2] },
  },
  {
    edges: [
      { name: "whole shards", shape: [8, 4], missing: 6 },
      { name: "edges within chunks", shape: [5, 3], missing: 4 },
    ],
    ...{ shard: [4, 4], inner: [2, 4], innermost: [2, 2] },
  },
  {
    edges: [
      { name: "whole shards", shape: [2, 4, 4], missing: 3 },
      { name: "edges within chunks", shape: [2, 3, 3], missing: 2 },
    ],
    ...{ shard: [2, 2, 4], inner: [2, 1, 4], innermost: [2, 1, 2] },
  },
];

/**
 * All cases: the product of everything but the index's checksum, which alternates such that any five of the other
 * settings meet in all their combinations both with it and without. The fill value, the index location of a shard in
 * a shard, and whether an array without dimensions has its item or the fill value, alternate.
 */
export function listProduct(): ProductCase[] {
  const cases: ProductCase[] = [];
  const values = new Map<string, ProductValues>();
  for (const [t, dtype] of Object.keys(TYPES).entries())
    for (const [c, codecs] of Object.keys(CHAINS).entries())
      for (const [dimensions, shapes] of SHAPES.entries())
        for (const [e, edges] of shapes.edges.entries())
          for (const [l, indexLocation] of (["end", "start"] as const).entries())
            for (const [n, isNested] of [false, true].entries()) {
              if (dimensions === 0 && e !== (Math.floor(t / 2) + Math.floor(c / 2) + l) % 2) continue;
              const hasIndexCrc = (t + c + dimensions + (dimensions === 0 ? 0 : e) + l + n) % 2 === 0;
              const settings = { dtype, dimensions, codecs, indexLocation, isNested, hasIndexCrc };
              cases.push(makeCase({ ...settings, edges: edges.name }, t + c, values));
            }
  return cases;
}

/**
 * Combinations missing from arrays with dimensions: of all six settings, or of five of them both with the index's
 * checksum and without.
 */
export function listMissing(cases: readonly ProductCase[]): string[] {
  const names = ["dtype", "dimensions", "codecs", "indexLocation", "isNested", "edges"] as const;
  const settings = cases.map((each) => each.settings).filter(({ dimensions }) => dimensions > 0);
  const all = names.reduce((product, name) => product * new Set(settings.map((each) => each[name])).size, 1);
  const found = new Set(settings.map((each) => names.map((name) => each[name]).join(", "))).size;
  if (found !== all) return [`${all - found} combinations of all six`];
  return names.flatMap((left) => {
    const combined = settings.map((each) => ({
      key: names.map((name) => (name === left ? "any" : each[name])).join(", "),
      hasIndexCrc: each.hasIndexCrc,
    }));
    const keys = new Set(combined.map(({ key }) => key));
    const seen = new Set(combined.map(({ key, hasIndexCrc }) => `${hasIndexCrc} ${key}`));
    return [...keys].filter((key) => !seen.has(`true ${key}`) || !seen.has(`false ${key}`));
  });
}

function makeCase(settings: ProductSettings, turn: number, made: Map<string, ProductValues>): ProductCase {
  const { dtype, dimensions, codecs, indexLocation, isNested, hasIndexCrc } = settings;
  const shapes = SHAPES[dimensions];
  const edges = shapes?.edges.find(({ name }) => name === settings.edges);
  if (shapes === undefined || edges === undefined)
    throw new RangeError(`no shape of ${dimensions} dimensions`);
  const size = sizeOf(dtype);
  const leaf = (CHAINS[codecs]?.(size, dimensions) ?? []).map((codec) =>
    size === 1 ? withoutOrder(codec) : codec,
  );
  const indexCodecs = hasIndexCrc ? [LITTLE, CRC] : [LITTLE];
  const other = indexLocation === "end" ? "start" : "end";
  const innerLocation = turn % 2 === 0 ? indexLocation : other;
  const fill = turn % 3 === 0 ? undefined : makeFill(dtype);
  return {
    name: [
      ...[`${dimensions}-d`, dtype, codecs, `index at the ${indexLocation}`],
      ...(hasIndexCrc ? [] : ["index without crc32c"]),
      ...(isNested ? [`nested, index there at the ${innerLocation}`] : []),
      ...(fill === undefined ? [] : ["filled"]),
      edges.name,
    ].join(", "),
    settings,
    spec: {
      ...{ shape: edges.shape, dataType: TYPES[dtype] ?? dtype, fillValue: fill?.json },
      ...{ chunkShape: shapes.inner, shardShape: shapes.shard, indexLocation, indexCodecs },
      codecs: isNested ? [sharding(shapes.innermost, leaf, innerLocation, indexCodecs)] : leaf,
    },
    values: valuesOf(edges, dtype, fill?.item, made),
  };
}

function valuesOf(
  { name, shape, missing }: Edges,
  dtype: string,
  fill: Uint8Array | undefined,
  made: Map<string, ProductValues>,
): ProductValues {
  const key = [TYPES[dtype], shape.length, name, fill === undefined ? "zero" : "filled"].join("-");
  const axis = Math.max(0, shape.length - 2);
  const below = shape.slice(axis + 1).reduce((product, n) => product * n, 1);
  const isMissing = (item: number): boolean => Math.floor(item / below) % (shape[axis] ?? 1) < missing;
  const found = made.get(key) ?? { key, bytes: makeItems(shape, dtype, isMissing, fill) };
  made.set(key, found);
  return found;
}
