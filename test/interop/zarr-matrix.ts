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

/** Array, inner chunk, nested chunk and shard by number of dimensions: the edges fall within chunks. */
const SHAPES = [
  { shape: [103], inner: [8], innermost: [4], shard: [32] },
  { shape: [19, 23], inner: [4, 6], innermost: [2, 3], shard: [12, 12] },
  { shape: [7, 9, 11], inner: [2, 4, 4], innermost: [1, 2, 4], shard: [4, 8, 8] },
] as const;

/** All cases: the full product of dimensions, codecs, index locations and nesting; types in turn, and each once more. */
export function listMatrix(): MatrixCase[] {
  const cases: MatrixCase[] = [];
  const types = Object.keys(TYPES).filter((dtype) => dtype !== "<f2");
  for (const [dimensions, shapes] of SHAPES.entries()) {
    for (const chain of Object.keys(CHAINS)) {
      for (const location of ["end", "start"] as const) {
        for (const isNested of [false, true]) {
          const next = types[cases.length % types.length] ?? "<i4";
          // zarrs 0.2 swaps real and imaginary parts of big-endian complex numbers.
          const dtype = chain.startsWith("big") && next.startsWith("<c") ? "<i4" : next;
          cases.push(
            makeCase(`${dimensions + 1}-d`, shapes, dtype, chain, { indexLocation: location }, isNested),
          );
        }
      }
    }
  }
  const flat = SHAPES[1];
  for (const dtype of Object.keys(TYPES))
    cases.push(makeCase("each type", flat, dtype, "blosc lz4", {}, false));
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
): MatrixCase {
  const size = Number(dtype.slice(2));
  const leaf = (CHAINS[chain]?.(size, shapes.shape.length) ?? []).map((codec) =>
    size === 1 ? withoutOrder(codec) : codec,
  );
  const codecs: readonly JsonValue[] = isNested
    ? [sharding(shapes.innermost, leaf, change.indexLocation ?? "end")]
    : leaf;
  const spec: ZarrSpecification = {
    shape: shapes.shape,
    dataType: TYPES[dtype] ?? dtype,
    chunkShape: shapes.inner,
    shardShape: shapes.shard,
    codecs,
    attributes: { note: "é" },
    ...change,
  };
  const where = change.indexLocation === undefined ? "" : `, index at the ${change.indexLocation}`;
  const name = `${label}, ${dtype}, ${chain}${where}${isNested ? ", nested" : ""}`;
  return {
    name,
    spec,
    dtype,
    bytes: makeItems(shapes.shape, dtype),
    isNested,
    isRectilinear: change.chunkGrid !== undefined,
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
  const size = Number(dtype.slice(2));
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
    else for (let byte = 0; byte < size; byte++) bytes[i * size + byte] = (value + byte * 37) & 0xff;
  }
  return bytes;
}
