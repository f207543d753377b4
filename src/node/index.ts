/**
 * The parts that need Node.js: archives by path or URL, and stores in the file system.
 *
 * @module
 */

export { isLinked } from "../archive/places/linked.ts";
export type { MirrorCosts } from "../dual/live-view.ts";
export type { LinkPlan, LinkResult } from "../dual/types.ts";
export type { ShardTools, ZarrEdit } from "../edit/zarr-array.ts";
export { type ErrorCode, type ErrorDetails, isSuperchunkError, SuperchunkError } from "../errors.ts";
export type { FinishOptions } from "../plan/finish.ts";
export type { PackedOptions as SharedOptions, SharedPlan, SharedSource, TaskRun } from "../plan/plan.ts";
export type { ShareFailure, ShareOptions, ShareResult } from "../plan/run.ts";
export type { SharedStatus, WorkerStatus } from "../plan/status.ts";
export { slice } from "../values/selection.ts";
export type { AppendOptions, Editable, PublishPolicy } from "../write/editable.ts";
export { S3Store, type S3StoreOptions } from "./buckets/bucket-store.ts";
export type { S3ClientOptions } from "./buckets/s3.ts";
export {
  type ConvertPathOptions,
  convert,
  planConversion,
  type RepairPathOptions,
  repairArray,
} from "./convert.ts";
export { type LinkPathOptions, link, planLinkAt, unlink, verifyLinkAt } from "./dual/link.ts";
export {
  type CreatePathOptions,
  create,
  type EditPathOptions,
  edit,
  type MirrorPathOptions,
} from "./edit.ts";
export type { FileStoreOptions } from "./fs/fs-reader.ts";
export { FileStore } from "./fs/fs-store.ts";
export type { RepositoryOptions } from "./icechunk/icechunk.ts";
export type { IcechunkOptions, IcechunkResult } from "./icechunk/icechunk-write.ts";
export { consolidate, type Location, locate, locateTarget, type WritableLocation } from "./locate.ts";
export { type NpyFile, openNpy } from "./npy-file.ts";
export {
  type OpenArrayPathOptions,
  type OpenPathOptions,
  open,
  openArchive,
  openArray,
  openTable,
  placeOpener,
} from "./open.ts";
export {
  type FinishResult,
  finish,
  type PlanPathOptions,
  plan,
  planStatus,
  type RunTasksOptions,
  runTasks,
} from "./plan.ts";
export {
  listContainers,
  type OpenPathReferencesOptions,
  openReferences,
  type SetContainer,
  setContainer,
} from "./references.ts";
export { type ServedView, type ServeOptions, serveView } from "./serve/serve.ts";
export {
  type CarryTarget,
  isTableFile,
  type NpyTable,
  type OpenTableOptions,
  openTableFile,
  type StreamCarrier,
} from "./table-file.ts";
export { type VerifiedArchive, verifyInThread } from "./threads/convert-helpers.ts";
export type { NativeBlosc } from "./threads/native-blosc.ts";
export type { BloscChoice } from "./threads/thread-messages.ts";
export { type ThreadOptions, type Threads, threadsOf } from "./threads/threads.ts";
export {
  changedSources,
  type FoundEntry,
  type VirtualizeOptions,
  type VirtualizeResult,
  virtualize,
} from "./virtualize.ts";
