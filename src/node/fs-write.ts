/**
 * Writing pieces to an open file one behind another.
 *
 * Knows short writes, gathering and writing behind; must not know names.
 */
import type { FileHandle } from "node:fs/promises";
import { readPieces } from "../store/source.ts";
import type { PutSource } from "../store/types.ts";

/** Small pieces are gathered to this many bytes before they are written. */
const GATHER = 1 << 20;
/** From this size a piece is written from where it lies. */
const BIG = 128 << 10;
/** Bytes that may wait to be written, of stable pieces. */
const MAX_BEHIND = 16 << 20;
/** Bytes handed over in one call: below the limit of the system (2 GiB). */
const MAX_CALL = 64 << 20;

/** Writes a whole source from the start of a file; resolves with its size. The file is written when it resolves. */
export async function writeSource(
  file: FileHandle,
  source: PutSource,
  stable: boolean,
  signal?: AbortSignal,
): Promise<number> {
  const writer = new PieceWriter(file, stable || source instanceof Uint8Array);
  try {
    for await (const piece of readPieces(source, signal)) await writer.write(piece);
    await writer.finish();
  } catch (error) {
    await writer.settle(); // the file must not be closed under a write
    throw error;
  }
  signal?.throwIfAborted();
  return writer.size;
}

/** Writes all of `bytes` at `position`, however many calls it takes. */
export async function writeFully(
  file: FileHandle,
  bytes: Uint8Array,
  position: number,
  signal?: AbortSignal,
): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    signal?.throwIfAborted();
    const { bytesWritten } = await file.write(
      bytes,
      done,
      Math.min(MAX_CALL, bytes.length - done),
      position + done,
    );
    done += bytesWritten;
  }
}

/** One file's queue of writes: each begins when the one before it is done. */
class PieceWriter {
  size = 0;
  readonly #file: FileHandle;
  readonly #stable: boolean;
  /** Where gathered bytes lie; a second one is filled while the first is written. */
  #gathered: Uint8Array | undefined;
  #spare: Uint8Array | undefined;
  #filled = 0;
  #tail: Promise<void> = Promise.resolve();
  #behind = 0;
  #failure: { readonly error: unknown } | undefined;

  constructor(file: FileHandle, stable: boolean) {
    this.#file = file;
    this.#stable = stable;
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#throwFailure();
    if (piece.length < BIG) return this.#gather(piece);
    await this.#flush();
    this.#enqueue(piece);
    if (!this.#stable || this.#behind > MAX_BEHIND) await this.settle();
    this.#throwFailure();
  }

  async finish(): Promise<void> {
    await this.#flush();
    await this.settle();
    this.#throwFailure();
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Waits for all writes that began, also failed ones. */
  async settle(): Promise<void> {
    await this.#tail;
  }

  async #gather(piece: Uint8Array): Promise<void> {
    if (this.#filled + piece.length > GATHER) await this.#flush();
    this.#gathered ??= new Uint8Array(GATHER);
    this.#gathered.set(piece, this.#filled);
    this.#filled += piece.length;
  }

  async #flush(): Promise<void> {
    if (this.#gathered === undefined || this.#filled === 0) return;
    const full = this.#gathered;
    await this.settle(); // so that the spare one is free
    this.#enqueue(full.subarray(0, this.#filled));
    this.#gathered = this.#spare;
    this.#spare = full;
    this.#filled = 0;
  }

  #enqueue(bytes: Uint8Array): void {
    const position = this.size;
    this.size += bytes.length;
    this.#behind += bytes.length;
    this.#tail = this.#tail.then(async () => {
      try {
        if (this.#failure === undefined) await writeFully(this.#file, bytes, position);
      } catch (error) {
        this.#failure = { error };
      }
      this.#behind -= bytes.length;
    });
  }
}
