/** How bcolz describes an array: `meta/storage`, names of dtypes, chunk lengths. @see FORMAT.md [FA-08] */

import { elementsOf } from "../../bytes/arrays.ts";
import { SHUFFLES } from "../../codec/encode/encode-settings.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { memberText } from "../../format/json.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import { repeatItem } from "../../values/copy-items.ts";
import { putRow } from "../../values/item-bytes.ts";
import { checkWhole } from "../bloscpack/bloscpack-options.ts";
import { checkChunkRoom } from "../layout/settings.ts";

/** Complete settings. */
export interface CarraySettings {
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  readonly rowBytes: number;
  /** Rows of a chunk. */
  readonly chunklen: number;
  readonly encode: EncodeOptions;
  /** Default value as stored. */
  readonly dflt: JsonValue;
}

const MAX_TYPESIZE = 255;

/** Refuses dtypes that a carray which bcolz can open cannot hold. Throws `UNSUPPORTED`, `BAD_ARGUMENT`. */
export function checkCarrayDType(dtype: DType, rowShape: readonly number[], path: string | undefined): void {
  const refuse = (what: string): never => {
    const place = path === undefined ? {} : { path };
    throw new SuperchunkError("UNSUPPORTED", what, { ...place, field: "dtype", found: formatDType(dtype) });
  };
  if (dtype.kind === "object") refuse("Python objects are never written");
  if (dtype.kind === "struct")
    refuse("bcolz does not open an array of a structured dtype; make a table with a column for each field");
  if (elementsOf(rowShape) * dtype.itemSize === 0) refuse("bcolz does not support rows of zero bytes");
  if (
    typesizeOf(dtype) === 1 &&
    dtype.itemSize > MAX_TYPESIZE &&
    dtype.kind !== "bytes" &&
    dtype.kind !== "void"
  )
    refuse(`bcolz does not support items of more than ${MAX_TYPESIZE} bytes`);
}

/** The typesize that bcolz gives to Blosc: strings are shuffled by characters. */
export function typesizeOf(dtype: DType): number {
  if (dtype.kind === "bytes") return 1;
  if (dtype.kind === "unicode") return 4;
  return dtype.itemSize > MAX_TYPESIZE || dtype.itemSize === 0 ? 1 : dtype.itemSize;
}

/** numpy's `str(dtype)`: `float64`, `>f8`, `|S5`, `datetime64[ns]`. */
export function numpyName(dtype: DType): string {
  const text = String(formatDType(dtype));
  const { kind, itemSize } = dtype;
  if (dtype.byteOrder === "big") return text;
  if (kind === "datetime" || kind === "timedelta") return `${kind}64${text.slice(3)}`;
  if (["int", "uint", "float", "complex"].includes(kind)) return `${kind}${itemSize * 8}`;
  return kind === "bool" ? kind : text;
}

/** Rows of a chunk as bcolz chooses them, by the expected bytes of the array. */
export function chooseChunklen(expectedlen: number, rowBytes: number): number {
  const megabytes = Math.min(1e4, Math.max(1e-4, (expectedlen * rowBytes) / (1 << 20)));
  const power = Math.trunc(Math.log10(megabytes));
  const chunkBytes = 4096 * Math.trunc(2 ** (power + 6));
  return Math.max(1, Math.floor(chunkBytes / rowBytes));
}

/** Checks that Blosc can hold chunks of this length. Throws `BAD_ARGUMENT`, `LIMIT`. */
export function checkChunklen(chunklen: number, rowBytes: number): number {
  return checkChunkRoom(checkWhole("chunklen", chunklen, 1, Number.MAX_SAFE_INTEGER), rowBytes);
}

/** One row of the default value, which is a value for the item or nested lists for the row. Throws `BAD_ARGUMENT`. */
export function defaultRowOf(dtype: DType, rowShape: readonly number[], dflt: JsonValue): Uint8Array {
  const row = new Uint8Array(elementsOf(rowShape) * dtype.itemSize);
  // bcolz uses zeros if nothing is stored.
  if (dflt === null || dtype.kind === "object" || dtype.kind === "struct") return row;
  // A pair of numbers is one complex item, not a row of two.
  const isItem = dtype.kind === "complex" && Array.isArray(dflt) && !dflt.some((part) => Array.isArray(part));
  if (Array.isArray(dflt) && rowShape.length > 0 && !isItem) {
    putRow(new DataView(row.buffer), 0, dtype, rowShape, dflt);
    return row;
  }
  const item = new Uint8Array(dtype.itemSize);
  putRow(new DataView(item.buffer), 0, dtype, [], dflt);
  return repeatItem(item, row);
}

/** `meta/storage` as bcolz writes it, with a line feed. */
export function storageText(
  dtype: DType,
  encode: EncodeOptions,
  chunklen: number,
  expectedlen: number,
  dflt: JsonValue,
): string {
  const cparams = {
    clevel: encode.clevel ?? 5,
    shuffle: SHUFFLES.indexOf(encode.shuffle ?? "shuffle"),
    cname: encode.cname ?? "lz4",
    quantize: 0,
  };
  const members = [
    `"dtype": ${memberText(numpyName(dtype))}`,
    `"cparams": ${memberText(cparams)}`,
    `"chunklen": ${chunklen}`,
    `"expectedlen": ${expectedlen}`,
    `"dflt": ${defaultText(dtype, dflt)}`,
  ];
  return `{${members.join(", ")}}\n`;
}

function defaultText(dtype: DType, dflt: JsonValue): string {
  const value = dflt ?? zeroOf(dtype);
  const text = memberText(value);
  const isFloat = dtype.kind === "float" || dtype.kind === "complex";
  return isFloat && /^-?\d+$/.test(text) ? `${text}.0` : text;
}

function zeroOf(dtype: DType): JsonValue {
  if (dtype.kind === "bool") return false;
  return dtype.kind === "bytes" || dtype.kind === "unicode" || dtype.kind === "void" ? "" : 0;
}
