/** Memory for results: what the engine does not give is an error with a code, and large memory can be got in a better way. */
import { SuperchunkError } from "../errors.ts";

/** Bytes of a result from which on it is worth a call to say how its memory should come. */
const LARGE = 64 << 20;

/** Says how memory that nobody has touched yet should come. Must not read or write it, nor throw. */
export type MemoryAdvice = (bytes: Uint8Array) => Promise<void>;

let advise: MemoryAdvice | undefined;

/** Has the advice given for every large result from now on. */
export function registerMemoryAdvice(advice: MemoryAdvice): void {
  advise = advice;
}

/** Where the memory is for, and of which kind. */
export interface Allocation {
  /** Of the archive, for errors. */
  readonly path?: string | undefined;
  /** In a `SharedArrayBuffer`. */
  readonly shared?: boolean | undefined;
}

/** Room for a result. Throws `LIMIT` where the engine has none, `UNSUPPORTED` where it has no shared memory. */
export function allocate(length: number, { path, shared = false }: Allocation = {}): Uint8Array {
  const place = path === undefined ? {} : { path };
  if (shared && typeof SharedArrayBuffer === "undefined") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "this engine gives no shared memory (a browser does only to pages that are cross-origin isolated); read without shared",
      { ...place, field: "shared" },
    );
  }
  try {
    return shared ? new Uint8Array(new SharedArrayBuffer(length)) : new Uint8Array(length);
  } catch (cause) {
    throw new SuperchunkError(
      "LIMIT",
      `a result of ${length} bytes does not fit in memory; read a smaller selection, or chunk by chunk`,
      { ...place, found: length, cause },
    );
  }
}

/** The same for a result that is filled from the first byte to the last. Throws as {@link allocate}. */
export async function allocateResult(length: number, allocation?: Allocation): Promise<Uint8Array> {
  const bytes = allocate(length, allocation);
  if (length >= LARGE) await advise?.(bytes);
  return bytes;
}
