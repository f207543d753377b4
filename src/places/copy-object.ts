/** Copies a file of a superchunk from one place to another. Must not know when the copy is committed. @see FORMAT.md [FG-21] */
import { startCrc32c } from "../bytes/checksum.ts";
import { SuperchunkError } from "../errors.ts";
import { isWritable, type StoreOptions } from "../store/types.ts";
import type { PlacedKey } from "./placed-store.ts";

/** Bytes read at a time. */
const PIECE = 4 << 20;

/**
 * Copies an object to a free key, durably, and compares what is read back with what was read. Resolves with its bytes.
 * @throws CONFLICT if the key is taken; READ_ONLY if nothing can be written; INCOMPLETE if the source is missing; IO if other
 * bytes are read back
 */
export async function copyObject(from: PlacedKey, to: PlacedKey, { signal }: StoreOptions): Promise<number> {
  const { store, key } = to;
  if (!isWritable(store))
    throw new SuperchunkError("READ_ONLY", "nothing can be written there", { path: store.describe(key) });
  let read: Sum | undefined;
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    read = new Sum(await startCrc32c());
    yield* read.pass(piecesOf(from, signal));
  };
  await store.put(key, pieces(), { durable: true, ifAbsent: true, signal });
  const copied = new Sum(await startCrc32c());
  for await (const _ of copied.pass(piecesOf(to, signal)));
  if (copied.size === read?.size && copied.digest() === read.digest()) return copied.size;
  throw new SuperchunkError("IO", "the bytes that are read back differ from those that were written", {
    path: store.describe(key),
    expected: read?.size,
    found: copied.size,
  });
}

/** Size and crc32c of the bytes that pass. */
class Sum {
  size = 0;
  readonly #sum: Awaited<ReturnType<typeof startCrc32c>>;

  constructor(sum: Awaited<ReturnType<typeof startCrc32c>>) {
    this.#sum = sum;
  }

  async *pass(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      this.size += piece.length;
      this.#sum.update(piece);
      yield piece;
    }
  }

  /** Call once, at the end. */
  digest(): number {
    return this.#sum.digest();
  }
}

async function* piecesOf({ store, key }: PlacedKey, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const size = (await store.stat(key, { signal }))?.size;
  for (let offset = 0; offset < (size ?? 1); offset += PIECE) {
    const length = Math.min(PIECE, (size ?? 0) - offset);
    const piece = size === undefined ? undefined : await store.getRange(key, { offset, length }, { signal });
    if (piece?.length !== length)
      throw new SuperchunkError(
        "INCOMPLETE",
        "the superchunk is missing or too short, so it cannot be moved",
        { path: store.describe(key), field: "superchunk" },
      );
    yield piece;
  }
}
