/**
 * Memory of large results where koffi is installed: on Linux it comes in huge pages, and threads write into it by address
 * where the caller asks for that (`directMemory`).
 *
 * Threads share no plain memory, so what they decode is copied once more, by the one thread that is then the slowest. All
 * memory of a process is open to all of its threads by address, which koffi gives; but the engine does not know of such
 * writes, so it is the caller's choice. Only results that just their own reading knows of yet are lent: memory that the user
 * holds could be gone before a thread is done with it.
 *
 * The system gives new memory in pages of 4 KiB unless it is asked for larger ones (`madvise`), and 1 GB of them takes
 * longer than the values take to decode. The environment variable SUPERCHUNK_HUGE_PAGES=0 leaves that as it is.
 */
import type { PrepareMemory } from "../../bytes/allocate.ts";
import { importKoffi, type Koffi } from "./koffi.ts";

/** Bytes of a result from which on pages of the usual size are too many. */
const MANY_PAGES = 64 << 20;
/** Of Linux on x86-64 and 64-bit ARM, where a page has 4 KiB; on others the system rounds, or refuses. */
const HUGE_PAGE = 2n << 20n;
/** MADV_HUGEPAGE. */
const WITH_HUGE_PAGES = 14;

/** Memory of another thread, which it keeps until the job that names it is answered. */
export interface LentMemory {
  readonly address: bigint;
  /** In bytes. */
  readonly length: number;
}

type Advise = (start: bigint, length: number) => void;

const addresses = new WeakMap<ArrayBufferLike, bigint>();
/** Memory that threads may write into, by the work for which it was lent. */
const lent = new Map<Promise<unknown>, ArrayBufferLike>();
let loading: Promise<{ readonly koffi: Koffi; readonly advise: Advise | undefined } | undefined> | undefined;

/**
 * What prepares large results for a decoder: on Linux they come in huge pages, and with `lends` its threads write into them by
 * address. What cannot be had is done without, in silence.
 */
export function resultMemory({ lends }: { readonly lends: boolean }): PrepareMemory {
  return async (bytes) => {
    loading ??= load().catch(() => undefined);
    const loaded = await loading;
    if (loaded === undefined) return undefined;
    const { buffer } = bytes;
    const start = loaded.koffi.address(bytes);
    if (bytes.length >= MANY_PAGES) loaded.advise?.(start, bytes.length);
    if (!lends) return undefined;
    addresses.set(buffer, start - BigInt(bytes.byteOffset));
    return () => void addresses.delete(buffer);
  };
}

/** Part of a result's memory, for other threads; undefined: it cannot be lent. */
export function lendMemory(buffer: ArrayBufferLike, start: number, length: number): LentMemory | undefined {
  const address = addresses.get(buffer);
  return address === undefined ? undefined : { address: address + BigInt(start), length };
}

/** Keeps memory that was lent until the work in it has ended, also where the caller has stopped waiting for its result. */
export function keepUntil(work: Promise<unknown>, buffer: ArrayBufferLike): void {
  lent.set(work, buffer);
  const forget = (): void => void lent.delete(work);
  work.then(forget, forget);
}

/** The memory that another thread lent; undefined if koffi or the engine does not give it. */
export async function borrowMemory({ address, length }: LentMemory): Promise<ArrayBuffer | undefined> {
  try {
    return (await importKoffi()).view(address, length);
  } catch {
    return undefined;
  }
}

/** Throws if koffi is not there, or tells no addresses, or the engine wants no memory that is not its own. */
async function load(): Promise<{ koffi: Koffi; advise: Advise | undefined }> {
  const koffi = await importKoffi();
  const probe = new Uint8Array(4096);
  koffi.view(koffi.address(probe), probe.length);
  const wantsHugePages = process.platform === "linux" && process.env["SUPERCHUNK_HUGE_PAGES"] !== "0";
  return { koffi, advise: wantsHugePages ? loadAdvise(koffi) : undefined };
}

function loadAdvise(koffi: Koffi): Advise {
  const madvise: (address: bigint, length: bigint, advice: number) => number = koffi
    .load(null) // this process, which has the C library of whatever kind
    .func("int madvise(uintptr_t address, size_t length, int advice)");
  return (start, length) => {
    const first = ((start + HUGE_PAGE - 1n) / HUGE_PAGE) * HUGE_PAGE;
    const end = ((start + BigInt(length)) / HUGE_PAGE) * HUGE_PAGE;
    if (end > first) madvise(first, end - first, WITH_HUGE_PAGES); // refused: pages of the usual size
  };
}
