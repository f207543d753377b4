/** Decodes zstd frames with a dictionary, using the reference implementation. Knows its interface; must not know chunks. */
import { compileZstd, instantiateZstd, type ZstdInstance, type ZstdNames } from "../codec/zstd-module.ts";
import { SuperchunkError } from "../errors.ts";

/** ZSTD_error_memory_allocation, as a return value. */
const NO_MEMORY = -64;

/** Decompresses the frames of `src` to `dst`. Returns the bytes written, or -1 for damaged or too long frames. @throws LIMIT */
export type DecompressWith = (src: Uint8Array, dst: Uint8Array, dictionary: Uint8Array) => number;

export async function loadDictionaryDecoder(): Promise<DecompressWith> {
  const { module, names } = await compileZstd();
  return (src, dst, dictionary) =>
    decompress(idle ?? instantiateZstd(module, names, noMemory), src, dst, dictionary);
}

let idle: ZstdInstance | undefined;

function decompress(
  instance: ZstdInstance,
  src: Uint8Array,
  dst: Uint8Array,
  dictionary: Uint8Array,
): number {
  const { memory, find } = instance;
  const call = (name: keyof ZstdNames, ...numbers: readonly number[]): number => find(name)(...numbers);
  // A call that does not return may leave the instance in any state.
  idle = undefined;
  const context = call("ZSTD_createDCtx");
  const places = [dst, src, dictionary].map(({ length }) => call("malloc", length) >>> 0);
  const [to = 0, from = 0, table = 0] = places;
  if (context === 0 || places.includes(0)) throw noMemory();
  new Uint8Array(memory.buffer, from, src.length).set(src);
  new Uint8Array(memory.buffer, table, dictionary.length).set(dictionary);
  const numbers = [context, to, dst.length, from, src.length, table, dictionary.length];
  const written = call("ZSTD_decompress_usingDict", ...numbers) | 0;
  if (written === NO_MEMORY) throw noMemory();
  if (written >= 0) dst.set(new Uint8Array(memory.buffer, to, written));
  for (const place of places) call("free", place);
  call("ZSTD_freeDCtx", context);
  idle = instance;
  return written >= 0 ? written : -1;
}

function noMemory(): SuperchunkError {
  return new SuperchunkError("LIMIT", "cannot get the memory to decode a zstd stream with a dictionary.");
}
