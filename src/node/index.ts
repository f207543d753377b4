/**
 * What needs Node.js: archives in the file system.
 *
 * @packageDocumentation
 */
export type { FileStoreOptions } from "./fs-reader.ts";
export { FileStore } from "./fs-store.ts";
