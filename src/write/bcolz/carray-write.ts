/** Makes carrays that bcolz 1.2 and bcolz-zipline open. `meta/sizes` comes last: without it there is none. @see FORMAT.md [FA-08] */
import { SuperchunkError } from "../../errors.ts";
import { memberText } from "../../format/json.ts";
import type { DType, JsonObjectInput, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import { checkCount } from "../bloscpack/bloscpack-options.ts";
import {
  type CarrayCompression,
  type CarraySettings,
  checkCarrayDType,
  checkChunklen,
  chooseChunklen,
  defaultRowOf,
  storageText,
  typesizeOf,
} from "./carray-settings.ts";
import { chunkKey } from "./carray-state.ts";
import { type CarrayWriteOptions, sizesBytes, stageRows, utf8 } from "./carray-steps.ts";

/** Options of {@link createCarray}. */
export interface CarrayOptions extends CarrayWriteOptions {
  readonly cparams?: CarrayCompression | undefined;
  /** Rows of a chunk; default: as bcolz chooses it, by `expectedlen`. */
  readonly chunklen?: number | undefined;
  /** Rows that the array will have, about; needed for a good chunk length where `data` are a stream. */
  readonly expectedlen?: number | undefined;
  /** Default value (zeros where absent). */
  readonly dflt?: JsonValue | undefined;
  readonly attrs?: JsonObjectInput | undefined;
}

/** Rows of one dtype. */
export interface CarraySource {
  readonly dtype: DType;
  /** Shape of a row; empty (the default) for single values. */
  readonly rowShape?: readonly number[] | undefined;
  /** The rows' bytes: C order, in the byte order of the dtype. */
  readonly data: PutSource;
}

/** What was written. */
export interface CarrayResult {
  readonly rows: number;
  readonly rowsAppended: number;
}

/**
 * Makes a carray in a folder that has none.
 *
 * @throws CONFLICT where there is an array; BAD_ARGUMENT, LIMIT, UNSUPPORTED
 */
export async function createCarray(
  store: WritableStore,
  path: string,
  source: CarraySource,
  options: CarrayOptions = {},
): Promise<CarrayResult> {
  const sizesKey = joinKey(path, "meta/sizes");
  for (const name of ["meta/sizes", "__rootdirs__"]) {
    if ((await store.stat(joinKey(path, name), options)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "there is an array or a table in the folder already", {
      path: store.describe(path),
    });
  }
  const { dtype, rowShape = [], data } = source;
  checkCarrayDType(dtype, rowShape);
  const rowBytes = elementsOf(rowShape) * dtype.itemSize;
  const { cname = "lz4", clevel = 5, shuffle = "shuffle" } = options.cparams ?? {};
  const known = data instanceof Uint8Array ? Math.floor(data.length / rowBytes) : undefined;
  const expectedlen = checkCount(
    "expectedlen",
    options.expectedlen ?? known ?? 0,
    0,
    Number.MAX_SAFE_INTEGER,
  );
  const chunklen = checkChunklen(options.chunklen ?? chooseChunklen(expectedlen, rowBytes), rowBytes);
  const encode = { cname, clevel: checkCount("clevel", clevel, 0, 9), shuffle, typesize: typesizeOf(dtype) };
  const dflt = options.dflt ?? null;
  defaultRowOf(dtype, rowShape, dflt); // a default value that does not fit is told before anything is written
  const settings: CarraySettings = {
    dtype,
    rowShape,
    rowBytes,
    chunklen,
    encode,
    dflt,
  };
  const staged = await stageRows(
    { store, path, settings, rows: 0 },
    data,
    new Uint8Array(0),
    undefined,
    options,
  );
  if (staged.rows === 0) {
    // bcolz opens no array without the folder, and most stores make none for nothing.
    await store.put(chunkKey(path, 0), new Uint8Array(0));
    await store.delete(chunkKey(path, 0));
  }
  const text = storageText(dtype, encode, chunklen, expectedlen || staged.rows, dflt);
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(options.attrs ?? {})}\n`));
  await store.put(joinKey(path, "meta/storage"), utf8(text));
  await store.sync?.(staged.keys);
  const cbytes = staged.cbytes + chunklen * rowBytes;
  await store.put(sizesKey, sizesBytes({}, settings, staged.rows, cbytes), { ifAbsent: true });
  return { rows: staged.rows, rowsAppended: staged.rows };
}
