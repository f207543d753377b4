/** The bridge to Zarr: the entry `superchunk/zarr`. */

export type { VerifyReport as ZarrVerifyReport } from "./archive/kinds/types.ts";
export {
  convert,
  createTransformerArray,
  findViewEntries,
  openReferences,
  planConversion,
  planReferences,
  toParquet,
  writeFromZarrita,
  writeKerchunk,
} from "./begin.ts";
export type {
  ArrayRun,
  ChunkAction,
  ChunkRun,
  ColumnArray,
  ColumnTable,
  ConversionPlan,
  ConvertEntry,
  ConvertFormat,
  ConvertOptions,
  ConvertResult,
  ConvertSource,
  Destination,
  LayoutOptions,
  NodeFailure,
  OpenedSource,
  PlanEntry,
  PlannedAction,
  PlannedArray,
  Receipt,
  SourceItem,
  SourceLocation,
  SourceResult,
} from "./convert/pipeline.ts";
export type { ToParquetOptions } from "./convert/run/convert.ts";
export type { ContainerCredentials, OpenContainer } from "./references/containers/container-reader.ts";
export type { Container, ContainerChanges, ContainerStore } from "./references/containers/containers.ts";
export type { Guard } from "./references/containers/guard.ts";
export type {
  OpenReferencesOptions,
  ReferenceStore,
} from "./references/kerchunk/open-references.ts";
export type {
  KerchunkOptions,
  ReferenceResult,
  ReferenceSet,
} from "./references/kerchunk/write-kerchunk.ts";
export type {
  ChunkReference,
  NativeChunk,
  PlannedChunk,
  PlanOptions,
  ReferenceCounts,
  ReferencedArray,
  ReferenceOptions,
  ReferencePlan,
} from "./references/plan/plan.ts";
export type { FailedArchive, ReferenceItem, StreamSettings } from "./references/plan/reference-stream.ts";
export type { GuardedObject, ObjectScanOptions as ScanOptions } from "./references/plan/scanned-objects.ts";
export type { ViewNode, ViewOptions, ViewRange, ViewReadOptions, ZarrView } from "./view/view.ts";
export { type ViewEntry, viewOf as zarrView } from "./view/view-tree.ts";
export type { CustomCodec, CustomCodecs } from "./zarr/codecs/stage.ts";
export type { ArrayModel } from "./zarr/document/model.ts";
export type { Renaming } from "./zarr/document/node-names.ts";
export type { ZarrArray, ZarrChunk } from "./zarr/read/array.ts";
export type { GroupArrays, ZarrGroup } from "./zarr/read/group.ts";
export type { ReadSettings } from "./zarr/read/leaf.ts";
export type { OpenZarrOptions } from "./zarr/read/open.ts";
export type { TransformerSettings } from "./zarr/transformer.ts";
export {
  type PartialRequest,
  type PartialWrite,
  ShardingTransformer,
  type TransformerSpecification,
} from "./zarr/transformer.ts";
export type { CreateZarrOptions, ZarrSpecification } from "./zarr/write/create.ts";
export type { ShardRecovery } from "./zarr/write/recover-shard.ts";
export type { ShardReservation, WrittenSlot } from "./zarr/write/reserve.ts";
export type { SelectionValues as ValueSource, WritableZarrArray } from "./zarr/write/writable-array.ts";
export type {
  ChunkOrder,
  SetOptions,
  ShardStrategy,
  ShardWriter,
  WholeShard,
  WriteSettings,
} from "./zarr/write/write-settings.ts";
export {
  type FromZarritaOptions,
  type ZarritaArray,
  type ZarritaStore,
  type ZarritaStoreOptions,
  zarritaStore,
} from "./zarr/zarrita.ts";
