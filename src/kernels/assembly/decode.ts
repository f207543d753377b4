// The decoding kernels, one WebAssembly module. Conventions: ../README.md
export { bitunshuffle, bitunshuffleStreams } from "./decode-shuffle";
export { decodeBlosclz } from "./decode-blosclz";
export { decodeLz4, lastToken } from "./decode-lz4";
export { decodeSnappy } from "./decode-snappy";
export { decodeDeflate, decodeZlib, deflateEnd } from "./decode-zlib";
export { decodeZstd } from "./decode-zstd";
export { streamTable, unshuffle, unshufflePart, unshuffleRows, unshuffleStreams } from "./decode-shuffle";

/** First address of the host's part of the memory. */
export function hostBase(): usize {
  return (__heap_base + 63) & ~63;
}
