/** Codecs of Zarr v3 as an array's document has them. */
import type { JsonValue } from "../../src/format/types.ts";

export const LITTLE: JsonValue = { name: "bytes", configuration: { endian: "little" } };
export const BIG: JsonValue = { name: "bytes", configuration: { endian: "big" } };
export const CRC: JsonValue = { name: "crc32c" };

export function blosc(cname: string, shuffle: string, typesize: number): JsonValue {
  return { name: "blosc", configuration: { cname, clevel: 5, shuffle, typesize, blocksize: 0 } };
}

export function gzip(level: number): JsonValue {
  return { name: "gzip", configuration: { level } };
}

export function zstd(level: number, checksum = false): JsonValue {
  return { name: "zstd", configuration: { level, checksum } };
}

/** The order that rotates the dimensions of an inner chunk by one. */
export function turned(dimensions: number): JsonValue {
  const order = Array.from({ length: dimensions }, (_, d) => (d + 1) % dimensions);
  return { name: "transpose", configuration: { order } };
}

export function sharding(
  inner: readonly number[],
  codecs: readonly JsonValue[],
  location: "start" | "end",
  indexCodecs: readonly JsonValue[] = [LITTLE, CRC],
): JsonValue {
  const index = { index_codecs: indexCodecs, index_location: location };
  return { name: "sharding_indexed", configuration: { chunk_shape: [...inner], codecs, ...index } };
}

/** Codecs of single bytes have no byte order. */
export function withoutOrder(codec: JsonValue): JsonValue {
  return codec === LITTLE || codec === BIG ? { name: "bytes" } : codec;
}
