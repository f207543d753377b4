/** `.npy` files, from a path or a stream: the header, and the values in bounded memory. */

import { randomUUID } from "node:crypto";
import { readSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ArrayReading, type Gather } from "../archive/kinds/chunked-archive.ts";
import { at, elementsOf, joinBytes } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { SuperchunkError } from "../errors.ts";
import { decodeNpyHeader, NPY_START, type NpyHeader, npyHeaderLength } from "../format/npy.ts";
import type { DType } from "../format/types.ts";
import { pauseIfDue, rethrowAfter } from "../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { explainError } from "./fs/fs-handles.ts";
import { closing, locate, refuseFolder } from "./locate.ts";

/** A `.npy` file whose header was read. */
export interface NpyFile extends NpyHeader {
  /** Name in messages. */
  readonly name: string;
  /** Bytes of the values. */
  readonly nbytes: number;
  /** Yields the values' bytes in file order. Can be called any number of times; once for a stream. */
  values(options?: StoreOptions): AsyncGenerator<Uint8Array>;
  /** Yields the same in C order, in which rows are appended. A stream in Fortran order of more than 32 MiB waits in a temporary file. */
  rows(options?: StoreOptions): AsyncGenerator<Uint8Array>;
}

const READ_BYTES = 1 << 20;

/**
 * Reads the header of a `.npy` file at a path or an address, or of a stream, which messages call `name`.
 *
 * @throws NOT_FOUND; BAD_MAGIC, TRUNCATED, BAD_FIELD for an invalid or partial `.npy` file; UNSUPPORTED for Python objects and other
 * versions; LIMIT
 */
export async function openNpy(
  source: string | AsyncIterable<Uint8Array>,
  options: StoreOptions & { readonly name?: string } = {},
): Promise<NpyFile> {
  checkOptions(options, "name signal");
  const { name, signal } = options;
  return typeof source === "string"
    ? openFile(source, name ?? source, { signal })
    : openStream(source, name ?? "stream");
}

async function openFile(location: string, name: string, options: StoreOptions): Promise<NpyFile> {
  refuseFolder(location);
  const { store, path } = await locate(location);
  return closing(store, async () => {
    const head = async (length: number): Promise<Uint8Array> =>
      (await store.getRange(path, { offset: 0, length }, options)) ?? new Uint8Array(0);
    const header = decodeNpyHeader(await head(npyHeaderLength(await head(NPY_START), name)), name);
    const { dataAt } = header;
    const nbytes = elementsOf(header.shape) * header.dtype.itemSize;
    const found = ((await store.stat(path, options))?.size ?? 0) - dataAt;
    if (found !== nbytes)
      throw new SuperchunkError(
        "TRUNCATED",
        `the header promises ${nbytes} bytes of values after byte ${dataAt}, but there are ${found}. ${found > nbytes ? "The file is too long: something was written after its values, or its header is wrong" : "The file is incomplete"}; look for another copy`,
        { path: name, offset: dataAt, field: "shape", expected: nbytes, found },
      );
    const values = (more?: StoreOptions): AsyncGenerator<Uint8Array> =>
      reading(location, (own) => readAll(own, path, dataAt, more));
    const rows = (more?: StoreOptions): AsyncGenerator<Uint8Array> =>
      isSpread(header)
        ? reading(location, (own) => rowsOfFortran(fromObject(own, path, dataAt), header, more?.signal))
        : values(more);
    return { ...header, name, nbytes, values, rows };
  });
}

/** What `read` yields from the store of a location, which is open for as long. */
async function* reading(
  location: string,
  read: (store: ReadableStore) => AsyncGenerator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const { store } = await locate(location);
  try {
    yield* read(store);
  } finally {
    await store.close?.();
  }
}

async function* readAll(
  store: ReadableStore,
  path: string,
  start: number,
  options?: StoreOptions,
): AsyncGenerator<Uint8Array> {
  for (let offset = start; ; ) {
    const piece = await store.getRange(path, { offset, length: READ_BYTES }, options);
    if (piece === undefined || piece.length === 0) return;
    yield piece;
    offset += piece.length;
  }
}

async function openStream(source: AsyncIterable<Uint8Array>, name: string): Promise<NpyFile> {
  const pieces = source[Symbol.asyncIterator]();
  let head = new Uint8Array(0);
  const readUntil = async (length: number): Promise<Uint8Array> => {
    while (head.length < length) {
      const { done, value } = await pieces.next();
      if (done === true) break;
      head = joinBytes([head, value]);
    }
    return head.subarray(0, length);
  };
  const readHeader = async (): Promise<NpyHeader> => {
    const length = npyHeaderLength(await readUntil(NPY_START), name);
    return decodeNpyHeader(await readUntil(length), name);
  };
  const header = await readHeader().catch(rethrowAfter(() => pieces.return?.()));
  const nbytes = elementsOf(header.shape) * header.dtype.itemSize;
  async function* values(): AsyncGenerator<Uint8Array> {
    let found = 0;
    let next: IteratorResult<Uint8Array> = { value: head.subarray(header.dataAt) };
    try {
      for (; next.done !== true; next = await pieces.next()) {
        found += next.value.length;
        if (found > nbytes) break;
        yield next.value;
      }
    } finally {
      await pieces.return?.();
    }
    if (found === nbytes) return;
    throw new SuperchunkError(
      "TRUNCATED",
      `the header promises ${nbytes} bytes of values, but there are ${found > nbytes ? "more. The input is too long" : `${found}. The input is incomplete`}; send it again`,
      { path: name, offset: header.dataAt, field: "shape", expected: nbytes, found },
    );
  }
  return {
    ...header,
    name,
    nbytes,
    values,
    rows: (options) => (isSpread(header) ? turnStream(values(), header, options) : values()),
  };
}

// Reads the rows of values in Fortran order, where a row is spread over the whole file, slab by slab in bounded memory.

/** Fills a buffer with the values' bytes from an offset on. */
type ReadValues = (offset: number, target: Uint8Array) => void;

/** Bytes of a slab, which is in memory twice while it is transposed. */
const SLAB_BYTES = 32 << 20;
/** Most bytes of a stream to transpose in memory. */
const KEPT_BYTES = 32 << 20;

/** The rows in C order, in pieces that end at rows. Throws what `read` throws. */
async function* rowsOfFortran(
  read: ReadValues,
  { dtype, shape }: { readonly dtype: DType; readonly shape: readonly number[] },
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { itemSize } = dtype;
  const gather: Gather = async (batches, out, options) => {
    for (const { source, target, length, count } of batches) {
      options.signal?.throwIfAborted();
      for (let i = 0; i < count; i++) {
        const to = at(target, i) * itemSize;
        read(at(source, i) * itemSize, out.subarray(to, to + length * itemSize));
      }
      await pauseIfDue();
    }
  };
  const rowBytes = elementsOf(shape.slice(1)) * itemSize;
  const rows = Math.max(1, Math.floor(SLAB_BYTES / Math.max(1, rowBytes)));
  const reading = new ArrayReading({ dtype, shape, order: "F" }, gather);
  yield* reading.slabBytes(rows, { signal });
}

/** True if a row is spread over the whole file. */
function isSpread({ order, shape }: Pick<NpyHeader, "order" | "shape">): boolean {
  return order === "F" && shape.length > 1;
}

/** The rows of a stream of values in Fortran order: from memory, or from a file that loses its name at once, so that no kill leaves it. */
async function* turnStream(
  values: AsyncIterable<Uint8Array>,
  header: NpyHeader,
  { signal }: StoreOptions = {},
): AsyncGenerator<Uint8Array> {
  const size = elementsOf(header.shape) * header.dtype.itemSize;
  if (size <= KEPT_BYTES) {
    const pieces: Uint8Array[] = [];
    for await (const piece of values) pieces.push(piece.slice());
    yield* rowsOfFortran(fromBytes(joinBytes(pieces)), header, signal);
    return;
  }
  const path = join(tmpdir(), `superchunk-${randomUUID()}.tmp`);
  const explain = (error: unknown): never => {
    throw explainError(error, path, "holding a stream in Fortran order, which TMPDIR can move", true);
  };
  const file = await open(path, "wx+", 0o600).catch(explain);
  try {
    await rm(path).catch(explain);
    for await (const piece of values) {
      signal?.throwIfAborted();
      await file.appendFile(piece).catch(explain);
    }
    const readIntoSync = (_key: string, at: number, to: Uint8Array): number =>
      readSync(file.fd, to, 0, to.length, at);
    yield* rowsOfFortran(fromObject({ readIntoSync, describe: () => path }, path), header, signal);
  } finally {
    await file.close();
  }
}

function fromBytes(bytes: Uint8Array): ReadValues {
  return (offset, target) => target.set(bytes.subarray(offset, offset + target.length));
}

/** Bytes to read ahead if requested parts are close together, and the distance that counts as close. */
const WINDOW = 256 << 10;
const NEAR = 32 << 10;

/** Reads parts of an object whose store reads synchronously. They throw `STALE` if the object has become shorter. */
function fromObject(
  store: Pick<ReadableStore, "readIntoSync" | "describe">,
  key: string,
  start = 0,
): ReadValues {
  const buffer = new Uint8Array(WINDOW);
  let [at, length, last] = [0, 0, Number.NEGATIVE_INFINITY];
  return (offset, target) => {
    const end = offset + target.length;
    const isNear = offset >= last && offset - last < NEAR && target.length < NEAR;
    if (isNear && (offset < at || end > at + length))
      [at, length] = [offset, store.readIntoSync?.(key, start + offset, buffer) ?? 0];
    last = end;
    if (offset >= at && end <= at + length) target.set(buffer.subarray(offset - at, end - at));
    else if (store.readIntoSync?.(key, start + offset, target) !== target.length)
      throw new SuperchunkError("STALE", "the file changed while it was read", { path: store.describe(key) });
  };
}
