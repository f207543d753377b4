/** The kinds of Zarr arrays that are written by one program and read by another. */
import type { JsonValue } from "../../src/format/types.ts";
import type { ZarrSpecification } from "../../src/zarr/write/create.ts";

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

/** Pairs of two facets that no case has together. */
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

const LITTLE: JsonValue = { name: "bytes", configuration: { endian: "little" } };
const BIG: JsonValue = { name: "bytes", configuration: { endian: "big" } };
const CRC: JsonValue = { name: "crc32c" };

/** numpy's types, and Zarr's. */
const TYPES: Readonly<Record<string, string>> = {
  "|b1": "bool",
  "|i1": "int8",
  "|u1": "uint8",
  "<i2": "int16",
  "<u2": "uint16",
  "<i4": "int32",
  "<u4": "uint32",
  "<i8": "int64",
  "<u8": "uint64",
  "<f2": "float16",
  "<f4": "float32",
  "<f8": "float64",
  "<c8": "complex64",
  "<c16": "complex128",
};

/** Data types beyond the specification's own, which zarr-python alone has. */
const EXTENSIONS: Readonly<Record<string, JsonValue>> = {
  "|S5": { name: "null_terminated_bytes", configuration: { length_bytes: 5 } },
  "<U3": { name: "fixed_length_utf32", configuration: { length_bytes: 12 } },
  "<M8[ns]": { name: "numpy.datetime64", configuration: { unit: "ns", scale_factor: 1 } },
  "<m8[s]": { name: "numpy.timedelta64", configuration: { unit: "s", scale_factor: 1 } },
};

/** Bytes of an item. */
function sizeOf(dtype: string): number {
  const number = Number(/^.{2}(\d+)/.exec(dtype)?.[1]);
  return dtype.startsWith("<U") ? number * 4 : number;
}

/** Codecs of the innermost chunks, by name. */
const CHAINS: Readonly<Record<string, (size: number, dimensions: number) => readonly JsonValue[]>> = {
  bytes: () => [LITTLE],
  "big-endian bytes": () => [BIG],
  "blosc lz4": (size) => [LITTLE, blosc("lz4", "shuffle", size)],
  "blosc zstd bitshuffle": (size) => [LITTLE, blosc("zstd", "bitshuffle", size)],
  "blosc zlib, crc32c": (size) => [LITTLE, blosc("zlib", "noshuffle", size), CRC],
  gzip: () => [LITTLE, { name: "gzip", configuration: { level: 4 } }],
  zstd: () => [LITTLE, { name: "zstd", configuration: { level: 3, checksum: false } }],
  "transpose, zstd": (_, dimensions) => [
    turned(dimensions),
    LITTLE,
    { name: "zstd", configuration: { level: 1, checksum: false } },
  ],
  "zstd, crc32c": () => [LITTLE, { name: "zstd", configuration: { level: 1, checksum: false } }, CRC],
};

/** The order that turns the dimensions of an inner chunk by one. */
function turned(dimensions: number): JsonValue {
  const order = Array.from({ length: dimensions }, (_, d) => (d + 1) % dimensions);
  return { name: "transpose", configuration: { order } };
}

/** Where an array ends: within chunks and shards, or with a shard. */
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
 * All cases: the full product of dimensions, codecs, index locations, nesting and edges, with data types in turn such that each
 * meets each of the others, and some of a kind.
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

function sharding(
  inner: readonly number[],
  codecs: readonly JsonValue[],
  location: "start" | "end",
): JsonValue {
  const index = { index_codecs: [LITTLE, CRC], index_location: location };
  return { name: "sharding_indexed", configuration: { chunk_shape: [...inner], codecs, ...index } };
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
  const where = change.indexLocation === undefined ? "" : `, index at the ${change.indexLocation}`;
  const name = `${label}, ${dtype}, ${chain}${where}${isNested ? ", nested" : ""}, ${edges}`;
  return {
    name,
    spec,
    dtype,
    bytes: makeItems(shapes.shape[edges], dtype),
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

/** Codecs of single bytes have no byte order. */
function withoutOrder(codec: JsonValue): JsonValue {
  return codec === LITTLE || codec === BIG ? { name: "bytes" } : codec;
}

function blosc(cname: string, shuffle: string, typesize: number): JsonValue {
  return { name: "blosc", configuration: { cname, clevel: 5, shuffle, typesize, blocksize: 0 } };
}

/** Values of which whole chunks are zero, the fill value, and others a mixture. */
function makeItems(shape: readonly number[], dtype: string): Uint8Array {
  const size = sizeOf(dtype);
  const count = shape.reduce((product, n) => product * n, 1);
  const bytes = new Uint8Array(count * size);
  const view = new DataView(bytes.buffer);
  let state = 12345;
  for (let i = 0; i < count; i++) {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    if (i < count / 3) continue;
    const value = i % 7 === 0 ? state % 251 : i % 100;
    if (dtype === "|b1") bytes[i] = value % 2;
    else if (dtype === "<f2") view.setUint16(2 * i, 0x3c00 + (value % 512), true);
    else if (dtype === "<f4") view.setFloat32(4 * i, value / 7, true);
    else if (dtype === "<f8") view.setFloat64(8 * i, value / 7, true);
    else if (dtype === "<c8")
      for (const part of [0, 4]) view.setFloat32(8 * i + part, value / 3 - part, true);
    else if (dtype === "<c16")
      for (const part of [0, 8]) view.setFloat64(16 * i + part, value / 3 - part, true);
    else if (dtype === "<U3")
      for (const at of [0, 4]) view.setUint32(12 * i + at, 0x41 + ((value + at) % 26), true);
    else for (let byte = 0; byte < size; byte++) bytes[i * size + byte] = (value + byte * 37) & 0xff;
  }
  return bytes;
}
