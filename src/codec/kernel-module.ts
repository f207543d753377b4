/**
 * Turns WebAssembly, inlined or handed in, into instances with a growing memory. Knows WebAssembly; must not know Blosc.
 */
import { fromHex } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";

/** Where the host's part of a kernel's memory starts; what is below is the kernel's. @see src/kernels/README.md */
export const HOST_BASE = 65_536 as const;
/** Bytes behind every region that a kernel may touch. @see src/kernels/README.md */
export const SLACK = 64 as const;

const PAGE = 65_536;
const CACHE_LINE = 64;

/**
 * The next address at the start of a cache line. Engines copy from kernels into shared memory a byte at a time where the two
 * are not aligned alike.
 */
export function align(address: number): number {
  return Math.ceil(address / CACHE_LINE) * CACHE_LINE;
}

/** What can be handed in: the kernels, and the reference implementation of zstd. */
export type ModuleName = "decode" | "encode" | "zstd";

/** Modules that were handed in, or what fetches their bytes, in place of those that are inlined. */
export const handedIn: Partial<Record<ModuleName, WebAssembly.Module | ModuleBytes>> = {};

type ModuleBytes = () => Promise<Uint8Array<ArrayBuffer>> | Uint8Array<ArrayBuffer>;

/** The module of a name: the one that was handed in, or what the bytes are compiled to. @throws UNSUPPORTED where the host does not compile */
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

/** A WebAssembly module, compiled at the first need. */
export class KernelModule {
  readonly #name: ModuleName;
  readonly #hex: string;
  #module: WebAssembly.Module | undefined;
  #compiling: Promise<void> | undefined;

  /** @param hex the module's bytes, as `src/kernels/generated` has them */
  constructor(name: ModuleName, hex: string) {
    this.#name = name;
    this.#hex = hex;
  }

  /** True once {@link instantiate} need not compile. */
  get isCompiled(): boolean {
    return this.#module !== undefined;
  }

  /** Compiles without blocking; the main thread of some browsers refuses to do it at once. */
  prepare(): Promise<void> {
    if (this.#module !== undefined) return Promise.resolve();
    this.#compiling ??= compileModule(this.#name, () => fromHex(this.#hex))
      .then((module) => {
        this.#module = module;
      })
      // A module may be handed in later.
      .finally(() => {
        this.#compiling = undefined;
      });
    return this.#compiling;
  }

  /** A new instance, made without blocking. */
  async instantiateAsync(): Promise<WebAssembly.Instance> {
    await this.prepare();
    return this.#module === undefined ? this.instantiate() : WebAssembly.instantiate(this.#module);
  }

  /** A new instance, compiling at once where {@link prepare} was not awaited. */
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

/** The memory of an instance, and views of it that are right after it grew. */
export class KernelMemory {
  readonly #memory: WebAssembly.Memory;
  /** All of the memory. Not to be kept across {@link reserve}. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The same bytes. */
  view: DataView<ArrayBuffer>;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.bytes = new Uint8Array(memory.buffer as ArrayBuffer);
    this.view = new DataView(memory.buffer as ArrayBuffer);
  }

  /** Bytes that the memory has now. */
  get length(): number {
    return this.bytes.length;
  }

  /**
   * Makes sure that the memory has `end` bytes.
   *
   * @throws LIMIT where the engine has no such memory
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
