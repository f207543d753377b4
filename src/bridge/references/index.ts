/** Virtual references: archives as Zarr without a copy, for those who read through kerchunk or Icechunk. */
export {
  type ContainerCredentials,
  type OpenContainer,
  openWebContainer,
} from "./container-reader.ts";
export {
  type Container,
  type ContainerChanges,
  type ContainerStore,
  Containers,
  defaultContainer,
  formatContainers,
  parseContainers,
} from "./containers.ts";
export { joinPlans } from "./join.ts";
export { commonFolder, toLocation } from "./location.ts";
export {
  containersKey,
  type OpenReferencesOptions,
  openReferences,
  type ReferenceStore,
} from "./open-references.ts";
export { type PlanOptions, planReferences, type ReferencePlan } from "./plan.ts";
export type { GuardedObject, ReferencedArray, ReferenceOptions } from "./planned-array.ts";
export { type ReferenceItem, streamReferences } from "./reference-stream.ts";
export type { ChunkReference, Guard, NativeChunk, PlannedChunk, ReferenceCounts } from "./types.ts";
export {
  type KerchunkOptions,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
  writeKerchunk,
} from "./write-kerchunk.ts";
