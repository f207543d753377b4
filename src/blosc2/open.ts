/** Opens frames of Blosc2 as Zarr arrays: as their chunks are cut, or with chunks made from their rows. Must not know chunks. */
import { elementsOf, joinBytes } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import type { DType } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr, openZarrArray } from "../zarr/read/open.ts";
import { type Cut, cutOf } from "./cut.ts";
import { type Frame, readFrame } from "./frame.ts";
import { Blosc2Store } from "./zarr-view.ts";

/**
 * Opens the frame at a key: a `.b2nd` or `.b2frame` file, or the folder of a sparse frame. Undefined if there is none.
 *
 * @throws UNSUPPORTED for unknown codecs, filters and dtypes; the codes of damage
 */
export async function openBlosc2(
  store: ReadableStore,
  key: string,
  options: OpenZarrOptions = {},
): Promise<ZarrArray | ZarrGroup | undefined> {
  const frame = await readFrame(store, key, options);
  if (frame === undefined) return undefined;
  return openZarr(frameStore(store, frame), "", { ...options, dialect: "blosc2" });
}

/**
 * The Zarr store for a frame: its first `rows` rows, if given. `dtype` is the type of its items if the frame does not say. Throws as
 * {@link openBlosc2}; INCOMPLETE for fewer rows.
 */
export function frameStore(
  store: ReadableStore,
  frame: Frame,
  { dtype, rows }: { readonly dtype?: DType | undefined; readonly rows?: number | undefined } = {},
): Blosc2Store {
  const cut = cutOf(frame);
  const { path } = frame;
  if (dtype !== undefined && dtype.itemSize !== cut.dtype.itemSize)
    throw new SuperchunkError("BAD_FIELD", "the frame's items have another length than its table says", {
      path,
      field: "dtype",
      expected: dtype.itemSize,
      found: cut.dtype.itemSize,
    });
  const [stored = 0, ...rest] = cut.shape;
  if (rows !== undefined && rows > stored)
    throw new SuperchunkError("INCOMPLETE", `the frame has ${stored} rows, and its table ${rows}`, {
      path,
      expected: rows,
      found: stored,
    });
  const shape = rows === undefined ? cut.shape : [rows, ...rest];
  if (cut.packed === undefined)
    return new Blosc2Store(store, frame, { ...cut, shape, dtype: dtype ?? cut.dtype });
  // Read as bytes without a type: others change their byte order.
  const own = new Blosc2Store(store, frame, { ...cut, dtype: parseDType(`|V${cut.dtype.itemSize}`, path) });
  const rowItems = elementsOf(cut.packed.slice(1));
  return rowsStore(store, frame, {
    dtype: cut.dtype,
    shape: cut.packed,
    why: "its chunks or blocks end inside rows",
    read: async (start, stop) =>
      (await openZarrArray(own, "")).getBytes([{ start: start * rowItems, stop: stop * rowItems, step: 1 }]),
  });
}

/** Bytes of a chunk that is made: a chunk of this size can always be one block. */
const MADE_BYTES = 256 << 10;

/** An array whose rows are read from elsewhere. */
interface MadeRows extends Pick<Cut, "dtype" | "shape"> {
  /** Why its chunks are made. */
  readonly why: string;
  read(start: number, stop: number): Promise<Uint8Array>;
}

/** The Zarr store for an array whose chunks are made from its rows: a frame of one block per chunk. */
export function rowsStore(
  store: ReadableStore,
  frame: Pick<Frame, "path" | "file" | "version" | "storedBytes" | "attrs" | "attrsLeft">,
  { dtype, shape, why, read }: MadeRows,
): Blosc2Store {
  const [count = 1, ...itemShape] = shape;
  const rowBytes = dtype.itemSize * elementsOf(itemShape);
  const length = Math.max(1, Math.min(count, Math.floor(MADE_BYTES / Math.max(1, rowBytes))));
  const chunkBytes = length * rowBytes;
  const make = async (index: number): Promise<Uint8Array> => {
    const bytes = await read(index * length, Math.min(count, (index + 1) * length));
    return bytes.length === chunkBytes
      ? bytes
      : joinBytes([bytes, new Uint8Array(chunkBytes - bytes.length)]);
  };
  const chunks = Array.from({ length: Math.ceil(count / length) }, () => ({ special: "none" }) as const);
  const sizes = { typesize: dtype.itemSize, nbytes: count * rowBytes, chunkBytes, blockBytes: chunkBytes };
  const facts = { codec: 1, clevel: 5, filters: [1], metalayers: new Map() };
  const box = shape.length === 0 ? [] : [length, ...itemShape];
  const cut = { dtype, shape, chunks: box, blocks: box };
  return new Blosc2Store(store, { ...frame, ...facts, ...sizes, chunks }, cut, { why, make });
}
