/** The formats that can be written: a new one is a file beside this one, and a line here. */
import { SuperchunkError } from "../../errors.ts";
import type { ConvertFormat, Target } from "../pipeline.ts";
import { BCOLZ } from "./bcolz.ts";
import { BLOSCPACK } from "./bloscpack.ts";
import { columnTarget } from "./column-target.ts";
import { NPY } from "./npy.ts";
import { BLZ } from "./superchunks.ts";
import { TRANSFORMER } from "./transformer.ts";
import { ZARR } from "./zarr.ts";

const TARGETS: { readonly [format in ConvertFormat]: Target } = {
  zarr: ZARR,
  "zarr3-transformer": TRANSFORMER,
  npy: columnTarget(NPY),
  bloscpack: columnTarget(BLOSCPACK),
  bcolz: columnTarget(BCOLZ),
  blz: columnTarget(BLZ),
};

/** The target of a format. Throws `BAD_ARGUMENT` for one that is not known. */
export function targetOf(format: ConvertFormat = "zarr"): Target {
  if (Object.hasOwn(TARGETS, format)) return TARGETS[format];
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `unknown format "${format}"; expected one of ${Object.keys(TARGETS).join(", ")}`,
    {
      field: "to",
      found: format,
    },
  );
}
