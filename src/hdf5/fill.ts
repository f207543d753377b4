/** Converts HDF5 fill values to Zarr v2. */
import type { JsonValue } from "../format/types.ts";
import { base64 } from "../zarr/document/zarr-dtype.ts";

/** The fill value in Zarr v2: numbers as they are, the bytes of all other types in base64. */
export function fillJson(numpy: JsonValue, fill: Uint8Array): JsonValue {
  const kind = typeof numpy === "string" ? numpy[1] : "V";
  const isZero = fill.every((byte) => byte === 0);
  if (typeof numpy !== "string" || kind === "V" || kind === "S") return base64(fill);
  if (kind === "b") return !isZero;
  if (isZero) return kind === "c" ? [0, 0] : 0;
  const view = new DataView(fill.buffer, fill.byteOffset, fill.byteLength);
  const little = numpy[0] !== ">";
  const float = (at: number, size: number): JsonValue => {
    const value = size === 8 ? view.getFloat64(at, little) : view.getFloat32(at, little);
    if (Number.isFinite(value)) return value;
    return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  };
  if (kind === "c") return [float(0, fill.length / 2), float(fill.length / 2, fill.length / 2)];
  if (kind === "f") return fill.length === 2 ? halfJson(view.getUint16(0, little)) : float(0, fill.length);
  let value = 0n;
  for (let i = 0; i < fill.length; i++)
    value = (value << 8n) | BigInt(fill[little ? fill.length - 1 - i : i] as number);
  if (kind === "i") value = BigInt.asIntN(8 * fill.length, value);
  return value;
}

/** The attribute `_FillValue`, which netCDF keeps as a list of one, as xarray reads it from Zarr v3: floats in base64, as 8 bytes. */
export function fillAttribute(numpy: JsonValue | undefined, value: JsonValue): JsonValue {
  const [only, ...others] = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
  if (only === undefined || others.length > 0) return value;
  if (typeof numpy !== "string" || numpy[1] !== "f") return only;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Number(only), true);
  return base64(new Uint8Array(view.buffer));
}

/** A 2-byte float. */
export function halfJson(bits: number): JsonValue {
  const sign = bits >> 15 === 1 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction !== 0 ? "NaN" : sign > 0 ? "Infinity" : "-Infinity";
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
