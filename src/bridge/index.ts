/** The bridge to Zarr: the entry `superchunk/zarr`. */

export { ZarrArray, type ZarrReadOptions } from "../zarr/array.ts";
export { ZarrGroup } from "../zarr/group.ts";
export type { ReadSettings } from "../zarr/leaf-requests.ts";
export type { MissingChunk, StoredChunk } from "../zarr/list-chunks.ts";
export type { ArrayModel, ZarrDialect } from "../zarr/model.ts";
export { type OpenZarrOptions, openZarr, openZarrArray } from "../zarr/open.ts";
export {
  createTransformerArray,
  createTransformerGroup,
  type TransformerSpecification,
} from "../zarr/transformer-create.ts";
export type { TransformerSettings } from "../zarr/transformer-keys.ts";
export { type PartialRequest, type PartialWrite, ShardingTransformer } from "../zarr/transformer-store.ts";
export type { ZarrVerifyReport } from "../zarr/verify.ts";
export type { ChunkOrder } from "../zarr/write/chunk-order.ts";
export {
  type CreateZarrOptions,
  createZarr,
  openZarrWriter,
  type ZarrSpecification,
} from "../zarr/write/create.ts";
export { type FromZarritaOptions, writeFromZarrita, type ZarritaArray } from "../zarr/write/from-zarrita.ts";
export type { ValueSource } from "../zarr/write/item-source.ts";
export { recoverShard, type ShardRecovery } from "../zarr/write/recover-shard.ts";
export {
  encodeInnerChunk,
  finishReserved,
  reserveShard,
  type ShardReservation,
  type WrittenSlot,
  writeReserved,
} from "../zarr/write/reserve.ts";
export type { ShardStrategy } from "../zarr/write/shard-plan.ts";
export type { ShardWriter, WholeShard } from "../zarr/write/shard-writer.ts";
export { WritableZarrArray } from "../zarr/write/writable-array.ts";
export type { SetOptions, WriteSettings } from "../zarr/write/write-settings.ts";
export { type ZarritaStore, type ZarritaStoreOptions, zarritaStore } from "../zarr/zarrita-store.ts";
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
export { convertJoined, planJoinedConversion } from "./joined-jobs.ts";
export type { Renaming } from "./node-names.ts";
export {
  type ContainerCredentials,
  type OpenContainer,
  openWebContainer,
} from "./references/container-reader.ts";
export {
  type Container,
  type ContainerChanges,
  type ContainerStore,
  Containers,
  defaultContainer,
  formatContainers,
  parseContainers,
} from "./references/containers.ts";
export { joinPlans } from "./references/join.ts";
export { planLinkedReferences } from "./references/linked-array.ts";
export { commonFolder, toLocation } from "./references/location.ts";
export {
  containersKey,
  type OpenReferencesOptions,
  openReferences,
  type ReferenceStore,
} from "./references/open-references.ts";
export { type PlanOptions, planReferences, type ReferencePlan } from "./references/plan.ts";
export type { ReferencedArray, ReferenceOptions } from "./references/planned-array.ts";
export {
  type FailedArchive,
  type ReferenceItem,
  type StreamSettings,
  streamReferences,
} from "./references/reference-stream.ts";
export type { GuardedObject, ScanOptions } from "./references/scanned-objects.ts";
export type {
  ChunkReference,
  Guard,
  NativeChunk,
  PlannedChunk,
  ReferenceCounts,
} from "./references/types.ts";
export {
  type KerchunkOptions,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
  writeKerchunk,
} from "./references/write-kerchunk.ts";
export { convertTransformer, type TransformerConversion } from "./transformer-convert.ts";
export {
  exportToTransformer,
  type TransformerExport,
  type TransformerExportOptions,
} from "./transformer-export.ts";
export { convertTree, isArchive, planTree } from "./tree.ts";
export type { TreeEntry, TreePlanEntry, TreeResult } from "./tree-types.ts";
export { type ConversionCheck, verifyConversion } from "./verify-conversion.ts";
export { zarrView } from "./view.ts";
export { findViewEntries, type ViewEntry, zarrTreeView } from "./view-tree.ts";
export type { ViewNode, ViewOptions, ViewRange, ViewReadOptions, ZarrView } from "./view-types.ts";
export { type BackJob, findBackJobs } from "./way-back/back-sources.ts";
export type { BackFormat, BackOptions, BackResult } from "./way-back/back-types.ts";
export { convertBack } from "./way-back/convert-back.ts";
export {
  type BackEntry,
  type BackPlan,
  type BackTreeOptions,
  type BackTreeResult,
  convertBackTree,
  planBackTree,
} from "./way-back/convert-back-tree.ts";
export type { BackArray, BackSource, BackTable } from "./way-back/source.ts";
export { zarrSource } from "./way-back/zarr-source.ts";
export { convertZarr, type ZarrConvertOptions, type ZarrConvertResult } from "./zarr-convert.ts";
export { planZarrConversion, type ZarrPlanOptions } from "./zarr-jobs.ts";
