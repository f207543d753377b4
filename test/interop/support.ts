/**
 * What readers of Zarr v3 do not accept of converted arrays, in one table.
 *
 * Tested with the versions in `requirements/` and `package.json`. The suites check that each of these really errors,
 * so that no entry outlives its reason.
 */
import type { FixtureDType } from "../fixtures/manifest.ts";

/** Readers of Zarr v3. */
export const zarrReaders = ["zarr-python", "zarrs", "tensorstore", "zarrita"] as const;

export type ZarrReader = (typeof zarrReaders)[number];

/** Kinds of numpy types, as far as readers distinguish them. */
export type TypeKind = "number" | "complex" | "time" | "bytes" | "unicode" | "struct";

const REFUSED: Readonly<Record<ZarrReader, readonly TypeKind[]>> = {
  "zarr-python": [],
  zarrs: ["time", "bytes", "unicode", "struct"],
  tensorstore: ["time", "bytes", "unicode", "struct"],
  zarrita: ["complex", "time", "bytes", "unicode", "struct"],
};

/** zarrita 0.7.5 fails on an array without items: `Input contains an empty iterator`. */
const REFUSES_EMPTY: readonly ZarrReader[] = ["zarrita"];

/** Why a reader does not accept an array, or undefined if it does. */
export function findRefusal(
  reader: ZarrReader,
  { dtype, shape, fields }: { dtype: FixtureDType; shape: readonly number[]; fields: boolean },
): string | undefined {
  if (!fields && REFUSED[reader].includes(kindOf(dtype))) return `it has no type for ${kindOf(dtype)}`;
  if (REFUSES_EMPTY.includes(reader) && shape.includes(0)) return "it takes no empty arrays";
  return undefined;
}

/** The kind of a numpy type. */
export function kindOf(dtype: FixtureDType): TypeKind {
  if (typeof dtype !== "string") return "struct";
  const kind = TYPE_KINDS[dtype.charAt(1)];
  if (kind === undefined)
    throw new Error(`no reader was asked for dtype ${dtype} yet; add it to test/interop/support.ts`);
  return kind;
}

const TYPE_KINDS: Readonly<Record<string, TypeKind>> = {
  b: "number",
  i: "number",
  u: "number",
  f: "number",
  c: "complex",
  M: "time",
  m: "time",
  S: "bytes",
  U: "unicode",
};
