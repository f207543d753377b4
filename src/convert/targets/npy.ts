/** numpy's `.npy` files: a header, then the values in C order. */
import { at } from "../../bytes/arrays.ts";
import { encodeNpyHeader } from "../../format/npy.ts";
import { type ColumnFormat, noteLost } from "./column-target.ts";

/** Bytes read back at a time. */
const PIECE = 4 << 20;

/** `.npy` files, one for each array or column. They have no chunks, so values are always decoded. */
export const NPY: ColumnFormat = {
  format: "npy",
  ending: ".npy",
  whyRecoded: () => undefined,

  async write({ key, columns }, context) {
    const column = at(columns, 0);
    const { signal, overwrite } = context.options;
    noteLost(context, column, { name: ".npy", holdsAttributes: false });
    const header = encodeNpyHeader(column.dtype, column.shape);
    const size = header.length + column.nbytes;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      yield header;
      yield* context.watch(column.stream({ signal }));
    }
    await context.store.put(key, pieces(), { ifAbsent: overwrite !== true, size, signal });
  },

  async *read({ key, columns }, store, signal) {
    const { dtype, shape, nbytes } = at(columns, 0);
    const start = encodeNpyHeader(dtype, shape).length;
    for (let offset = 0; offset < nbytes; offset += PIECE) {
      const range = { offset: start + offset, length: Math.min(PIECE, nbytes - offset) };
      const bytes = await store.getRange(key, range, { signal });
      if (bytes === undefined) return;
      yield bytes;
    }
  },
};
