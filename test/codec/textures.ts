/** Data and settings for property tests: lengths around the limits of blocks and windows, bytes that repeat more or less. */

import type { CompressorName, EncodeOptions, Shuffle } from "../../src/codec/index.ts";
import fc from "../property.ts";
import { makeNoise } from "./encode-data.ts";

/** All compressors and filters. */
export const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
export const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

/** What shapes data: how many byte values there are, and how often bytes repeat those `period` bytes before. */
export interface Texture {
  readonly length: number;
  readonly seed: number;
  readonly values: number;
  readonly period: number;
  /** How many of 256 bytes repeat. */
  readonly repeats: number;
}

const lengths: fc.Arbitrary<number> = fc.oneof(
  fc.integer({ min: 0, max: 600 }),
  fc.integer({ min: 0, max: 20_000 }),
  fc.constantFrom(127, 128, 129, 4095, 4096, 4097, 65_535, 65_536, 65_537, 65_546, 65_547, 131_072, 140_001),
);

/** Data of all kinds, short and long. */
export const textures: fc.Arbitrary<Texture> = fc.record({
  length: lengths,
  seed: fc.nat(),
  values: fc.constantFrom(1, 2, 3, 4, 16, 100, 256),
  period: fc.oneof(
    fc.integer({ min: 1, max: 40 }),
    fc.constantFrom(
      255,
      256,
      2047,
      2048,
      4097,
      8190,
      8191,
      8192,
      8193,
      32_506,
      32_768,
      65_535,
      65_536,
      73_000,
    ),
  ),
  repeats: fc.constantFrom(0, 128, 200, 250, 255, 256),
});

/** The bytes of a texture. */
export function makeTexture({ length, seed, values, period, repeats }: Texture): Uint8Array {
  const fresh = makeNoise(length, seed);
  const choice = makeNoise(length, seed + 1);
  for (let i = 0; i < length; i++) {
    const repeated = i >= period && (choice[i] ?? 0) < repeats;
    fresh[i] = repeated ? (fresh[i - period] ?? 0) : (fresh[i] ?? 0) % values;
  }
  return fresh;
}

/** Settings of all kinds. */
export const options: fc.Arbitrary<EncodeOptions> = fc.record({
  cname: fc.constantFrom(...COMPRESSORS),
  clevel: fc.integer({ min: 0, max: 9 }),
  shuffle: fc.constantFrom(...SHUFFLES),
  typesize: fc.oneof(fc.integer({ min: 1, max: 33 }), fc.integer({ min: 1, max: 255 })),
  blocksize: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 70_000 })),
});
