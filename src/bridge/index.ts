/** The bridge to Zarr: the entry `superchunk/zarr`. */

export { ZarrArray, type ZarrVerifyReport } from "../zarr/array.ts";
export { ZarrGroup } from "../zarr/group.ts";
export type { StoredChunk } from "../zarr/list-chunks.ts";
export type { ArrayModel, ZarrDialect } from "../zarr/model.ts";
export { type OpenZarrOptions, openZarr, openZarrArray } from "../zarr/open.ts";
export type { ReadSettings } from "../zarr/reading.ts";
export { convertArchive, planConversion } from "./convert.ts";
export type {
  ConversionPlan,
  ConvertOptions,
  ConvertResult,
  LayoutOptions,
  PlannedAction,
  PlannedArray,
} from "./convert-options.ts";
export { assertApart } from "./destination.ts";
export type { Renaming } from "./node-names.ts";
export { convertTree, isArchive, planTree } from "./tree.ts";
export type { TreeEntry, TreePlanEntry, TreeResult } from "./tree-types.ts";
export { type ConversionCheck, verifyConversion } from "./verify-conversion.ts";
export { zarrView } from "./view.ts";
export { findViewEntries, type ViewEntry, zarrTreeView } from "./view-tree.ts";
export type { ViewNode, ViewOptions, ViewRange, ZarrView } from "./view-types.ts";
