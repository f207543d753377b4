/** `superchunk/blosc/wasm`: the kernels of `superchunk/blosc` as modules, for hosts that compile no WebAssembly at run time. */
export { type KernelModules, useModules } from "./codec/use-modules.ts";
