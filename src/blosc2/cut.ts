/** The chunk and block shapes of a frame, and whether Blosc1 chunks can hold the streams of its blocks. Must not know stores. */
import { at, elementsOf, isShape, roundUp } from "../bytes/arrays.ts";
import type { Blosc2Header } from "../codec2/fields.ts";
import { filterName, stepsOf } from "../codec2/header.ts";
import { isCopied } from "../codec2/restream.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import type { DType, JsonValue } from "../format/types.ts";
import { blockShape } from "./blocks.ts";
import type { Frame } from "./frame.ts";
import { unpack } from "./msgpack.ts";

const MAX_DIMENSIONS = 16;
/** Most bytes of an item. */
const MAX_ITEM = 1 << 20;

/** Metalayers of frames of python-blosc2 whose chunks are not the values of an array. [BF-10] */
const NOT_VALUES: Readonly<Record<string, string>> = {
  b2o: "an expression or a reference, whose values are computed or elsewhere",
  LazyArray: "an expression or a function, whose values are computed",
  "proxy-source": "a proxy: the values that were not fetched are elsewhere",
  batcharray: "a list of Python objects",
  listarray: "a list of Python objects",
  vlarray: "a list of Python objects",
};

/** Shapes of the array, its chunks and its blocks, in items. */
export interface Cut {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  readonly blocks: readonly number[];
  /** Shape of the array, if chunks and blocks are runs of its items that are not boxes of it; then the other shapes have one dimension. */
  readonly packed?: readonly number[];
}

/** The shapes of a frame: from its metalayer `b2nd`, else one dimension of items. */
export function cutOf(frame: Frame): Cut {
  const { path, typesize, nbytes, chunkBytes, blockBytes, metalayers } = frame;
  const stored = metalayers.get("b2nd") ?? metalayers.get("caterva");
  const isUneven = chunkBytes === 0 && nbytes > 0;
  const name = Object.keys(NOT_VALUES).find((each) => metalayers.has(each));
  if (name !== undefined || isUneven)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `it is ${NOT_VALUES[name ?? ""] ?? "a frame whose chunks have different lengths"}; read it with python-blosc2, and write the values as an array`,
      { path, field: name ?? "chunk_size", found: name ?? 0 },
    );
  if (typesize > MAX_ITEM)
    throw new SuperchunkError("LIMIT", `items of ${typesize} bytes; at most ${MAX_ITEM} are read`, {
      path,
      field: "type_size",
      expected: MAX_ITEM,
      found: typesize,
    });
  const bad = (field: string, found: unknown): SuperchunkError =>
    new SuperchunkError(
      "BAD_FIELD",
      `${field} of the metalayer b2nd does not fit the frame; the file is damaged`,
      { path, field, found },
    );
  if (stored === undefined) {
    const { dtype, shape } = packedType(frame) ?? {
      dtype: parseDType(typesize === 1 ? "|u1" : `|V${typesize}`, path),
      shape: [Math.floor(nbytes / typesize)],
    };
    const items = (bytes: number): number => Math.max(1, Math.floor(bytes / typesize));
    const [run, part] = [items(chunkBytes), items(blockBytes)];
    if (shape.length === 1) return { dtype, shape, chunks: [run], blocks: [part] };
    const most = shape.map((length) => Math.max(1, length));
    const chunks = nbytes === 0 ? most : blockShape(most, run);
    // Blocks that are longer than chunks have padding: such frames are read as runs of items.
    const blocks = nbytes === 0 ? most : chunks && part <= run ? blockShape(chunks, part) : undefined;
    const isWhole = (length: number, d: number): boolean =>
      length % at(blocks ?? [], d) === 0 || length >= at(shape, d);
    if (chunks && blocks && chunks.every(isWhole)) return { dtype, shape, chunks, blocks };
    return { dtype, shape: [elementsOf(shape)], chunks: [run], blocks: [part], packed: shape };
  }
  let list: unknown;
  try {
    list = unpack(stored);
  } catch {
    throw bad("msgpack", stored.length);
  }
  const [, dimensions, shape, chunks, blocks, , format = `|V${typesize}`] = (
    Array.isArray(list) ? list : []
  ) as readonly unknown[];
  const isList = (each: unknown): each is readonly number[] => isShape(each) && each.length === dimensions;
  if (typeof dimensions !== "number" || dimensions > MAX_DIMENSIONS) throw bad("ndim", dimensions);
  if (!isList(shape)) throw bad("shape", shape);
  if (!isList(chunks)) throw bad("chunkshape", chunks);
  if (!isList(blocks)) throw bad("blockshape", blocks);
  const dtype = parseDType(typeof format === "string" ? format : null, path);
  if (dtype.itemSize !== typesize) throw bad("dtype", format);
  const cut = {
    dtype,
    shape,
    chunks: chunks.map((each) => Math.max(1, each)),
    blocks: blocks.map((each) => Math.max(1, each)),
  };
  const padded = cut.chunks.map((length, d) => roundUp(length, at(cut.blocks, d)));
  if (nbytes > 0 && elementsOf(padded) * typesize !== chunkBytes) throw bad("chunkshape", chunks);
  if (nbytes > 0 && elementsOf(cut.blocks) * typesize !== blockBytes) throw bad("blockshape", blocks);
  return cut;
}

/** What python-blosc2's `save_array` and `save_tensor` store as an attribute: `[kind, shape, dtype]`. Undefined if it does not fit the frame. */
function packedType({ attrs, typesize, nbytes, path }: Frame): Pick<Cut, "dtype" | "shape"> | undefined {
  const packed = attrs["__pack_tensor__"];
  const [, shape, name] = Array.isArray(packed) ? (packed as readonly JsonValue[]) : [];
  if (!Array.isArray(shape) || shape.length > MAX_DIMENSIONS || name === undefined) return undefined;
  const dtype = parseDType(name, path);
  const isFit = isShape(shape) && dtype.itemSize === typesize && elementsOf(shape) * typesize === nbytes;
  return isFit ? { dtype, shape } : undefined;
}

/** Why chunks like this one are decoded and encoded on the way to Zarr; undefined if their streams are copied. */
export function whyNotCopied(header: Blosc2Header): string | undefined {
  if (isCopied(header)) return undefined;
  const filters = stepsOf(header).map(({ id }) => filterName(id));
  const what = [...(header.hasDictionary ? ["a dictionary"] : []), ...filters].join(" and ") || "no filter";
  return `Blosc in Zarr cannot hold its blocks: ${what}, items of ${header.typesize} bytes, blocks of ${header.blocksize}`;
}
