/** `.npy` files, by path or as a stream: what the header says, and the values with flat memory. */
import { tmpdir } from "node:os";
import { joinBytes } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { decodeNpyHeader, NPY_START, type NpyHeader, npyHeaderLength } from "../format/npy.ts";
import type { StoreOptions } from "../store/types.ts";
import { elementsOf } from "../values/selection.ts";
import { scratchBeside } from "../write/bloscpack/chunk-spool.ts";
import { fromObject, isSpread, rowsOfFortran, rowsOfFortranStream } from "../write/rows/npy-rows.ts";
import { FileStore } from "./fs/fs-store.ts";
import { locate } from "./locate.ts";

/** A `.npy` file whose header was read. */
export interface NpyFile extends NpyHeader {
  /** As messages name it. */
  readonly name: string;
  /** Bytes of the values. */
  readonly nbytes: number;
  /** The values' bytes in the order of the file, as often as they are asked for; those of a stream once. */
  values(options?: StoreOptions): AsyncGenerator<Uint8Array>;
  /** The same in C order, in which rows are appended. A stream in Fortran order of more than 32 MiB waits in a temporary file. */
  rows(options?: StoreOptions): AsyncGenerator<Uint8Array>;
}

/** Bytes that are read at once. */
const READ_BYTES = 1 << 20;

/**
 * Reads the header of a `.npy` file: at a path or an address, or of a stream, which messages call `name`.
 *
 * @throws NOT_FOUND; BAD_MAGIC, TRUNCATED, BAD_FIELD for what is not a whole `.npy` file; UNSUPPORTED for Python objects and other
 * versions; LIMIT
 */
export async function openNpy(
  source: string | AsyncIterable<Uint8Array>,
  { name, signal }: StoreOptions & { readonly name?: string } = {},
): Promise<NpyFile> {
  return typeof source === "string"
    ? openFile(source, name ?? source, { signal })
    : openStream(source, name ?? "stream");
}

async function openFile(location: string, name: string, options: StoreOptions): Promise<NpyFile> {
  const { store, path } = await locate(location);
  try {
    const head = async (length: number): Promise<Uint8Array> =>
      (await store.getRange(path, { offset: 0, length }, options)) ?? new Uint8Array(0);
    const header = decodeNpyHeader(await head(npyHeaderLength(await head(NPY_START), name)), name);
    const { dataAt } = header;
    const nbytes = elementsOf(header.shape) * header.dtype.itemSize;
    const found = ((await store.stat(path, options))?.size ?? 0) - dataAt;
    if (found !== nbytes)
      throw new SuperchunkError(
        "TRUNCATED",
        `the header promises ${nbytes} bytes of values after byte ${dataAt}, but there are ${found}. The file is not whole; look for another copy`,
        { path: name, offset: dataAt, field: "shape", expected: nbytes, found },
      );
    const values = (more?: StoreOptions): AsyncGenerator<Uint8Array> => readFile(location, dataAt, more);
    const rows = (more?: StoreOptions): AsyncGenerator<Uint8Array> =>
      isSpread(header) ? turnFile(location, header, more) : values(more);
    return { ...header, name, nbytes, values, rows };
  } finally {
    await store.close?.();
  }
}

async function* readFile(
  location: string,
  start: number,
  options?: StoreOptions,
): AsyncGenerator<Uint8Array> {
  const { store, path } = await locate(location);
  try {
    for (let offset = start; ; ) {
      const piece = await store.getRange(path, { offset, length: READ_BYTES }, options);
      if (piece === undefined || piece.length === 0) return;
      yield piece;
      offset += piece.length;
    }
  } finally {
    await store.close?.();
  }
}

async function* turnFile(
  location: string,
  header: NpyHeader,
  options?: StoreOptions,
): AsyncGenerator<Uint8Array> {
  const { store, path } = await locate(location);
  try {
    yield* rowsOfFortran(fromObject(store, path, header.dataAt), header, options?.signal);
  } finally {
    await store.close?.();
  }
}

async function openStream(source: AsyncIterable<Uint8Array>, name: string): Promise<NpyFile> {
  const pieces = source[Symbol.asyncIterator]();
  const next = async (): Promise<Uint8Array | undefined> => {
    const { done, value } = await pieces.next();
    return done === true ? undefined : value;
  };
  let head = new Uint8Array(0);
  const readUntil = async (length: number): Promise<void> => {
    while (head.length < length) {
      const piece = await next();
      if (piece === undefined) return;
      head = joinBytes([head, piece]);
    }
  };
  await readUntil(NPY_START);
  const length = npyHeaderLength(head.subarray(0, NPY_START), name);
  await readUntil(length);
  const header = decodeNpyHeader(head.subarray(0, length), name);
  const nbytes = elementsOf(header.shape) * header.dtype.itemSize;
  async function* values(): AsyncGenerator<Uint8Array> {
    let found = 0;
    let piece: Uint8Array | undefined = head.subarray(length);
    for (; piece !== undefined; piece = await next()) {
      found += piece.length;
      if (found > nbytes) break;
      yield piece;
    }
    if (found === nbytes) return;
    throw new SuperchunkError(
      "TRUNCATED",
      `the header promises ${nbytes} bytes of values, but there are ${found > nbytes ? "more" : found}. What was sent is not whole; send it again`,
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

async function* turnStream(
  values: AsyncIterable<Uint8Array>,
  header: NpyHeader,
  options?: StoreOptions,
): AsyncGenerator<Uint8Array> {
  const store = new FileStore(tmpdir());
  try {
    yield* rowsOfFortranStream(values, header, scratchBeside(store, "superchunk"), options?.signal);
  } finally {
    await store.close();
  }
}
