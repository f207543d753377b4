/**
 * What needs Node.js: archives by path or URL, and stores in the file system.
 *
 * @module
 */
export type { FileStoreOptions } from "./fs-reader.ts";
export { FileStore } from "./fs-store.ts";
export { type RepositoryOptions, toIcechunkPrefix } from "./icechunk-options.ts";
export { type IcechunkOptions, type IcechunkResult, writeIcechunk } from "./icechunk-write.ts";
export { type LinkPathOptions, link, planLinkAt, unlink, verifyLinkAt } from "./link.ts";
export { type Location, locate, locateTarget, type WritableLocation } from "./locate.ts";
export { loadNativeBlosc, type NativeBlosc } from "./native-blosc.ts";
export { type OpenPathOptions, open } from "./open.ts";
export {
  deleteContainer,
  listContainers,
  type SetContainer,
  setContainer,
} from "./reference-containers.ts";
export { type OpenPathReferencesOptions, openContainer, openReferences } from "./references.ts";
export type { S3ClientOptions } from "./s3-options.ts";
export { S3Store, type S3StoreOptions } from "./s3-store.ts";
export { type ServedView, type ServeOptions, serveView } from "./serve.ts";
export type { BloscChoice } from "./thread-messages.ts";
export { decoderOf, encoderOf, shardWriterOf, type ThreadOptions } from "./threads.ts";
export {
  type CreatePathOptions,
  createArray,
  type MirrorPathOptions,
  openWritable,
  type RepairPathOptions,
  repairArray,
  type WritePathOptions,
} from "./write.ts";
export {
  createZarr,
  type OpenZarrPathOptions,
  openZarr,
  openZarrWriter,
  type ZarrWriterPathOptions,
} from "./zarr.ts";
