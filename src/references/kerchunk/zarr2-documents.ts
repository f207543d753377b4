/**
 * Documents of Zarr v2, for readers of references that know no others: `.zarray`, `.zgroup`, `.zattrs`.
 *
 * @see https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
 */

import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { chunkShapeOf } from "../../zarr/document/zarr-metadata.ts";

/** The two documents of an array. */
export interface Zarr2Documents {
  readonly zarray: JsonObject;
  readonly zattrs: JsonObject;
}

const SHUFFLES: Readonly<Record<string, number>> = { noshuffle: 0, shuffle: 1, bitshuffle: 2 };

/** The group document of Zarr v2. */
export const ZGROUP: JsonObject = { zarr_format: 2 };

/**
 * The documents of an array whose Zarr v3 document is `document`. Throws `UNSUPPORTED` for what Zarr v2 cannot say:
 * a rectilinear grid, and Fortran order where items have dimensions of their own.
 */
export function toZarr2(job: ArrayJob, document: JsonObject): Zarr2Documents {
  const grid = (document["chunk_grid"] as { readonly name: string }).name;
  const { archive } = job.source;
  const path = archive.store.describe(archive.path);
  if (grid !== "regular")
    throw new SuperchunkError("UNSUPPORTED", "Zarr v2 has no rectilinear grid; write references of Zarr v3", {
      path,
      field: "chunk_grid",
    });
  const reversed = job.layout?.reversed === true;
  if (reversed && job.type.itemShape.length > 0) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "Zarr v2 has no word for Fortran order of items that are arrays; write references of Zarr v3",
      { path, field: "order" },
    );
  }
  const { cname, clevel, shuffle } = job.blosc;
  const names = document["dimension_names"];
  const attributes = (document["attributes"] ?? {}) as JsonObject;
  return {
    zarray: {
      zarr_format: 2,
      shape: document["shape"] ?? [],
      chunks: chunkShapeOf(document),
      dtype: typeOf(job),
      compressor: { id: "blosc", cname, clevel, shuffle: SHUFFLES[shuffle] ?? 1, blocksize: 0 },
      // No chunk is missing; and xarray takes a fill value for "no data", which the archive's default is not.
      fill_value: null,
      order: reversed ? "F" : "C",
      filters: null,
      dimension_separator: ".",
    },
    zattrs: keepFloats(
      { ...(names === undefined ? {} : { _ARRAY_DIMENSIONS: names }), ...attributes },
      attributes,
    ),
  };
}

/** Key of a chunk below its array. */
export function zarr2ChunkKey(index: readonly number[]): string {
  return index.length === 0 ? "0" : index.join(".");
}

/** numpy's spelling of the data type that the Zarr v3 document names. */
function typeOf({ type, source }: ArrayJob): JsonValue {
  if (type.original === undefined) return formatDType(source.dtype);
  const code = ORIGINALS[String(type.dataType)];
  if (code === undefined) throw new RangeError(`no type string for ${String(type.dataType)}`);
  const configuration = type.bytesCodec["configuration"] as { readonly endian?: string } | undefined;
  const order = code.endsWith("1") ? "|" : configuration?.endian === "big" ? ">" : "<";
  return `${order}${code}`;
}

/** Data types that portable conversions make of others. */
const ORIGINALS: Readonly<Record<string, string>> = { int64: "i8", uint32: "u4", uint8: "u1" };
