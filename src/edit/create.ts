/** `create`: makes an array, a table, a file or a group of any format, and opens it for editing. */

import type { CompressorName, Shuffle } from "../codec/types.ts";
import { badArgument, isSuperchunkError } from "../errors.ts";
import { givenDType } from "../format/dtype.ts";
import type { ChecksumName, DType, JsonObjectInput, JsonValue } from "../format/types.ts";
import type { WritableStore } from "../store/types.ts";
import { createArray } from "../write/array/create.ts";
import { createCarray } from "../write/bcolz/carray-write.ts";
import { createTable } from "../write/bcolz/table-write.ts";
import type { Editable, EditFormat } from "../write/editable.ts";
import { clearPlace } from "../write/layout/clear-place.ts";
import type { Reserve } from "../write/layout/reserve.ts";
import { type EditOptions, edit } from "./edit.ts";

/** How chunks are compressed. */
export interface Compressor {
  readonly cname?: CompressorName | undefined;
  /** 0 to 9. */
  readonly clevel?: number | undefined;
  readonly shuffle?: Shuffle | undefined;
}

/** What is to be made. */
export interface CreateOptions extends EditOptions {
  /** Default `blz`: an array of superchunks, which is the format of this library. */
  readonly format?: EditFormat | undefined;
  /** As numpy spells it (`<f8`, `int32`, `[["a","<i4"],["v","<f4",[3]]]`), or parsed. A struct is a table in bcolz. */
  readonly dtype: JsonValue | DType;
  /** Rows and the shape of a row, default no rows of single values. Rows are filled with the default value. */
  readonly shape?: number | readonly number[] | undefined;
  /** Default value; default zero, empty, NaT. */
  readonly fillValue?: JsonValue | undefined;
  /** User attributes. */
  readonly attrs?: JsonObjectInput | undefined;
  /** Default: what the format's own program takes, with lz4 for `blz`, `bcolz` and `zarr`. */
  readonly compressor?: Compressor | undefined;
  /** Rows of a chunk; default: by the item size and `expectedLength`. */
  readonly chunkLength?: number | undefined;
  /** Rows that there will be, about: the chunk length is chosen by it. */
  readonly expectedLength?: number | undefined;
  /** Of `blz`: chunks of a full superchunk (default: about 32 MiB, at most 512). */
  readonly superchunkLength?: number | undefined;
  /** Of `blz` and `bloscpack`: of each chunk. */
  readonly checksum?: ChecksumName | undefined;
  /** Of `blz`: room behind each chunk for `modify: "in-place"`. */
  readonly reserve?: Reserve | undefined;
  /** Of `blz`: the fields of a struct lie in a folder each (default true). */
  readonly columns?: boolean | undefined;
  /** Of `blz`: the folder is kept a Zarr v3 array as well (default false). */
  readonly zarr?: boolean | undefined;
  /** Removes an archive that is there (default false: `CONFLICT`). */
  readonly overwrite?: boolean | undefined;
}

/** Options that only some formats have a word for. */
const OWN: Readonly<Record<EditFormat, readonly (keyof CreateOptions)[]>> = {
  blz: ["superchunkLength", "checksum", "reserve", "columns", "zarr", "modify", "mirror"],
  bcolz: [],
  bloscpack: ["checksum", "reserve"],
  zarr: [],
};

/**
 * Makes something at a key of a store (`""` is its root), and opens it for editing. It is there as a whole, or not at all.
 *
 * @throws CONFLICT where something is there already; BAD_ARGUMENT, LIMIT, and UNSUPPORTED for what the format does not have;
 * NO_SPACE, IO
 */
export async function create(store: WritableStore, path: string, options: CreateOptions): Promise<Editable> {
  const { format = "blz" } = options;
  const foreign = Object.values(OWN).flat();
  const unfit = foreign.find((name) => options[name] !== undefined && !OWN[format].includes(name));
  if (unfit !== undefined)
    throw badArgument(unfit, options[unfit], `nothing: the format "${format}" has no such option`);
  const dtype = givenDType(options.dtype);
  return format === "blz" ? createBlz(store, path, dtype, options) : createBcolz(store, path, dtype, options);
}

function createBlz(
  store: WritableStore,
  path: string,
  dtype: DType,
  { compressor, chunkLength, superchunkLength, expectedLength, fillValue, lock, ...rest }: CreateOptions,
): Promise<Editable> {
  return createArray(store, path, {
    ...rest,
    dtype,
    cparams: compressor,
    chunklen: chunkLength,
    superchunklen: superchunkLength,
    expectedlen: expectedLength,
    dflt: fillValue,
    lock: lock && (() => lock(path === "" ? "meta/lock" : `${path}/meta/lock`)),
  });
}

async function createBcolz(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: CreateOptions,
): Promise<Editable> {
  const [rows = 0, ...rowShape] =
    typeof options.shape === "number" ? [options.shape] : (options.shape ?? [0]);
  const { compressor, chunkLength, expectedLength, fillValue, attrs, signal, encoder } = options;
  const settings = {
    cparams: compressor,
    chunklen: chunkLength,
    expectedlen: expectedLength ?? rows,
    attrs,
    signal,
    encoder: typeof encoder === "function" ? encoder(compressor?.cname) : encoder,
  };
  const none = new Uint8Array(0);
  await clearPlace(store, path, options.overwrite === true);
  if (dtype.kind === "struct") {
    const dflts = Array.isArray(fillValue) ? (fillValue as readonly JsonValue[]) : [];
    const columns = dtype.fields.map(({ name, dtype: own, shape }, i) => {
      return { name, dtype: own, rowShape: shape, data: none, options: { dflt: dflts[i] ?? null } };
    });
    await createTable(store, path, columns, settings);
  } else {
    await createCarray(store, path, { dtype, rowShape, data: none }, { ...settings, dflt: fillValue });
  }
  const made = await edit(store, path, options);
  try {
    if (rows > 0) await made.resize([rows, ...rowShape], { signal });
    return made;
  } catch (error) {
    await made.abandon();
    await clearPlace(store, path, true).catch((cause: unknown) => {
      if (!isSuperchunkError(cause)) throw cause;
    });
    throw error;
  }
}
