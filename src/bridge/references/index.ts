/** Virtual references: archives as Zarr without a copy, for those who read through kerchunk or Icechunk. */
export {
  type ContainerCredentials,
  openWebContainer,
} from "./container-reader.ts";
export {
  type Container,
  type ContainerChanges,
  Containers,
  defaultContainer,
  formatContainers,
  parseContainers,
  storeOf,
} from "./containers.ts";
export { joinPlans } from "./join.ts";
export { commonFolder, toLocation } from "./location.ts";
export {
  containersKey,
  joinContainers,
  keptContainers,
  type OpenReferencesOptions,
  openIndex,
  openReferences,
  type ReferenceStore,
} from "./open-references.ts";
export { type PlanOptions, planReferences, type ReferencePlan } from "./plan.ts";
export type { ReferencedArray } from "./planned-array.ts";
export type { StreamSettings } from "./reference-stream.ts";
export type { PlannedChunk } from "./types.ts";
export {
  isClosed,
  notReadBack,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
  writeKerchunk,
} from "./write-kerchunk.ts";
