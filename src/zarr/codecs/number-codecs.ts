/**
 * Two codecs that are registered extensions of Zarr v3, and change numbers before `bytes`: `scale_offset` and `cast_value`. They are only
 * read. A value that the specification makes an error is `BAD_CHUNK`: nothing is rounded, wrapped or clamped unless the codec says so.
 *
 * Examples: `{"name":"scale_offset","configuration":{"offset":5,"scale":10}}`, `{"name":"cast_value","configuration":{"data_type":"int16",
 * "scalar_map":{"decode":[[-32768,"NaN"]]}}}`. Compatible with zarr-python 3.4 and cast-value-rs 0.4.
 * @see https://github.com/zarr-developers/zarr-extensions/tree/main/codecs
 */
import { SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { parseFillValue, withByteOrder } from "../document/data-type.ts";
import {
  asList,
  asObject,
  badMember,
  below,
  type FieldPlace,
  unsupportedMember,
} from "../document/metadata-fields.ts";
import {
  castStage,
  type FilterContext,
  isNumberType,
  NumberBytes,
  type NumberType,
  unscale,
} from "./numcodecs.ts";
import type { Stage } from "./stage.ts";

type Value = number | bigint;

/** The codec with this name, which decodes items of `encoded`. Throws `BAD_FIELD`, and `UNSUPPORTED` for data types that are not implemented. */
export function numberCodecOf(
  name: "scale_offset" | "cast_value",
  configuration: JsonObject,
  { dtype, byteOrder }: FilterContext,
  encoded: DType,
  place: FieldPlace,
): Stage {
  if (!isNumberType(dtype)) throw unsupportedType(name, dtype, place);
  const decoded = byteOrder === undefined ? dtype : (withByteOrder(dtype, byteOrder) as NumberType);
  if (name === "scale_offset") {
    const scalar = (field: string, otherwise: number): Value =>
      scalarOf(decoded, configuration[field] ?? otherwise, below(place, field));
    return scaleOffset(decoded, scalar("scale", 1), scalar("offset", 0), below(place, "scale"));
  }
  if (!isNumberType(encoded, 2)) throw unsupportedType(name, encoded, below(place, "data_type"));
  const cast = castTo(decoded, encoded, configuration, place);
  const map = scalarMap(encoded, decoded, configuration["scalar_map"], below(place, "scalar_map"));
  return castStage(name, decoded, encoded, (from, to) => {
    for (let i = 0; i < from.length; i++) {
      const value = from.get(i);
      to.set(i, map.get(value) ?? cast(value));
    }
  });
}

function scaleOffset(type: NumberType, scale: Value, offset: Value, place: FieldPlace): Stage {
  if (type.kind === "float")
    return castStage("scale_offset", type, type, (from, to) =>
      unscale(from, to, Number(scale), Number(offset)),
    );
  const [by, plus] = [BigInt(scale), BigInt(offset)];
  if (by === 0n) throw badMember(place, "a number other than 0", 0);
  const { least, most } = rangeOf(type);
  return castStage("scale_offset", type, type, (from, to) => {
    for (let i = 0; i < from.length; i++) {
      const value = BigInt(from.get(i));
      const result = value / by + plus;
      if (value % by !== 0n || result < least || result > most)
        throw badValue("scale_offset", `${value} / ${by} + ${plus}`, type);
      to.set(i, type.itemSize === 8 ? result : Number(result));
    }
  });
}

const ROUNDINGS: Readonly<Record<string, (value: number) => number>> = {
  "nearest-even": (value) => {
    const up = Math.round(value);
    return up - value === 0.5 && up % 2 !== 0 ? up - 1 : up;
  },
  "nearest-away": (value) => Math.sign(value) * Math.round(Math.abs(value)),
  "towards-zero": Math.trunc,
  "towards-positive": Math.ceil,
  "towards-negative": Math.floor,
};

/** What makes a decoded value of an encoded one. */
function castTo(
  to: NumberType,
  from: NumberType,
  configuration: JsonObject,
  place: FieldPlace,
): (value: Value) => Value {
  const rounding = configuration["rounding"] ?? "nearest-even";
  const round =
    typeof rounding === "string" && Object.hasOwn(ROUNDINGS, rounding) ? ROUNDINGS[rounding] : undefined;
  if (round === undefined)
    throw badMember(below(place, "rounding"), `one of ${Object.keys(ROUNDINGS).join(", ")}`, rounding);
  const outside = configuration["out_of_range"] ?? null;
  if (outside !== null && outside !== "clamp" && (outside !== "wrap" || from.kind === "float"))
    throw badMember(below(place, "out_of_range"), '"clamp", absent, or for integers "wrap"', outside);
  if (to.kind === "float") {
    const digits = to.itemSize === 8 ? 53 : 24;
    const isExact = from.kind === "float" ? from.itemSize <= to.itemSize : from.itemSize * 8 <= digits;
    if (!isExact && rounding !== "nearest-even")
      throw unsupportedMember(
        below(place, "rounding"),
        `is ${rounding}, which superchunk does not have for floats; read the array with zarr-python`,
        rounding,
      );
    const isSafe = isExact || outside === "clamp" || from.kind !== "float";
    return (value) => {
      if (isSafe || Number.isFinite(Math.fround(Number(value))) || !Number.isFinite(value)) return value;
      throw badValue("cast_value", value, to);
    };
  }
  const { least, most } = rangeOf(to);
  return (value) => {
    const whole = typeof value === "bigint" ? value : round(value);
    if (least <= whole && whole <= most) return to.itemSize === 8 ? BigInt(whole) : whole;
    if (outside === null || (typeof whole === "number" && !Number.isFinite(whole)))
      throw badValue("cast_value", value, to);
    return outside === "wrap" ? BigInt(whole) : whole < least ? least : most;
  };
}

/** The values that are mapped, and what they become; numbers compare as in a `Map`: NaN equals NaN. */
function scalarMap(
  from: NumberType,
  to: NumberType,
  value: JsonValue | undefined,
  place: FieldPlace,
): ReadonlyMap<Value, Value> {
  const { decode } = asObject(value ?? {}, place);
  const inside = below(place, "decode");
  return new Map(
    asList(decode ?? [], inside).map((entry): [Value, Value] => {
      const [key, result, ...more] = asList(entry, inside);
      if (key === undefined || result === undefined || more.length > 0)
        throw badMember(inside, "pairs of an encoded and a decoded value", entry);
      return [scalarOf(from, key, inside), scalarOf(to, result, inside)];
    }),
  );
}

function scalarOf(dtype: NumberType, value: JsonValue, place: FieldPlace): Value {
  return new NumberBytes(dtype, parseFillValue(dtype, value, place)).get(0);
}

/** The range of an integer type: of numbers, or of bigints if it has 8 bytes. */
function rangeOf({ kind, itemSize }: NumberType): { readonly least: Value; readonly most: Value } {
  const count = 1n << BigInt(8 * itemSize);
  const [least, most] = kind === "int" ? [-count / 2n, count / 2n - 1n] : [0n, count - 1n];
  return itemSize === 8 ? { least, most } : { least: Number(least), most: Number(most) };
}

function unsupportedType(name: string, { kind, itemSize }: DType, place: FieldPlace): SuperchunkError {
  return unsupportedMember(
    place,
    `is for ${kind} of ${itemSize} bytes, for which superchunk does not have the codec "${name}"; it has it for integers and floats of 4 and 8 bytes, and casts float16 to them. Read the array with zarr-python`,
    `${kind}${itemSize * 8}`,
  );
}

function badValue(name: string, value: Value | string, { kind, itemSize }: NumberType): SuperchunkError {
  return new SuperchunkError(
    "BAD_CHUNK",
    `the codec "${name}" decodes ${value}, which is outside ${kind}${itemSize * 8} or not a whole number of it; the chunk or the metadata are damaged`,
    { field: "codecs", expected: `${kind}${itemSize * 8}`, found: String(value) },
  );
}
