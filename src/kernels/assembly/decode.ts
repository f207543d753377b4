// The decoding kernels, one WebAssembly module. Conventions: ../README.md
export { bitunshuffle } from "./decode-bitshuffle";
export { decodeBlosclz } from "./decode-blosclz";
export { decodeLz4 } from "./decode-lz4";
export { decodeSnappy } from "./decode-snappy";
export { decodeZlib } from "./decode-zlib";
export { unshuffle } from "./decode-shuffle";
