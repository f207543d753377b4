/** Virtual references: archives as Zarr without a copy, for those who read through kerchunk or Icechunk. */
export {
  type ContainerCredentials,
  type ContainerOptions,
  openWebContainer,
} from "./containers/container-reader.ts";
export {
  type Container,
  type ContainerChanges,
  Containers,
  commonFolder,
  defaultContainer,
  formatContainers,
  parseContainers,
  storeOf,
  toLocation,
} from "./containers/containers.ts";
export {
  containersKey,
  joinContainers,
  keptContainers,
  type OpenReferencesOptions,
  openIndex,
  openReferences,
  type ReferenceStore,
} from "./kerchunk/open-references.ts";
export {
  isClosed,
  notReadBack,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
  writeKerchunk,
} from "./kerchunk/write-kerchunk.ts";
export { joinPlans, planLinkedReferences } from "./plan/join.ts";
export type { PlannedChunk, ReferencedArray } from "./plan/plan.ts";
export { type PlanOptions, planReferences, type ReferencePlan } from "./plan/plan.ts";
export type { StreamSettings } from "./plan/reference-stream.ts";
