/**
 * Memory of large results in huge pages, on Linux where koffi is installed.
 *
 * The system gives new memory in pages of 4 KiB unless it is asked for larger ones (`madvise`), and 1 GB of them takes
 * longer than the values take to decode. The environment variable SUPERCHUNK_HUGE_PAGES=0 leaves everything as it is.
 */
import { registerMemoryAdvice } from "../bytes/allocate.ts";
import { importKoffi } from "./koffi.ts";

/** Of Linux on x86-64 and 64-bit ARM, where a page has 4 KiB; on others the system rounds, or refuses. */
const HUGE_PAGE = 2n << 20n;
/** MADV_HUGEPAGE. */
const WITH_HUGE_PAGES = 14;

type Advise = (bytes: Uint8Array) => void;

let loading: Promise<Advise | undefined> | undefined;

/** Asks for huge pages for every large result of this process. What cannot be had is done without, in silence. */
export function useHugePages(): void {
  if (process.platform !== "linux" || process.env["SUPERCHUNK_HUGE_PAGES"] === "0") return;
  registerMemoryAdvice(async (bytes) => {
    loading ??= load().catch(() => undefined);
    const advise = await loading;
    try {
      advise?.(bytes);
    } catch {
      // A koffi that cannot tell addresses: pages of the usual size.
    }
  });
}

async function load(): Promise<Advise> {
  const koffi = await importKoffi();
  const madvise: (address: bigint, length: bigint, advice: number) => number = koffi
    .load(null) // this process, which has the C library of whatever kind
    .func("int madvise(uintptr_t address, size_t length, int advice)");
  return (bytes) => {
    const start = koffi.address(bytes);
    const first = ((start + HUGE_PAGE - 1n) / HUGE_PAGE) * HUGE_PAGE;
    const end = ((start + BigInt(bytes.length)) / HUGE_PAGE) * HUGE_PAGE;
    if (end > first) madvise(first, end - first, WITH_HUGE_PAGES); // refused: pages of the usual size
  };
}
