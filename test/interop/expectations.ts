/** What a converted archive must be in Zarr: its arrays, their types, values and attributes. */
import type { ExactJson, Fixture, FixtureDType, FixtureValues } from "../fixtures/manifest.ts";
import { kindOf } from "./support.ts";

/** An array, or a group with one array per field, below the root of a conversion. */
export interface ExpectedValues {
  /** Path below the root of the conversion; empty for the root. */
  readonly node: string;
  readonly dtype: FixtureDType;
  readonly shape: readonly number[];
  readonly sha256: string;
  /** True for a group with an array for each field. */
  readonly fields: boolean;
  readonly attrs: { readonly [key: string]: ExactJson };
  /** Fill value, if the archive has a default value. */
  readonly fill: ExactJson | undefined;
}

/** What must be found of an archive that was converted to portable types, or to the exact ones. */
export function expectValues(row: Fixture, portable: boolean): ExpectedValues[] {
  const each = (
    node: string,
    values: Pick<FixtureValues, "dtype" | "shape" | "sha256">,
    fields = false,
  ): ExpectedValues => ({
    node,
    sha256: values.sha256,
    fields,
    attrs: node === "" ? row.attrs : {},
    // An array of default values has one for each column of a row; Zarr has one for all.
    fill: Array.isArray(row.dflt) ? undefined : row.dflt,
    ...(portable ? toPortable(values) : { dtype: values.dtype, shape: values.shape }),
  });
  if (row.kind === "bytes") return [each("", { ...row, dtype: "|u1" })];
  if (row.kind === "table") return Object.entries(row.columns).map(([name, values]) => each(name, values));
  if (row.sha256 === null) return [];
  const values = { ...row, sha256: row.sha256 };
  if (!isNested(row)) return [each("", values)];
  // Its fields are numbers, which are the same in both.
  return [{ ...each("", values, true), dtype: row.dtype, shape: row.shape }];
}

/** Names of the columns in their order, for archives that become groups. */
export function expectColumns(row: Fixture): readonly string[] | undefined {
  if (row.kind === "table") return row.names;
  return isNested(row) && typeof row.dtype !== "string" ? row.dtype?.map(([name]) => name) : undefined;
}

/** A structured type that the dialect stores as one folder per field. */
function isNested({ dialect, dtype }: Fixture): boolean {
  return dialect === "blz-superchunk" && dtype !== null && typeof dtype !== "string";
}

/** The same bytes as numbers: dates as counts, strings and rows along one more axis. */
function toPortable({
  dtype,
  shape,
}: Pick<FixtureValues, "dtype" | "shape">): Pick<FixtureValues, "dtype" | "shape"> {
  const order = typeof dtype === "string" ? dtype.charAt(0) : "|";
  switch (kindOf(dtype)) {
    case "time":
      return { dtype: `${order}i8`, shape };
    case "bytes":
    case "struct":
      return { dtype: "|u1", shape: [...shape, itemSize(dtype)] };
    case "unicode":
      return { dtype: `${order}u4`, shape: [...shape, itemSize(dtype) / 4] };
    default:
      return { dtype, shape };
  }
}

/** In bytes, rows packed. */
function itemSize(dtype: FixtureDType): number {
  if (typeof dtype !== "string") {
    return dtype.reduce(
      (sum, [, type, dimensions = []]) =>
        sum + dimensions.reduce((product, length) => product * length, itemSize(type)),
      0,
    );
  }
  if (kindOf(dtype) === "time") return 8;
  return Number(dtype.slice(2)) * (dtype.charAt(1) === "U" ? 4 : 1);
}
