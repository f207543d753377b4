/**
 * `superchunk/blosc/wasm`: uses precompiled modules as the kernels of `superchunk/blosc`, for hosts that do not compile WebAssembly at
 * run time. Knows which module is which; must not know what it does.
 */
import { handedIn } from "../codec/kernel-module.ts";
import { SuperchunkError } from "../errors.ts";

/** Modules of the files `superchunk/blosc/decode.wasm` and `superchunk/blosc/encode.wasm`, both of this exact version. */
export interface KernelModules {
  readonly decode?: WebAssembly.Module;
  readonly encode?: WebAssembly.Module;
}

/** A function that identifies each module by its exports. */
const EXPORTED = { decode: "decodeLz4", encode: "encodeLz4" } as const;

/**
 * Makes kernels from these modules from now on, instead of compiling the same kernels on first use. Results are the same. Existing
 * instances stay.
 *
 * @throws BAD_ARGUMENT if a value is not a module, or is another module
 */
export function useModules(modules: KernelModules): void {
  const names = ["decode", "encode"] as const satisfies readonly (keyof KernelModules)[];
  for (const name of names) {
    const module = modules[name];
    if (module !== undefined && !isKernel(module, EXPORTED[name]))
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${name} is not the WebAssembly.Module of superchunk/blosc/${name}.wasm; compile that file, or import it as a module`,
        { field: name, expected: `superchunk/blosc/${name}.wasm`, found: typeof module },
      );
  }
  for (const name of names) if (modules[name] !== undefined) handedIn[name] = modules[name];
}

function isKernel(module: unknown, exported: string): boolean {
  return (
    module instanceof WebAssembly.Module &&
    WebAssembly.Module.exports(module).some(({ name }) => name === exported)
  );
}
