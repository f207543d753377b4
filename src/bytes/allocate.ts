/** Memory for results: what the engine does not give is an error with a code, and large memory can be got in a better way. */
import { SuperchunkError } from "../errors.ts";

/** Bytes of a result from which on its memory is prepared: as many as threads are started for, which takes as long. */
const LARGE = 32 << 20;

/**
 * Prepares memory that is still untouched, and that only its reading knows of. Must not read or write it, nor throw. What
 * it returns is called when the memory is its reader's no longer.
 */
export type PrepareMemory = (bytes: Uint8Array) => Promise<(() => void) | undefined>;

/** Where the memory is for, and of which kind. */
export interface Allocation {
  /** Of the archive, for errors. */
  readonly path?: string | undefined;
  /** In a `SharedArrayBuffer`. */
  readonly shared?: boolean | undefined;
  /** Prepares large memory: what decodes into it knows how. */
  readonly prepare?: PrepareMemory | undefined;
}

/** Room for a result. Throws `LIMIT` if the engine has none, `UNSUPPORTED` if it has no shared memory. */
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

/** Room for a result, which `fill` then fills from the first byte to the last. Throws as {@link allocate}, and what `fill` throws. */
export async function fillResult(
  length: number,
  allocation: Allocation,
  fill: (bytes: Uint8Array) => Promise<void>,
): Promise<Uint8Array> {
  const bytes = allocate(length, allocation);
  const handOver = length >= LARGE ? await allocation.prepare?.(bytes) : undefined;
  try {
    await fill(bytes);
  } finally {
    handOver?.();
  }
  return bytes;
}

/** The memory of a buffer in a new one. Views of the old one, which somebody may hold, have no elements from then on. */
export function takeBack(buffer: ArrayBuffer): ArrayBuffer {
  const { transfer } = buffer as ArrayBuffer & { transfer?: () => ArrayBuffer };
  if (transfer !== undefined) return transfer.call(buffer);
  return structuredClone(buffer, { transfer: [buffer] }); // before Node 21
}

/** Memory in which one thing is made after the other: new memory takes longer to get than to fill. */
export class Room {
  #bytes = new Uint8Array(0);

  /** So many bytes, whatever is in them; what was taken before is lost. */
  readonly take = (length: number): Uint8Array => {
    if (this.#bytes.length < length) this.#bytes = new Uint8Array(length + (length >> 3));
    return this.#bytes.subarray(0, length);
  };
}

/** Buffers that are used again: new memory costs more to get than to decode into. */

/** Bytes that a shelf keeps. */
const MAX_KEPT = 32 << 20;

export class BufferShelf<B extends ArrayBufferLike = ArrayBuffer> {
  readonly #most: number;
  readonly #kept: B[] = [];
  #bytes = 0;

  /** `most`: bytes that it keeps. */
  constructor(most: number = MAX_KEPT) {
    this.#most = most;
  }

  /** A buffer of at least that length, or undefined. Its contents are whatever they were. */
  take(length: number): B | undefined {
    const at = this.#kept.findIndex((buffer) => buffer.byteLength >= length);
    const [buffer] = at < 0 ? [] : this.#kept.splice(at, 1);
    this.#bytes -= buffer?.byteLength ?? 0;
    return buffer;
  }

  /** Keeps a buffer that is free again, or drops it where there are enough. */
  put(buffer: B): void {
    if (buffer.byteLength === 0 || this.#bytes + buffer.byteLength > this.#most) return;
    this.#bytes += buffer.byteLength;
    this.#kept.push(buffer);
  }
}
