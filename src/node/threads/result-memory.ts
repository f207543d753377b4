/**
 * Memory of large results if koffi is installed: on Linux it is allocated in huge pages, and threads write into it by address
 * if the caller allows it (`directMemory`).
 *
 * Threads do not share plain memory, so their decoded bytes are copied once more by one thread, which then becomes the
 * bottleneck. By address, which koffi returns, all memory of a process is open to all of its threads. The engine does not
 * know of such writes, so the caller must choose it. Only results that only their own read knows yet are lent: memory that
 * the user holds could be freed before a thread is done with it.
 *
 * The system allocates memory in pages of 4 KiB unless larger ones are requested (`madvise`), and for 1 GB this takes longer
 * than decoding the values. The environment variable SUPERCHUNK_HUGE_PAGES=0 turns the request off.
 */
import type { PrepareMemory } from "../../bytes/arrays.ts";
import { importKoffi, type Koffi, withKoffi } from "./koffi.ts";

/** Bytes of a result from which on huge pages are requested. */
const MANY_PAGES = 64 << 20;
/** On Linux on x86-64 and 64-bit ARM with pages of 4 KiB; other systems round it, or refuse. */
const HUGE_PAGE = 2n << 20n;
/** MADV_HUGEPAGE. */
const WITH_HUGE_PAGES = 14;

/** Memory of another thread, which keeps it until the job that uses it is answered. */
export interface LentMemory {
  readonly address: bigint;
  /** In bytes. */
  readonly length: number;
}

type Advise = (start: bigint, length: number) => void;

const addresses = new WeakMap<ArrayBufferLike, bigint>();
/** Memory that threads may write into, by the work that it was lent for. */
const lent = new Map<Promise<unknown>, ArrayBufferLike>();
let loading: Promise<{ readonly koffi: Koffi; readonly advise: Advise | undefined } | undefined> | undefined;

/**
 * Prepares large results for a decoder: on Linux in huge pages, and with `lends`, so that its threads can write into them by
 * address. Silently skips what is not available.
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

/** A part of a result's memory, for other threads; undefined if it cannot be lent. */
export function lendMemory(buffer: ArrayBufferLike, start: number, length: number): LentMemory | undefined {
  const address = addresses.get(buffer);
  return address === undefined ? undefined : { address: address + BigInt(start), length };
}

/** Keeps lent memory alive until the work in it has ended, even if the caller has stopped waiting for its result. */
export function keepUntil(work: Promise<unknown>, buffer: ArrayBufferLike): void {
  lent.set(work, buffer);
  const forget = (): void => void lent.delete(work);
  work.then(forget, forget);
}

/** The memory that another thread lent; undefined if koffi or the engine cannot access it. */
export async function borrowMemory({ address, length }: LentMemory): Promise<ArrayBuffer | undefined> {
  try {
    return await withKoffi((koffi) => koffi.view(address, length));
  } catch {
    return undefined;
  }
}

/** Throws if koffi is not installed or cannot give addresses, or if the engine does not accept memory that it did not allocate. */
async function load(): Promise<{ koffi: Koffi; advise: Advise | undefined }> {
  const koffi = await importKoffi();
  const probe = new Uint8Array(4096);
  koffi.view(koffi.address(probe), probe.length);
  const wantsHugePages = process.platform === "linux" && process.env["SUPERCHUNK_HUGE_PAGES"] !== "0";
  return { koffi, advise: wantsHugePages ? loadAdvise(koffi) : undefined };
}

function loadAdvise(koffi: Koffi): Advise {
  const madvise: (address: bigint, length: bigint, advice: number) => number = koffi
    .load(null) // this process, with any kind of C library
    .func("int madvise(uintptr_t address, size_t length, int advice)");
  return (start, length) => {
    const first = ((start + HUGE_PAGE - 1n) / HUGE_PAGE) * HUGE_PAGE;
    const end = ((start + BigInt(length)) / HUGE_PAGE) * HUGE_PAGE;
    if (end > first) madvise(first, end - first, WITH_HUGE_PAGES); // if refused, pages of the usual size
  };
}
