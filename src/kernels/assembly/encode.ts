// The encoding kernels, one WebAssembly module. Conventions: ../README.md
export { encodeBlosclz } from "./encode-blosclz";
export { blosclzToLz4 } from "./encode-lz4";
export { encodeLz4 } from "./encode-lz4";
export { encodeLz4hc } from "./encode-lz4";
export { encodeSnappy } from "./encode-snappy";
export { encodeZlib } from "./encode-zlib";
export { bitshuffle } from "./encode-shuffle";
export { shuffle, spreadElements } from "./encode-shuffle";
