/**
 * The reference implementation of zstd, for encoding only: compiled to WebAssembly, or, for long streams,
 * that of Node.js from 22.15 on. Knows their interfaces; must not know chunks.
 *
 * @see https://facebook.github.io/zstd/doc/api_manual_latest.html
 */
import { SuperchunkError } from "../../errors.ts";
import { compileZstd, instantiateZstd, type ZstdNames } from "../zstd-module.ts";

interface ZstdLibrary {
  /**
   * Compresses `src` to one frame with its content size. Returns the bytes written to `dst`, or -1 if it is too short.
   *
   * @param level zstd's own, 1 to 22
   * @throws LIMIT if the engine cannot allocate memory for it
   */
  compress(src: Uint8Array, dst: Uint8Array, level: number): number;
}

/** The exports of the module that are used. Numbers are addresses and lengths. */
interface ZstdCalls {
  readonly memory: WebAssembly.Memory;
  readonly malloc: (length: number) => number;
  readonly free: (address: number) => unknown;
  readonly isError: (code: number) => number;
  readonly context: number;
  /** Of a context, dst, src, a dictionary (each with its length), and a level. */
  readonly compress: (...numbers: readonly number[]) => number;
}

/** ZSTD_error_dstSize_tooSmall, as a return value. */
const TOO_SMALL = -70;
/** A larger instance is not kept, because WebAssembly memory cannot shrink. Bytes. */
const MAX_IDLE_MEMORY = 128 * 1024 * 1024;

let loading: Promise<void> | undefined;
let library: ZstdLibrary | undefined;

/** Loads the library once. It is larger than all other kernels together, so it is imported only when it is needed. */
export function loadZstd(): Promise<void> {
  loading ??= compileZstd().then(
    ({ module, names }) => {
      library = makeLibrary(module, names);
    },
    (error) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}

/** The loaded library. @throws UNSUPPORTED before {@link loadZstd} has resolved */
export function zstdLibrary(): ZstdLibrary {
  if (library === undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      'the zstd encoder is not loaded; await prepareEncode("zstd") before encodeSync, or use encode.',
      { field: "cname", found: "zstd" },
    );
  }
  return library;
}

/** At least as many bytes as any zstd frame of `length` bytes has. */
const longestFrame = (length: number): number => length + (length >> 7) + 64;

/**
 * Encodes one zstd frame with its content size.
 *
 * @param level zstd's own, 1 to 22
 * @throws LIMIT if there is not enough memory
 */
export async function encodeZstdStream(bytes: Uint8Array, level: number): Promise<Uint8Array> {
  await loadZstd();
  const out = new Uint8Array(longestFrame(bytes.length));
  const written = zstdLibrary().compress(bytes, out, level);
  if (written < 0) {
    throw new SuperchunkError("LIMIT", `zstd needs more than ${out.length} bytes for ${bytes.length}`, {
      expected: out.length,
      found: written,
    });
  }
  return out.slice(0, written);
}

function makeLibrary(module: WebAssembly.Module, names: ZstdNames): ZstdLibrary {
  let idle: ZstdCalls | undefined;
  return {
    compress(src, dst, level) {
      if (hosts !== undefined && src.length >= LEAST_FOR_HOST) return hosts(src, dst, level);
      const calls = idle ?? makeInstance(module, names);
      // An instance whose call did not return may be in any state.
      idle = undefined;
      const from = allocateNative(calls, src.length);
      const to = allocateNative(calls, dst.length);
      new Uint8Array(calls.memory.buffer, from, src.length).set(src);
      const written = calls.compress(calls.context, to, dst.length, from, src.length, 0, 0, level) | 0;
      if (written !== TOO_SMALL && calls.isError(written) !== 0) throw noMemory(src.length, written);
      if (written >= 0) dst.set(new Uint8Array(calls.memory.buffer, to, written));
      calls.free(to);
      calls.free(from);
      if (calls.memory.buffer.byteLength <= MAX_IDLE_MEMORY) idle = calls;
      return written >= 0 ? written : -1;
    },
  };
}

/** Shortest stream for Node's zstd, which makes and destroys a context in each call. Bytes. */
const LEAST_FOR_HOST = 64 << 10;

/** The used part of `node:zlib`. @see https://nodejs.org/api/zlib.html#zlibzstdcompresssyncbuffer-options */
interface NodeZlib {
  readonly zstdCompressSync?: (src: Uint8Array, options: object) => Uint8Array;
  readonly constants: { readonly ZSTD_c_compressionLevel: number; readonly ZSTD_c_hashLog: number };
}

/** Compresses like {@link ZstdLibrary}, twice as fast. Its bytes may differ. */
const hosts: ZstdLibrary["compress"] | undefined = findHosts();

function findHosts(): ZstdLibrary["compress"] | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const zlib = process?.getBuiltinModule?.("node:zlib") as NodeZlib | undefined;
  const encode = zlib?.zstdCompressSync;
  if (zlib === undefined || encode === undefined) return undefined;
  const { ZSTD_c_compressionLevel, ZSTD_c_hashLog } = zlib.constants;
  return (src, dst, level) => {
    // Each call clears its tables. At these levels, a quarter to half of an entry for each byte is enough: at most 0.4 % larger, and often smaller.
    const isLean = level >= 5 && level <= 10 && src.length <= 256 << 10;
    const lean = isLean ? { [ZSTD_c_hashLog]: 30 - Math.clz32(src.length) } : {};
    const frame = encode(src, {
      params: { [ZSTD_c_compressionLevel]: level, ...lean },
      pledgedSrcSize: src.length, // otherwise the frame does not contain its content size
      chunkSize: longestFrame(src.length), // in one piece, which zstd then writes without a buffer of its own
    });
    if (frame.length > dst.length) return -1;
    dst.set(frame);
    return frame.length;
  };
}

function makeInstance(module: WebAssembly.Module, names: ZstdNames): ZstdCalls {
  const { memory, find } = instantiateZstd(
    module,
    names,
    () => new SuperchunkError("LIMIT", "the zstd encoder failed, most likely for lack of memory."),
  );
  return {
    memory,
    malloc: find("malloc"),
    free: find("free"),
    isError: find("ZSTD_isError"),
    compress: find("ZSTD_compress_usingDict"),
    context: find("ZSTD_createCCtx")(),
  };
}

function allocateNative(calls: ZstdCalls, length: number): number {
  const address = calls.malloc(length) >>> 0;
  if (address === 0) throw noMemory(length, 0);
  return address;
}

function noMemory(length: number, code: number): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `cannot get the memory to encode a stream of ${length} bytes with zstd.`,
    { found: code },
  );
}
