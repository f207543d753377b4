/**
 * The reference implementation of zstd, as a WebAssembly module. Larger than all other kernels together, so
 * it is imported on first use.
 */
import { compileModule } from "./kernel-module.ts";
import { decodeStream } from "./stream.ts";

/** The module's names for its exports, and for the import that grows its memory. */
export type ZstdNames = typeof import("../kernels/generated/zstd.ts")["names"];

export async function compileZstd(): Promise<{
  readonly module: WebAssembly.Module;
  readonly names: ZstdNames;
}> {
  const { wasm, length, names } = await import("../kernels/generated/zstd.ts");
  return { module: await compileModule("zstd", () => unpackZstd(wasm, length)), names };
}

/** Decodes the module's bytes from the inlined text. */
export function unpackZstd(text: string, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return decodeStream("zlib", packed, length);
}

const PAGE = 65_536;

/** A library with memory of its own. */
export interface ZstdInstance {
  readonly memory: WebAssembly.Memory;
  /** Its functions, by their names in zstd. Numbers are addresses, lengths and codes. */
  find(name: keyof ZstdNames): (...numbers: readonly number[]) => number;
}

/** Makes an instance. `failure` is the error for imports that zstd calls only if it cannot go on. */
export function instantiateZstd(
  module: WebAssembly.Module,
  names: ZstdNames,
  failure: () => Error,
): ZstdInstance {
  let memory: WebAssembly.Memory | undefined;
  const imports: Record<string, WebAssembly.ImportValue> = {};
  for (const { name } of WebAssembly.Module.imports(module))
    imports[name] = (length: number) => {
      if (name !== names.resizeHeap || memory === undefined) throw failure();
      try {
        memory.grow(Math.ceil(((length >>> 0) - memory.buffer.byteLength) / PAGE));
        return 1;
      } catch {
        // The library reports this as its own error, which is converted to ours.
        return 0;
      }
    };
  const { exports } = new WebAssembly.Instance(module, { [names.importModule]: imports });
  memory = exports[names.memory] as WebAssembly.Memory;
  const find: ZstdInstance["find"] = (name) => exports[names[name]] as ReturnType<ZstdInstance["find"]>;
  find("initialize")();
  return { memory, find };
}
