/** Turns WebAssembly, inlined or passed in, into instances with a growing memory. Knows WebAssembly; must not know Blosc. */
import { fromHex } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";

/** First address of the host's part of a kernel's memory; the kernel uses all addresses below. @see src/kernels/README.md */
export const HOST_BASE = 65_536 as const;
/** Bytes after every region that a kernel may touch. @see src/kernels/README.md */
export const SLACK = 64 as const;

const PAGE = 65_536;
const CACHE_LINE = 64;

/**
 * Rounds up to the start of a cache line. Engines copy from kernels into shared memory one byte at a time if
 * source and target are aligned differently.
 */
export function align(address: number): number {
  return Math.ceil(address / CACHE_LINE) * CACHE_LINE;
}

/** The modules that a caller can pass in. */
export type ModuleName = "decode" | "encode" | "zstd";

/** Modules that were passed in, or functions that fetch their bytes, to use instead of the inlined ones. */
export const handedIn: Partial<Record<ModuleName, WebAssembly.Module | ModuleBytes>> = {};

type ModuleBytes = () => Promise<Uint8Array<ArrayBuffer>> | Uint8Array<ArrayBuffer>;

/** The module that was passed in for a name; else the compiled bytes. @throws UNSUPPORTED if the host does not compile */
export async function compileModule(name: ModuleName, bytes: ModuleBytes): Promise<WebAssembly.Module> {
  const given = handedIn[name] ?? bytes;
  if (typeof given !== "function") return given;
  const code = await given();
  try {
    return await WebAssembly.compile(code);
  } catch (cause) {
    throw notCompiled(name, cause);
  }
}

function notCompiled(name: ModuleName, cause: unknown): SuperchunkError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const advice =
    name === "zstd" ? "encode with another compressor" : "hand in its module (superchunk/blosc/wasm)";
  return new SuperchunkError(
    "UNSUPPORTED",
    `this host does not compile WebAssembly (${reason}): ${advice}, or allow 'wasm-unsafe-eval' in the page's policy`,
    { field: name, cause },
  );
}

/** A WebAssembly module, compiled on first use. */
export class KernelModule {
  readonly #name: ModuleName;
  readonly #hex: string;
  #module: WebAssembly.Module | undefined;
  #compiling: Promise<void> | undefined;
  #preparing: Promise<void> | undefined;

  /** @param hex the module's bytes, as stored in `src/kernels/generated` */
  constructor(name: ModuleName, hex: string) {
    this.#name = name;
    this.#hex = hex;
  }

  /** True once {@link instantiate} need not compile. */
  get isCompiled(): boolean {
    return this.#module !== undefined;
  }

  /** Compiles without blocking; the main thread of some browsers refuses to compile synchronously. */
  prepare(): Promise<void> {
    if (this.#module !== undefined) return Promise.resolve();
    this.#compiling ??= compileModule(this.#name, () => fromHex(this.#hex))
      .then((module) => {
        this.#module = module;
      })
      // A module may be passed in later.
      .finally(() => {
        this.#compiling = undefined;
      });
    return this.#compiling;
  }

  /** Makes the first instance without blocking, once, and passes it to `keep`. After a failure, the next call tries again. */
  prepareFirst(keep: (instance: WebAssembly.Instance) => void): Promise<void> {
    this.#preparing ??= this.#instantiateAsync()
      .then(keep)
      .catch((error: unknown) => {
        this.#preparing = undefined;
        throw error;
      });
    return this.#preparing;
  }

  async #instantiateAsync(): Promise<WebAssembly.Instance> {
    await this.prepare();
    return this.#module === undefined ? this.instantiate() : WebAssembly.instantiate(this.#module);
  }

  /** Makes an instance. Compiles synchronously if {@link prepare} was not awaited. */
  instantiate(): WebAssembly.Instance {
    this.#module ??= this.#compileSync();
    return new WebAssembly.Instance(this.#module);
  }

  #compileSync(): WebAssembly.Module {
    const given = handedIn[this.#name];
    if (given instanceof WebAssembly.Module) return given;
    try {
      return new WebAssembly.Module(fromHex(this.#hex));
    } catch (cause) {
      throw notCompiled(this.#name, cause);
    }
  }
}

/** The memory of an instance, and views of it that stay valid when it grows. */
export class KernelMemory {
  readonly #memory: WebAssembly.Memory;
  /** The whole memory. Must not be kept across {@link reserve}. */
  bytes: Uint8Array<ArrayBuffer>;
  view: DataView<ArrayBuffer>;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.bytes = new Uint8Array(memory.buffer as ArrayBuffer);
    this.view = new DataView(memory.buffer as ArrayBuffer);
  }

  get length(): number {
    return this.bytes.length;
  }

  /**
   * Ensures that the memory has `end` bytes.
   *
   * @throws LIMIT if the engine cannot allocate them
   */
  reserve(end: number): void {
    if (end <= this.bytes.length) return;
    const pages = Math.ceil((end - this.bytes.length) / PAGE);
    try {
      this.#memory.grow(pages);
    } catch (cause) {
      throw new SuperchunkError(
        "LIMIT",
        `cannot get ${end} bytes of WebAssembly memory to decode or encode a chunk`,
        { expected: end, found: this.bytes.length, cause },
      );
    }
    this.bytes = new Uint8Array(this.#memory.buffer as ArrayBuffer);
    this.view = new DataView(this.#memory.buffer as ArrayBuffer);
  }
}
