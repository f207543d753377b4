/** Random Zarr v3 array documents of every kind of chain: shards in shards, transposes, grids, index codecs. */
import { randomNumbers } from "../../bench/samples.mjs";
import { openZarrArray } from "../../build/src/zarr/read/open.js";
import { WritableZarrArray } from "../../build/src/zarr/write/writable-array.js";

export const LITTLE = { name: "bytes", configuration: { endian: "little" } };
export const BIG = { name: "bytes", configuration: { endian: "big" } };
export const CRC = { name: "crc32c" };
export const GZIP = { name: "gzip", configuration: { level: 1 } };
export const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };

/** Random choices: the same seed gives the same ones. */
export function choicesFrom(seed) {
  const random = randomNumbers(seed);
  const below = (n) => Math.floor(random() * n);
  return { below, pick: (list) => list[below(list.length)] };
}

/** The codec of a shard. */
export function sharding(chunkShape, codecs, location = "end", indexCodecs = [LITTLE, CRC]) {
  const index = { index_codecs: indexCodecs, index_location: location };
  return { name: "sharding_indexed", configuration: { chunk_shape: chunkShape, codecs, ...index } };
}

export function blosc({ pick }) {
  const [cname, shuffle] = [pick(["lz4", "zstd", "blosclz"]), pick(["shuffle", "bitshuffle", "noshuffle"])];
  return { name: "blosc", configuration: { cname, clevel: 5, shuffle, typesize: 4, blocksize: 0 } };
}

/** A document of int32 in one to three dimensions, fill value -7. */
export function randomDocument(choices) {
  const { below, pick } = choices;
  const dimensions = pick([1, 1, 2, 2, 2, 3]);
  const most = [60, 16, 8][dimensions - 1];
  const lengths = [
    [4, 6, 12, 16, 30],
    [2, 4, 6, 8, 12],
    [1, 2, 4, 6],
  ][dimensions - 1];
  const shape = Array.from({ length: dimensions }, () => 1 + below(most));
  const chunkShape = shape.map(() => pick(lengths));
  const regular = { name: "regular", configuration: { chunk_shape: chunkShape } };
  return {
    ...{ zarr_format: 3, node_type: "array", shape, data_type: "int32", fill_value: -7, attributes: {} },
    chunk_grid: below(8) === 0 ? unequalGrid(shape, chunkShape, choices) : regular,
    chunk_key_encoding: {
      name: pick(["default", "v2"]),
      configuration: { separator: pick(["/", "."]) },
    },
    codecs: randomChain(chunkShape, 3, choices),
  };
}

function unequalGrid(shape, units, { below }) {
  const lengthsOf = (length, unit) => {
    const found = [];
    for (let total = 0; total < length; total += found.at(-1)) found.push(unit * (1 + below(3)));
    return found;
  };
  const chunkShapes = shape.map((length, d) => lengthsOf(length, units[d]));
  return { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: chunkShapes } };
}

/** Codecs of chunks of a shape, with at most so many levels of shards. */
function randomChain(given, levels, choices) {
  const { below, pick } = choices;
  const codecs = [];
  let shape = given;
  if (below(4) === 0) {
    const order = permutation(shape.length, choices);
    codecs.push({ name: "transpose", configuration: { order } });
    shape = order.map((d) => given[d]);
  }
  if (levels === 0 || below(3) === 0) {
    codecs.push(pick([LITTLE, BIG]));
    for (let n = below(3); n > 0; n--) codecs.push(pick([blosc(choices), ZSTD, GZIP, CRC]));
    return codecs;
  }
  const inner = shape.map((n) => pick(divisors(n)));
  const turned = { name: "transpose", configuration: { order: permutation(shape.length + 1, choices) } };
  const indexCodecs = pick([[LITTLE, CRC], [LITTLE], [BIG, CRC], [turned, LITTLE, CRC], [LITTLE, CRC, CRC]]);
  codecs.push(sharding(inner, randomChain(inner, levels - 1, choices), pick(["start", "end"]), indexCodecs));
  if (below(6) === 0) codecs.push(pick([GZIP, ZSTD, CRC]));
  return codecs;
}

function divisors(n) {
  return Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
}

function permutation(n, { below }) {
  const order = Array.from({ length: n }, (_, d) => d);
  for (let i = n - 1; i > 0; i--) {
    const j = below(i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** Opens an array for writing, without the queue of an editor. */
export async function openZarrWriter(store, path = "", settings = {}) {
  const { model } = await openZarrArray(store, path, settings);
  return new WritableZarrArray(store, model, settings);
}
