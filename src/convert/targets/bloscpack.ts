/** Bloscpack files, version 3: numpy arrays, and plain bytes. */
import { at } from "../../bytes/arrays.ts";
import type { BloscpackOptions } from "../../write/bloscpack/bloscpack-options.ts";
import { compressArray, compressBytes } from "../../write/bloscpack/bloscpack-write.ts";
import { compressionOf } from "../sources/columns.ts";
import { offerChunks } from "../sources/offered-chunks.ts";
import { type ColumnFormat, noteLost } from "./column-target.ts";

/** `.blp` files, one for each array or column, in the array's stored memory order. */
export const BLOSCPACK: ColumnFormat = {
  format: "bloscpack",
  ending: ".blp",
  holdsBytes: true,
  whyRecoded: ({ columns }) =>
    at(columns, 0).chunks === undefined
      ? (at(columns, 0).whyRecoded ?? "its chunks cannot be copied")
      : undefined,

  async write({ key, columns, bytes }, context) {
    const column = at(columns, 0);
    const { chunks, settings, dtype, shape, order, attrs } = column;
    const { signal, overwrite } = context.options;
    const encoder = context.copying();
    const data = context.watch(
      chunks === undefined ? column.stream({ signal }) : offerChunks(chunks, encoder, signal),
    );
    const options: BloscpackOptions = {
      ...compressionOf(settings),
      typesize: settings.typesize,
      chunkSize: chunks !== undefined && chunks.stored.chunkBytes > 0 ? chunks.stored.chunkBytes : undefined,
      checksum: settings.checksum,
      encoder,
      force: overwrite,
      signal,
    };
    const metadata = bytes?.metadata ?? attrs;
    const described = { ...options, metadata: Object.keys(metadata).length === 0 ? undefined : metadata };
    if (bytes !== undefined) {
      await compressBytes(data, context.store, key, { ...described, size: bytes.nbytes });
      return;
    }
    noteLost(context, column, { name: "Bloscpack", holdsAttributes: true });
    await compressArray({ dtype, shape, order, data }, context.store, key, described);
  },
};
