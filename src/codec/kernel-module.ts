/**
 * Turns inlined WebAssembly into instances with a growing memory. Knows WebAssembly; must not know Blosc.
 */
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

/** A WebAssembly module, compiled at the first need. */
export class KernelModule {
  readonly #base64: string;
  #module: WebAssembly.Module | undefined;
  #compiling: Promise<void> | undefined;

  /** @param base64 the module's bytes, as `src/kernels/generated` has them */
  constructor(base64: string) {
    this.#base64 = base64;
  }

  /** True once {@link instantiate} need not compile. */
  get isCompiled(): boolean {
    return this.#module !== undefined;
  }

  /** Compiles without blocking; the main thread of some browsers refuses to do it at once. */
  prepare(): Promise<void> {
    if (this.#module !== undefined) return Promise.resolve();
    this.#compiling ??= WebAssembly.compile(fromBase64(this.#base64)).then((module) => {
      this.#module = module;
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
    this.#module ??= new WebAssembly.Module(fromBase64(this.#base64));
    return new WebAssembly.Instance(this.#module);
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
        {
          expected: end,
          found: this.bytes.length,
          cause,
        },
      );
    }
    this.bytes = new Uint8Array(this.#memory.buffer as ArrayBuffer);
    this.view = new DataView(this.#memory.buffer as ArrayBuffer);
  }
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
